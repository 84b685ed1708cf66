package backup

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/removal"
)

func TestRelease(t *testing.T) {
	for name, c := range map[string]struct {
		change      func(b *api.Backup)
		terminating bool
		want        string // in why; empty where the data go first
		warn        bool
	}{
		"its data go":              {func(*api.Backup) {}, false, "", false},
		"kept":                     {func(b *api.Backup) { b.Spec.DeletionPolicy = api.DeletionKeep }, false, "by its deletionPolicy", false},
		"kept, as nothing is said": {func(b *api.Backup) { b.Spec.DeletionPolicy = "" }, false, "by its deletionPolicy", false},
		"pinned":                   {func(b *api.Backup) { b.Spec.Pinned = true }, false, "pinned", false},
		"the namespace goes":       {func(*api.Backup) {}, true, "namespace is being deleted", true},
		"kept, the namespace goes": {func(b *api.Backup) { b.Spec.DeletionPolicy = api.DeletionKeep }, true, "by its deletionPolicy", false},
		"never accepted":           {func(b *api.Backup) { b.Status = api.BackupStatus{} }, false, "nothing of it", false},
		"no pod was asked":         {func(b *api.Backup) { b.Status.Pods = []api.PodBackup{{Name: "a"}} }, false, "nothing of it", false},
		"found, not looked into":   {func(b *api.Backup) { b.Status, b.Spec.Existing = api.BackupStatus{}, &api.ExistingBackup{Name: "x"} }, false, "", false},
		"tried, and failed":        {func(b *api.Backup) { b.Status.Pods = []api.PodBackup{{Name: "a", Tries: 1}} }, false, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			b := &api.Backup{Spec: api.BackupSpec{DeletionPolicy: api.DeletionDelete}, Status: api.BackupStatus{Name: "n", Pods: []api.PodBackup{{Name: "a", Objects: 1}}}}
			c.change(b)
			why, warn := release(b, c.terminating)
			if (why == "") != (c.want == "") || !strings.Contains(why, c.want) || warn != c.warn {
				t.Errorf("%q, %v", why, warn)
			}
		})
	}
}

// refusing is a Remover that waits a few times.
type refusing struct {
	times int
	asked int
}

func (r *refusing) Remove(_ context.Context, b *api.Backup, _ []corev1.Pod) error {
	r.asked++
	if b.Status.Phase != api.BackupDeleting || reasonOf(&b.Status, api.ConditionDeleted) != reasonDeleting {
		return &removal.Wait{Reason: removal.Unsafe, Message: "it is not written down"}
	}
	if r.times--; r.times >= 0 {
		return &removal.Wait{Reason: removal.NoSidecar, Message: "no sidecar"}
	}
	return nil
}

// The data of a Backup go with it where it says so, after as many tries as it takes; it
// tells what it waits for, and lets others have their turn meanwhile.
func TestDataGo(t *testing.T) {
	w := newWhole(t, 2)
	w.ask(func(b *api.Backup) { b.Spec.DeletionPolicy = api.DeletionDelete })
	b := w.run(over_)
	remover := &refusing{times: 2}
	w.r.remover = remover
	if err := w.client.Delete(context.Background(), b); err != nil {
		t.Fatal(err)
	}
	b = w.run(func(b *api.Backup) bool {
		return reasonOf(&b.Status, api.ConditionDeleted) == string(removal.NoSidecar)
	})
	if b.Status.Phase != api.BackupDeleting || b.Status.Message != "no sidecar" || !held(b) || meta.IsStatusConditionTrue(b.Status.Conditions, api.ConditionDeleted) {
		t.Errorf("%+v", b.Status)
	}
	w.gone()
	if remover.asked != 3 || !slices.Contains(w.told, "Backup "+eventHeld) || !slices.Contains(w.told, "Backup "+eventDeleted) {
		t.Errorf("asked %d times, told %v", remover.asked, w.told)
	}
}

