package scheduler

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/stategraft/stategraft/api/node"
	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/schedule/retention"
)

// What holds retention is said once, and nothing is deleted meanwhile; when it is over,
// what was to go goes.
func TestHeld(t *testing.T) {
	for _, tt := range []struct {
		reason    string
		says      string
		begin     func(s *sim)
		end       func(s *sim)
		told      int
		condition metav1.ConditionStatus
	}{
		{"ListFailed", "the storage cannot be listed: timeout", func(s *sim) { s.failing = "timeout" }, func(s *sim) { s.failing = "" }, 1, metav1.ConditionFalse},
		{"ListEmpty", "has its bucket, prefix or login changed?", func(s *sim) { s.hidden = true }, func(s *sim) { s.hidden = false }, 1, metav1.ConditionFalse},
		{"RestoreActive", "restore r of the cluster is not over", func(s *sim) {
			r := &api.Restore{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: "r"}}
			s.must(s.create(r))
			r.Status = api.RestoreStatus{Phase: api.RestoreRestoring, Started: new(stamp(s.now)), Pods: []api.PodRestore{{Name: "c-0"}}}
			s.must(s.server.Status().Update(context.Background(), r))
		}, func(s *sim) {
			for _, r := range s.restores() {
				s.must(s.server.Delete(context.Background(), &r))
			}
		}, 0, metav1.ConditionFalse},
		{"NameUnsafe", "delete in the bucket, below the prefix, the folder database-1 of each node and index/backup_index/database-1", func(s *sim) {
			s.storage["database-1"] = &node.Summary{Name: "database-1", Started: s.now.AddDate(0, -1, 0), Finished: s.now.AddDate(0, -1, 0), Complete: true}
		}, func(s *sim) { delete(s.storage, "database-1") }, 1, metav1.ConditionFalse},
		{"BackupActive", "backup someone-elses", func(s *sim) { // that has no object
			s.storage["someone-elses"] = &node.Summary{Name: "someone-elses", Started: s.now}
		}, func(s *sim) { s.storage["someone-elses"].Complete = true }, 0, metav1.ConditionFalse},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			s := newSim(t, 1, at("2026-12-01 02:00"))
			s.run(at("2026-12-04 02:00"))
			tt.begin(s)
			s.run(at("2026-12-04 12:00"))
			s.condition(api.ConditionRetained, tt.condition, tt.reason)
			r := s.schedule().Status.Retention
			if len(s.gone) != 0 || r.Held != tt.reason || !strings.Contains(r.Waiting, tt.says) || s.heard("RetentionHeld") != tt.told {
				t.Errorf("gone %v, told %d: %+v", s.gone, s.heard("RetentionHeld"), r)
			}
			before := s.writes["status"]
			s.run(at("2026-12-04 18:00"))
			if s.writes["status"] != before {
				t.Errorf("%d writes while nothing happens", s.writes["status"]-before)
			}
			tt.end(s)
			s.run(at("2026-12-04 20:00"))
			s.condition(api.ConditionRetained, metav1.ConditionTrue, ReasonRetained)
			if len(s.gone) != 1 || s.gone[0] != "nightly-20261201-030000" {
				t.Errorf("gone %v", s.gone)
			}
		})
	}
}

// Data that cannot be deleted are told of.
func TestDeletionWaits(t *testing.T) {
	s := newSim(t, 1, at("2026-12-01 02:00"))
	s.busy = 1000 * time.Hour
	s.run(at("2026-12-04 12:00"))
	b := s.find("nightly-20261201-030000")
	b.Status.Conditions[0].Reason, b.Status.Conditions[0].Message = "NoSidecar", "no pod of the cluster runs"
	s.must(s.server.Status().Update(context.Background(), b))
	s.due = s.now
	s.run(at("2026-12-04 13:00"))
	s.condition(api.ConditionRetained, metav1.ConditionFalse, ReasonDeletionWaits)
	if s.heard("no pod of the cluster runs") != 1 {
		t.Error(s.told)
	}
}

func TestRefused(t *testing.T) {
	s := newSim(t, 1, monday, func(s *api.BackupScheduleSpec) { s.Schedule = "0 3 31 2 *" })
	s.run(monday.AddDate(0, 0, 3))
	s.condition(api.ConditionAccepted, metav1.ConditionFalse, ReasonInvalidSchedule)
	s.condition(api.ConditionOnTime, metav1.ConditionFalse, ReasonNotFollowed)
	if st := s.schedule().Status; len(s.made) != 0 || st.Next != nil || !strings.Contains(st.Message, "never comes") || s.heard("ScheduleRefused") != 1 {
		t.Errorf("%+v, %v", st, s.told)
	}
	s.edit(func(s *api.BackupScheduleSpec) { s.Schedule = "0 3 * * *" })
	s.run(monday.AddDate(0, 0, 4))
	s.condition(api.ConditionAccepted, metav1.ConditionTrue, ReasonAccepted)
	if len(s.made) != 1 {
		t.Errorf("made %v: what was before the change is not made up for", s.made)
	}
}

// refusing does not take Backups.
type refusing struct {
	*sim
	err error
}

func (r refusing) createBackup(ctx context.Context, b *api.Backup) error {
	if r.err != nil {
		return r.err
	}
	return r.sim.createBackup(ctx, b)
}

