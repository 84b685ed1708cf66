package e2e

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Collect writes what explains a failure into a new folder, which it answers:
// all objects and events, the logs of all containers and of all programs.
func (e *Env) Collect(ctx context.Context, name string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	base := os.Getenv(LogsEnv)
	if base == "" {
		base = filepath.Join(os.TempDir(), "stategraft-e2e-logs")
	}
	dir := filepath.Join(base, strings.ReplaceAll(name, "/", "_")+time.Now().Format("-20060102-150405"))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("making a folder for logs: %w", err)
	}
	keep := func(file string, args ...string) {
		out, err := e.Kubectl(ctx, nil, args...)
		if err != nil {
			out += "\n" + err.Error()
		}
		_ = os.WriteFile(filepath.Join(dir, file), []byte(out), 0o644)
	}
	keep("objects.yaml", "get", "all,configmaps,persistentvolumeclaims,persistentvolumes,endpointslices", "-A", "-o", "yaml")
	keep("events.txt", "get", "events", "-A", "--sort-by=.lastTimestamp", "-o", "wide")
	keep("pods.txt", "describe", "pods", "-A")
	pods, err := e.Client.CoreV1().Pods("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return dir, fmt.Errorf("listing pods: %w", err)
	}
	for _, pod := range pods.Items {
		for _, s := range append(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses...) {
			file := fmt.Sprintf("%s_%s_%s", pod.Namespace, pod.Name, s.Name)
			keep(file+".log", "-n", pod.Namespace, "logs", pod.Name, "-c", s.Name)
			if s.RestartCount > 0 {
				keep(file+".before.log", "-n", pod.Namespace, "logs", pod.Name, "-c", s.Name, "--previous")
			}
		}
	}
	_ = os.WriteFile(filepath.Join(dir, "webhook.log"), []byte(e.Webhook.Log()), 0o644)
	if e.Controller != nil {
		_ = os.WriteFile(filepath.Join(dir, "controller.log"), []byte(e.Controller.Log()), 0o644)
		keep("restores.yaml", "get", "restores.stategraft.io", "-A", "-o", "yaml")
	}
	logs := filepath.Dir(e.LogFile("any"))
	return dir, filepath.WalkDir(logs, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(dir, filepath.Base(path)), text, 0o644)
	})
}
