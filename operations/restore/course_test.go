package restore

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stategraft/stategraft/api/node"
	api "github.com/stategraft/stategraft/api/v1alpha1"
)

// begun is a Restore of pods a, b and c whose pending list was written a minute ago.
func begun(change ...func(*api.Restore)) *api.Restore {
	r := &api.Restore{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "r", UID: "r", Generation: 2, CreationTimestamp: metav1.NewTime(today.Add(-2 * time.Minute)), Finalizers: []string{Finalizer}},
		Spec: api.RestoreSpec{Backup: "nightly", Mode: api.InPlace, Deadline: &metav1.Duration{Duration: time.Hour}}}
	s := step{status: api.RestoreStatus{ID: "r/1", Phase: api.RestoreStopping, Backup: "nightly", Started: new(metav1.NewTime(today.Add(-time.Minute))), Probe: "probe"}}
	for _, name := range []string{"a", "b", "c"} {
		s.status.Pods = append(s.status.Pods, api.PodRestore{Name: name, Phase: api.PodStopping, Action: api.ActionRestore, Node: name, BytesTotal: 100})
		s.status.Pending = append(s.status.Pending, name)
	}
	for _, kind := range []string{api.ConditionAccepted, api.ConditionPrechecked, api.ConditionStopping} {
		s.set(kind, true, "Good", "", 1, today.Add(-time.Minute))
	}
	r.Status = s.status
	for _, f := range change {
		f(r)
	}
	return r
}

func phaseOf(pod string, phase api.PodPhase) func(*api.Restore) {
	return func(r *api.Restore) { r.Status.Pod(pod).Phase = phase }
}

func coursePod(name string, change ...func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: "uid", CreationTimestamp: metav1.NewTime(today.Add(-time.Hour))}}
	for _, f := range change {
		f(pod)
	}
	return pod
}

func goes(pod *corev1.Pod) { pod.DeletionTimestamp = new(metav1.NewTime(today)) }
func young(pod *corev1.Pod) {
	pod.CreationTimestamp = metav1.NewTime(today.Add(-time.Second))
}
func withGate(pod *corev1.Pod) {
	pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "others.io/gate"}, {Name: api.GateRestore}}
}
func isReady(pod *corev1.Pod) {
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
}

func with(id string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		young(pod)
		pod.Spec.InitContainers = []corev1.Container{{Name: "other"}, {Name: containerRestore, Env: []corev1.EnvVar{{Name: "X", Value: "y"}, {Name: api.EnvRestoreID, Value: id}}}}
	}
}

func restores(id string, state corev1.ContainerState, restarts int32, last *corev1.ContainerStateTerminated) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		with(id)(pod)
		pod.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "other", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}},
			{Name: containerRestore, State: state, RestartCount: restarts, LastTerminationState: corev1.ContainerState{Terminated: last}}}
	}
}

func ends(code int32, message string) *corev1.ContainerStateTerminated {
	return &corev1.ContainerStateTerminated{ExitCode: code, Message: message}
}

var (
	runs    = corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	waiting = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}
	outcome = node.Outcome("restored 90 bytes", node.Done{ID: "r/1", Bytes: 90, Previous: true, Started: today.Add(-time.Minute), Finished: today})
)

func ended(code int32, message string) func(*corev1.Pod) {
	return restores("r/1", corev1.ContainerState{Terminated: ends(code, message)}, 0, nil)
}

