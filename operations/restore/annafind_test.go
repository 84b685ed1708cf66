package restore

import (
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stategraft/stategraft/api/node"
	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/kvs"
	"github.com/stategraft/stategraft/patches"
)

// TestLatestOfTheCluster has two clusters make their backups below one prefix.
func TestLatestOfTheCluster(t *testing.T) {
	summary := func(name string, hour int, nodes ...string) node.Summary {
		return node.Summary{Name: name, Nodes: nodes, Complete: true, Started: today.Add(time.Duration(hour) * time.Hour), Finished: today.Add(time.Duration(hour)*time.Hour + time.Minute)}
	}
	own, scaled, others := summary("own", -9, "mem-0", "mem-1", "ebs-0"), summary("scaled", -7, "mem-9"), summary("others", -2, "b-0", "b-1")
	for name, c := range map[string]struct {
		asked  string
		list   []node.Summary
		source *api.RestoreSource
		want   string
		reason string
	}{
		"the newest is another's":        {api.BackupLatest, []node.Summary{own, others}, nil, "own", ""},
		"of a time":                      {today.Add(-time.Hour).Format(time.RFC3339), []node.Summary{own, others}, nil, "own", ""},
		"of a node that was scaled away": {api.BackupLatest, []node.Summary{own, scaled, others}, nil, "scaled", ""},
		"all are another's":              {api.BackupLatest, []node.Summary{others}, nil, "", ReasonNodesMissing},
		"another's, by its name":         {"others", []node.Summary{own, others}, nil, "others", ""},
		"said whose":                     {api.BackupLatest, []node.Summary{own, others}, &api.RestoreSource{Prefix: new("x")}, "others", ""},
		"there is none":                  {api.BackupLatest, nil, nil, "", ReasonNoBackups},
		"there is none of the name":      {"owm", []node.Summary{own, others}, nil, "", ReasonNoSuchBackup},
	} {
		f := annaFacts(func(f *Facts) { f.Restore.Spec.Backup, f.Restore.Spec.Source = c.asked, c.source })
		f.Backups = &node.Backups{Prefix: "p", Backups: c.list}
		got, p := resolve(f)
		if got != c.want || !problemIs(p, c.reason) {
			t.Errorf("%s: %q, %+v", name, got, p)
		}
	}
}

// A node that its StatefulSet is to have would come up with what it had.
func TestAnnaNodesThatAreAway(t *testing.T) {
	disk := func(change func(*appsv1.StatefulSet)) func(*Facts) {
		return func(f *Facts) {
			f.Sets = map[string]*appsv1.StatefulSet{"disk": factSet(2, func(s *appsv1.StatefulSet) { s.Name = "disk"; change(s) })}
			f.Backup.Members[1].Node, f.Backup.Ring = "disk-1", nil
		}
	}
	for name, c := range map[string]struct {
		change  []func(*Facts)
		refused bool
	}{
		"its StatefulSet has no pod":  {[]func(*Facts){disk(func(*appsv1.StatefulSet) {})}, true},
		"it is scaled down":           {[]func(*Facts){disk(func(s *appsv1.StatefulSet) { s.Spec.Replicas = new(int32(1)) })}, false},
		"it is going":                 {[]func(*Facts){disk(func(s *appsv1.StatefulSet) { s.DeletionTimestamp = new(metav1.NewTime(today)) })}, false},
		"merged":                      {[]func(*Facts){disk(func(*appsv1.StatefulSet) {}), func(f *Facts) { f.Restore.Spec.Mode = api.Merge }}, false},
		"of a cluster that was named": {[]func(*Facts){disk(func(*appsv1.StatefulSet) {}), func(f *Facts) { f.Restore.Spec.Source = &api.RestoreSource{Prefix: new("x")} }}, false},
	} {
		f := annaFacts(c.change...)
		_, _, p := Plan(f)
		if refused := p != nil; refused != c.refused || refused && (p.Wait || !strings.Contains(p.Message, "disk-1 was of the cluster")) {
			t.Errorf("%s: %+v", name, p)
		}
	}
}

// With the same label or none and another ConfigMap, nobody knows whether they are one
// cluster, and those that were not named would be emptied.
func TestTwoAnnasInANamespace(t *testing.T) {
	config := func(pod *corev1.Pod, name string) {
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: patches.VolumeConfig, VolumeSource: corev1.VolumeSource{
			ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: name}}}})
	}
	for _, mode := range []api.RestoreMode{api.InPlace, api.Merge} {
		f := annaFacts(func(f *Facts) { f.Restore.Spec.Mode = mode })
		for _, pod := range f.Pods {
			config(pod, map[bool]string{true: "anna", false: "anna-b"}[strings.HasPrefix(pod.Name, "mem")])
		}
		if _, p := Accept(f); p == nil || p.Wait || !strings.Contains(p.Message, kvs.LabelPartOf) || !strings.Contains(p.Message, "ebs-0") {
			t.Errorf("%s: %+v", mode, p)
		}
		f.Added = nil // all were named
		if _, p := Accept(f); p != nil {
			t.Errorf("%s: %+v", mode, p)
		}
	}
}

// Several parts, or none, are for nodes of Anna. One of Cassandra would be emptied, with
// whenNoBackup: Empty.
func TestSeveralPartsAreAnnas(t *testing.T) {
	for _, given := range []string{"cas-0,cas-1", "-"} {
		f := facts(2, 2, func(f *Facts) {
			f.Restore.Spec.WhenNoBackup = api.NoBackupEmpty
			f.Restore.Spec.Source = &api.RestoreSource{Nodes: map[string]string{"cas-0": given}}
		})
		if _, p := Accept(f); p == nil || p.Reason != ReasonBadSpec || !strings.Contains(p.Message, "cas-0") {
			t.Errorf("%s: %+v", given, p)
		}
	}
}

