package backup

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stategraft/stategraft/api/node"
	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/sidecar"
)

// annaNodes are the sidecars of a cluster of Anna, simulated.
type annaNodes struct {
	now     func() time.Time
	mutex   sync.Mutex
	begun   map[string]time.Time // when a node was let begin
	refused map[string]int       // how often it was not
	heals   map[string]time.Time // until when it is busy, and only its refusal tells
	replays map[string]time.Time // until when it writes keys of a restore, and tells
	missing map[string]int64
	fails   map[string]bool
}

// takes is how long a node's backup takes.
const takes = time.Minute

func (a *annaNodes) Report(_ context.Context, pod *corev1.Pod) (node.Report, error) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	r := node.Report{Node: pod.Name, Prefix: "ns_hydro"}
	if until, ok := a.replays[pod.Name]; ok {
		r.Replay = &node.Replay{ID: "nightly", Backup: "nightly", Phase: node.ReplayReplaying}
		if !a.now().Before(until) {
			r.Replay.Phase = node.ReplayDone
		}
	}
	if at, ok := a.begun[pod.Name]; ok && a.now().Before(at.Add(takes)) {
		r.BackupRunning, r.Backup = true, &node.Running{Name: "x"}
	}
	return r, nil
}

func (a *annaNodes) Status(_ context.Context, pod *corev1.Pod, name string) (sidecar.Phase, error) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	at, ok := a.begun[pod.Name]
	switch {
	case !ok:
		return "", fmt.Errorf("%w: %s", sidecar.ErrForgotten, name)
	case a.now().Before(at.Add(takes)):
		return sidecar.Running, nil
	case a.fails[pod.Name]:
		return sidecar.Failed, nil
	}
	return sidecar.Succeeded, nil
}

func (a *annaNodes) Begin(_ context.Context, pod *corev1.Pod, _ string, _ bool) error {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	if a.now().Before(a.heals[pod.Name]) || a.now().Before(a.replays[pod.Name]) {
		a.refused[pod.Name]++
		return fmt.Errorf("%w: keys that its own join has hidden", sidecar.ErrBusy)
	}
	a.begun[pod.Name] = a.now()
	return nil
}

func (a *annaNodes) Backup(_ context.Context, _ *corev1.Pod, prefix, name string) (node.Backup, error) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	b := node.Backup{Summary: node.Summary{Name: name}, Prefix: prefix}
	for pod, at := range a.begun {
		m := node.Member{Node: pod, Complete: !a.now().Before(at.Add(takes)), Started: at, Finished: at.Add(takes), Objects: 1, Type: "differential"}
		if n := a.missing[pod]; n > 0 {
			m.Missing = &node.Missing{Count: n, Keys: []string{"lost"}}
		}
		b.Members = append(b.Members, m)
	}
	return b, nil
}

func (a *annaNodes) Discard(_ context.Context, pod *corev1.Pod, _, _ string) error {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	delete(a.begun, pod.Name)
	return nil
}

// newAnnaWhole has a memory tier of two nodes, a disk tier of one, and routing.
func newAnnaWhole(t *testing.T) (*whole, *annaNodes) {
	t.Helper()
	w := &whole{T: t, now: today, requests: map[string]int{}}
	objects := []client.Object{
		&appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "anna-memory", UID: "set"}, Spec: appsv1.StatefulSetSpec{Replicas: new(int32(2))}},
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns", Labels: map[string]string{api.LabelInject: api.InjectEnabled}}},
	}
	for _, pod := range []*corev1.Pod{annaPod("memory", "0", "hydro"), annaPod("memory", "1", "hydro"), annaPod("ebs", "0", "hydro"), annaPod("routing", "0", "hydro")} {
		pod.UID = "1"
		objects = append(objects, pod)
	}
	w.serve(objects)
	w.start()
	a := &annaNodes{now: w.clock, begun: map[string]time.Time{}, refused: map[string]int{}, heals: map[string]time.Time{}, replays: map[string]time.Time{}, missing: map[string]int64{}, fails: map[string]bool{}}
	w.r.ask = a
	return w, a
}

