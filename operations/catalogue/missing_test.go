package catalogue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stategraft/stategraft/api/node"
	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/sidecar/sidecartest"
)

// Nothing is believed that a storage in trouble, or another one, does not show.
func TestStorageThatShowsNothing(t *testing.T) {
	r, s := newRig(t, "prod"), sidecartest.NewStorage("db-0")
	r.nodes("prod", s, "db-0")
	put(s, "b1", time.Hour, "db-0")
	put(s, "b2", time.Hour, "db-0")
	r.round("prod")
	for name, show := range map[string]func(string, *node.Backups) error{
		"nothing": func(_ string, l *node.Backups) error { l.Backups = nil; return nil },
		"strangers": func(_ string, l *node.Backups) error {
			l.Backups = []node.Summary{{Name: "x", Started: start, Nodes: []string{"z"}}}
			return nil
		},
	} {
		r.asked.list = show
		for range 4 {
			r.clock = r.clock.Add(5 * time.Minute)
			r.round("prod")
		}
		r.want("prod", "b1 Complete", "b2 Complete")
		if d := r.document("prod"); !strings.Contains(d.Failed, "none of the 2 backups") {
			t.Errorf("%s: %+v", name, d)
		}
	}
	r.asked.list = nil
	s.SetTrouble(errors.New("503 Slow Down"))
	well := r.clock
	for range 4 {
		r.clock = r.clock.Add(5 * time.Minute)
		if wait := r.round("prod"); wait != afterFail || r.document("prod").Listed.After(well) {
			t.Errorf("the next is in %v", wait)
		}
	}
	r.want("prod", "b1 Complete", "b2 Complete")
	if d := r.document("prod"); d.Failed == "" || d.Listed.IsZero() {
		t.Errorf("%+v", d)
	}
	if l := r.Listing(context.Background(), "prod", "", time.Hour); l.Failed == "" || l.Backups != nil {
		t.Errorf("%+v", l)
	}
	s.SetTrouble(nil)
	r.round("prod")
	if d := r.document("prod"); d.Failed != "" || d.Backups != 2 {
		t.Errorf("%+v", d)
	}
}

func TestMissing(t *testing.T) {
	r, s := newRig(t, "prod"), sidecartest.NewStorage("db-0", "db-1")
	r.nodes("prod", s, "db-0", "db-1")
	for _, n := range []string{"b1", "b2", "b3"} {
		put(s, n, time.Hour, "db-0", "db-1")
	}
	r.round("prod")
	verified := r.backup("prod", "b1")
	verified.Status.Verified = &api.Verification{Result: api.VerificationPassed}
	if err := r.client.Status().Update(context.Background(), verified); err != nil {
		t.Fatal(err)
	}
	without := func(name string) func(string, *node.Backups) error {
		return func(_ string, l *node.Backups) error {
			l.Backups = slices.DeleteFunc(l.Backups, func(s node.Summary) bool { return s.Name == name })
			return nil
		}
	}
	r.asked.list = without("b1")
	if wait := r.round("prod"); wait > apart+10*time.Second {
		t.Errorf("it is looked again in %v", wait)
	}
	r.round("prod") // too soon
	r.want("prod", "b1 Complete", "b2 Complete", "b3 Complete")
	r.clock = r.clock.Add(apart)
	s.SetTrouble(errors.New("503")) // not in a row
	r.round("prod")
	s.SetTrouble(nil)
	r.round("prod")
	r.want("prod", "b1 Complete", "b2 Complete", "b3 Complete")
	r.clock = r.clock.Add(apart)
	r.round("prod")
	r.want("prod", "b1 Missing", "b2 Complete", "b3 Complete")
	b := r.backup("prod", "b1")
	stored := meta.FindStatusCondition(b.Status.Conditions, api.ConditionStored)
	if stored == nil || stored.Status != metav1.ConditionFalse || stored.Reason != reasonGone || b.Status.Verified == nil || len(b.Status.Pods) != 2 {
		t.Errorf("%+v", b.Status)
	}
	if d := r.document("prod"); d.Missing != 1 {
		t.Errorf("%+v", d)
	}
	if !slices.Equal(r.told, []string{"BackupMissing b1"}) {
		t.Errorf("it tells %v", r.told)
	}
	// A part of one has gone.
	r.asked.list = func(_ string, l *node.Backups) error {
		for i := range l.Backups {
			if l.Backups[i].Name == "b2" {
				l.Backups[i].Complete, l.Backups[i].Nodes = false, []string{"db-0"}
			}
		}
		return nil
	}
	r.round("prod")
	r.want("prod", "b1 Complete", "b2 Complete", "b3 Complete") // b1 is there again
	r.clock = r.clock.Add(apart)
	r.round("prod")
	r.want("prod", "b1 Complete", "b2 Missing", "b3 Complete")
	if b := r.backup("prod", "b1"); b.Status.Verified == nil || !meta.IsStatusConditionTrue(b.Status.Conditions, api.ConditionStored) {
		t.Errorf("%+v", b.Status)
	}
}

