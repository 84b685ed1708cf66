package scheduler

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/stategraft/stategraft/api/v1alpha1"
)

func (s *sim) condition(kind string, value metav1.ConditionStatus, reason string) {
	s.t.Helper()
	c := meta.FindStatusCondition(s.schedule().Status.Conditions, kind)
	if c == nil || c.Status != value || c.Reason != reason {
		s.t.Errorf("%s: condition %s is %+v, want %s %s", s.now.Format(time.DateTime), kind, c, value, reason)
	}
}

func (s *sim) heard(text string) (n int) {
	for _, line := range s.told {
		if strings.Contains(line, text) {
			n++
		}
	}
	return n
}

// Three weeks in which nothing goes wrong.
func TestWeeks(t *testing.T) {
	s := newSim(t, 1, monday)
	s.run(monday.AddDate(0, 0, 21))
	if len(s.made) != 21 {
		t.Errorf("%d Backups in 21 days", len(s.made))
	}
	want := []string{"nightly-20261221-030000", "nightly-20261220-030000", "nightly-20261219-030000"}
	if got := s.complete(); !slices.Equal(got, want) {
		t.Errorf("kept %v, want %v", got, want)
	}
	if len(s.storage) != 3 {
		t.Errorf("the storage has %d", len(s.storage))
	}
	st := s.schedule().Status
	s.condition(api.ConditionAccepted, metav1.ConditionTrue, ReasonAccepted)
	s.condition(api.ConditionOnTime, metav1.ConditionTrue, ReasonOnTime)
	s.condition(api.ConditionRetained, metav1.ConditionTrue, ReasonRetained)
	switch {
	case st.LastComplete == nil || st.LastComplete.Backup != want[0], st.Active != "", st.Pending != "", st.Missed != 0:
		t.Errorf("status %+v", st)
	case len(st.History) != 10 || st.History[0].Outcome != "Complete":
		t.Errorf("history %+v", st.History)
	case !st.Next.Time.Equal(at("2026-12-22 03:00")):
		t.Errorf("next %s", st.Next)
	case st.Retention == nil || st.Retention.Kept != 3 || len(st.Retention.Deleted) != 18 || st.Retention.Deleted[0].Backup != "nightly-20261218-030000" || st.Retention.Deleted[0].Reason != "Expired":
		t.Errorf("retention %+v", st.Retention)
	}
	if n := s.heard("Normal BackupDeleted: Backup nightly-20261218-030000, in the storage 20261218-030000-s"); n != 1 || s.heard("BackupDeleted") != 18 {
		t.Errorf("told %s", strings.Join(s.told[len(s.told)-5:], "\n"))
	}
	if s.heard("deleted: of 2026-12-18 03:00 UTC, and not among the last 3") != 1 {
		t.Errorf("it is not said why: %s", strings.Join(s.told[len(s.told)-5:], "\n"))
	}
	// A run: that it is made, that it is there, that it has ended, and what goes for it.
	runs := len(s.made)
	t.Logf("writes for %d runs and %d deletions: %v; %d looks at the storage", runs, len(s.gone), s.writes, s.listings)
	if s.writes["create"] != runs || s.writes["status"] > 5*runs+2 || s.writes["patch"] != len(s.gone) || s.writes["delete"] != len(s.gone) {
		t.Errorf("writes for %d runs and %d deletions: %v", runs, len(s.gone), s.writes)
	}
	if s.listings > len(s.gone)+2 {
		t.Errorf("%d looks at the storage", s.listings)
	}
}

// Clocks go forward over 02:30 on one night, and back over it on another.
func TestClockChange(t *testing.T) {
	for _, begin := range []time.Time{at("2027-03-26 12:00"), at("2026-10-23 12:00")} {
		s := newSim(t, 1, begin, func(s *api.BackupScheduleSpec) { s.Schedule, s.TimeZone = "30 2 * * *", "Europe/Berlin" })
		s.run(begin.AddDate(0, 0, 5))
		if len(s.made) != 5 {
			t.Errorf("%s: %d Backups in five nights: %v", begin, len(s.made), s.made)
		}
	}
}

