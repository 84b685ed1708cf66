package annotated

import (
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	api "github.com/stategraft/stategraft/api/v1alpha1"
)

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
