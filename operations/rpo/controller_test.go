package rpo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/coverage"
	"github.com/stategraft/stategraft/workload"
)

// A workload falls behind, which is told once, by event and condition, and catches up.
func TestFallsBehind(t *testing.T) {
	b1, schedule := backup("b1", 9*time.Hour), scheduled("nightly", "0 3 * * *")
	w := newWorld(t, namespace("prod", nil), pod("prod", "db-0", "db"), &b1, &schedule)
	if again := w.look(0); again != DefaultEvery {
		t.Errorf("again after %v", again)
	}
	w.told()
	if got, want := w.condition("nightly"), "True WithinRPO: the last complete backup of each of its pods is within its RPO"; got != want {
		t.Errorf("%s", got)
	}
	if got, want := w.scrape(), "backup_age_seconds prod db 32400\npods_behind_rpo prod db 0\npods_without_backup prod 0"; got != want {
		t.Errorf("%s", got)
	}
	for range 10 {
		w.look(time.Hour)
	}
	if w.writes != 1 {
		t.Errorf("the status is written %d times with nothing new", w.writes)
	}
	w.look(30 * time.Hour)
	w.told("Warning BackupBehind 1 of 1 pod: db-0: its last complete backup, b1, is 2d1h old", "Warning BackupBehind 1 of 1 pod without a complete backup")
	if got, want := w.condition("nightly"), "False TooOld: 1 of 1 pod without a complete backup within the RPO of 2d: db-0 (TooOld, last b1)"; got != want {
		t.Errorf("%s", got)
	}
	if got := w.scrape(); !strings.Contains(got, "pods_behind_rpo prod db 1") || !strings.Contains(got, "backup_age_seconds prod db 176400") {
		t.Errorf("%s", got)
	}
	w.look(time.Hour)
	w.told()
	if w.writes != 2 {
		t.Errorf("the status is written %d times", w.writes)
	}
	b2 := backup("b2", -41*time.Hour)
	if err := w.c.Create(t.Context(), &b2); err != nil {
		t.Fatal(err)
	}
	w.look(time.Hour)
	w.told("Normal BackupCaughtUp", "Normal BackupCaughtUp")
	if got := w.condition("nightly"); !strings.HasPrefix(got, "True WithinRPO") {
		t.Errorf("%s", got)
	}
}

// The next process tells of the workload once more, and of the schedule not.
func TestStartsAnew(t *testing.T) {
	b1, schedule := backup("b1", 9*day), scheduled("nightly", "0 3 * * *")
	w := newWorld(t, namespace("prod", nil), pod("prod", "db-0", "db"), &b1, &schedule)
	w.look(0)
	w.told("BackupBehind", "BackupBehind")
	w.reconciler.tell, w.reconciler.last = &teller{status: w.c, events: w.events}, time.Time{}
	w.look(0)
	w.told("BackupBehind 1 of 1 pod: db-0")
	if w.writes != 1 {
		t.Errorf("%d writes", w.writes)
	}
}

// Which pods are looked at: those of labelled namespaces, with a sidecar or without.
func TestWhichPods(t *testing.T) {
	left := namespace("left", nil)
	left.Labels = nil
	done, cloudburst := pod("prod", "done", "db"), pod("prod", "fn-0", "fn")
	done.Status.Phase, cloudburst.Labels[api.LabelInjected] = corev1.PodSucceeded, "cloudburst"
	w := newWorld(t, namespace("prod", map[string]string{api.AnnotationRPO: "1d"}), left, namespace("stategraft-system", nil),
		pod("prod", "db-0", "db"), pod("left", "db-0", "db"), pod("stategraft-system", "db-0", "db"), done, cloudburst)
	bare := func(namespace, name string, kind workload.Kind) coverage.Uncovered {
		p := &metav1.PartialObjectMetadata{ObjectMeta: pod(namespace, name, "db").ObjectMeta}
		p.Labels = map[string]string{"app": "db"}
		return coverage.Uncovered{Pod: p, Kind: kind, Reason: "webhook-was-down"}
	}
	w.uncovered = []coverage.Uncovered{bare("prod", "db-1", workload.KindCassandra), bare("left", "db-1", workload.KindCassandra),
		bare("prod", "db-0", workload.KindCassandra), bare("prod", "fn-1", workload.KindCloudburst)}
	w.look(0)
	in, err := w.from.gather(t.Context(), now)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range Rows(in) {
		got = append(got, fmt.Sprintf("%s/%s %s %s", r.Namespace, r.Pod, r.Sidecar, r.Reason))
	}
	if want := []string{"prod/db-0 injected NoBackup", "prod/db-1 missing NoSidecar"}; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	w.told("BackupBehind 2 of 2 pods: db-0: it has had no complete backup for 30d")
	if got, want := w.scrape(), "pods_behind_rpo prod db 2\npods_without_backup prod 2"; got != want {
		t.Errorf("%s", got)
	}
}

// Pods come without their labels: those that a schedule selects by them are asked for,
// and that seldom.
func TestSelector(t *testing.T) {
	schedule := scheduled("nightly", "0 3 * * *", func(s *api.BackupSchedule) {
		s.UID, s.Generation = "u", 1
		s.Spec.Template.Spec.Pods = &api.BackupPods{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}}}
	})
	member, other := pod("prod", "db-0", "db"), pod("prod", "x-0", "x")
	member.Labels["app"] = "db"
	w := newWorld(t, namespace("prod", nil), member, other, &schedule)
	w.cacheSlim()
	w.look(0)
	if got, want := w.condition("nightly"), "False NoBackup: 1 of 1 pod without a complete backup within the RPO of 2d: db-0 (NoBackup, none)"; got != want {
		t.Errorf("%s", got)
	}
	for range 4 {
		w.look(time.Minute)
	}
	if w.lists != 1 {
		t.Errorf("pods were listed %d times", w.lists)
	}
	w.look(selectEvery)
	if w.lists != 2 {
		t.Errorf("pods were listed %d times", w.lists)
	}
}