// The controller is away for days: one is made for all that were missed.
func TestAway(t *testing.T) {
	s := newSim(t, 1, monday)
	s.run(at("2026-12-02 12:00"))
	s.now = at("2026-12-07 09:00")
	s.restart()
	s.run(at("2026-12-07 12:00"))
	if len(s.made) != 3 || s.made["nightly-20261207-030000"] != 1 {
		t.Errorf("made %v", s.made)
	}
	if s.heard("in place of 4 more that were missed") != 1 {
		t.Error(s.told)
	}
	if st := s.schedule().Status; st.Missed != 0 || st.History[0].Reason != "Overdue" {
		t.Errorf("%+v", st)
	}
}

// With a starting deadline it is left out, and the next is made in time.
func TestTooLate(t *testing.T) {
	s := newSim(t, 1, monday, func(s *api.BackupScheduleSpec) { s.StartingDeadline = &metav1.Duration{Duration: time.Hour} })
	s.run(at("2026-12-01 12:00"))
	s.now = at("2026-12-03 09:00")
	s.restart()
	s.run(at("2026-12-03 12:00"))
	s.condition(api.ConditionOnTime, metav1.ConditionFalse, ReasonTooLate)
	if st := s.schedule().Status; st.Missed != 2 || len(st.History) != 2 || st.History[0].Outcome != api.RunSkipped || s.heard("Warning BackupSkipped") != 1 {
		t.Errorf("%+v, %v", st, s.told)
	}
	s.run(at("2026-12-04 12:00"))
	s.condition(api.ConditionOnTime, metav1.ConditionTrue, ReasonOnTime)
	if st := s.schedule().Status; st.Missed != 0 || len(s.made) != 2 {
		t.Errorf("%+v, %v", st, s.made)
	}
}

// While suspended nothing is made and nothing deleted; what was missed is not made up
// for.
func TestSuspend(t *testing.T) {
	s := newSim(t, 1, monday)
	s.run(at("2026-12-06 02:00"))
	s.edit(func(s *api.BackupScheduleSpec) { s.Suspend, s.Retention.KeepLast = true, new(int32(1)) })
	made, gone := len(s.made), len(s.gone)
	s.run(at("2026-12-09 12:00"))
	if len(s.made) != made || len(s.gone) != gone || s.schedule().Status.Next != nil {
		t.Errorf("made %v, gone %v", s.made, s.gone)
	}
	s.condition(api.ConditionOnTime, metav1.ConditionUnknown, ReasonSuspended)
	s.condition(api.ConditionRetained, metav1.ConditionTrue, ReasonSuspended)
	s.edit(func(s *api.BackupScheduleSpec) { s.Suspend = false })
	s.run(at("2026-12-09 18:00"))
	if len(s.made) != made || len(s.complete()) != 1 {
		t.Errorf("made %v, kept %v", s.made, s.complete())
	}
	s.run(at("2026-12-10 12:00"))
	if s.made["nightly-20261210-030000"] != 1 || len(s.made) != made+1 {
		t.Errorf("made %v", s.made)
	}
}

// One that lasts over the next has that wait, or is replaced by it.
func TestOverlap(t *testing.T) {
	for policy, want := range map[api.ConcurrencyPolicy]string{api.ConcurrencyForbid: "Complete", api.ConcurrencyReplace: "Cancelled"} {
		s := newSim(t, 1, monday, func(s *api.BackupScheduleSpec) {
			s.ConcurrencyPolicy = policy
			s.Template.Spec.Timeout = &metav1.Duration{Duration: 48 * time.Hour}
		})
		s.fate = func(b *api.Backup) (time.Duration, api.BackupPhase) {
			if b.Name == "nightly-20261201-030000" {
				return 26 * time.Hour, api.BackupComplete
			}
			return time.Minute, api.BackupComplete
		}
		s.run(at("2026-12-02 04:00"))
		if policy == api.ConcurrencyForbid {
			s.condition(api.ConditionOnTime, metav1.ConditionFalse, ReasonBusy)
		}
		s.run(at("2026-12-02 12:00"))
		if got := string(s.find("nightly-20261201-030000").Status.Phase); got != want {
			t.Errorf("%s: the first is %s", policy, got)
		}
		if b := s.find("nightly-20261202-030000"); b == nil || b.Status.Phase != api.BackupComplete {
			t.Errorf("%s: the second is not complete", policy)
		}
		s.condition(api.ConditionOnTime, metav1.ConditionTrue, ReasonOnTime)
	}
}

