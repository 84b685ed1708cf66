package restore

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stategraft/stategraft/api/node"
	api "github.com/stategraft/stategraft/api/v1alpha1"
)

func fresh(change ...func(*api.Restore)) *api.Restore {
	r := &api.Restore{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "r", UID: "r", Generation: 1, CreationTimestamp: metav1.NewTime(today.Add(-time.Minute))},
		Spec: api.RestoreSpec{Backup: "nightly", Deadline: &metav1.Duration{Duration: time.Hour}, Pods: api.RestorePods{Names: []string{"a", "b"}}}}
	for _, f := range change {
		f(r)
	}
	return r
}

// accepted is one whose pods are settled.
func accepted(change ...func(*api.Restore)) *api.Restore {
	r := fresh()
	s := accept(r, &verdict{names: []string{"a", "b"}}, today.Add(-30*time.Second))
	r.Status, r.Finalizers = s.status, []string{Finalizer}
	for _, f := range change {
		f(r)
	}
	return r
}

func late(r *api.Restore)      { r.Spec.Deadline.Duration = time.Second }
func suspended(r *api.Restore) { r.Spec.Suspend = true }
func dry(r *api.Restore)       { r.Spec.DryRun = true }

func TestBegin(t *testing.T) {
	planned := func(change ...func(*verdict)) *verdict {
		v := &verdict{message: "2 pods get it", backup: "nightly-1", prefix: "other", undoID: "u/1", finished: today.Add(-time.Hour),
			pods: []api.PodRestore{{Name: "a", Node: "n1", Action: api.ActionRestore, BytesTotal: 5}, {Name: "b", Node: "n2", Action: api.ActionRestore, BytesTotal: 5}}}
		for _, f := range change {
			f(v)
		}
		return v
	}
	done := func(names ...string) func(*verdict) {
		return func(v *verdict) {
			v.done = map[string]node.Done{}
			for _, name := range names {
				v.done[name] = node.Done{ID: "r/1", Bytes: 5, Finished: today.Add(-24 * time.Hour)}
			}
		}
	}
	wrong := func(reason string, wait bool) *verdict {
		return &verdict{problem: &Problem{Reason: reason, Message: "so it is", Wait: wait}}
	}
	for _, c := range []struct {
		name    string
		r       *api.Restore
		v       *verdict
		phase   api.RestorePhase
		does    string
		kind    string // a condition
		reason  string
		pending string
		event   string
	}{
		{"accepted", fresh(), &verdict{names: []string{"a", "b"}}, api.RestoreChecking, "hold", api.ConditionAccepted, ReasonAccepted, "", eventAccepted},
		{"a dry run accepted", fresh(dry), &verdict{names: []string{"a", "b"}}, api.RestoreChecking, "", api.ConditionAccepted, ReasonAccepted, "", eventAccepted},
		{"suspended from the beginning", fresh(suspended), nil, api.RestoreWaiting, "", api.ConditionAccepted, ReasonSuspended, "", eventWaiting},
		{"refused", fresh(), wrong("OptedOut", false), api.RestoreFailed, "", api.ConditionFailed, "OptedOut", "", eventFailed},
		{"busy", fresh(), wrong(ReasonBusy, true), api.RestoreWaiting, "", api.ConditionAccepted, ReasonBusy, "", eventWaiting},
		{"its pod is not there", fresh(), wrong(ReasonPodNotFound, false), api.RestoreFailed, "", api.ConditionAccepted, ReasonPodNotFound, "", eventFailed},
		{"its pod is not there yet", fresh(func(r *api.Restore) { r.CreationTimestamp = metav1.NewTime(today) }), wrong(ReasonPodNotFound, false), api.RestoreWaiting, "", api.ConditionAccepted, ReasonPodNotFound, "", eventWaiting},
		{"never accepted in time", fresh(late), wrong(ReasonBusy, true), api.RestoreFailed, "", api.ConditionAccepted, ReasonDeadline, "", eventFailed},
		{"planned", accepted(), planned(), api.RestoreStopping, "hold", api.ConditionPrechecked, ReasonPassed, "a b", eventChecked},
		{"one is done already", accepted(), planned(done("a")), api.RestoreStopping, "hold", api.ConditionPrechecked, ReasonPassed, "b", eventChecked},
		{"all are done already", accepted(), planned(done("a", "b")), api.RestoreStopping, "", api.ConditionPrechecked, ReasonPassed, "", ""},
		{"a dry run", accepted(dry), planned(), api.RestorePlanned, "free", api.ConditionPrechecked, ReasonPlanned, "", eventPlanned},
		{"suspended before a pod is touched", accepted(suspended), planned(), api.RestoreWaiting, "", api.ConditionPrechecked, ReasonSuspended, "", eventWaiting},
		{"no such backup", accepted(), wrong("NoSuchBackup", false), api.RestoreFailed, "free", api.ConditionFailed, "NoSuchBackup", "", eventFailed},
		{"a backup runs", accepted(), wrong("BackupRunning", true), api.RestoreWaiting, "", api.ConditionPrechecked, "BackupRunning", "", eventWaiting},
		{"smaller than the backup for a moment", accepted(func(r *api.Restore) { r.Status.Started = new(metav1.NewTime(today)) }), wrong(ReasonTopologyDiffers, false), api.RestoreWaiting, "", api.ConditionPrechecked, ReasonTopologyDiffers, "", eventWaiting},
		{"smaller than the backup", accepted(), wrong(ReasonTopologyDiffers, false), api.RestoreFailed, "free", api.ConditionPrechecked, ReasonTopologyDiffers, "", eventFailed},
		{"a pod is started to look", accepted(), &verdict{looking: true, problem: &Problem{Reason: ReasonLookingUp, Message: "starts", Wait: true}}, api.RestoreChecking, "", api.ConditionPrechecked, ReasonLookingUp, "", eventWaiting},
		{"not checked in time", accepted(late), planned(), api.RestoreFailed, "free", api.ConditionPrechecked, ReasonDeadline, "", eventFailed},
		{"cancelled before it began", fresh(func(r *api.Restore) { r.Spec.Cancel = true }), nil, api.RestoreCancelled, "free", api.ConditionCompleted, ReasonCancelled, "", eventCancelled},
	} {
		s := next(c.r, world{verdict: c.v}, today)
		condition := meta.FindStatusCondition(s.status.Conditions, c.kind)
		if s.status.Phase != c.phase || strings.Join(goals(s), " ") != c.does || condition == nil || condition.Reason != c.reason || strings.Join(s.status.Pending, " ") != c.pending {
			t.Errorf("%s: it is %s, does %q, pending %v, %s is %+v", c.name, s.status.Phase, goals(s), s.status.Pending, c.kind, condition)
		}
		if got := strings.Join(reasons(s), " "); got != c.event {
			t.Errorf("%s: events are %q", c.name, got)
		}
		if s.status.ID != c.r.RequestID() && !c.r.Spec.Cancel {
			t.Errorf("%s: its id is %q", c.name, s.status.ID)
		}
		if (s.status.Finished != nil) != s.status.Phase.Final() {
			t.Errorf("%s: finished at %v", c.name, s.status.Finished)
		}
		if (s.status.Probe != "") != (c.pending != "") {
			t.Errorf("%s: the probe is %q", c.name, s.status.Probe)
		}
		if !s.status.Phase.Final() && s.after <= 0 {
			t.Errorf("%s: it is never looked at again", c.name)
		}
		if s.status.Phase.Final() != s.forgotten && c.pending == "" && c.event != "" {
			t.Errorf("%s: the pod that looks into the storage is forgotten: %v", c.name, s.forgotten)
		}
	}
}