func TestLook(t *testing.T) {
	since := today.Add(-time.Minute)
	for name, c := range map[string]struct {
		pod      *corev1.Pod
		phase    api.PodPhase
		told     *node.Done
		want     sight
		failures int32
	}{
		"none":                                   {nil, api.PodStopping, nil, absent, 0},
		"it runs as before":                      {coursePod("a"), api.PodPlanned, nil, old, 0},
		"it is being deleted":                    {coursePod("a", goes), api.PodStopping, nil, leaving, 0},
		"with the container of another request":  {coursePod("a", with("r/2"), func(p *corev1.Pod) { p.CreationTimestamp = metav1.NewTime(since) }), api.PodStopping, nil, old, 0},
		"with one of its template":               {coursePod("a", with("")), api.PodWaiting, nil, bare, 0},
		"made since, without":                    {coursePod("a", young), api.PodStopping, nil, bare, 0},
		"another was seen before":                {coursePod("a"), api.PodRestoring, nil, bare, 0},
		"made since, without, and being deleted": {coursePod("a", young, goes), api.PodStopping, nil, leaving, 0},
		"gated":                                  {coursePod("a", with("r/1"), withGate), api.PodStopping, nil, gated, 0},
		"gated and being deleted":                {coursePod("a", with("r/1"), withGate, goes), api.PodStopping, nil, replaced, 0},
		"not scheduled yet":                      {coursePod("a", with("r/1")), api.PodWaiting, nil, coming, 0},
		"its earlier containers run":             {coursePod("a", restores("r/1", waiting, 0, nil)), api.PodWaiting, nil, coming, 0},
		"runs":                                   {coursePod("a", restores("r/1", runs, 0, nil)), api.PodWaiting, nil, restoring, 0},
		"has failed":                             {coursePod("a", ended(1, "no")), api.PodWaiting, nil, restoring, 1},
		"waits to try again":                     {coursePod("a", restores("r/1", waiting, 2, ends(1, "no"))), api.PodWaiting, nil, restoring, 3},
		"tries again":                            {coursePod("a", restores("r/1", runs, 3, ends(1, "no"))), api.PodWaiting, nil, restoring, 3},
		"runs again after its node was started":  {coursePod("a", restores("r/1", runs, 1, ends(0, outcome))), api.PodWaiting, nil, restoring, 0},
		"restored":                               {coursePod("a", ended(0, outcome)), api.PodWaiting, nil, restored, 0},
		"restored, and deleted since":            {coursePod("a", ended(0, outcome), goes), api.PodWaiting, nil, restored, 0},
		"another's outcome":                      {coursePod("a", ended(0, node.Outcome("restored", node.Done{ID: "r/0"}))), api.PodWaiting, nil, unclear, 0},
		"the message is lost":                    {coursePod("a", ended(0, "")), api.PodWaiting, nil, unclear, 0},
		"the message is lost, the sidecar tells": {coursePod("a", ended(0, "")), api.PodWaiting, &node.Done{ID: "r/1"}, restored, 0},
		"the message is lost, another's is told": {coursePod("a", ended(0, "")), api.PodWaiting, &node.Done{ID: "r/0"}, unclear, 0},
	} {
		got := look(c.pod, &api.PodRestore{Phase: c.phase}, "r/1", c.told, since)
		if got.sight != c.want || got.failures != c.failures {
			t.Errorf("%s: looks like %d with %d failures, not %d with %d", name, got.sight, got.failures, c.want, c.failures)
		}
	}
}

// goals are what a step is to do, in words.
func goals(s step) (does []string) {
	for _, rm := range s.remove {
		does = append(does, "delete "+rm.pod.Name+" "+rm.reason)
	}
	for _, pod := range s.lift {
		does = append(does, "lift "+pod.Name)
	}
	if s.hold {
		does = append(does, "hold")
	}
	if s.free {
		does = append(does, "free")
	}
	return does
}