// A pod that comes up without its part is lost once, however long it stays.
func TestBareNodeIsLostOnce(t *testing.T) {
	r := &api.Restore{Spec: api.RestoreSpec{Backup: "b"}, Status: api.RestoreStatus{Kind: api.KindAnna, ID: "r/1", Pending: []string{"mem-0", "mem-1"},
		Pods: []api.PodRestore{{Name: "mem-0", Phase: api.PodReplaying, Process: "uid-mem-0/0"}, {Name: "mem-1", Phase: api.PodWaiting, Process: "gone/0"}}}}
	bare_ := annaPod("mem-1")
	w := world{pods: map[string]*corev1.Pod{"mem-0": annaPod("mem-0"), "mem-1": bare_}, unlabelled: true}
	for range 3 {
		c := newCourse(r, w, today)
		c.seen["mem-1"] = seen{sight: bare, pod: bare_}
		c.losses()
		r.Status = c.status
	}
	if r.Status.Round != 1 || r.Status.Pod("mem-1").Process != process(bare_) {
		t.Errorf("round %d, %+v", r.Status.Round, r.Status.Pods)
	}
	c := newCourse(r, world{pods: map[string]*corev1.Pod{"mem-0": w.pods["mem-0"]}}, today) // it has gone
	c.losses()
	if c.status.Round != 2 || !slices.Equal([]string{c.status.Pods[0].Process, c.status.Pods[1].Process}, []string{"uid-mem-0/0", ""}) {
		t.Errorf("once more: round %d, %+v", c.status.Round, c.status.Pods)
	}
}

// What an undo of Anna does is less than people expect, and its plan says so.
func TestUndoOfAnnaSaysWhatItDoes(t *testing.T) {
	f := annaFacts(func(f *Facts) {
		f.Restore.Spec.Backup, f.Restore.Spec.Undo, f.Restore.Spec.Pods.Names = "", "before", []string{"ebs-0"}
		f.Earlier = &api.Restore{Status: api.RestoreStatus{ID: "before/1"}}
		f.Reports["ebs-0"] = node.Report{Node: "ebs-0", Prefix: "hydro", Previous: []node.Previous{{ID: "before/1", Since: today.Add(-time.Hour), Bytes: 5}}}
	})
	plan, message, p := Plan(f)
	if p != nil || len(plan) != 1 || plan[0].Action != api.ActionUndo || !strings.Contains(message, "keys in memory stay as they are") {
		t.Errorf("%+v, %s, %+v", plan, message, p)
	}
}

// A merge has set nothing aside. To undo one, where its sidecar does not answer, would be to
// stop nodes for nothing, and memory nodes with all that they hold.
func TestMergeIsNotUndone(t *testing.T) {
	f := annaFacts(func(f *Facts) {
		f.Restore.Spec.Backup, f.Restore.Spec.Undo, f.Restore.Spec.Pods = "", "merge", api.RestorePods{}
		f.Earlier = &api.Restore{Spec: api.RestoreSpec{Mode: api.Merge}, Status: api.RestoreStatus{ID: "merge/1", Phase: api.RestoreCancelled,
			Pods: []api.PodRestore{{Name: "mem-0", Phase: api.PodCancelled, Started: new(metav1.NewTime(today))}}}}
	})
	if _, p := Accept(f); p == nil || p.Reason != ReasonNotUndoable || p.Wait {
		t.Errorf("%+v", p)
	}
}

// Anna's processes end where they know of disk nodes only.
func TestMemoryTierFirst(t *testing.T) {
	node := func(name, role string, up bool) *corev1.Pod {
		return annaPod(name, func(pod *corev1.Pod) {
			pod.Spec.InitContainers[0].Env[0].Value = role
			if up {
				pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "kvs", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
			}
		})
	}
	for name, c := range map[string]struct {
		memory *corev1.Pod // mem-0, or nil
		sight  sight
		want   []string
	}{
		"it waits, too":           {node("mem-0", "memory", false), gated, []string{"mem-0"}},
		"it fetches its part":     {node("mem-0", "memory", false), restoring, nil},
		"it has it, and runs not": {node("mem-0", "memory", false), restored, nil},
		"it runs":                 {node("mem-0", "memory", true), restored, []string{"ebs-0", "ebs-1"}},
		"it is not there":         {nil, absent, nil},
		"it is another disk's":    {node("mem-0", "ebs", true), restored, []string{"ebs-0", "ebs-1"}},
	} {
		c_ := &course{w: world{pods: map[string]*corev1.Pod{"ebs-0": node("ebs-0", "ebs", false), "ebs-1": node("ebs-1", "ebs", false)}},
			seen: map[string]seen{"ebs-0": {sight: gated}, "ebs-1": {sight: gated}, "mem-0": {sight: c.sight, pod: c.memory}}}
		c_.status.Kind, c_.status.Pending = api.KindAnna, []string{"ebs-0", "ebs-1", "mem-0"}
		for _, name := range c_.status.Pending {
			c_.status.Pods = append(c_.status.Pods, api.PodRestore{Name: name})
		}
		if c.memory != nil {
			c_.w.pods["mem-0"] = c.memory
		}
		if got := c_.memoryFirst(c_.names(gated)); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q", name, got)
		}
	}
}