// Where they are to stay nobody is asked.
func TestDataStay(t *testing.T) {
	w := newWhole(t, 1)
	w.ask(func(b *api.Backup) { b.Spec.DeletionPolicy, b.Spec.Pinned = api.DeletionDelete, true })
	b := w.run(over_)
	if err := w.client.Delete(context.Background(), b); err != nil {
		t.Fatal(err)
	}
	w.gone()
	if len(w.removed) > 0 || !slices.Contains(w.told, "Backup "+eventKept) {
		t.Errorf("removed %v, told %v", w.removed, w.told)
	}
}

// One that was in the storage before has a finalizer, so that its data can go with it,
// and nothing else is done to it.
func TestFound(t *testing.T) {
	w := newWhole(t, 1)
	w.ask(func(b *api.Backup) {
		b.Spec.Pods, b.Spec.Existing = nil, &api.ExistingBackup{Name: "nightly", Prefix: "p"}
		b.Spec.DeletionPolicy = api.DeletionDelete
	})
	b := w.run(held)
	if b.Status.Phase != "" || b.Status.Name != "" {
		t.Errorf("%+v", b.Status)
	}
	if err := w.client.Delete(context.Background(), b); err != nil {
		t.Fatal(err)
	}
	w.gone()
	if len(w.removed) != 1 {
		t.Errorf("removed %v", w.removed)
	}
}

func requestOf(name string) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "ns", Name: name}}
}

// gone has the controller run until the Backup is.
func (w *whole) gone() {
	w.Helper()
	at := types.NamespacedName{Namespace: "ns", Name: "b"}
	for range 1000 {
		result, err := w.r.Reconcile(context.Background(), reconcile.Request{NamespacedName: at})
		if err != nil {
			w.Fatal(err)
		}
		if err := (informers{w: w}).Get(context.Background(), at, &api.Backup{}); apierrors.IsNotFound(err) {
			return
		}
		w.pass(result.RequeueAfter)
	}
	w.Fatal("it stays")
}

func TestMetrics(t *testing.T) {
	at := func(minute int) *metav1.Time {
		return new(metav1.NewTime(today.Add(time.Duration(minute) * time.Minute)))
	}
	make := func(namespace string, phase api.BackupPhase, finished *metav1.Time, bytes int64, reason string) api.Backup {
		b := api.Backup{ObjectMeta: metav1.ObjectMeta{Namespace: namespace}, Status: api.BackupStatus{Phase: phase, Finished: finished, Bytes: bytes}}
		if reason != "" {
			b.Status.Conditions = []metav1.Condition{{Type: api.ConditionDeleted, Status: metav1.ConditionFalse, Reason: reason}}
		}
		return b
	}
	all := []api.Backup{
		make("a", api.BackupComplete, at(1), 10, ""), make("a", api.BackupComplete, at(3), 30, ""), make("a", api.BackupPartial, at(5), 50, ""),
		make("b", "", nil, 0, ""), make("b", "Odd", nil, 0, ""),
		make("b", api.BackupDeleting, at(1), 1, "NoSidecar"), make("b", api.BackupDeleting, at(1), 1, "of a user's own"),
	}
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(measured(all))
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			key := f.GetName()
			for _, l := range m.GetLabel() {
				key += " " + l.GetValue()
			}
			if v := m.GetGauge().GetValue(); v > 0 {
				got[key] = v
			}
		}
	}
	want := map[string]float64{
		"stategraft_backup_bytes a": 30, "stategraft_backups a Complete": 2, "stategraft_backups a Partial": 1,
		"stategraft_backups b Deleting": 2, "stategraft_backups b Waiting": 2,
		"stategraft_backup_deletions_waiting NoSidecar": 1, "stategraft_backup_deletions_waiting " + reasonFailed: 1,
	}
	if !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

type measured []api.Backup

func (measured) Describe(ch chan<- *prometheus.Desc)   { exported.Describe(ch) }
func (m measured) Collect(ch chan<- prometheus.Metric) { measure(m, ch) }
