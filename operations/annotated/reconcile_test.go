package annotated

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/stategraft/stategraft/api/node"
	api "github.com/stategraft/stategraft/api/v1alpha1"
)

// world is an API server with namespace prod, and a reconciler.
type world struct {
	*reconciler
	t        *testing.T
	c        client.WithWatch
	events   *events.FakeRecorder
	clock    time.Time
	prefixes map[string]string // by pod; a pod that is not in it does not answer
	asked    int
	writes   int
	fail     error // of each writing
}

func newWorld(t *testing.T, annotations map[string]string, given ...client.Object) *world {
	t.Helper()
	s := runtime.NewScheme()
	if err := errors.Join(clientscheme.AddToScheme(s), api.AddToScheme(s)); err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, clock: now, events: events.NewFakeRecorder(100), prefixes: map[string]string{}}
	wrote := func() error { w.writes++; return w.fail }
	given = append(given, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "prod", Labels: map[string]string{api.LabelInject: api.InjectEnabled}, Annotations: annotations}})
	w.c = fake.NewClientBuilder().WithScheme(s).WithObjects(given...).WithInterceptorFuncs(interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			if err := wrote(); err != nil {
				return err
			}
			if o.GetUID() == "" {
				o.SetUID(types.UID("u-" + o.GetName()))
			}
			return c.Create(ctx, o, opts...)
		},
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			if err := wrote(); err != nil {
				return err
			}
			return c.Update(ctx, o, opts...)
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			if err := wrote(); err != nil {
				return err
			}
			return c.Delete(ctx, o, opts...)
		},
	}).Build()
	w.reconciler = &reconciler{objects: w.c, cached: injectedOnly(w.c), live: w.c, nodes: w, own: "stategraft-system", memory: newMemory(),
		now: func() time.Time { return w.clock }, write: &writer{client: w.c, events: w.events}}
	return w
}

// injectedOnly is a cache as heal.ByObject makes it, as far as which pods it has.
func injectedOnly(c client.WithWatch) client.Reader {
	return interceptor.NewClient(c, interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
		if _, ok := list.(*corev1.PodList); ok {
			opts = append(opts, client.HasLabels{api.LabelInjected})
		}
		return c.List(ctx, list, opts...)
	}})
}

// Report implements Nodes.
func (w *world) Report(_ context.Context, pod *corev1.Pod) (node.Report, error) {
	w.asked++
	prefix, ok := w.prefixes[pod.Name]
	if !ok {
		return node.Report{}, errors.New("connection refused")
	}
	return node.Report{Prefix: prefix}, nil
}

func (w *world) look() time.Duration {
	w.t.Helper()
	result, err := w.Reconcile(w.t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Name: "prod"}})
	if err != nil {
		w.t.Fatal(err)
	}
	return result.RequeueAfter
}

// told are the events since the last time, each beginning so.
func (w *world) told(want ...string) {
	w.t.Helper()
	var got []string
	for len(w.events.Events) > 0 {
		got = append(got, <-w.events.Events)
	}
	if len(got) != len(want) {
		w.t.Errorf("events %q, want %q", got, want)
		return
	}
	for i := range want {
		if !strings.Contains(got[i], want[i]) {
			w.t.Errorf("event %q, want %q", got[i], want[i])
		}
	}
}

// has are all BackupSchedules, in short.
func (w *world) has(want ...string) {
	w.t.Helper()
	var list api.BackupScheduleList
	if err := w.c.List(w.t.Context(), &list); err != nil {
		w.t.Fatal(err)
	}
	var got []string
	for i := range list.Items {
		s := &list.Items[i]
		text := s.Name + ": " + s.Spec.Schedule
		if pods := s.Spec.Template.Spec.Pods; pods.Workload != nil {
			text += " of " + pods.Workload.Kind + " " + pods.Workload.Name
		} else if pods.Selector != nil {
			text += " of " + metav1.FormatLabelSelector(pods.Selector)
		} else {
			text += " of " + strings.Join(pods.Names, ",")
		}
		if s.Spec.Retention != nil {
			text += fmt.Sprintf(" keeps %d", *s.Spec.Retention.KeepLast)
		}
		if !isAnnotated(s) {
			text += " by hand"
		}
		got = append(got, text)
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		w.t.Errorf("there are %q, want %q", got, want)
	}
}

func (w *world) annotate(key, value string) {
	w.t.Helper()
	var ns corev1.Namespace
	if err := w.c.Get(w.t.Context(), client.ObjectKey{Name: "prod"}, &ns); err != nil {
		w.t.Fatal(err)
	}
	if value == "" {
		delete(ns.Annotations, key)
	} else {
		metav1.SetMetaDataAnnotation(&ns.ObjectMeta, key, value)
	}
	w.update(&ns)
}

