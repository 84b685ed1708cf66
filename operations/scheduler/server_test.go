package scheduler

import (
	"context"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/stategraft/stategraft/api/node"
	api "github.com/stategraft/stategraft/api/v1alpha1"
)

func fakeServer(t *testing.T, objects ...client.Object) client.Client {
	t.Helper()
	s := runtime.NewScheme()
	if err := api.AddToScheme(s); err != nil {
		t.Fatal(err)
	}
	return fake.NewClientBuilder().WithScheme(s).WithStatusSubresource(&api.Backup{}, &api.BackupSchedule{}).WithIndex(&api.Backup{}, indexCluster, keysOf).WithObjects(objects...).Build()
}

// The controller by the client of an API server: two Backups, of which one is to go.
func TestByClient(t *testing.T) {
	ctx, now := context.Background(), at("2026-12-03 02:59")
	schedule := &api.BackupSchedule{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: "nightly", UID: "s", CreationTimestamp: metav1.NewTime(monday)},
		Spec: api.BackupScheduleSpec{Schedule: "0 3 * * *", Retention: &api.BackupRetention{KeepLast: new(int32(1))},
			Template: api.BackupTemplate{Metadata: api.BackupTemplateMetadata{Labels: map[string]string{"team": "a"}}, Spec: api.BackupSpec{Pods: &api.BackupPods{Names: []string{"c-0"}}}}}}
	complete := func(day int) *api.Backup {
		start := at("2026-12-01 03:00").AddDate(0, 0, day-1)
		b := &api.Backup{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: "nightly-" + start.Format("20060102-150405"), UID: types.UID(start.String()), CreationTimestamp: metav1.NewTime(start), Labels: map[string]string{api.LabelSchedule: "nightly"}}}
		b.Status = api.BackupStatus{Name: "in-storage-" + b.Name, Prefix: "p", Phase: api.BackupComplete, Objects: 3, Started: new(metav1.NewTime(start)), Finished: new(metav1.NewTime(start.Add(time.Minute)))}
		return b
	}
	c := fakeServer(t, schedule, complete(1), complete(2))
	told := &sim{t: t}
	catalogue := CatalogueFunc(func(_ context.Context, namespace, prefix string, _ time.Duration) Listing {
		return Listing{Namespace: namespace, Prefix: prefix, Listed: now, Backups: []node.Summary{{Name: complete(1).Status.Name, Complete: true}, {Name: complete(2).Status.Name, Complete: true}}}
	})
	nobody := ClaimsFunc(func(string, string) (string, types.NamespacedName, bool) { return "", types.NamespacedName{}, false })
	r := newReconciler(c, c, server{c}, told, Options{Catalogue: catalogue, Claims: nobody, Clock: func() time.Time { return now }})
	look := func() reconcile.Result {
		t.Helper()
		result, err := r.Reconcile(ctx, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(schedule)})
		if err != nil {
			t.Fatal(err)
		}
		return result
	}
	if result := look(); result.RequeueAfter != time.Minute {
		t.Errorf("looks again in %s", result.RequeueAfter)
	}
	var old api.Backup
	if err := c.Get(ctx, client.ObjectKeyFromObject(complete(1)), &old); err != nil {
		t.Fatal(err)
	}
	if old.DeletionTimestamp == nil || old.Spec.DeletionPolicy != api.DeletionDelete || len(old.Finalizers) != 1 || old.Annotations[api.AnnotationExpiring] != "Expired" {
		t.Errorf("%+v %+v", old.ObjectMeta, old.Spec)
	}
	stale := old.DeepCopy()
	stale.ResourceVersion = "1"
	if err := (server{c}).patchBackup(ctx, stale, stale.DeepCopy()); !apierrors.IsConflict(err) {
		t.Errorf("a Backup of a version that is not there is patched: %v", err)
	}
	if err := (server{c}).deleteBackup(ctx, stale); !apierrors.IsConflict(err) {
		t.Errorf("and deleted: %v", err)
	}

	old.Finalizers = nil
	if err := c.Update(ctx, &old); err != nil {
		t.Fatal(err)
	}
	now = at("2026-12-03 03:00")
	look()
	look()
	var made api.Backup
	if err := c.Get(ctx, types.NamespacedName{Namespace: "prod", Name: "nightly-20261203-030000"}, &made); err != nil {
		t.Fatal(err)
	}
	if made.Labels["team"] != "a" || made.Labels[api.LabelSchedule] != "nightly" || made.Annotations[AnnotationScheduled] != "2026-12-03T03:00:00Z" || len(made.OwnerReferences) != 0 || made.Spec.Pods.Names[0] != "c-0" {
		t.Errorf("%+v", made)
	}
	if err := c.Get(ctx, client.ObjectKeyFromObject(schedule), schedule); err != nil {
		t.Fatal(err)
	}
	if st := schedule.Status; st.Pending != "" || st.Active != made.Name || st.LastScheduled == nil || !st.LastScheduled.Time.Equal(now) {
		t.Errorf("%+v", st)
	}
	if told.heard("BackupDeleted") != 1 {
		t.Error(told.told)
	}
}

func TestMetrics(t *testing.T) {
	s := newSim(t, 1, at("2026-12-01 02:00"))
	s.run(at("2026-12-04 02:00"))
	s.failing = "timeout"
	s.run(at("2026-12-04 12:00"))
	exported.set(s.schedules())
	defer exported.set(nil)
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(exported)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range families {
		got[f.GetName()] = f.GetMetric()[0].GetGauge().GetValue()
	}
	want := map[string]float64{
		"stategraft_schedule_last_complete_timestamp_seconds": float64(at("2026-12-04 03:10").Unix()), "stategraft_schedule_next_timestamp_seconds": float64(at("2026-12-05 03:00").Unix()),
		"stategraft_schedule_missed": 0, "stategraft_schedule_on_time": 1, "stategraft_schedule_suspended": 0, "stategraft_retention_held": 1,
	}
	for name, value := range want {
		if have, ok := got[name]; !ok || have != value {
			t.Errorf("%s is %v (%v), want %v", name, have, ok, value)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%v", got)
	}
}

// Who is looked at again when a Backup changes, and when nobody is.
func TestConcerned(t *testing.T) {
	schedule := func(name, held string) *api.BackupSchedule {
		s := &api.BackupSchedule{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: name}}
		if held != "" {
			s.Status.Retention = &api.RetentionStatus{Held: held}
		}
		return s
	}
	c := fakeServer(t, schedule("nightly", ""), schedule("weekly", "BackupActive"), schedule("monthly", ""))
	b := &api.Backup{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: "b", Labels: map[string]string{api.LabelSchedule: "nightly"}}, Status: api.BackupStatus{Phase: api.BackupRunning}}
	if got := concerned(context.Background(), c, b); len(got) != 1 || got[0].Name != "nightly" {
		t.Errorf("of one that runs: %v", got)
	}
	over := b.DeepCopy()
	over.Status.Phase = api.BackupComplete
	if got := concerned(context.Background(), c, over); len(got) != 2 || got[1].Name != "weekly" {
		t.Errorf("of one that is over: %v", got)
	}
	if !matters.Update(event.TypedUpdateEvent[*api.Backup]{ObjectOld: b, ObjectNew: over}) {
		t.Error("that it is over does not matter")
	}
	further := b.DeepCopy()
	further.Status.Progress.Pods, further.ResourceVersion = "2/3", "7"
	if matters.Update(event.TypedUpdateEvent[*api.Backup]{ObjectOld: b, ObjectNew: further}) {
		t.Error("how far it is matters")
	}
}
