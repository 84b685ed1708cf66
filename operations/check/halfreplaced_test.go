package check

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/stategraft/stategraft/api/v1alpha1"
)

// A database that was let start in the middle of its restore is told of until it is
// restored, also long after.
func TestHalfReplaced(t *testing.T) {
	at := func(d time.Duration) *metav1.Time { return &metav1.Time{Time: noon.Add(d)} }
	restore := func(namespace, name string, made time.Duration, phase api.RestorePhase, pod api.PodRestore) *api.Restore {
		return &api.Restore{TypeMeta: metav1.TypeMeta{APIVersion: api.GroupVersion.String(), Kind: "Restore"},
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, CreationTimestamp: *at(made)},
			Status:     api.RestoreStatus{Phase: phase, Backup: "nightly", Finished: at(made + time.Hour), Pods: []api.PodRestore{pod, {Name: "db-9", Phase: api.PodRestored}}}}
	}
	half := api.PodRestore{Name: "db-0", Phase: api.PodRestoring, Message: "DANGER: the data on the volume may be half replaced"}
	kept := half
	kept.Previous = true
	good := api.PodRestore{Name: "db-0", Phase: api.PodRestored, Finished: at(-time.Hour)}
	unfinished := api.PodRestore{Name: "db-0", Phase: api.PodRestored}
	const told = "fail ns/db-0: was let start by giving up Restore r: DANGER: the data"
	for _, c := range []struct {
		what   string
		half   api.PodRestore
		other  *api.Restore
		want   string
		remedy string
	}{
		{"alone", half, nil, told, "kubectl stategraft restore --backup nightly pod/db-0 -n ns"},
		{"with what was there before", kept, nil, told, "kubectl stategraft restore undo r pod/db-0 -n ns"},
		{"untouched", api.PodRestore{Name: "db-0", Phase: api.PodWaiting, Message: "the volume is untouched"}, nil, "ok : none that is stuck", ""},
		{"it ended well all the same", api.PodRestore{Name: "db-0", Phase: api.PodRestored, Message: half.Message}, nil, "ok : none that is stuck", ""},
		{"restored since", half, restore("ns", "later", -2*time.Hour, api.RestoreCompleted, good), "ok : none that is stuck", ""},
		{"restored since by one that failed elsewhere", half, restore("ns", "later", -100*time.Hour, api.RestoreFailed, good), "ok : none that is stuck", ""},
		{"restored since, nobody knows when", half, restore("ns", "later", -2*time.Hour, api.RestoreCompleted, unfinished), "ok : none that is stuck", ""},
		{"restored before", half, restore("ns", "earlier", -50*time.Hour, api.RestoreCompleted, api.PodRestore{Name: "db-0", Phase: api.PodRestored, Finished: at(-49 * time.Hour)}), told, ""},
		{"restored before, nobody knows when", half, restore("ns", "earlier", -50*time.Hour, api.RestoreCompleted, unfinished), told, ""},
		{"of another namespace", half, restore("else", "later", -2*time.Hour, api.RestoreCompleted, good), told, ""},
		{"only planned since", half, restore("ns", "later", -2*time.Hour, api.RestorePlanned, api.PodRestore{Name: "db-0", Phase: api.PodPlanned}), told, ""},
		{"another pod", half, restore("ns", "later", -2*time.Hour, api.RestoreCompleted, api.PodRestore{Name: "db-1", Phase: api.PodRestored, Finished: at(-time.Hour)}), told, ""},
	} {
		all := []api.Restore{*restore("ns", "r", -48*time.Hour, api.RestoreCancelled, c.half)}
		objects := objectsOf(controller(), labelledNamespace("ns"), labelledNamespace("else"), &all[0])
		if c.other != nil {
			objects = append(objects, c.other)
		}
		got := look(t, "restores", objects...)
		expect(t, c.what, got, c.want)
		if !strings.Contains(got[0].Remedy, c.remedy) {
			t.Errorf("%s: remedy %q", c.what, got[0].Remedy)
		}
		if c.half.Phase == api.PodRestoring && c.half.Previous == (!strings.Contains(got[0].Remedy, "undo")) && got[0].Status == Fail {
			t.Errorf("%s: remedy %q", c.what, got[0].Remedy)
		}
	}
	undone := half
	undone.Action = api.ActionUndo
	got := look(t, "restores", controller(), labelledNamespace("ns"), restore("ns", "r", -48*time.Hour, api.RestoreCancelled, undone))
	expect(t, "an undo", got, told)
	if strings.Contains(got[0].Remedy, "--backup") {
		t.Errorf("an undo: %q", got[0].Remedy)
	}
}