// TestDoneBefore: what was applied again is complete at once, and says since when.
func TestDoneBefore(t *testing.T) {
	r := accepted()
	at := today.Add(-24 * time.Hour)
	v := &verdict{pods: r.Status.Pods, done: map[string]node.Done{"a": {ID: r.Status.ID, Finished: at, Bytes: 7}, "b": {ID: r.Status.ID}}}
	r.Status = next(r, world{verdict: v}, today).status
	s := next(r, world{}, today)
	if s.status.Phase != api.RestoreCompleted || !s.free || len(s.remove)+len(s.lift) > 0 {
		t.Errorf("it is %s, and does %v", s.status.Phase, goals(s))
	}
	if a := s.status.Pod("a"); a.Message != "was restored by this request at 2026-02-28T12:00:00Z" || a.Bytes != 7 || !a.Finished.Time.Equal(at) {
		t.Errorf("a is %+v", a)
	}
	if s.status.Progress != (api.RestoreProgress{Pods: "2/2", Data: "100%"}) {
		t.Errorf("the progress is %+v", s.status.Progress)
	}
}

// TestWaitsLonger: one that waits is looked at less and less often, and told of once.
func TestWaitsLonger(t *testing.T) {
	r, now := fresh(), today
	var pauses []time.Duration
	told := 0
	for range 20 {
		s := next(r, world{verdict: &verdict{problem: &Problem{Reason: ReasonBusy, Message: "it waits since " + now.String(), Wait: true}}}, now)
		r.Status = s.status
		told += len(s.say)
		pauses = append(pauses, s.after)
		now = now.Add(s.after)
	}
	if pauses[0] != 5*time.Second || pauses[19] <= pauses[0] || pauses[19] > 30*time.Second || told != 1 {
		t.Errorf("the pauses are %v, and it is told %d times", pauses, told)
	}
}