func (w *world) update(o client.Object) {
	w.t.Helper()
	if err := w.c.Update(w.t.Context(), o); err != nil {
		w.t.Fatal(err)
	}
	w.writes = 0
}

func (w *world) add(o client.Object) {
	w.t.Helper()
	if err := w.c.Create(w.t.Context(), o); err != nil {
		w.t.Fatal(err)
	}
	w.writes = 0
}

func (w *world) remove(o client.Object) {
	w.t.Helper()
	if err := w.c.Delete(w.t.Context(), o); err != nil {
		w.t.Fatal(err)
	}
	w.writes = 0
}

func nightly(retain string) map[string]string {
	all := map[string]string{api.AnnotationBackupSchedule: "0 3 * * *"}
	if retain != "" {
		all[api.AnnotationRetain] = retain
	}
	return all
}

func set(name string) *appsv1.StatefulSet {
	return &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: name}}
}

// A namespace's annotation makes one for its workload, follows it, and takes it away.
func TestFollows(t *testing.T) {
	w := newWorld(t, nightly("7"), pod("db-0", "db"), pod("db-1", "db"), pod("web", "web", func(p *corev1.Pod) { p.Labels = nil }))
	w.look()
	w.has("db: 0 3 * * * of StatefulSet db keeps 7")
	w.told("Normal BackupScheduleMade BackupSchedule db is made: 0 3 * * *, in UTC; it keeps the last 7")
	for range 3 {
		w.look()
	}
	if w.told(); w.writes != 1 || w.asked != 0 {
		t.Errorf("%d writes, %d questions for one workload", w.writes, w.asked)
	}
	w.annotate(api.AnnotationRetain, "9")
	w.look()
	w.has("db: 0 3 * * * of StatefulSet db keeps 9")
	w.told("Normal BackupScheduleChanged")
	w.annotate(api.AnnotationRetain, "many")
	w.look()
	w.look()
	w.has("db: 0 3 * * * of StatefulSet db keeps 9")
	w.told("Warning BackupAnnotationBad annotation stategraft.io/retain of the namespace", "BackupSchedule db stays as it is: 0 3 * * *; it keeps the last 9")
	w.annotate(api.AnnotationRetain, "")
	w.look()
	w.has("db: 0 3 * * * of StatefulSet db")
	w.told("Normal BackupScheduleChanged")
	w.annotate(api.AnnotationBackupSchedule, "")
	w.look()
	w.has()
	w.told("Normal BackupScheduleDeleted BackupSchedule db is deleted, and its Backups stay: annotation stategraft.io/backup-schedule has gone")
	w.look()
	w.told()
}

// A pod's annotation is its workload's; pods that disagree are told of once.
func TestOfPods(t *testing.T) {
	w := newWorld(t, nil, pod("db-0", "db", when("0 4 * * *"), aged(2*time.Hour)), pod("db-1", "db", when("0 5 * * *")), pod("x-0", "x"))
	w.prefixes = map[string]string{"db-0": "prod-db", "x-0": "prod-x"}
	w.look()
	w.look()
	w.has("db: 0 4 * * * of StatefulSet db")
	w.told("Normal BackupScheduleMade", "Warning BackupAnnotationsDisagree")
}

// Without the label nothing is done, nor undone.
func TestNotLabelled(t *testing.T) {
	w := newWorld(t, nightly(""), pod("db-0", "db"))
	w.look()
	var ns corev1.Namespace
	if err := w.c.Get(t.Context(), client.ObjectKey{Name: "prod"}, &ns); err != nil {
		t.Fatal(err)
	}
	ns.Labels, ns.Annotations = nil, nil
	w.update(&ns)
	w.look()
	w.has("db: 0 3 * * * of StatefulSet db")
	if w.writes != 0 {
		t.Errorf("%d writes", w.writes)
	}
}

// What somebody has made, or kept by taking the label off, is left alone.
func TestLeftAlone(t *testing.T) {
	own := build("prod", "db", podsOf(workloads(pod("db-0", "db"))[0]), wish{schedule: "0 1 * * *"})
	own.Labels = nil
	w := newWorld(t, nightly(""), pod("db-0", "db"), own)
	w.look()
	w.look()
	w.has("db: 0 1 * * * of StatefulSet db by hand")
	w.told("Warning BackupScheduleNameTaken there is a BackupSchedule db that was not made of annotations")
	w.annotate(api.AnnotationBackupSchedule, "")
	w.look()
	w.has("db: 0 1 * * * of StatefulSet db by hand")
	w.told()
}