// TestWholeAnna backs up a cluster some of whose nodes are at something else, or lack keys.
func TestWholeAnna(t *testing.T) {
	const late = 5 * time.Minute
	for name, c := range map[string]struct {
		change func(a *annaNodes)
		phase  api.BackupPhase
		reason string
		says   string
		slow   bool // it takes as long as the busy one is
		tries  int32
	}{
		"all is well":              {func(*annaNodes) {}, api.BackupComplete, ReasonComplete, "3 pods", false, 1},
		"one lacks keys":           {func(a *annaNodes) { a.missing["anna-memory-0"] = 2 }, api.BackupPartial, ReasonKeysMissing, "lost", false, 1},
		"one is being restored":    {func(a *annaNodes) { a.replays["anna-memory-1"] = today.Add(late) }, api.BackupComplete, ReasonComplete, "3 pods", true, 1},
		"one heals":                {func(a *annaNodes) { a.heals["anna-ebs-0"] = today.Add(late) }, api.BackupComplete, ReasonComplete, "3 pods", true, 1},
		"one heals, another lacks": {func(a *annaNodes) { a.heals["anna-ebs-0"], a.missing["anna-memory-0"] = today.Add(late), 1 }, api.BackupPartial, ReasonKeysMissing, "lost", true, 1},
		"one gives up":             {func(a *annaNodes) { a.fails["anna-ebs-0"] = true }, api.BackupPartial, ReasonPodsFailed, "kubectl logs anna-ebs-0 -c stategraft-agent", false, 3},
	} {
		t.Run(name, func(t *testing.T) {
			w, a := newAnnaWhole(t)
			c.change(a)
			w.ask(func(b *api.Backup) { b.Spec.Pods.Workload.Name = "anna-memory" })
			b := w.run(over_)
			var pods []string
			for i := range b.Status.Pods {
				at := &b.Status.Pods[i]
				pods = append(pods, at.Name)
				if want := map[bool]int32{true: c.tries, false: 1}[at.Name == "anna-ebs-0"]; at.Tries != want {
					t.Errorf("%s was tried %d times: %s", at.Name, at.Tries, at.Message)
				}
			}
			condition := api.ConditionFailed
			if c.phase == api.BackupComplete {
				condition = api.ConditionCompleted
			}
			text := b.Status.Message
			if at := b.Status.Pod("anna-ebs-0"); at != nil {
				text += at.Message
			}
			if b.Status.Phase != c.phase || reasonOf(&b.Status, condition) != c.reason || !strings.Contains(text, c.says) || !slices.Equal(pods, []string{"anna-ebs-0", "anna-memory-0", "anna-memory-1"}) {
				t.Errorf("%s %s of %q: %s", b.Status.Phase, reasonOf(&b.Status, condition), pods, text)
			}
			took := w.now.Sub(today)
			if c.slow && (took < late || took > late+3*takes) {
				t.Errorf("it took %v", took)
			}
			// Who refuses is asked every ten seconds, not at each look.
			if n := a.refused["anna-ebs-0"] + a.refused["anna-memory-1"]; n > int(late/(10*time.Second))+2 || w.count()["update status"] > 3*int(late/(10*time.Second)) {
				t.Errorf("%d refusals, %v", n, w.count())
			}
		})
	}
}

// A cluster that is cancelled while a node is at something else ends.
func TestCancelledWhileANodeIsBusy(t *testing.T) {
	w, a := newAnnaWhole(t)
	a.heals["anna-ebs-0"] = today.Add(time.Hour)
	w.ask(func(b *api.Backup) { b.Spec.Pods.Workload.Name = "anna-memory" })
	w.run(func(b *api.Backup) bool {
		at := b.Status.Pod("anna-ebs-0")
		return at != nil && a.refused["anna-ebs-0"] > 2
	})
	b := w.get()
	b.Spec.Cancel = true
	b.Generation++
	if err := w.client.Update(context.Background(), b); err != nil {
		t.Fatal(err)
	}
	if b := w.run(over_); b.Status.Phase != api.BackupCancelled && b.Status.Phase != api.BackupPartial && b.Status.Phase != api.BackupComplete {
		t.Errorf("%s: %s", b.Status.Phase, b.Status.Message)
	}
	if w.now.Sub(today) > 30*time.Minute {
		t.Errorf("it took %v", w.now.Sub(today))
	}
}

// A node of Anna tells why it gave a backup up; of others the log has to be read.
func TestGivenUp(t *testing.T) {
	at := &api.PodBackup{Name: "anna-memory-0"}
	for why, want := range map[string]string{
		"the bucket is gone": "its sidecar has given the backup up: the bucket is gone",
		"":                   "its sidecar has given the backup up; its log tells why (kubectl logs anna-memory-0 -c stategraft-agent)",
	} {
		if got := givenUp(at, seen{sight: failedSight, why: why, log: "stategraft-agent"}); got != want {
			t.Errorf("%q: %q", why, got)
		}
	}
}