// made is a Backup as its own controller leaves it.
func (r *rig) made(namespace, name string, phase api.BackupPhase, pods ...api.PodBackup) *api.Backup {
	b := &api.Backup{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Finalizers: []string{api.FinalizerBackup}}}
	b.Spec.Pods = &api.BackupPods{Workload: &api.BackupWorkload{Name: "db"}}
	r.create(b)
	b.Status = api.BackupStatus{Name: b.StorageName(), Phase: phase, Origin: api.BackupMade, Message: "theirs", Pods: pods, Progress: api.BackupProgress{Pods: "x"}}
	if phase.Final() {
		b.Status.Finished = new(metav1.NewTime(start))
	}
	if err := r.client.Status().Update(context.Background(), b); err != nil {
		r.t.Fatal(err)
	}
	return b
}

// Of what was made here only that it is there, or not, is written.
func TestMadeHere(t *testing.T) {
	r, s := newRig(t, "prod"), sidecartest.NewStorage("db-0")
	r.nodes("prod", s, "db-0")
	whole := api.PodBackup{Name: "db-0", Phase: api.PodBackupComplete, Objects: 5}
	a, b := r.made("prod", "a", api.BackupComplete, whole), r.made("prod", "b", api.BackupComplete, whole)
	running, failed := r.made("prod", "c", api.BackupRunning, api.PodBackup{Name: "db-0", Phase: api.PodBackupRunning}), r.made("prod", "e", api.BackupFailed)
	for _, each := range []*api.Backup{a, b} {
		put(s, each.Status.Name, time.Hour, "db-0")
	}
	begin(s, running.Status.Name, time.Minute, "db-0")
	r.round("prod")
	r.want("prod", "a Complete", "b Complete", "c Running", "e Failed")
	was, is := a.Status, r.backup("prod", "a").Status
	if is.Listed == nil || !meta.IsStatusConditionTrue(is.Conditions, api.ConditionStored) {
		t.Errorf("%+v", is)
	}
	is.Listed, is.Conditions = nil, nil
	if fmt.Sprint(was) != fmt.Sprint(is) {
		t.Errorf("%+v became %+v", was, is)
	}
	if status := r.backup("prod", "c").Status; status.Listed != nil || len(r.backup("prod", failed.Name).Status.Conditions) > 0 {
		t.Errorf("%+v", status)
	}
	r.asked.list = func(_ string, l *node.Backups) error {
		l.Backups = slices.DeleteFunc(l.Backups, func(s node.Summary) bool { return s.Name == a.Status.Name })
		return nil
	}
	for range 2 {
		r.clock = r.clock.Add(apart)
		r.round("prod")
	}
	r.want("prod", "a Missing", "b Complete", "c Running", "e Failed")
	if m := r.backup("prod", "a").Status.Message; m != "theirs" {
		t.Errorf("the message is %q", m)
	}
	r.asked.list = nil
	r.round("prod")
	r.want("prod", "a Complete", "b Complete", "c Running", "e Failed")
	// That it is there is written once a day.
	r.count = map[string]int{}
	r.clock = r.clock.Add(20 * time.Hour)
	r.round("prod")
	if r.count["status"] != 0 {
		t.Errorf("%v", r.count)
	}
	r.clock = r.clock.Add(5 * time.Hour)
	r.round("prod")
	if r.count["status"] != 2 {
		t.Errorf("%v", r.count)
	}
}