// One that never ends does not keep the next from being made for ever.
func TestStuck(t *testing.T) {
	s := newSim(t, 1, monday, func(s *api.BackupScheduleSpec) {
		s.Template.Spec.Timeout = &metav1.Duration{Duration: 30 * time.Hour}
	})
	s.fate = func(b *api.Backup) (time.Duration, api.BackupPhase) {
		if b.Name == "nightly-20261201-030000" {
			return 0, ""
		}
		return time.Minute, api.BackupComplete
	}
	s.run(at("2026-12-02 09:00"))
	if len(s.made) != 1 {
		t.Errorf("made %v", s.made)
	}
	s.run(at("2026-12-02 12:00"))
	if b := s.find("nightly-20261202-030000"); b == nil || b.Status.Phase != api.BackupComplete || s.heard("it is not over 5m0s after its timeout") != 1 {
		t.Errorf("%+v %v", b, s.told)
	}
	if s.find("nightly-20261201-030000").Status.Phase != api.BackupCancelled {
		t.Error("it still goes on")
	}
}

// People make Backups of the cluster as well: they are waited for, left alone, and do
// not count.
func TestByHand(t *testing.T) {
	s := newSim(t, 1, monday)
	s.run(at("2026-12-05 02:55"))
	s.byHand("before-upgrade")
	s.run(at("2026-12-05 03:00"))
	s.run(at("2026-12-20 12:00"))
	if s.find("before-upgrade") == nil || len(s.complete()) != 3 {
		t.Errorf("kept %v", s.complete())
	}
	if a, b := s.find("before-upgrade"), "nightly-20261205-030000"; a.Status.Finished.After(at("2026-12-05 03:10")) || s.made[b] != 1 {
		t.Errorf("%+v, made %v", a.Status, s.made)
	}
}

// What fails is told, and goes in its time.
func TestIncomplete(t *testing.T) {
	s := newSim(t, 1, monday)
	bad := map[string]api.BackupPhase{}
	for day := 2; day <= 9; day++ {
		bad[fmt.Sprintf("nightly-202612%02d-030000", day)] = []api.BackupPhase{api.BackupFailed, api.BackupPartial}[day%2]
	}
	s.fate = func(b *api.Backup) (time.Duration, api.BackupPhase) {
		if as := bad[b.Name]; as != "" {
			return time.Minute, as
		}
		return time.Minute, api.BackupComplete
	}
	s.run(at("2026-12-02 12:00"))
	s.condition(api.ConditionOnTime, metav1.ConditionFalse, ReasonIncomplete)
	s.run(at("2026-12-09 12:00"))
	// Without a newer complete one nothing of the partial ones goes; of the failed ones
	// nothing is stored, and few stay as objects.
	var partial, failed int
	for _, b := range s.backups() {
		switch b.Status.Phase {
		case api.BackupPartial:
			partial++
		case api.BackupFailed:
			failed++
		}
	}
	if partial != 4 || failed != 1 || len(s.complete()) != 1 || s.heard("BackupForgotten") != 3 {
		t.Errorf("%d partial, %d failed, %d complete, told %d times", partial, failed, len(s.complete()), s.heard("BackupForgotten"))
	}
	s.run(at("2026-12-13 12:00"))
	for _, b := range s.backups() {
		if b.Status.Phase == api.BackupPartial {
			t.Errorf("%s is still there", b.Name)
		}
	}
	if s.heard("(Abandoned)") == 0 {
		t.Error("it is not said why they went")
	}
	if len(s.complete()) != 3 {
		t.Errorf("kept %v", s.complete())
	}
}

// A dry run says what it would delete, once, and deletes nothing.
func TestDryRun(t *testing.T) {
	s := newSim(t, 1, monday, func(s *api.BackupScheduleSpec) { s.Retention.DryRun = true })
	s.run(at("2026-12-08 12:00"))
	r := s.schedule().Status.Retention
	if len(s.gone) != 0 || len(s.complete()) != 8 || r == nil || !r.DryRun || len(r.Deleted) != 5 || r.Kept != 3 || s.heard("BackupWouldDelete") != 5 {
		t.Errorf("%+v, gone %v, told %d", r, s.gone, s.heard("BackupWouldDelete"))
	}
	s.edit(func(s *api.BackupScheduleSpec) { s.Retention.DryRun = false })
	s.run(at("2026-12-08 18:00"))
	if r = s.schedule().Status.Retention; len(s.complete()) != 3 || len(r.Deleted) != 5 || r.DryRun {
		t.Errorf("%+v, kept %v", r, s.complete())
	}
}
