package scheduler

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/schedule/retention"
)

// A clock that was a year ahead has made a Backup of next year. When it is right again
// no run is made again for that, and none is told of over and over.
func TestClockWasAhead(t *testing.T) {
	s := newSim(t, 1, monday)
	s.run(at("2026-12-03 12:00"))
	s.now = at("2027-12-03 09:00")
	s.due = s.now
	s.run(at("2027-12-03 09:30"))
	if s.made["nightly-20271203-030000"] != 1 {
		t.Fatalf("made %v", s.made)
	}
	s.now = at("2026-12-03 13:00")
	s.restart()
	told := s.heard("BackupScheduled")
	s.run(at("2026-12-05 12:00"))
	if got := s.heard("BackupScheduled") - told; got != 2 || s.made["nightly-20261205-030000"] != 1 {
		t.Errorf("%d runs in two days: %v, %+v", got, s.made, s.schedule().Status.History)
	}
}

// The schedule is deleted, and one of its name made for another cluster: its rules are
// not for what the first has made. Until it has made one itself it deletes nothing.
func TestMadeAnew(t *testing.T) {
	s := newSim(t, 1, monday)
	s.run(at("2026-12-04 12:00"))
	before := len(s.complete())
	spec := s.schedule().Spec
	s.must(s.server.Delete(t.Context(), s.schedule()))
	s.reconcile()
	spec.Retention.KeepLast, spec.Schedule = new(int32(1)), "0 5 * * *"
	s.must(s.create(&api.BackupSchedule{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: "nightly"}, Spec: spec}))
	s.due = s.now
	s.run(at("2026-12-05 04:30"))
	if len(s.complete()) != before {
		t.Errorf("kept %v of %d", s.complete(), before)
	}
	s.condition(api.ConditionRetained, metav1.ConditionTrue, ReasonNothing)
	s.run(at("2026-12-05 12:00")) // here it is the same cluster
	if len(s.complete()) != 1 {
		t.Errorf("kept %v", s.complete())
	}
}

// Whatever goes on, the status fits its CustomResourceDefinition: one that does not
// could not be written any more, and no run would be made.
func TestHistoryFits(t *testing.T) {
	st := &step{}
	for i := range 250 {
		outcome := api.RunActive
		if i%2 == 0 {
			outcome = api.RunSkipped
		}
		st.status.History = append(st.status.History, api.ScheduleRun{Backup: fmt.Sprint(i), Outcome: outcome})
	}
	st.trimHistory(&api.BackupSchedule{Spec: api.BackupScheduleSpec{HistoryLimit: new(int32(100))}})
	if n := len(st.status.History); n != 100 || st.status.History[0].Backup != "0" {
		t.Errorf("%d runs", n)
	}
}

// However many would be deleted, of each an event tells once.
func TestRehearsedOnce(t *testing.T) {
	k := &stock{own: map[string]*api.Backup{}}
	p := &pass{now: monday, stock: k, result: &retention.Result{DryRun: true}}
	for i := range 3 * deletedLimit {
		name := fmt.Sprint("b", i)
		k.own[name] = &api.Backup{ObjectMeta: metav1.ObjectMeta{Name: name}}
		p.result.Decisions = append(p.result.Decisions, retention.Decision{Item: retention.Item{Name: name}, Delete: true, Reasons: []retention.Reason{retention.Expired}})
	}
	told := 0
	s := &api.BackupSchedule{}
	for range 3 {
		st := &step{}
		st.record(s, &world{}, p)
		told += len(st.say)
		s.Status = st.status
	}
	if told != deletedLimit || len(s.Status.Retention.Deleted) != deletedLimit {
		t.Errorf("told %d times of %d", told, len(s.Status.Retention.Deleted))
	}
}

// A Backup that was begun, by our clock, long after it had to be over by that of the API
// server, has no date: by it as the newest all others would be too old to be kept.
func TestUndated(t *testing.T) {
	for name, tt := range map[string]struct {
		begun time.Duration // after it was created
		found bool
		dated bool
	}{
		"at once":                    {time.Second, false, true},
		"after waiting":              {23 * time.Hour, false, true},
		"by a clock that was ahead":  {365 * 24 * time.Hour, false, false},
		"before, as it was restored": {-90 * 24 * time.Hour, false, true},
		"found":                      {365 * 24 * time.Hour, true, true},
	} {
		b := &api.Backup{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(monday)}}
		b.Status = api.BackupStatus{Name: "x", Phase: api.BackupComplete, Objects: 1, Started: new(metav1.NewTime(monday.Add(tt.begun)))}
		if tt.found {
			b.Spec.Existing = &api.ExistingBackup{Name: "x"}
		}
		w := &world{}
		if it := w.item(b, monday.AddDate(2, 0, 0)); it.When.IsZero() == tt.dated || tt.dated && !it.When.Equal(b.Status.Started.Time) {
			t.Errorf("%s: %s", name, it.When)
		}
	}
}

// That data cannot be deleted is told also while others are to go after them.
func TestDeletionWaitsBeforeOthers(t *testing.T) {
	s := newSim(t, 1, at("2026-12-01 02:00"))
	s.run(at("2026-12-03 12:00"))
	s.busy = 1000 * time.Hour
	s.edit(func(s *api.BackupScheduleSpec) { s.Retention.KeepLast = new(int32(1)) })
	s.run(at("2026-12-03 12:30"))
	b := s.find("nightly-20261201-030000")
	b.Status.Conditions[0].Reason, b.Status.Conditions[0].Message = "NoSidecar", "no pod of the cluster runs"
	s.must(s.server.Status().Update(t.Context(), b))
	s.due = s.now
	s.run(at("2026-12-03 13:00"))
	s.condition(api.ConditionRetained, metav1.ConditionFalse, ReasonDeletionWaits)
	if s.heard("RetentionHeld") != 1 {
		t.Error(s.told)
	}
}