// One that has just ended is not missing in a listing from before.
func TestListingFromBefore(t *testing.T) {
	r, s := newRig(t, "prod"), sidecartest.NewStorage("db-0")
	r.nodes("prod", s, "db-0")
	put(s, "b1", time.Hour, "db-0")
	r.round("prod")
	b := r.made("prod", "a", api.BackupComplete, api.PodBackup{Name: "db-0", Phase: api.PodBackupComplete, Objects: 5})
	b.Status.Finished = new(metav1.NewTime(start.Add(time.Hour)))
	if err := r.client.Status().Update(context.Background(), b); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		r.clock = r.clock.Add(5 * time.Minute)
		r.round("prod")
	}
	r.want("prod", "a Complete", "b1 Complete")
}

func TestDeleted(t *testing.T) {
	r, s := newRig(t, "prod"), sidecartest.NewStorage("db-0")
	r.nodes("prod", s, "db-0")
	put(s, "b1", time.Hour, "db-0")
	put(s, "b2", time.Hour, "db-0")
	r.round("prod")
	// Deleted with Keep it comes back.
	r.remove("prod", "b1")
	r.round("prod")
	r.want("prod", "b1 Complete", "b2 Complete")
	// With its data it does not, though the storage shows it for some time.
	b := r.backup("prod", "b1")
	b.Spec.DeletionPolicy = api.DeletionDelete
	if err := r.client.Update(context.Background(), b); err != nil {
		t.Fatal(err)
	}
	r.remove("prod", "b1")
	r.round("prod")
	r.want("prod", "b2 Complete")
	r.clock = r.clock.Add(goneFor)
	r.round("prod")
	r.want("prod", "b1 Complete", "b2 Complete")
	// Nor in the round in which it is deleted, of which no event tells.
	r.asked.during = func() {
		b := r.backup("prod", "b2")
		b.Finalizers = nil
		if err := errors.Join(r.client.Update(context.Background(), b), r.client.Delete(context.Background(), b)); err != nil {
			t.Error(err)
		}
	}
	r.round("prod")
	r.want("prod", "b1 Complete")
	// One that is being deleted is left alone.
	r.asked.during = nil
	if err := r.client.Delete(context.Background(), r.backup("prod", "b1")); err != nil {
		t.Fatal(err)
	}
	r.count = map[string]int{}
	s.Put("b1", "db-1", sidecartest.Part{Started: start})
	r.round("prod")
	if r.count["status"] != 1 { // of b2, which is back
		t.Errorf("%v", r.count)
	}
}

// A Backup that is not accepted yet has its name, and gets no second object.
func TestNotAcceptedYet(t *testing.T) {
	r, s := newRig(t, "prod"), sidecartest.NewStorage("db-0")
	r.nodes("prod", s, "db-0")
	b := &api.Backup{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: "a"}, Spec: api.BackupSpec{Pods: &api.BackupPods{Names: []string{"db-0"}}}}
	r.create(b)
	begin(s, b.StorageName(), 25*time.Hour, "db-0")
	r.round("prod")
	r.want("prod", "a")
}

// A Backup of some nodes of a cluster is as complete as it was asked to be: the storage
// has it, though not of all nodes of its token map.
func TestOfSomeNodes(t *testing.T) {
	r, s := newRig(t, "prod"), sidecartest.NewStorage("db-0", "db-1")
	r.nodes("prod", s, "db-0", "db-1")
	b := r.made("prod", "a", api.BackupComplete, api.PodBackup{Name: "pod-0", Node: "db-0", Phase: api.PodBackupComplete, Objects: 5})
	put(s, b.Status.Name, time.Hour, "db-0")
	for range 3 {
		r.clock = r.clock.Add(5 * time.Minute)
		r.round("prod")
	}
	r.want("prod", "a Complete")
	if b := r.backup("prod", "a"); b.Status.Listed == nil {
		t.Errorf("%+v", b.Status)
	}
	// Its part goes, and comes back.
	r.asked.list = func(_ string, l *node.Backups) error {
		for i := range l.Backups {
			l.Backups[i].Nodes = []string{"db-1"}
		}
		return nil
	}
	for range 3 {
		r.clock = r.clock.Add(5 * time.Minute)
		r.round("prod")
	}
	r.want("prod", "a Missing")
	r.asked.list = nil
	r.round("prod")
	r.want("prod", "a Complete")
}
