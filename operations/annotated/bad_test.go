package annotated

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/stategraft/stategraft/api/v1alpha1"
)

const isBad = "Warning BackupAnnotationBad annotation stategraft.io/backup-schedule of the namespace is "

// seen is what a watch tells of the namespace, whether anybody looks in time or not.
func (w *world) seen() {
	w.t.Helper()
	ns := namespaceMeta()
	if err := w.c.Get(w.t.Context(), client.ObjectKey{Name: "prod"}, ns); err != nil {
		w.t.Fatal(err)
	}
	w.memory.see(ns)
}

// Each bad value is told, on the workload and on the BackupSchedule that goes on: once,
// also those that were replaced before anybody looked.
func TestEachBadValue(t *testing.T) {
	w := newWorld(t, map[string]string{api.AnnotationBackupSchedule: "0 3 * *"}, pod("db-0", "db"), set("db"))
	w.look()
	w.look()
	w.has()
	w.told(isBad + `"0 3 * *"`)
	w.annotate(api.AnnotationBackupSchedule, "0 3 * * *")
	w.look()
	w.told("Made")
	for _, value := range []string{"0 25 * * *", "abc"} {
		w.annotate(api.AnnotationBackupSchedule, value)
		w.seen()
		w.look()
		w.look()
		w.told(isBad+`"`+value+`"`, isBad+`"`+value+`"`)
	}
	w.annotate(api.AnnotationBackupSchedule, "0 25 * * *") // that was said
	w.seen()
	w.look()
	w.told()
	for _, value := range []string{"0", "1", "0 3 * * *"} { // within the time to settle
		w.annotate(api.AnnotationBackupSchedule, value)
		w.seen()
	}
	w.look()
	const was = "BackupAnnotationBad annotation stategraft.io/backup-schedule of the namespace was "
	w.told(was+`"0"`, "it was not followed", was+`"1"`, was+`"1"`)
	w.look()
	w.told()
	w.has("db: 0 3 * * * of StatefulSet db")
}

// With no pod there, the BackupSchedule tells it.
func TestBadWithoutPods(t *testing.T) {
	db := pod("db-0", "db")
	w := newWorld(t, nightly(""), db, set("db"))
	w.look()
	w.told("Made")
	w.remove(db)
	w.annotate(api.AnnotationBackupSchedule, "abc")
	w.seen()
	w.look()
	w.look()
	w.told(isBad + `"abc"`)
	w.annotate(api.AnnotationBackupSchedule, "0 3 * * *")
	w.look()
	w.annotate(api.AnnotationBackupSchedule, "abc")
	w.look()
	w.told(isBad + `"abc"`) // it was good between
	w.add(pod("db-0", "db"))
	w.look()
	w.told(isBad + `"abc"`) // the workload has not heard of it
}

// A workload of which it is not known which cluster it is of is told, too.
func TestBadWhileUnknown(t *testing.T) {
	w := newWorld(t, map[string]string{api.AnnotationBackupSchedule: "abc"}, pod("db-0", "db"), pod("x-0", "x"))
	w.look()
	w.look()
	w.told(isBad, isBad)
}

// Of pods' own values those count that were theirs; the namespace's do not concern them.
func TestBadOfPods(t *testing.T) {
	own := pod("db-0", "db", when("0 4 * * *"))
	w := newWorld(t, nil, own)
	w.look()
	w.told("Made")
	for _, value := range []string{"abc", "0 4 * * *"} {
		own.Annotations[api.AnnotationBackupSchedule] = value
		w.memory.see(own)
	}
	w.annotate(api.AnnotationBackupSchedule, "no")
	w.seen()
	w.look()
	w.told(`of pod db-0 was "abc"`, `of pod db-0 was "abc"`)
}

// Retain says nothing without a schedule, and is not passed over when it is bad.
func TestBadRetainAlone(t *testing.T) {
	w := newWorld(t, map[string]string{api.AnnotationRetain: "7d"}, pod("db-0", "db"))
	w.look()
	w.look()
	w.told("BackupAnnotationBad annotation stategraft.io/retain of the namespace is")
}

// What is kept in memory has an end.
func TestBadIsBounded(t *testing.T) {
	m := newMemory()
	for i := range 10 * passingLimit {
		ns := namespaceMeta()
		ns.Name, ns.Annotations = "prod", map[string]string{api.AnnotationRetain: "x" + time.Duration(i).String()}
		m.see(ns)
		m.first("w", fault{key: "k", value: ns.Annotations[api.AnnotationRetain]})
	}
	if n := len(m.take("prod")); n != passingLimit {
		t.Errorf("%d values wait", n)
	}
	if n := len(m.bad["w"]); n > passingLimit {
		t.Errorf("%d values are known to be told", n)
	}
}

// An API server takes a second event of the same reason for the first once more, with the
// first's note: that must not be so of another value.
func TestEventsDiffer(t *testing.T) {
	clientset := fake.NewClientset()
	scheme := runtime.NewScheme()
	if err := clientscheme.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	broadcaster := events.NewBroadcaster(&events.EventSinkImpl{Interface: clientset.EventsV1()})
	broadcaster.StartRecordingToSink(t.Context().Done())
	w := &writer{events: broadcaster.NewRecorder(scheme, "test")}
	about := corev1.ObjectReference{APIVersion: "apps/v1", Kind: "StatefulSet", Namespace: "prod", Name: "db", UID: "u"}
	for _, note := range []string{"one", "two", "one"} {
		w.say(about, corev1.EventTypeWarning, eventBad, note)
	}
	var notes []string
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		list, err := clientset.EventsV1().Events("prod").List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		notes = nil
		for _, e := range list.Items {
			notes = append(notes, e.Note)
		}
		if slices.Sort(notes); slices.Equal(notes, []string{"one", "two"}) {
			return
		}
	}
	t.Errorf("events say %q", notes)
}