// A Backup that the API server does not take is told of and asked for again, and given
// up for the next run.
func TestNotMade(t *testing.T) {
	s := newSim(t, 1, monday)
	s.it.store = refusing{s, apierrors.NewForbidden(api.GroupVersion.WithResource("backups").GroupResource(), "x", errors.New("exceeded quota"))}
	s.run(at("2026-12-01 09:00"))
	s.condition(api.ConditionOnTime, metav1.ConditionFalse, ReasonNotMade)
	if st := s.schedule().Status; st.Pending != "nightly-20261201-030000" || !strings.Contains(st.Message, "exceeded quota") || s.heard("BackupLate") != 1 || s.writes["status"] > 4 {
		t.Errorf("%+v, %v, %v", st, s.told, s.writes)
	}
	s.run(at("2026-12-02 09:00"))
	if st := s.schedule().Status; st.Pending != "nightly-20261202-030000" || len(st.History) != 2 || st.History[1].Outcome != api.RunSkipped || st.Missed != 1 {
		t.Errorf("%+v", st)
	}
	s.it.store = s
	s.run(at("2026-12-02 12:00"))
	s.condition(api.ConditionOnTime, metav1.ConditionTrue, ReasonOnTime)
	if st := s.schedule().Status; len(s.made) != 1 || st.Pending != "" || st.Missed != 0 {
		t.Errorf("%+v", st)
	}
}

// A Backup of a run's name that is another's is left alone.
func TestNameTaken(t *testing.T) {
	s := newSim(t, 1, monday)
	s.byHand("nightly-20261201-030000")
	s.run(at("2026-12-01 09:00"))
	s.condition(api.ConditionOnTime, metav1.ConditionFalse, ReasonNotMade)
	s.run(at("2026-12-02 09:00"))
	s.condition(api.ConditionOnTime, metav1.ConditionTrue, ReasonOnTime)
	if len(s.made) != 2 || s.find("nightly-20261201-030000").Labels[api.LabelSchedule] != "" {
		t.Errorf("made %v", s.made)
	}
}

// The status is lost, as by a tool that writes objects anew: no run is made again.
func TestStatusLost(t *testing.T) {
	s := newSim(t, 1, monday)
	s.run(at("2026-12-04 12:00"))
	b := s.schedule()
	b.Status = api.BackupScheduleStatus{}
	s.must(s.server.Status().Update(context.Background(), b))
	s.restart()
	s.run(at("2026-12-05 12:00"))
	if len(s.made) != 5 || len(s.complete()) != 3 {
		t.Errorf("made %v", s.made)
	}
}

func TestItems(t *testing.T) {
	now := at("2026-12-10 12:00")
	backup := func(namespace, name string, found bool, phase api.BackupPhase) *api.Backup {
		b := &api.Backup{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(namespace + name)}}
		b.Status = api.BackupStatus{Name: name, Prefix: "p", Phase: phase, Started: new(stamp(now.Add(-time.Hour))), Objects: 1}
		if found {
			b.Spec.Existing = &api.ExistingBackup{Name: name, Prefix: "p"}
		}
		return b
	}
	schedule := &api.BackupSchedule{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "nightly"}}
	elsewhere := backup("a", "old", false, api.BackupComplete)
	elsewhere.Status.Prefix = "q"
	leaving := backup("a", "leaving", false, api.BackupComplete)
	leaving.DeletionTimestamp = new(metav1.NewTime(now))
	stale := backup("a", "stale", true, api.BackupRunning)
	stale.Status.Started = new(stamp(now.AddDate(0, 0, -2)))
	w := &world{
		own: []*api.Backup{backup("a", "made", false, api.BackupComplete), backup("a", "found", true, api.BackupComplete), backup("a", "shared", true, api.BackupComplete), elsewhere, leaving,
			backup("a", "foreign-running", true, api.BackupRunning), stale},
		others: []*api.Backup{backup("b", "made", true, api.BackupComplete), backup("b", "shared", false, api.BackupComplete), backup("b", "other-bucket", false, api.BackupComplete), backup("b", "other-running", false, api.BackupRunning)},
	}
	// It was restored on trial, and is again: what came of the first is in the condition.
	trial := w.own[0]
	trial.Status.Verified = &api.Verification{Result: api.VerificationRunning}
	trial.Status.Conditions = []metav1.Condition{{Type: api.ConditionVerified, Status: metav1.ConditionTrue}}
	if it := w.item(trial, now); !it.Verified || it.UsedBy == "" || w.item(w.own[1], now).Verified {
		t.Errorf("%+v", it)
	}
	listing := &Listing{Listed: now, Backups: []node.Summary{{Name: "made", Complete: true}, {Name: "shared", Complete: true}, {Name: "nobody", Complete: true}}}
	got := map[string]string{}
	for _, it := range w.take(schedule, "p", listing, now).items {
		text := string(it.State)
		if it.Own {
			text += " own"
		}
		if it.Listed {
			text += " listed"
		}
		got[it.Name] = text
	}
	want := map[string]string{
		"made": "Complete own listed", "found": "Complete own", "shared": "Complete listed", "leaving": "Complete", "foreign-running": "Active own", "stale": "Incomplete own",
		"other-running": "Active", "nobody": "Complete listed",
	}
	for name, text := range want {
		if got[name] != text {
			t.Errorf("%s is %q, want %q", name, got[name], text)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%v", got)
	}
}

func TestPolicy(t *testing.T) {
	p, err := policy(&api.BackupRetention{KeepLast: new(int32(1)), KeepDaily: new(int32(2)), KeepWeekly: new(int32(3)), KeepMonthly: new(int32(4)), KeepWithin: "36h", Incomplete: "2w", DryRun: true})
	want := retention.Policy{Last: 1, Daily: 2, Weekly: 3, Monthly: 4, Within: 36 * time.Hour, Incomplete: 14 * 24 * time.Hour, DryRun: true}
	if err != nil || *p != want {
		t.Errorf("%+v, %v", p, err)
	}
	if _, err := policy(&api.BackupRetention{KeepWithin: "1y"}); err == nil || !strings.Contains(err.Error(), "keepWithin") {
		t.Error(err)
	}
}
