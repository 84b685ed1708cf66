package scheduler

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/stategraft/stategraft/api/v1alpha1"
)

// The process ends before and after each of its writes in turn: no run is made twice,
// none is left out, and what is kept is what it should be. What is deleted is judged as
// it is deleted (sim.judge), that nothing is made twice as it is made (sim.create).
func TestKilledAtEachWrite(t *testing.T) {
	begin, end := at("2026-12-01 02:00"), at("2026-12-04 12:00")
	whole := newSim(t, 1, begin, func(s *api.BackupScheduleSpec) { s.Retention.KeepLast = new(int32(1)) })
	whole.run(end)
	if whole.wrote < 20 {
		t.Fatalf("only %d writes", whole.wrote)
	}
	for n := 1; n <= whole.wrote; n++ {
		for _, after := range []bool{false, true} {
			s := newSim(t, 1, begin, func(s *api.BackupScheduleSpec) { s.Retention.KeepLast = new(int32(1)) })
			s.killAt, s.after = n, after
			s.run(end)
			if fmt.Sprint(s.complete()) != fmt.Sprint(whole.complete()) || len(s.made) != len(whole.made) || len(s.storage) != 1 {
				t.Errorf("killed at write %d (after: %v): kept %v of %v, made %d of %d", n, after, s.complete(), whole.complete(), len(s.made), len(whole.made))
			}
			st, want := s.schedule().Status, whole.schedule().Status
			if st.Pending != "" || len(st.History) != len(want.History) || len(st.Retention.Deleted) != len(want.Retention.Deleted) {
				t.Errorf("killed at write %d (after: %v): %+v", n, after, st)
			}
		}
	}
}

// A process ends between saying that the data go and deleting the object, and by then
// they are to be kept: it has the policy again that it had.
func TestPolicyIsGivenBack(t *testing.T) {
	for _, policy := range []api.DeletionPolicy{api.DeletionKeep, api.DeletionDelete} {
		givenBack(t, policy)
	}
}

func givenBack(t *testing.T, policy api.DeletionPolicy) {
	t.Helper()
	for _, change := range []func(s *sim){
		func(s *sim) { s.edit(func(s *api.BackupScheduleSpec) { s.Retention.KeepLast = new(int32(5)) }) },
		func(s *sim) { s.edit(func(s *api.BackupScheduleSpec) { s.Suspend = true }) },
		func(s *sim) { s.edit(func(s *api.BackupScheduleSpec) { s.Retention = nil }) },
		func(s *sim) { s.failing = "timeout" },
	} {
		s := newSim(t, 1, at("2026-12-01 02:00"))
		s.edit(func(s *api.BackupScheduleSpec) { s.Template.Spec.DeletionPolicy = policy })
		s.run(at("2026-12-04 02:00"))
		s.killOn = "patch"
		s.onKill = func() {
			if b := s.find("nightly-20261201-030000"); b.Spec.DeletionPolicy != api.DeletionDelete || b.Annotations[api.AnnotationExpiring] == "" || b.DeletionTimestamp != nil {
				t.Errorf("%+v", b)
			}
			change(s)
		}
		s.run(at("2026-12-04 12:00"))
		if s.killOn != "" {
			t.Error("nothing was to be deleted")
		}
		b := s.find("nightly-20261201-030000")
		if b == nil {
			t.Error("it has gone")
			continue
		}
		if _, marked := b.Annotations[api.AnnotationExpiring]; b.Spec.DeletionPolicy != policy || marked {
			t.Errorf("%+v", b)
		}
		if r := s.schedule().Status.Retention; r != nil && !s.schedule().Spec.Suspend && len(r.Deleted) != 0 {
			t.Errorf("the status says that it was deleted: %+v", r.Deleted)
		}
	}
}

// Months of all that may go wrong: processes that end at any write, informers that are
// behind, storages that cannot be listed or show nothing, people that make, pin and
// delete Backups and restore them, schedules that change. In the end, left alone for
// three days, all is as it should be.
func TestChaos(t *testing.T) {
	seeds := uint64(6)
	if testing.Short() {
		seeds = 3
	}
	gone, made := 0, 0
	for seed := range seeds {
		s := chaos(t, seed)
		gone, made = gone+len(s.gone), made+len(s.made)
	}
	t.Logf("%d made, %d deleted", made, gone)
	if gone < 50 {
		t.Errorf("only %d were deleted", gone)
	}
}