func TestRun(t *testing.T) {
	yes := probe{refused: true}
	old3 := []*corev1.Pod{coursePod("a"), coursePod("b"), coursePod("c")}
	back := func(n int) (pods []*corev1.Pod) {
		for _, name := range []string{"a", "b", "c"}[:n] {
			pods = append(pods, coursePod(name, with("r/1"), withGate))
		}
		return pods
	}
	spec := func(change func(*api.RestoreSpec)) func(*api.Restore) {
		return func(r *api.Restore) { change(&r.Spec) }
	}
	for _, c := range []struct {
		name    string
		r       *api.Restore
		pods    []*corev1.Pod
		probe   probe
		want    string // what it does
		phase   api.RestorePhase
		pending string
		message string // part of it
	}{
		{"the API server does not know yet", begun(), old3, probe{}, "", api.RestoreStopping, "a b c", "to be stopped: a, b, c. The API server still admits"},
		{"it knows", begun(), old3, yes, "delete a RestoreStopping, delete b RestoreStopping, delete c RestoreStopping", api.RestoreStopping, "a b c", "to be stopped"},
		{"something else refuses", begun(), old3[:1], probe{other: "no quota"}, "delete a RestoreStopping", api.RestoreStopping, "a b c", ""},
		{"something else refuses, for a moment", begun(func(r *api.Restore) {
			r.Status.Conditions[1].LastTransitionTime = metav1.NewTime(today.Add(-time.Second))
		}), old3, probe{other: "no quota"}, "", api.RestoreStopping, "a b c", ""},
		{"suspended", begun(spec(func(s *api.RestoreSpec) { s.Suspend = true })), old3, yes, "", api.RestoreStopping, "a b c", "suspended"},
		{"suspended, all are back", begun(spec(func(s *api.RestoreSpec) { s.Suspend = true })), back(3), yes, "", api.RestoreRestoring, "a b c", "suspended"},
		{"suspended, one without", begun(spec(func(s *api.RestoreSpec) { s.Suspend = true }), phaseOf("a", api.PodWaiting)), []*corev1.Pod{coursePod("a", young)}, yes, "delete a RestoreMissing", api.RestoreRestoring, "a b c", "suspended"},
		{"one still goes", begun(), append(back(2), coursePod("c", goes)), yes, "", api.RestoreStopping, "a b c", "stopping: c; waiting for their turn: a, b"},
		{"one still runs", begun(), append(back(2), coursePod("c")), yes, "delete c RestoreStopping", api.RestoreStopping, "a b c", "to be stopped: c"},
		{"one is not back", begun(), back(2), yes, "lift a, lift b", api.RestoreRestoring, "a b c", "waiting to be created: c; waiting for their turn: a, b"},
		{"none is back", begun(), nil, yes, "", api.RestoreRestoring, "a b c", "waiting to be created: a, b, c"},
		{"all are back, and the API server does not know yet", begun(), back(3), probe{}, "", api.RestoreRestoring, "a b c", "The API server still admits"},
		{"all are back", begun(), back(3), yes, "lift a, lift b, lift c", api.RestoreRestoring, "a b c", ""},
		{"one at a time", begun(spec(func(s *api.RestoreSpec) { s.Parallel = 1 })), back(3), yes, "lift a", api.RestoreRestoring, "a b c", ""},
		{"two at a time, one runs", begun(spec(func(s *api.RestoreSpec) { s.Parallel = 2 })), []*corev1.Pod{coursePod("a", restores("r/1", runs, 0, nil)), back(3)[1], back(3)[2]}, yes, "lift b", api.RestoreRestoring, "a b c", "restoring: a"},
		{"one at a time, one comes", begun(spec(func(s *api.RestoreSpec) { s.Parallel = 1 })), []*corev1.Pod{coursePod("a", with("r/1")), back(3)[1], back(3)[2]}, yes, "", api.RestoreRestoring, "a b c", "waiting to start: a"},
		{"one at a time, one is done", begun(spec(func(s *api.RestoreSpec) { s.Parallel = 1 })), []*corev1.Pod{coursePod("a", ended(0, outcome)), back(3)[1], back(3)[2]}, yes, "lift b", api.RestoreRestoring, "b c", ""},
		{"one came back without", begun(), append(back(2), coursePod("c", young)), yes, "delete c RestoreMissing", api.RestoreRestoring, "a b c", "stopping: c"},
		{"one came back without, unseen by the API server", begun(), []*corev1.Pod{coursePod("c", young)}, probe{}, "delete c RestoreMissing", api.RestoreRestoring, "a b c", ""},
		{"a restored one came back with it", begun(func(r *api.Restore) { r.Status.Pods[0].Phase, r.Status.Pending = api.PodRestored, []string{"b", "c"} }), back(1), yes, "lift a", api.RestoreRestoring, "b c", ""},
		{"all are done", begun(), []*corev1.Pod{coursePod("a", ended(0, outcome)), coursePod("b", ended(0, outcome)), coursePod("c", ended(0, outcome))}, yes, "free", api.RestoreCompleted, "", "3 of 3 pods are restored from backup nightly"},
		{"all are done, not joined", begun(spec(func(s *api.RestoreSpec) { s.Mode = api.Remote })), []*corev1.Pod{coursePod("a", ended(0, outcome)), coursePod("b", ended(0, outcome), isReady), coursePod("c", ended(0, outcome), isReady, goes)}, yes, "", api.RestoreRestoring, "a c", "waiting to be Ready: a, c"},
		{"the time is up", begun(spec(func(s *api.RestoreSpec) { s.Deadline.Duration = time.Second })), append(back(2), coursePod("c", ended(0, outcome))), yes, "", api.RestoreFailed, "a b", "2 of 3 pods not restored"},
		{"the time is up, untouched", begun(spec(func(s *api.RestoreSpec) { s.Deadline.Duration = time.Second }), phaseOf("a", api.PodPlanned), phaseOf("b", api.PodPlanned), phaseOf("c", api.PodPlanned)), old3, probe{}, "free", api.RestoreFailed, "", "before a pod was touched"},
		{"the time was up", begun(func(r *api.Restore) { r.Status.Phase = api.RestoreFailed }), append(back(2), coursePod("c", ended(0, outcome))), yes, "", api.RestoreFailed, "a b", ""},
		{"the time was up, one runs", begun(func(r *api.Restore) { r.Status.Phase = api.RestoreFailed }), old3, yes, "", api.RestoreFailed, "a b c", ""},
		{"the time was up, all are done", begun(func(r *api.Restore) { r.Status.Phase, r.Status.Pending = api.RestoreFailed, []string{"c"} }), []*corev1.Pod{coursePod("c", ended(0, outcome))}, yes, "free", api.RestoreFailed, "", "all pods were restored, after the deadline"},
		{"cancelled", begun(spec(func(s *api.RestoreSpec) { s.Cancel = true })), []*corev1.Pod{coursePod("a"), coursePod("b", with("r/1"), withGate), coursePod("c", restores("r/1", runs, 0, nil))}, yes, "delete b RestoreReleased, delete c RestoreReleased", api.RestoreStopping, "", "is being cancelled"},
		{"cancelled, one is done", begun(spec(func(s *api.RestoreSpec) { s.Cancel = true })), []*corev1.Pod{coursePod("a", ended(0, outcome)), coursePod("b", ended(0, "")), coursePod("c", goes)}, yes, "free", api.RestoreCancelled, "", "cancelled with 1/3 pods restored"},
		{"cancelled, a restored one runs again as its node was started anew", begun(spec(func(s *api.RestoreSpec) { s.Cancel = true }), func(r *api.Restore) {
			r.Status.Pods[0].Phase, r.Status.Pending = api.PodRestored, []string{"b", "c"}
		}), []*corev1.Pod{coursePod("a", restores("r/1", runs, 1, ends(0, outcome)))}, yes, "free", api.RestoreCancelled, "", "cancelled with 1/3"},
		{"cancelled after its time", begun(spec(func(s *api.RestoreSpec) { s.Cancel = true }), func(r *api.Restore) { r.Status.Phase = api.RestoreFailed }), back(1), yes, "delete a RestoreReleased", api.RestoreRestoring, "", ""},
		{"deleted", begun(func(r *api.Restore) { r.DeletionTimestamp = new(metav1.NewTime(today)) }), back(1), yes, "delete a RestoreReleased", api.RestoreStopping, "", ""},
		{"deleted, nothing is left", begun(func(r *api.Restore) { r.DeletionTimestamp, r.Status.Pending = new(metav1.NewTime(today)), nil }), old3, yes, "free", api.RestoreCancelled, "", ""},
		{"over", begun(func(r *api.Restore) { r.Status.Phase, r.Status.Pending = api.RestoreCompleted, nil }), back(3), yes, "free", api.RestoreCompleted, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := world{pods: map[string]*corev1.Pod{}, probe: c.probe}
			for _, pod := range c.pods {
				w.pods[pod.Name] = pod
			}
			before := c.r.DeepCopy()
			s := next(c.r, w, today)
			if !slices.Equal(c.r.Status.Pending, before.Status.Pending) || c.r.Status.Phase != before.Status.Phase {
				t.Error("the object itself is changed")
			}
			if got := strings.Join(goals(s), ", "); got != c.want {
				t.Errorf("it does %q, not %q", got, c.want)
			}
			if s.status.Phase != c.phase || strings.Join(s.status.Pending, " ") != c.pending || !strings.Contains(s.status.Message, c.message) {
				t.Errorf("it is %s, pending %v: %s", s.status.Phase, s.status.Pending, s.status.Message)
			}
			if !s.free && s.after <= 0 {
				t.Error("it is never looked at again")
			}
			if again := next(c.r, w, today); strings.Join(goals(again), ", ") != c.want {
				t.Errorf("asked again it does %q", goals(again))
			}
		})
	}
}
