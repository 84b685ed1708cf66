package deploy

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// enabled skips a test unless it is asked for.
func enabled(t *testing.T) {
	t.Helper()
	if os.Getenv(EnabledEnv) != "1" {
		t.Skipf("installs Stategraft in a cluster with a node: set %s=1 to run it, as root on Debian", EnabledEnv)
	}
}

// start answers a cluster of the test's own, and keeps what explains its failure.
func start(t *testing.T, limit time.Duration) (*Env, context.Context) {
	t.Helper()
	enabled(t)
	ctx, cancel := context.WithTimeoutCause(t.Context(), limit, fmt.Errorf("not done within %s", limit))
	t.Cleanup(cancel)
	e, err := Start(ctx, t.Output(), true)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx := context.Background()
		if t.Failed() {
			t.Logf("logs are in %s", e.collect(ctx, t.Name()))
		}
		if err := e.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
	return e, ctx
}

// collect writes what explains a failure into a new folder, which it answers.
func (e *Env) collect(ctx context.Context, name string) string {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	base := os.Getenv(LogsEnv)
	if base == "" {
		base = filepath.Join(os.TempDir(), "stategraft-deploy-logs")
	}
	dir := filepath.Join(base, name+time.Now().Format("-20060102-150405"))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err.Error()
	}
	keep := func(file string, args ...string) {
		out, err := e.Kubectl(ctx, nil, args...)
		if err != nil {
			out += "\n" + err.Error()
		}
		_ = os.WriteFile(filepath.Join(dir, file), []byte(out), 0o644)
	}
	keep("objects.yaml", "-n", Home, "get", "all,configmaps,leases,networkpolicies", "-o", "yaml")
	keep("registration.yaml", "get", "mutatingwebhookconfigurations,validatingadmissionpolicies,validatingadmissionpolicybindings", "-o", "yaml")
	keep("events.txt", "get", "events", "-A", "--sort-by=.lastTimestamp", "-o", "wide")
	keep("pods.txt", "get", "pods", "-A", "-o", "wide")
	pods, err := e.Client.CoreV1().Pods(Home).List(ctx, metav1.ListOptions{})
	if err != nil {
		return dir
	}
	for _, pod := range pods.Items {
		keep(pod.Name+".log", "-n", Home, "logs", pod.Name, "--tail=5000")
		keep(pod.Name+".before.log", "-n", Home, "logs", pod.Name, "--previous", "--tail=5000")
		keep(pod.Name+".txt", "-n", Home, "describe", "pod", pod.Name)
	}
	return dir
}

// stepper answers a function that ends the test at an error, and logs how long
// each step took.
func stepper(t *testing.T) func(name string, err error) {
	began := time.Now()
	return func(name string, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		t.Logf("%-40s %s", name, time.Since(began).Round(10*time.Millisecond))
		began = time.Now()
	}
}

// figure logs what was measured, where cmd/show finds it.
func figure(t *testing.T, format string, args ...any) {
	t.Helper()
	t.Logf("figure: "+format, args...)
}

// judged tells whether times are held against their limits.
func judged() bool { return os.Getenv(TimesEnv) != "print" }

// few are the first of many, for a message.
func few(all []string) string {
	if len(all) > 5 {
		return strings.Join(all[:5], "; ") + fmt.Sprintf("; and %d more", len(all)-5)
	}
	return strings.Join(all, "; ")
}