// Pods that are gone for a while leave their schedule: their StatefulSet says that they
// come back, and what else makes pods has ten minutes.
func TestPodsGone(t *testing.T) {
	db, petset := pod("db-0", "db"), pod("pet-0", "pet", madeBy("PetSet"))
	w := newWorld(t, nightly(""), db, petset, set("db"))
	w.prefixes = map[string]string{"db-0": "prod-db", "pet-0": "prod-pet"}
	w.look()
	w.has("db: 0 3 * * * of StatefulSet db", "pet: 0 3 * * * of PetSet pet")
	w.told("Made", "Made")
	w.remove(db)
	w.remove(petset)
	if again := w.look(); again != absentFor {
		t.Errorf("again after %v", again)
	}
	w.clock = w.clock.Add(absentFor - time.Second)
	w.look()
	w.has("db: 0 3 * * * of StatefulSet db", "pet: 0 3 * * * of PetSet pet")
	w.clock = w.clock.Add(time.Second)
	if again := w.look(); again != 0 {
		t.Errorf("again after %v", again)
	}
	w.has("db: 0 3 * * * of StatefulSet db")
	w.told("BackupScheduleDeleted BackupSchedule pet is deleted, and its Backups stay: its pods have gone")
	w.remove(set("db"))
	w.look()
	w.clock = w.clock.Add(absentFor / 2)
	w.add(pod("db-0", "db"))
	w.look() // it is back in time
	w.remove(pod("db-0", "db"))
	w.clock = w.clock.Add(absentFor / 2)
	w.look()
	w.has("db: 0 3 * * * of StatefulSet db")
}

// A workload whose template opts out makes no pods that could be backed up: what was made
// for them goes as if they had gone.
func TestOptsOut(t *testing.T) {
	db := pod("db-0", "db")
	opted := set("db")
	opted.Spec.Template.Labels = map[string]string{api.LabelInject: api.InjectDisabled}
	w := newWorld(t, nightly(""), db, opted)
	w.look()
	w.has("db: 0 3 * * * of StatefulSet db") // its pods are of before
	w.remove(db)
	w.add(pod("db-0", "db", func(p *corev1.Pod) { p.Labels = map[string]string{api.LabelInject: api.InjectDisabled} }))
	w.look()
	w.has("db: 0 3 * * * of StatefulSet db")
	w.clock = w.clock.Add(absentFor)
	w.look()
	w.has()
}

// Workloads that store below one prefix are one cluster, with one schedule: a backup is
// whole only with all nodes.
func TestRacks(t *testing.T) {
	ring := label("cassandra.datastax.com/cluster", "ring")
	r1, r2 := pod("ring-r1-0", "ring-r1", ring), pod("ring-r2-0", "ring-r2", ring)
	w := newWorld(t, nightly(""), r1, r2, pod("x-0", "x"))
	w.prefixes = map[string]string{"ring-r1-0": "prod-ring", "ring-r2-0": "prod-ring", "x-0": "prod-x"}
	w.look()
	both := []string{"ring: 0 3 * * * of cassandra.datastax.com/cluster=ring", "x: 0 3 * * * of StatefulSet x"}
	w.has(both...)
	w.told("Made", "Made")
	w.look()
	if w.has(both...); w.writes != 2 || w.asked != 3 {
		t.Errorf("%d writes, %d questions", w.writes, w.asked)
	}
	// A third rack has not come up yet: nobody knows where it belongs.
	r3 := pod("ring-r3-0", "ring-r3", ring)
	w.add(r3)
	if again := w.look(); again != unknownAgain {
		t.Errorf("again after %v", again)
	}
	w.has(both...)
	w.told()
	w.clock = w.clock.Add(unknownFor)
	w.look()
	w.has(both...)
	w.told("Warning BackupClusterNotKnown")
	w.prefixes["ring-r3-0"] = "prod-ring"
	w.look()
	w.has(both...)
	w.annotate(api.AnnotationBackupSchedule, "")
	w.look()
	w.has()
}

// A cluster of one workload becomes one of two: its schedule stays, and there is one.
func TestRackIsAdded(t *testing.T) {
	app := label("app", "db")
	w := newWorld(t, nightly(""), pod("r1-0", "r1", app), pod("r2-0", "r2", app), pod("x-0", "x"))
	w.prefixes = map[string]string{"r1-0": "one", "r2-0": "two", "x-0": "x"}
	w.look()
	w.has("r1: 0 3 * * * of StatefulSet r1", "r2: 0 3 * * * of StatefulSet r2", "x: 0 3 * * * of StatefulSet x")
	w.told("Made", "Made", "Made")
	w.memory, w.prefixes["r2-0"] = newMemory(), "one"
	w.look()
	w.has("r1: 0 3 * * * of app=db", "x: 0 3 * * * of StatefulSet x")
	w.told("Changed", "Deleted BackupSchedule r2 is deleted, and its Backups stay: its pods are those of BackupSchedule r1")
	w.look()
	w.has("r1: 0 3 * * * of app=db", "x: 0 3 * * * of StatefulSet x")
	// With its pods gone for a moment, a rack is not left out of the next backup.
	w.remove(pod("r2-0", "r2"))
	w.look()
	w.has("r1: 0 3 * * * of app=db", "x: 0 3 * * * of StatefulSet x")
}

