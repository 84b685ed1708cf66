package ask

import (
	"maps"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/stategraft/stategraft/api/v1alpha1"
)

// What is kept is the last Restore's only: each earlier one is told by whom it was
// replaced, and a Restore of other pods, a plan or one that replaced nothing does not count.
func TestReplaced(t *testing.T) {
	restored := func(name string, age time.Duration, phase api.PodPhase, pods ...string) api.Restore {
		r := api.Restore{ObjectMeta: metav1.ObjectMeta{Namespace: "db", Name: name, CreationTimestamp: *at(-age)}}
		for _, pod := range pods {
			r.Status.Pods = append(r.Status.Pods, api.PodRestore{Name: pod, Phase: phase, Previous: phase == api.PodRestored})
		}
		r.Status.Phase = api.RestoreCompleted
		return r
	}
	first := restored("first", 9*time.Hour, api.PodRestored, "a", "b", "c")
	dry := restored("dry", 8*time.Hour, api.PodRestored, "c")
	dry.Spec.DryRun = true
	elsewhere := restored("elsewhere", time.Hour, api.PodRestored, "c")
	elsewhere.Namespace = "other"
	merged := restored("merged", 30*time.Minute, api.PodRestored, "a", "c")
	merged.Spec.Mode = api.Merge
	all := []api.Restore{merged, restored("third", time.Hour, api.PodRestored, "a"), first, restored("second", 2*time.Hour, api.PodRestored, "a", "b", "d"), dry, elsewhere,
		restored("zero", 10*time.Hour, api.PodRestored, "c"), restored("never", time.Hour, api.PodPlanned, "c")}
	if got := Replaced(&first, all); !maps.Equal(got, map[string]string{"a": "second", "b": "second"}) {
		t.Errorf("%v", got)
	}
	next := strings.Join(Next(&first, Replaced(&first, all), noon), "\n")
	if !strings.Contains(next, "restore undo first pod/c -n db") || !strings.Contains(next, "no undo of a, b: what was kept from before was replaced by Restore second") {
		t.Errorf("%s", next)
	}
	if got := Replaced(&all[1], all); len(got) > 0 {
		t.Errorf("of the newest: %v", got)
	}
	merged.Status.Phase, merged.Status.Pods[0].Phase, merged.Status.Pods[0].Started = api.RestoreCancelled, api.PodCancelled, at(-time.Hour)
	merged.Status.Pods[0].Previous = false
	if next := strings.Join(Next(&merged, nil, noon), "\n"); strings.Contains(next, "undo") {
		t.Errorf("a merge can be undone: %s", next)
	}
	if rows := podRows(&merged, nil, false, noon); strings.Contains(strings.Join(rows[1], " "), "perhaps") {
		t.Errorf("%q", rows)
	}
}

// What nothing happened to is not warned of, and nobody is sent from one text to the
// next for it.
func TestCancelledHints(t *testing.T) {
	early := cancelledEarly()
	planned := cancelledEarly()
	planned.Status.Pods = []api.PodRestore{{Name: "a", Phase: api.PodCancelled}}
	planned.Status.Progress = api.RestoreProgress{}
	for _, r := range []*api.Restore{early, planned} {
		if next := strings.Join(Next(r, nil, noon), "\n"); !strings.HasPrefix(next, "nothing: no pod was touched") || progressOf(r) != "-" || Volumes(r) != nil {
			t.Errorf("%s, %s", next, progressOf(r))
		}
	}
	r := cancelledRestore()
	for i := range r.Status.Pods {
		if r.Status.Pods[i].Message == "the volume is untouched" {
			r.Status.Pods[i].Phase = api.PodCancelled
		}
	}
	if all := Volumes(r); len(all) != 3 || !strings.HasPrefix(all[0], "cassandra-2: DANGER") {
		t.Errorf("%q", all)
	}
	if next := Next(r, nil, noon); next[0] != "restore cassandra-2 again, from this backup or another, before the database is used:" ||
		next[1] != "kubectl stategraft restore --backup nightly-20261130 pod/cassandra-2 -n db" {
		t.Errorf("%q", next)
	}
}

func TestStands(t *testing.T) {
	r := restoreR()
	if got := Stands(r); got != "nobody has taken it up" {
		t.Error(got)
	}
	r.Status = api.RestoreStatus{Phase: api.RestoreWaiting, Message: "no route to\nhost", Conditions: []metav1.Condition{
		{Type: api.ConditionAccepted, Status: metav1.ConditionTrue, Reason: "Accepted"},
		{Type: api.ConditionPrechecked, Status: metav1.ConditionFalse, Reason: "StorageUnreachable", Message: "no route to\nhost"}}}
	if got := Stands(r); got != "Waiting, StorageUnreachable: no route to host" {
		t.Error(got)
	}
}