func chaos(t *testing.T, seed uint64) *sim {
	r := rand.New(rand.NewPCG(36, seed))
	s := newSim(t, seed, monday, func(s *api.BackupScheduleSpec) {
		s.Schedule = []string{"0 */6 * * *", "0 */2 * * *", "30 2 * * *"}[r.IntN(3)]
		s.TimeZone = []string{"", "Europe/Berlin"}[r.IntN(2)]
		s.Jitter = &metav1.Duration{Duration: time.Duration(r.IntN(2)) * 20 * time.Minute}
		s.ConcurrencyPolicy = []api.ConcurrencyPolicy{api.ConcurrencyForbid, api.ConcurrencyReplace}[r.IntN(2)]
		s.Template.Spec.Timeout = &metav1.Duration{Duration: 3 * time.Hour}
		s.Template.Spec.DeletionPolicy = []api.DeletionPolicy{api.DeletionKeep, api.DeletionDelete}[r.IntN(2)]
	})
	fates := map[string]int{}
	calm := false
	s.fate = func(b *api.Backup) (time.Duration, api.BackupPhase) {
		n, ok := fates[b.Name]
		if !ok {
			n = r.IntN(20)
			fates[b.Name] = n
		}
		switch {
		case n == 0 && !calm && b.Labels[api.LabelSchedule] != "":
			return 0, "" // never over, until it is cancelled
		case n == 1 && !calm:
			return time.Minute, api.BackupFailed
		case n == 2 && !calm:
			return 20 * time.Minute, api.BackupPartial
		}
		return time.Duration(1+n*n) * time.Minute, api.BackupComplete
	}
	s.slow = func() bool { return !calm && r.IntN(4) == 0 }
	for range 40 {
		s.disturb(r)
		s.run(s.now.Add(time.Duration(1+r.IntN(600)) * time.Minute))
	}

	calm, s.failing, s.hidden, s.killAt = true, "", false, 0
	for _, restore := range s.restores() {
		s.must(s.server.Delete(context.Background(), &restore))
	}
	s.edit(func(s *api.BackupScheduleSpec) {
		s.Suspend, s.Retention.DryRun, s.Retention.KeepLast = false, false, new(int32(3))
	})
	for _, b := range s.backups() { // what people made and never ends is not waited for
		if !b.Status.Phase.Final() && b.Labels[api.LabelSchedule] == "" && !b.Spec.Cancel {
			b.Spec.Cancel = true
			s.must(s.server.Update(context.Background(), &b))
		}
	}
	s.run(s.now.AddDate(0, 0, 4))
	complete, pinned := s.complete(), 0
	for i, name := range complete {
		if i >= 3 && s.find(name).Spec.Pinned {
			pinned++
		}
	}
	if len(complete) != 3+pinned {
		st := s.schedule().Status
		t.Fatalf("seed %d: kept %v, %d pinned; %s; %+v", seed, complete, pinned, st.Message, st.Conditions)
	}
	st := s.schedule().Status
	if last, err := time.Parse("20060102-150405", complete[0][len("nightly-"):]); err != nil || s.now.Sub(last) > 30*time.Hour {
		t.Fatalf("seed %d: the newest is %s at %s, %s", seed, complete[0], s.now, st.Message)
	}
	if st.Pending != "" || st.LastComplete == nil || st.LastComplete.Backup != complete[0] {
		t.Fatalf("seed %d: %+v", seed, st)
	}
	return s
}

// disturb does one of the things that may happen.
func (s *sim) disturb(r *rand.Rand) {
	ctx := context.Background()
	all := s.backups()
	one := func() *api.Backup {
		if len(all) == 0 {
			return nil
		}
		return &all[r.IntN(len(all))]
	}
	switch b := one(); r.IntN(16) {
	case 0, 1, 2:
		s.killAt, s.after = s.wrote+1+r.IntN(8), r.IntN(2) == 0
	case 3:
		s.failing = []string{"timeout", ""}[r.IntN(2)]
	case 4:
		s.hidden = r.IntN(2) == 0
	case 5, 6:
		s.failing, s.hidden = "", false
	case 7:
		s.byHand(fmt.Sprintf("by-hand-%d", s.uid))
	case 8:
		if b != nil && b.DeletionTimestamp == nil {
			b.Spec.Pinned = r.IntN(4) == 0
			s.must(s.server.Update(ctx, b))
		}
	case 9:
		if b != nil && b.Status.Phase.Final() && b.DeletionTimestamp == nil {
			if b.Labels[api.LabelSchedule] == "" && r.IntN(2) == 0 {
				b.Spec.DeletionPolicy = api.DeletionDelete
				s.must(s.server.Update(ctx, b))
			}
			s.must(s.server.Delete(ctx, b))
		}
	case 10:
		if b != nil && b.Status.Phase == api.BackupComplete {
			restore := &api.Restore{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: fmt.Sprintf("r-%d", s.uid)}}
			s.must(s.create(restore))
			restore.Status = api.RestoreStatus{Backup: b.Status.Name, Phase: api.RestoreRestoring, Started: new(stamp(s.now)), Pods: []api.PodRestore{{Name: []string{"c-0", "other-0"}[r.IntN(2)]}}}
			s.must(s.server.Status().Update(ctx, restore))
		}
	case 11:
		for _, restore := range s.restores() {
			s.must(s.server.Delete(ctx, &restore))
		}
	case 12:
		s.edit(func(spec *api.BackupScheduleSpec) { spec.Suspend = r.IntN(3) == 0 })
	case 13:
		s.edit(func(spec *api.BackupScheduleSpec) { spec.Retention.KeepLast = new(int32(1 + r.IntN(5))) })
	case 14:
		s.edit(func(spec *api.BackupScheduleSpec) { spec.Retention.DryRun = r.IntN(3) == 0 })
	case 15: // away
		s.now = s.now.Add(time.Duration(r.IntN(72)) * time.Hour)
		s.restart()
	}
	s.due = s.now
}
