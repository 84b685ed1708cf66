package main

import (
	"errors"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	api "github.com/stategraft/stategraft/api/v1alpha1"
)

// inPhase is a Restore of namespace ns.
func inPhase(name string, phase api.RestorePhase) *api.Restore {
	return &api.Restore{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID("uid-" + name)}, Status: api.RestoreStatus{Phase: phase}}
}

// One that cannot be changed does not keep the others as they are, and is told of.
func TestChangesGoOn(t *testing.T) {
	for _, change := range []string{"suspend", "resume", "cancel"} {
		s, kubeconfig := restoringServer(t, func(r *api.Restore) { r.Status.Message = "seen" })
		s.list = []*api.Restore{inPhase("done", api.RestoreCompleted), inPhase("a", api.RestoreWaiting), inPhase("b", api.RestoreWaiting)}
		s.list[1].Spec.Suspend, s.list[2].Spec.Suspend = change == "resume", change == "resume"
		out, _, err := run(nil, "restore", change, "none", "a", "done", "b", "-n", "ns", "--kubeconfig", kubeconfig)
		if err == nil || errors.Is(err, errRefused) || !strings.Contains(err.Error(), "there is no Restore none") || !strings.Contains(err.Error(), "the Restore done is over") {
			t.Errorf("%s: %v", change, err)
		}
		if !strings.Contains(out, "/a "+change) && !strings.Contains(out, "/a cancelled") || strings.Count(out, "\n") != 2 || s.list[1].Status.Message != "seen" || s.list[2].Status.Message != "seen" {
			t.Errorf("%s: %q, %+v", change, out, s.list)
		}
	}
}

// A cancellation that nobody acts on is not said to be one.
func TestCancelWithoutController(t *testing.T) {
	actsWithin = 100 * time.Millisecond
	defer func() { actsWithin = 10 * time.Second }()
	s, kubeconfig := restoringServer(t, nil)
	s.list = []*api.Restore{inPhase("a", api.RestoreWaiting), inPhase("b", api.RestoreWaiting)}
	out, _, err := run(nil, "restore", "cancel", "a", "b", "-n", "ns", "--kubeconfig", kubeconfig)
	if err == nil || errors.Is(err, errRefused) || out != "" || !s.list[0].Spec.Cancel || !s.list[1].Spec.Cancel {
		t.Fatalf("%v, %q", err, out)
	}
	for _, part := range []string{"the Restore a is to be cancelled, and nobody has acted on it for 100ms: see kubectl stategraft check", "the Restore b is", "kubectl patch restores.stategraft.io b -n ns --type merge"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q is missing: %v", part, err)
		}
	}
}

// Whoever waited learns that there is a way back.
func TestUndoHint(t *testing.T) {
	_, kubeconfig := restoringServer(t, func(r *api.Restore) {
		completes(r)
		r.Status.Pods[0].Previous = true
	})
	_, notes, err := run(nil, "restore", "pod/db-1", "--yes", "--wait", "--name", "r", "-n", "ns", "--kubeconfig", kubeconfig)
	if err != nil || !strings.Contains(notes, "back to them: kubectl stategraft restore undo r -n ns\n") {
		t.Errorf("%v, %q", err, notes)
	}
}
