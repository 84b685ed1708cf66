package scheduler

import (
	"strings"
	"testing"

	api "github.com/stategraft/stategraft/api/v1alpha1"
)

// onlySchedules has the informer of Backups hear nothing from now on, while that of
// schedules does.
func (s *sim) onlySchedules() {
	s.slow = func() bool {
		for id, o := range s.server.objects {
			if strings.HasPrefix(id, "backupschedules/") {
				s.cached.objects[id] = o
			}
		}
		return true
	}
}

// The informer of Backups is behind: of several to go one goes, as the first is known to
// be on its way.
func TestOneAtATimeThoughBehind(t *testing.T) {
	s := newSim(t, 1, at("2026-12-01 02:00"))
	s.run(at("2026-12-03 12:00"))
	s.onlySchedules()
	s.edit(func(s *api.BackupScheduleSpec) { s.Retention.KeepLast = new(int32(1)) })
	s.reconcile()
	s.reconcile()
	wrote := s.wrote
	for range 3 {
		s.reconcile()
	}
	if len(s.gone) != 1 || s.wrote != wrote {
		t.Errorf("gone %v, and %d writes are tried meanwhile", s.gone, s.wrote-wrote)
	}
	s.slow = func() bool { return false }
	s.run(at("2026-12-03 13:00"))
	if len(s.gone) != 2 || len(s.complete()) != 1 {
		t.Errorf("gone %v, kept %v", s.gone, s.complete())
	}
}

// A backup runs that the informer has not told of: nothing is deleted next to it.
func TestNotNextToABackupThoughBehind(t *testing.T) {
	s := newSim(t, 1, at("2026-12-01 02:00"))
	s.run(at("2026-12-03 12:00"))
	s.onlySchedules()
	s.byHand("before-upgrade")
	s.operate()
	s.edit(func(s *api.BackupScheduleSpec) { s.Retention.KeepLast = new(int32(1)) })
	s.reconcile()
	if len(s.gone) != 0 || s.schedule().Status.Retention.Held != "BackupActive" {
		t.Errorf("gone %v, %+v", s.gone, s.schedule().Status.Retention)
	}
}

// The newest complete one was deleted by somebody a moment ago, or a Restore has begun
// to read the one that is to go: what is asked of the API server says so.
func TestFreshBeforeDeleting(t *testing.T) {
	for name, happens := range map[string]func(s *sim){
		"the newest has gone": func(s *sim) {
			b := s.find("nightly-20261203-030000")
			b.Finalizers = nil
			s.must(s.server.Update(t.Context(), b))
			s.must(s.server.Delete(t.Context(), b))
		},
		"the newest is going": func(s *sim) {
			b := s.find("nightly-20261203-030000")
			b.Spec.DeletionPolicy = api.DeletionDelete
			s.must(s.server.Update(t.Context(), b))
			s.must(s.server.Delete(t.Context(), s.find(b.Name)))
		},
		"it is restored": func(s *sim) {
			r := &api.Restore{}
			r.Namespace, r.Name = "prod", "r"
			s.must(s.create(r))
			r.Status = api.RestoreStatus{Phase: api.RestoreChecking, Backup: s.find("nightly-20261201-030000").Status.Name}
			s.must(s.server.Status().Update(t.Context(), r))
		},
		"it is pinned": func(s *sim) {
			b := s.find("nightly-20261201-030000")
			b.Spec.Pinned = true
			s.must(s.server.Update(t.Context(), b))
		},
	} {
		s := newSim(t, 1, at("2026-12-01 02:00"))
		s.run(at("2026-12-03 12:00"))
		s.onlySchedules()
		happens(s)
		s.edit(func(s *api.BackupScheduleSpec) { s.Retention.KeepLast = new(int32(2)) })
		for range 3 {
			s.reconcile()
		}
		if len(s.gone) != 0 {
			t.Errorf("%s: gone %v", name, s.gone)
		}
	}
}

// A backup ends while the storage is listed: that the listing does not have it is no
// reason to wait for minutes, and none to delete.
func TestEndsWhileListing(t *testing.T) {
	s := newSim(t, 1, at("2026-12-01 02:00"))
	s.run(at("2026-12-03 12:00"))
	s.edit(func(s *api.BackupScheduleSpec) { s.Retention.KeepLast = new(int32(1)) })
	s.whileListing = func() {
		s.byHand("before-upgrade")
		s.operate()
		s.finish(s.find("before-upgrade"), api.BackupComplete)
		s.sync()
	}
	s.reconcile()
	if r := s.schedule().Status.Retention; s.whileListing != nil || len(s.gone) != 0 || r != nil && r.Held != "" {
		t.Errorf("listed %v, gone %v, %+v", s.whileListing == nil, s.gone, r)
	}
	s.run(at("2026-12-03 12:02"))
	if r := s.schedule().Status.Retention; len(s.gone) == 0 || r.Held == "ListShort" {
		t.Errorf("gone %v two minutes later, %+v", s.gone, r)
	}
}
