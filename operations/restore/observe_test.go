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

func worldOf(pods ...*corev1.Pod) world {
	w := world{pods: map[string]*corev1.Pod{}, progress: map[string]node.Progress{}, probe: probe{refused: true}}
	for _, pod := range pods {
		w.pods[pod.Name] = pod
	}
	return w
}

func reasons(s step) (list []string) {
	for _, say := range s.say {
		list = append(list, say.reason)
	}
	return list
}

func TestOutcomeIsTakenOver(t *testing.T) {
	s := next(begun(), worldOf(coursePod("a", ended(0, outcome))), today)
	at := s.status.Pod("a")
	if at.Phase != api.PodRestored || at.Bytes != 100 || !at.Previous || at.Message != "restored 90 bytes" || !at.Finished.Time.Equal(today) || !at.Started.Time.Equal(today.Add(-time.Minute)) {
		t.Errorf("it is %+v", at)
	}
	if s.status.Progress != (api.RestoreProgress{Pods: "1/3", Data: "33%"}) {
		t.Errorf("the progress is %+v", s.status.Progress)
	}
	if s.counted[outcomeRestored] != 1 {
		t.Errorf("counted are %v", s.counted)
	}
}

func TestProgress(t *testing.T) {
	r := begun()
	w := worldOf(coursePod("a", restores("r/1", runs, 0, nil)), coursePod("b", restores("r/1", runs, 0, nil)))
	w.progress["a"] = node.Progress{ID: "r/1", Bytes: 50, BytesTotal: 200}
	w.progress["b"] = node.Progress{ID: "r/0", Bytes: 70, BytesTotal: 70}
	s := next(r, w, today)
	if a, b := s.status.Pod("a"), s.status.Pod("b"); a.Bytes != 50 || a.BytesTotal != 200 || b.Bytes != 0 || b.BytesTotal != 100 {
		t.Errorf("they are %+v and %+v", a, b)
	}
	if s.status.Progress.Data != "12%" {
		t.Errorf("the progress is %s", s.status.Progress.Data)
	}
	before := s.status.DeepCopy()
	w.progress["a"] = node.Progress{ID: "r/1", Bytes: 60, BytesTotal: 200}
	r.Status = *before
	again := next(r, w, today)
	if !again.changes(r) || !onlyProgress(before, &again.status) {
		t.Error("more than figures changed")
	}
	r.Status.Pods[0].Message = "x"
	if onlyProgress(&r.Status, &again.status) {
		t.Error("a message is taken for a figure")
	}
}

// TestFailures: each new text is told once, and each try is counted once.
func TestFailures(t *testing.T) {
	r := begun()
	fails := func(restarts int32, text string) step {
		s := next(r, worldOf(coursePod("a", restores("r/1", waiting, restarts, ends(1, text)))), today)
		r.Status = s.status
		return s
	}
	for i, c := range []struct {
		restarts int32
		text     string
		events   int
		counted  int
	}{{0, "no\nstorage", 1, 1}, {0, "no\nstorage", 0, 0}, {1, "no\nstorage", 0, 1}, {4, "no room", 1, 3}} {
		s := fails(c.restarts, c.text)
		events := strings.Count(strings.Join(reasons(s), " "), eventFailing)
		if events != c.events || s.counted[outcomeFailed] != c.counted {
			t.Errorf("%d: %d events, %d counted", i, events, s.counted[outcomeFailed])
		}
		at := r.Status.Pod("a")
		if at.Failures != c.restarts+1 || at.Message != "tries again after: "+strings.ReplaceAll(c.text, "\n", " ") || at.Phase != api.PodRestoring {
			t.Errorf("%d: it is %+v", i, at)
		}
	}
}

