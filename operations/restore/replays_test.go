package restore

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stategraft/stategraft/api/node"
	api "github.com/stategraft/stategraft/api/v1alpha1"
)

// replaying is a Restore of two nodes that have their parts.
func replaying() (*api.Restore, world) {
	r := &api.Restore{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "r", UID: "r", CreationTimestamp: metav1.NewTime(made), Finalizers: []string{Finalizer}},
		Spec: api.RestoreSpec{Backup: "b", Mode: api.InPlace}}
	r.Status = api.RestoreStatus{ID: "r/1", Kind: api.KindAnna, Backup: "b", Phase: api.RestoreRestoring, Pending: []string{"mem-0", "mem-1"}, Started: new(metav1.NewTime(today.Add(-time.Minute)))}
	s := begin(r)
	s.set(api.ConditionAccepted, true, ReasonAccepted, "", 0, today)
	s.set(api.ConditionPrechecked, true, ReasonPassed, "", 0, today)
	r.Status = s.status
	w := world{pods: map[string]*corev1.Pod{}, replays: map[string]node.Replay{}, silent: map[string]string{}}
	for _, name := range r.Status.Pending {
		pod := annaPod(name, func(p *corev1.Pod) {
			p.Spec.InitContainers = append(p.Spec.InitContainers, corev1.Container{Name: containerRestore, Env: []corev1.EnvVar{{Name: api.EnvRestoreID, Value: "r/1"}}})
			p.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: containerRestore, State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Message: node.Outcome("staged", node.Done{ID: "r/1", Bytes: 5, Started: today})}}}}
		})
		w.pods[name] = pod
		r.Status.Pods = append(r.Status.Pods, api.PodRestore{Name: name, Phase: api.PodReplaying, Action: api.ActionRestore, Node: "old-" + name, KeysTotal: 10, Process: process(pod), Started: new(metav1.NewTime(today))})
	}
	return r, w
}

// Keys that are refused for good fail the Restore once the others are written, and the
// pods stay without clients until it is cancelled.
func TestReplayFails(t *testing.T) {
	r, w := replaying()
	w.replays["mem-0"] = node.Replay{ID: "r/1", Phase: node.ReplayReplaying, Keys: 5, Total: 10}
	w.replays["mem-1"] = node.Replay{ID: "r/1", Phase: node.ReplayFailed, Keys: 9, Total: 10, Failed: 1, Message: "key k is a SET"}
	s := next(r, w, today)
	if s.status.Phase != api.RestoreRestoring || s.status.Progress.Data != "70%" {
		t.Fatalf("%s %+v: %s", s.status.Phase, s.status.Progress, s.status.Message)
	}
	w.replays["mem-0"] = node.Replay{ID: "r/1", Phase: node.ReplayDone, Keys: 10, Total: 10, Newer: 2}
	s = next(r, w, today)
	if s.status.Phase != api.RestoreFailed || len(s.status.Pending) != 2 || s.free || !strings.Contains(s.status.Message, "mem-1: key k is a SET") {
		t.Fatalf("%s, pending %v: %s", s.status.Phase, s.status.Pending, s.status.Message)
	}
	if at := s.status.Pod("mem-0"); at.Phase != api.PodReplayed || !strings.Contains(at.Message, "but 2 that had a later value") {
		t.Errorf("%+v", at)
	}
	r.Status = s.status
	if s := next(r, w, today); s.changes(r) || len(s.say) > 0 {
		t.Errorf("it fails again: %+v", s.say)
	}
	r.Spec.Cancel = true
	s = next(r, w, today)
	if s.status.Phase != api.RestoreCancelled || len(s.status.Pending) > 0 || len(s.remove) > 0 || !strings.HasPrefix(s.status.Pod("mem-1").Message, dangerText) {
		t.Errorf("cancelled: %s, %+v", s.status.Phase, s.status.Pods)
	}
}

// A node that started anew has lost what others had written to it: all write once more,
// when all are there.
func TestRounds(t *testing.T) {
	r, w := replaying()
	done := node.Replay{ID: "r/1", Phase: node.ReplayDone, Keys: 10, Total: 10}
	w.replays["mem-0"] = done
	r.Status = next(r, w, today).status
	w.pods["mem-1"].Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "memory-container", RestartCount: 1}, {Name: "stategraft-agent", RestartCount: 7}}
	w.replays["mem-1"] = done
	s := next(r, w, today)
	if s.status.Round != 1 || len(s.replay) != 1 || s.status.Pod("mem-0").Keys != 0 {
		t.Fatalf("round %d, %+v, %+v", s.status.Round, s.replay, s.status.Pods)
	}
	r.Status = s.status
	s = next(r, w, today)
	if len(s.replay) != 2 || s.replay[0].request.ID != "r/1+1" || s.replay[0].request.Backup != "b" || s.replay[0].request.Sources[0] != "old-mem-0" || s.status.Phase != api.RestoreRestoring {
		t.Fatalf("%+v", s.replay)
	}
	done.ID = "r/1+1"
	w.replays["mem-0"], w.replays["mem-1"] = done, done
	if s = next(r, w, today); s.status.Phase != api.RestoreCompleted || s.status.Pod("mem-0").Process != "" {
		t.Errorf("%s: %s", s.status.Phase, s.status.Message)
	}
}

// An undo of the disk tier's directories has no keys to wait for.
func TestUndoOfAnna(t *testing.T) {
	r, w := replaying()
	r.Spec.Backup, r.Spec.Undo = "", "before"
	for i := range r.Status.Pods {
		r.Status.Pods[i].Action, r.Status.Pods[i].Phase, r.Status.Pods[i].Process = api.ActionUndo, api.PodRestoring, ""
	}
	if s := next(r, w, today); s.status.Phase != api.RestoreCompleted && len(s.status.Pending) > 0 {
		t.Errorf("%s, pending %v: %+v", s.status.Phase, s.status.Pending, s.status.Pods)
	}
}