// cacheSlim has the cache keep of pods' labels what it keeps.
func (w *world) cacheSlim() {
	w.from.cached = interceptor.NewClient(w.c.(client.WithWatch), interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			err := c.List(ctx, list, opts...)
			if pods, ok := list.(*corev1.PodList); ok {
				for i := range pods.Items {
					pods.Items[i].Labels = map[string]string{api.LabelInjected: pods.Items[i].Labels[api.LabelInjected]}
				}
			}
			return err
		},
	})
}

// A value that cannot be read is told once on the workload.
func TestBadAnnotation(t *testing.T) {
	w := newWorld(t, namespace("prod", map[string]string{api.AnnotationRPO: "soon"}), pod("prod", "db-0", "db"), pod("prod", "db-1", "db"))
	w.look(0)
	w.told(`BackupAnnotationBad annotation stategraft.io/rpo of the namespace is "soon": it takes a time`)
	w.look(time.Minute)
	w.told()
}

// What somebody else has written meanwhile is written over at no time, and read again
// soon.
func TestConflict(t *testing.T) {
	b1, schedule := backup("b1", 9*time.Hour), scheduled("nightly", "0 3 * * *")
	w := newWorld(t, namespace("prod", nil), pod("prod", "db-0", "db"), &b1, &schedule)
	w.fail = apierrors.NewConflict(schema.GroupResource{Resource: "backupschedules"}, "nightly", errors.New("changed"))
	if again := w.look(0); again != atMost {
		t.Errorf("again after %v", again)
	}
	w.fail = errors.New("no right to")
	w.clock = w.clock.Add(time.Minute)
	if _, err := w.Reconcile(t.Context(), all); err == nil || !strings.Contains(err.Error(), "BackupSchedule prod/nightly: no right to") {
		t.Errorf("%v", err)
	}
	w.fail = nil
	w.look(time.Minute)
	if got := w.condition("nightly"); !strings.HasPrefix(got, "True") {
		t.Errorf("%s", got)
	}
}

// Backups that end one after the other do not have all looked at each time.
func TestNotTooOften(t *testing.T) {
	w := newWorld(t, namespace("prod", nil))
	w.look(0)
	if again := w.look(500 * time.Millisecond); again != 1500*time.Millisecond {
		t.Errorf("again after %v", again)
	}
	if again := w.look(1500 * time.Millisecond); again != DefaultEvery {
		t.Errorf("again after %v", again)
	}
	if again := w.look(-time.Hour); again != DefaultEvery { // a clock that is set back
		t.Errorf("again after %v", again)
	}
}

func TestConditionOf(t *testing.T) {
	row := func(name string, reason Reason, behind bool, last *api.Backup, rpo time.Duration) *Row {
		return &Row{Pod: name, Reason: reason, Behind: behind, Last: last, RPO: rpo}
	}
	b := pointer(backup("b1", day))
	many := make([]*Row, 0, 9)
	for i := range 9 {
		many = append(many, row(fmt.Sprintf("db-%d", i), ReasonTooOld, i > 1, b, day))
	}
	for want, rows := range map[string][]*Row{
		"Unknown NoPods: there are no pods that it backs up":                                                   nil,
		"Unknown NoRPO: its pods have no RPO":                                                                  {row("db-0", ReasonNoRPO, false, b, 0)},
		"True Awaited: the first complete backup of 1 of 2 pods is awaited":                                    {row("db-0", ReasonWithin, false, b, day), row("db-1", ReasonAwaited, false, nil, day)},
		"True WithinRPO: the last complete backup of each of its pods is within":                               {row("db-0", ReasonWithin, false, b, day)},
		"False NoSidecar: 1 of 2 pods without a complete backup within the RPO of 24h: db-1 (NoSidecar, none)": {row("db-0", ReasonWithin, false, b, day), row("db-1", ReasonNoSidecar, true, nil, day)},
		"False TooOld: 7 of 9 pods without a complete backup within the RPO of 24h: db-2 (TooOld, last b1), db-3 (TooOld, last b1), db-4 (TooOld, last b1), db-5 (TooOld, last b1), db-6 (TooOld, last b1), and 2 more": many,
	} {
		c := conditionOf(&api.BackupSchedule{}, rows, now)
		if got := fmt.Sprintf("%s %s: %s", c.Status, c.Reason, c.Message); !strings.HasPrefix(got, want) {
			t.Errorf("%s\nwant %s", got, want)
		}
	}
}

// Two workloads of a name are one series.
func TestSeriesOfAName(t *testing.T) {
	w := newWorld(t)
	b := backup("b1", day)
	rows := []Row{{Namespace: "a", Workload: "db", WorkloadKind: "StatefulSet", RPO: day, Behind: true, Last: &b, LastStarted: now.Add(-day)},
		{Namespace: "a", Workload: "db", WorkloadKind: "CassandraSet", RPO: day, Behind: true, Last: &b, LastStarted: now.Add(-2 * day)},
		{Namespace: "a", Workload: "anna", Reason: ReasonAwaited}}
	w.out.figures.Store(figuresOf(rows, w.now))
	if got, want := w.scrape(), "backup_age_seconds a db 172800\npods_behind_rpo a db 2\npods_without_backup a 1"; got != want {
		t.Errorf("%s", got)
	}
	w.out.figures.Store(nil)
	if got := w.scrape(); got != "" {
		t.Errorf("of one that does not lead:\n%s", got)
	}
}
