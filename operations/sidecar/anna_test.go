package sidecar

import (
	"context"
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stategraft/stategraft/agent/nodeserver"
	"github.com/stategraft/stategraft/api/node"
	"github.com/stategraft/stategraft/operations/sidecar/sidecartest"
	"github.com/stategraft/stategraft/patches"
)

// A node of Anna is asked at its agent, wherever that stands, and at the container that
// restores before there is one.
func TestAnnaIsAskedAtItsAgent(t *testing.T) {
	t.Parallel()
	running := ""
	s, err := sidecartest.Start("127.0.0.31", 0, sidecartest.Pair{}, sidecartest.Backend{
		Report: func(context.Context) (node.Report, error) { return node.Report{Node: "anna-memory-0"}, nil },
		Replay: func(_ context.Context, r node.ReplayRequest) (node.Replay, error) {
			if running != "" && running != r.ID {
				return node.Replay{}, fmt.Errorf("%w: replay %s runs", nodeserver.ErrKept, running)
			}
			running = r.ID
			return node.Replay{ID: r.ID, Backup: r.Backup, Phase: node.ReplayStaging, Total: int64(len(r.Sources))}, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	bare := func() *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "anna-memory-0"}}
	}
	native, ordinary, restoring := bare(), bare(), bare()
	s.DressAnna(native, "memory", true)
	s.DressAnna(ordinary, "memory", false)
	s.DressAnna(restoring, "memory", true)
	restoring.Status.InitContainerStatuses = nil // it comes after the restore
	s.Dress(restoring, true)
	c := New(nil)
	for name, pod := range map[string]*corev1.Pod{"native": native, "ordinary": ordinary, "restoring": restoring} {
		if r, err := c.Report(t.Context(), pod); err != nil || r.Node != "anna-memory-0" {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
	}
	if at, err := find(restoring, nodeService); err != nil || at.container != patches.ContainerRestore {
		t.Errorf("restoring: %+v, %v", at, err)
	}

	request := node.ReplayRequest{ID: "r/1", Backup: "b", Sources: []string{"a", "b"}}
	for range 2 {
		if r, err := c.Replay(t.Context(), native, request); err != nil || r.ID != "r/1" || r.Total != 2 {
			t.Fatalf("%+v, %v", r, err)
		}
	}
	request.ID = "r/2"
	if _, err := c.Replay(t.Context(), native, request); !errors.Is(err, ErrReplaying) {
		t.Errorf("another: %v", err)
	}
}