// A rack that comes up anew, and does not answer yet, is where it was; also for a process
// that starts anew.
func TestRackIsSilent(t *testing.T) {
	app := label("app", "db")
	w := newWorld(t, nightly(""), pod("r1-0", "r1", app), pod("r2-0", "r2", app))
	w.prefixes = map[string]string{"r1-0": "one", "r2-0": "one"}
	w.look()
	w.has("r: 0 3 * * * of app=db")
	again := pod("r2-0", "r2", app, func(p *corev1.Pod) { p.UID, p.Status.Phase = "u-new", corev1.PodPending })
	w.remove(pod("r2-0", "r2"))
	w.add(again)
	if after := w.look(); after != unknownAgain {
		t.Errorf("again after %v", after)
	}
	w.has("r: 0 3 * * * of app=db")
	w.memory = newMemory()
	w.look()
	w.clock = w.clock.Add(unknownFor)
	w.look()
	w.has("r: 0 3 * * * of app=db")
	if w.writes != 0 {
		t.Errorf("%d writes", w.writes)
	}
}

// Nothing is made as long as a part of the cluster may not be known, and not for ever.
func TestWaitsForSilent(t *testing.T) {
	w := newWorld(t, nightly(""), pod("db-0", "db"), pod("x-0", "x"))
	w.prefixes = map[string]string{"db-0": "db"}
	w.look()
	w.has()
	w.clock = w.clock.Add(unknownFor)
	w.look()
	w.has("db: 0 3 * * * of StatefulSet db")
	w.told("Warning BackupClusterNotKnown", "Normal BackupScheduleMade")
}

// Where no label tells a cluster's pods from others, nothing is made, and that is told.
func TestNoSelector(t *testing.T) {
	w := newWorld(t, nightly(""), pod("r1-0", "r1"), pod("r2-0", "r2"))
	w.prefixes = map[string]string{"r1-0": "one", "r2-0": "one"}
	w.look()
	w.look()
	w.has()
	w.told("Warning BackupClusterNotSelectable")
}

// Two workloads of a name have a schedule each.
func TestOneName(t *testing.T) {
	w := newWorld(t, nightly(""), pod("db-0", "db"), pod("pet-0", "db", madeBy("PetSet")), pod("solo", "", alone))
	w.prefixes = map[string]string{"db-0": "a", "pet-0": "b", "solo": "c"}
	w.look()
	w.look()
	other := nameOf("db", "StatefulSet")
	w.has(other+": 0 3 * * * of StatefulSet db", "db: 0 3 * * * of PetSet db", "solo: 0 3 * * * of solo")
	w.told("Made", "Made", "Made")
}

func TestWritingFails(t *testing.T) {
	w := newWorld(t, nightly(""), pod("db-0", "db"))
	resource := schema.GroupResource{Resource: "backupschedules"}
	for _, err := range []error{apierrors.NewConflict(resource, "db", errors.New("changed")), apierrors.NewAlreadyExists(resource, "db")} {
		w.fail = err
		if again := w.look(); again != staleAgain {
			t.Errorf("%v: again after %v", err, again)
		}
	}
	w.fail = apierrors.NewInvalid(schema.GroupKind{Kind: "BackupSchedule"}, "db", nil)
	w.look()
	w.look()
	w.told("Warning BackupScheduleRejected")
	w.fail = errors.New("no right to")
	if _, err := w.Reconcile(t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Name: "prod"}}); err == nil || !strings.Contains(err.Error(), "making BackupSchedule prod/db: no right to") {
		t.Errorf("%v", err)
	}
	w.fail = nil
	w.look()
	w.has("db: 0 3 * * * of StatefulSet db")
}

// One that was changed since it was looked at is not deleted: somebody may have taken the
// label off.
func TestDeletesWhatItSaw(t *testing.T) {
	w := newWorld(t, nil, pod("db-0", "db"), build("prod", "db", podsOf(workloads(pod("db-0", "db"))[0]), wish{schedule: "0 1 * * *"}))
	stale := &api.BackupSchedule{}
	if err := w.c.Get(t.Context(), client.ObjectKey{Namespace: "prod", Name: "db"}, stale); err != nil {
		t.Fatal(err)
	}
	kept := stale.DeepCopy()
	kept.Labels = nil
	w.update(kept)
	if err := w.write.delete(t.Context(), stale, nil, "a test"); !apierrors.IsConflict(err) {
		t.Errorf("%v", err)
	}
	w.has("db: 0 1 * * * of StatefulSet db by hand")
}
