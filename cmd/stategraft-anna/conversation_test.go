package main

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stategraft/stategraft/agent/anna/serve"
	"github.com/stategraft/stategraft/agent/files"
	"github.com/stategraft/stategraft/api/node"
	"github.com/stategraft/stategraft/operations/sidecar"
	"github.com/stategraft/stategraft/patches"
)

// TestConversation has the controllers' client ask a sidecar whose node is not there: each
// answer is one that they read right.
func TestConversation(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	number := func(text string) int { n, _ := strconv.Atoi(text); return n }
	c := serve.Config{
		Pod:    serve.Pod{Name: "m-0", Namespace: "hydro", IP: "127.0.0.1", Cluster: "anna", Role: "memory"},
		Places: files.Standard(root), Private: filepath.Join(root, "tmp"), Address: "127.0.0.1",
		GRPCPort: number(freePort(t)), NodePort: number(freePort(t)), Log: slog.New(slog.DiscardHandler),
	}
	must(t, os.MkdirAll(c.Places.Shared, 0o755))
	must(t, os.MkdirAll(c.Places.User, 0o755))
	must(t, os.MkdirAll(filepath.Join(root, "bucket"), 0o755))
	must(t, os.WriteFile(filepath.Join(c.Places.User, "medusa.ini"), []byte("[storage]\nstorage_provider = local\nbucket_name = bucket\nbase_path = "+root+"\n"), 0o600))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); serve.Run(ctx, c) }()
	defer func() { cancel(); <-done }()
	for _, port := range []int{c.GRPCPort, c.NodePort} {
		for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
			conn, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
			if err == nil {
				conn.Close()
				break
			}
			if time.Now().After(deadline) {
				t.Fatal("it does not listen")
			}
		}
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "hydro", Name: "m-0"}}
	pod.Spec.InitContainers = []corev1.Container{{Name: patches.ContainerAgent, Ports: []corev1.ContainerPort{
		{Name: patches.PortAgent, ContainerPort: int32(c.GRPCPort)}, {Name: node.PortName, ContainerPort: int32(c.NodePort)},
	}}}
	pod.Status.PodIP = "127.0.0.1"
	pod.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: patches.ContainerAgent, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}

	client := sidecar.New(nil)
	report, err := client.Report(t.Context(), pod)
	if err != nil || report.Node != "m-0" || report.Prefix != "hydro_anna" || report.BackupRunning || !strings.Contains(report.Waiting, "cannot be asked") {
		t.Errorf("%+v, %v", report, err)
	}
	if list, err := client.Backups(t.Context(), pod, ""); err != nil || list.Prefix != "hydro_anna" || len(list.Backups) != 0 {
		t.Errorf("%+v, %v", list, err)
	}
	if b, err := client.Backup(t.Context(), pod, "hydro_anna", "b1"); err != nil || len(b.Members) != 0 {
		t.Errorf("%+v, %v", b, err)
	}
	if err := client.Discard(t.Context(), pod, "hydro_anna", "b1"); err != nil {
		t.Errorf("nothing to discard: %v", err)
	}
	if err := client.Discard(t.Context(), pod, "other", "b1"); !errors.Is(err, sidecar.ErrNotDiscarded) {
		t.Errorf("another's: %v", err)
	}
	m, err := client.Medusa(t.Context(), pod)
	must(t, err)
	defer m.Close()
	if _, err := m.Status(t.Context(), "b1"); !errors.Is(err, sidecar.ErrForgotten) {
		t.Errorf("status: %v", err)
	}
	if err := m.Begin(t.Context(), "b1", false); err == nil || errors.Is(err, sidecar.ErrUnreachable) || errors.Is(err, sidecar.ErrBusy) || !strings.Contains(err.Error(), "cannot be asked") {
		t.Errorf("begin: %v", err)
	}
	if err := m.Delete(t.Context(), "b1"); err != nil {
		t.Errorf("nothing to delete: %v", err)
	}
	if _, err := m.Purge(t.Context()); err != nil {
		t.Errorf("purge: %v", err)
	}
	if _, err := m.Backup(t.Context(), "b1"); !errors.Is(err, sidecar.ErrForgotten) {
		t.Errorf("backup: %v", err)
	}
	if list, err := m.Backups(t.Context()); err != nil || len(list) != 0 {
		t.Errorf("backups: %v, %v", list, err)
	}
	r, err := client.Replay(t.Context(), pod, node.ReplayRequest{ID: "hydro/repair", Backup: "b1", Sources: []string{"m-0"}})
	if err != nil || r.ID != "hydro/repair" {
		t.Errorf("replay: %+v, %v", r, err)
	}
	for deadline := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		report, err := client.Report(t.Context(), pod)
		if err == nil && report.Replay != nil && report.Replay.Phase == node.ReplayFailed {
			break // the storage has no such backup
		}
		if time.Now().After(deadline) {
			t.Fatalf("%+v, %v", report.Replay, err)
		}
	}
}
