package check

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	api "github.com/stategraft/stategraft/api/v1alpha1"
)

// ended is a Backup of a StatefulSet that ended, and began so long ago.
func ended(name string, phase api.BackupPhase, ago time.Duration, pods ...string) *api.Backup {
	return backup(func(b *api.Backup) {
		b.Name, b.CreationTimestamp = name, *at(-ago)
		b.Spec.Pods = &api.BackupPods{Workload: &api.BackupWorkload{Name: "db"}}
		b.Status.Phase, b.Status.Message, b.Status.Finished = phase, "because", at(-ago/2)
		if len(pods) > 0 {
			b.Status.Started = at(-ago)
		}
		for _, pod := range pods {
			b.Status.Pods = append(b.Status.Pods, api.PodBackup{Name: pod})
		}
	})
}

// A Backup that failed is told, however long ago that was and whoever made it, until a
// newer one of its pods is complete; of several the newest.
func TestFailedBackups(t *testing.T) {
	change := func(b *api.Backup, how func(*api.Backup)) *api.Backup { how(b); return b }
	other := func(b *api.Backup) { b.Spec.Pods.Workload.Kind = "CassandraDatacenter" }
	const day = 24 * time.Hour
	old := ended("old", api.BackupComplete, 3*day, "db-0", "db-1")
	bad := ended("bad", api.BackupFailed, 2*day, "db-0", "db-1")
	refused := ended("refused", api.BackupFailed, 2*day)
	const told = "warn ns/bad: is Failed, and no newer backup of its pods is complete: because"
	for what, c := range map[string]struct {
		backups []*api.Backup
		want    string // empty for none in trouble
	}{
		"the newest":                                {[]*api.Backup{old, bad}, told},
		"a complete one is newer":                   {[]*api.Backup{bad, ended("new", api.BackupComplete, day, "db-0", "db-1")}, ""},
		"it has more pods":                          {[]*api.Backup{bad, ended("new", api.BackupComplete, day, "db-0", "db-1", "db-2")}, ""},
		"its StatefulSet has fewer since":           {[]*api.Backup{bad, ended("new", api.BackupComplete, day, "db-0")}, ""},
		"of another kind of workload, it lacks one": {[]*api.Backup{change(ended("bad", api.BackupFailed, 2*day, "db-0", "db-1"), other), change(ended("new", api.BackupComplete, day, "db-0"), other)}, told},
		"of pods by name, it lacks one":             {[]*api.Backup{bad, change(ended("new", api.BackupComplete, day, "db-0"), func(b *api.Backup) { b.Spec.Pods = &api.BackupPods{Names: []string{"db-0"}} })}, told},
		"it is another namespace's":                 {[]*api.Backup{bad, change(ended("new", api.BackupComplete, day, "db-0", "db-1"), func(b *api.Backup) { b.Namespace = "other" })}, told},
		"it was found":                              {[]*api.Backup{bad, change(ended("new", api.BackupComplete, day, "db-0", "db-1"), func(b *api.Backup) { b.Spec = api.BackupSpec{Existing: &api.ExistingBackup{Name: "x"}} })}, ""},
		"it is being deleted":                       {[]*api.Backup{bad, change(ended("new", api.BackupComplete, day, "db-0", "db-1"), func(b *api.Backup) { b.DeletionTimestamp = at(-time.Second) })}, told},
		"it is of the same time, and another name":  {[]*api.Backup{bad, ended("worse", api.BackupComplete, 2*day, "db-0", "db-1")}, ""},
		"of several the newest":                     {[]*api.Backup{ended("first", api.BackupFailed, 3*day, "db-0", "db-1"), bad, ended("zero", api.BackupPartial, 4*day, "db-1")}, told},
		"one is cancelled since":                    {[]*api.Backup{bad, ended("new", api.BackupCancelled, day, "db-0", "db-1")}, told},
		"of a schedule":                             {[]*api.Backup{change(ended("bad", api.BackupFailed, day, "db-0"), func(b *api.Backup) { b.Labels = map[string]string{api.LabelSchedule: "nightly"} })}, told},
		"found, and not complete":                   {[]*api.Backup{change(ended("bad", api.BackupPartial, day, "db-0"), func(b *api.Backup) { b.Spec = api.BackupSpec{Existing: &api.ExistingBackup{Name: "x"}} })}, ""},
		"refused":                                   {[]*api.Backup{refused}, "warn ns/refused: is Failed, and no newer"},
		"refused, then complete":                    {[]*api.Backup{refused, ended("new", api.BackupComplete, day, "db-0")}, ""},
		"refused, and another workload is complete": {[]*api.Backup{refused, change(ended("new", api.BackupComplete, day, "web-0"), func(b *api.Backup) { b.Spec.Pods.Workload.Name = "web" })}, "warn ns/refused: is Failed, and no newer"},
		"refused, of pods by name": {[]*api.Backup{change(ended("bad", api.BackupFailed, 2*day), func(b *api.Backup) { b.Spec.Pods = &api.BackupPods{Names: []string{"db-1"}} }),
			ended("new", api.BackupComplete, day, "db-0", "db-1")}, ""},
		"refused, by a selector": {[]*api.Backup{change(ended("bad", api.BackupFailed, 2*day), func(b *api.Backup) {
			b.Spec.Pods = &api.BackupPods{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}}
		}), ended("new", api.BackupComplete, day, "db-0")}, told},
	} {
		objects := []runtime.Object{controller(), labelledNamespace("ns")}
		for _, b := range c.backups {
			objects = append(objects, b)
		}
		want := c.want
		if want == "" {
			want = "ok : " + counted(len(c.backups), "Backup", "") + ", and none in trouble"
		}
		expect(t, what, look(t, "backups", objects...), want)
	}
}

// The remedy is of who makes the next.
func TestFailedBackupsRemedy(t *testing.T) {
	for schedule, want := range map[string]string{"": "make another under another name, or delete this one: kubectl stategraft backup delete bad -n ns", "nightly": "wait for the next run of BackupSchedule nightly, or delete this one: kubectl stategraft backup delete bad -n ns"} {
		bad := ended("bad", api.BackupFailed, time.Hour, "db-0")
		if schedule != "" {
			bad.Labels = map[string]string{api.LabelSchedule: schedule}
		}
		found := look(t, "backups", controller(), labelledNamespace("ns"), bad)
		if len(found) != 1 || !strings.HasPrefix(found[0].Remedy, "kubectl stategraft backup show bad -n ns; ") || !strings.Contains(found[0].Remedy, want) {
			t.Errorf("%q: %+v", schedule, found)
		}
	}
}

// Of thousands that are complete one is kept of the same pods.
func TestFewEndsAreKept(t *testing.T) {
	var all endedBackups
	for i := range 1000 {
		all.add(ended(fmt.Sprint("b", i), api.BackupComplete, time.Duration(i)*time.Minute, "db-1", "db-0"))
	}
	all.add(ended("bad", api.BackupFailed, 30*time.Second, "db-0"))
	if len(all.complete) != 1 || len(all.judge()) != 0 {
		t.Errorf("%d are kept, %v", len(all.complete), all.judge())
	}
}