// TestVolumeStates: a cancellation says in what state each volume is.
func TestVolumeStates(t *testing.T) {
	lifted := func(at time.Duration) func(*api.Restore) {
		return func(r *api.Restore) { r.Status.Pod("a").Started = new(metav1.NewTime(today.Add(at))) }
	}
	running := coursePod("a", restores("r/1", runs, 0, nil))
	for _, c := range []struct {
		name   string
		pod    *corev1.Pod
		phase  string // of its progress
		change func(*api.Restore)
		want   string
		danger bool
	}{
		{"it was never let start", coursePod("a", with("r/1"), withGate), "", func(*api.Restore) {}, "untouched", false},
		{"it still runs with its old data", coursePod("a"), "", func(*api.Restore) {}, "untouched", false},
		{"it is gone, never let start", nil, "", func(*api.Restore) {}, "untouched", false},
		{"it was let start, and waits for its image", coursePod("a", with("r/1")), "", lifted(time.Second), "untouched", false},
		{"an earlier one was let start", coursePod("a", with("r/1"), withGate), "", lifted(-time.Minute), "DANGER", true},
		{"an earlier one was let start, none is there", nil, "", lifted(-time.Minute), "DANGER", true},
		{"it downloads", running, node.Downloading, lifted(time.Second), "what was downloaded is discarded", false},
		{"it downloads again", coursePod("a", restores("r/1", runs, 1, ends(1, "no"))), node.Downloading, lifted(time.Second), "DANGER", true},
		{"it replaces", running, node.Replacing, lifted(time.Second), "DANGER", true},
		{"it does not answer", running, "", lifted(time.Second), "DANGER", true},
		{"deleted in the midst of it", coursePod("a", restores("r/1", runs, 0, nil), goes), "", lifted(time.Second), "DANGER", true},
		{"deleted before it began", coursePod("a", with("r/1"), withGate, goes), "", func(*api.Restore) {}, "untouched", false},
		{"its outcome is lost", coursePod("a", ended(0, "")), "", lifted(time.Second), "its outcome is not known", true},
	} {
		r := begun(c.change, func(r *api.Restore) { r.Spec.Cancel = true })
		var pods []*corev1.Pod
		if c.pod != nil {
			pods = append(pods, c.pod)
		}
		w := worldOf(pods...)
		if c.phase != "" {
			w.progress["a"] = node.Progress{ID: "r/1", Phase: c.phase}
		}
		s := next(r, w, today)
		at := s.status.Pod("a")
		if !strings.Contains(at.Message, c.want) {
			t.Errorf("%s: %s", c.name, at.Message)
		}
		i := 0
		for i < len(s.say) && !strings.HasPrefix(s.say[i].message, "pod a, ") {
			i++
		}
		if i == len(s.say) || (s.say[i].kind == corev1.EventTypeWarning) != c.danger {
			t.Errorf("%s: told is %+v", c.name, s.say)
		}
		if at.Phase != api.PodCancelled || (at.Started == nil) != (at.Finished == nil) {
			t.Errorf("%s: the pod is %+v", c.name, at)
		}
	}
}

// Why a pod that has come back does not go on is told where one looks for it.
func TestWhatAPodWaitsFor(t *testing.T) {
	unplaced := func(pod *corev1.Pod) {
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionFalse,
			Reason: corev1.PodReasonUnschedulable, Message: "0/1 nodes are available: 1 Insufficient cpu."})
	}
	r := begun()
	w := worldOf(coursePod("a", with("r/1"), unplaced), coursePod("b", restores("r/1", runs, 0, nil)), coursePod("c", restores("r/1", runs, 0, nil)))
	w.progress["b"] = node.Progress{ID: "r/1", Message: "no byte for 15s; Medusa says: refused"}
	w.progress["c"] = node.Progress{ID: "r/0", Message: "no byte for 15s; Medusa says: refused"}
	s := next(r, w, today)
	for name, want := range map[string]string{
		"a": "no node takes it: 0/1 nodes are available: 1 Insufficient cpu.", "b": "no byte comes; Medusa says: refused", "c": ""} {
		if at := s.status.Pod(name); at.Message != want {
			t.Errorf("%s: %q, want %q", name, at.Message, want)
		}
	}
	w.pods["a"], w.progress["b"] = coursePod("a", with("r/1")), node.Progress{ID: "r/1", Bytes: 1}
	r.Status = *s.status.DeepCopy()
	s = next(r, w, today)
	if a, b := s.status.Pod("a"), s.status.Pod("b"); a.Message != "" || b.Message != "" {
		t.Errorf("it goes on, and they say %q and %q", a.Message, b.Message)
	}
}
