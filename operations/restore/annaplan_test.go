package restore

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stategraft/stategraft/api/node"
	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/kvs"
)

// annaFacts are those of a Restore of one memory node of a cluster of three nodes, of
// which a backup has four others.
func annaFacts(change ...func(*Facts)) Facts {
	role := func(role, cluster string) func(*corev1.Pod) {
		return func(pod *corev1.Pod) {
			c := &pod.Spec.InitContainers[0]
			c.Env = []corev1.EnvVar{{Name: kvs.EnvRole, Value: role}, {Name: kvs.EnvCluster, Value: cluster}}
			if role == "routing" {
				c.Ports = nil
			}
			pod.OwnerReferences[0].Name = strings.TrimRight(pod.Name, "-0123456789")
			pod.Labels["app"] = "anna"
		}
	}
	f := Facts{
		Restore: &api.Restore{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "r", UID: "r", CreationTimestamp: metav1.NewTime(made)},
			Spec: api.RestoreSpec{Backup: "nightly", Mode: api.InPlace, WhenNoBackup: api.NoBackupFail, KeepPrevious: api.KeepIfRoom, Pods: api.RestorePods{Names: []string{"mem-0"}}}},
		Labelled: true, Now: today, Reports: map[string]node.Report{}, Silent: map[string]error{},
	}
	all := []*corev1.Pod{annaPod("mem-0", role("memory", "hydro")), annaPod("mem-1", role("memory", "hydro")), annaPod("ebs-0", role("ebs", "hydro")),
		annaPod("route-0", role("routing", "hydro")), annaPod("else-0", role("memory", "else"))}
	f.Backup = factBackup("nightly", "old-0", "old-1", "old-2", "old-10")
	for i := range f.Backup.Members {
		f.Backup.Members[i].Keys = 10
	}
	f.Backups = &node.Backups{Prefix: "hydro", Backups: []node.Summary{f.Backup.Summary}}
	for _, pod := range all {
		f.Reports[pod.Name] = node.Report{Node: pod.Name, Prefix: "hydro", Size: 100 << 30, Free: 1}
	}
	for _, c := range change {
		c(&f)
	}
	f.choose(all)
	f.widen(all)
	return f
}

func TestPlanAnna(t *testing.T) {
	spec := func(change func(*api.RestoreSpec)) func(*Facts) {
		return func(f *Facts) { change(&f.Restore.Spec) }
	}
	mapping := func(nodes map[string]string) func(*Facts) {
		return spec(func(s *api.RestoreSpec) { s.Source = &api.RestoreSource{Nodes: nodes} })
	}
	unfinished := func(f *Facts) { f.Backup.Members[1].Complete = false }
	in := map[string]string{"ebs-0": "old-0,old-10", "mem-0": "old-1", "mem-1": "old-2"}
	for name, c := range map[string]struct {
		change []func(*Facts)
		nodes  map[string]string
		reason string
		says   string // of the message
	}{
		"one pod is all":   {nil, in, "", "ebs-0, mem-1 too"},
		"what it comes to": {nil, in, "", "40 keys of 4 nodes"},
		"by labels, without routing": {[]func(*Facts){spec(func(s *api.RestoreSpec) {
			s.Pods = api.RestorePods{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "anna"}}}
		})}, nil, ReasonNotSupported, "not of one cluster"},
		"routing alone":             {[]func(*Facts){spec(func(s *api.RestoreSpec) { s.Pods.Names = []string{"route-0"} })}, nil, ReasonNotSupported, "holds no keys"},
		"as is said":                {[]func(*Facts){mapping(map[string]string{"mem-0": "old-0,old-1,old-2,old-10", "mem-1": "-"})}, map[string]string{"ebs-0": "-", "mem-0": "old-0,old-1,old-2,old-10", "mem-1": "-"}, "", ""},
		"not all are said":          {[]func(*Facts){mapping(map[string]string{"mem-0": "old-0,old-1"})}, nil, ReasonIncompleteMapping, "old-2, old-10"},
		"one twice":                 {[]func(*Facts){mapping(map[string]string{"mem-0": "old-0,old-1", "mem-1": "old-1"})}, nil, ReasonBadSpec, "old-1"},
		"no such":                   {[]func(*Facts){mapping(map[string]string{"mem-0": "old-7"})}, nil, ReasonNoBackupOfNode, "old-7"},
		"a part was never finished": {[]func(*Facts){unfinished}, nil, ReasonNoBackupOfNode, "node old-1"},
		"without it":                {[]func(*Facts){unfinished, spec(func(s *api.RestoreSpec) { s.WhenNoBackup = api.NoBackupEmpty })}, map[string]string{"ebs-0": "old-0", "mem-0": "old-2", "mem-1": "old-10"}, "", "their keys are missing"},
		"a part is not there":       {[]func(*Facts){func(f *Facts) { f.Backup.Ring["old-3"] = node.Ring{} }}, nil, ReasonNoBackupOfNode, "old-3"},
		"keys are missing":          {[]func(*Facts){func(f *Facts) { f.Backup.Members[0].Missing = &node.Missing{Count: 5} }}, in, "", "lacks 5 keys"},
		"merged":                    {[]func(*Facts){spec(func(s *api.RestoreSpec) { s.Mode = api.Merge })}, in, "", "later than those of the backup stay"},
		"merged, with a gap":        {[]func(*Facts){unfinished, spec(func(s *api.RestoreSpec) { s.Mode = api.Merge })}, map[string]string{"ebs-0": "old-0", "mem-0": "old-2", "mem-1": "old-10"}, "", "their keys are missing"},
		"no way back":               {[]func(*Facts){spec(func(s *api.RestoreSpec) { s.KeepPrevious = api.KeepNever })}, in, "", "are not kept"},
		"another has come":          {[]func(*Facts){func(f *Facts) { f.Late = []*corev1.Pod{annaPod("mem-2")} }}, nil, "", ""},
		"two clusters of a label":   {[]func(*Facts){func(f *Facts) { f.Reports["mem-1"] = node.Report{Node: "mem-1", Prefix: "other"} }}, nil, ReasonNotSupported, "below prefix other"},
	} {
		f := annaFacts(c.change...)
		if name == "another has come" {
			c.reason, c.says = ReasonTopologyDiffers, "mem-2"
			f.Late = []*corev1.Pod{annaPod("mem-2")}
		}
		_, p := Accept(f)
		var plan []api.PodRestore
		message := ""
		if p == nil {
			plan, message, p = Plan(f)
		}
		if p != nil {
			if p.Reason != c.reason || !strings.Contains(p.Message, c.says) {
				t.Errorf("%s: %s: %s", name, p.Reason, p.Message)
			}
			continue
		}
		got := map[string]string{}
		for _, at := range plan {
			got[at.Name] = at.Node
		}
		if c.reason != "" || !maps.Equal(got, c.nodes) || !strings.Contains(message, c.says) {
			t.Errorf("%s: %v: %s", name, got, message)
		}
	}
}

// A StatefulSet that waits with each pod for the one before would wait for ever.
func TestAnnaNeedsParallel(t *testing.T) {
	for _, c := range []struct {
		policy   appsv1.PodManagementPolicyType
		replicas int32
		mode     api.RestoreMode
		refused  bool
	}{
		{appsv1.ParallelPodManagement, 2, api.InPlace, false}, {appsv1.OrderedReadyPodManagement, 2, api.InPlace, true}, {"", 2, api.InPlace, true},
		{appsv1.OrderedReadyPodManagement, 1, api.InPlace, false}, {appsv1.OrderedReadyPodManagement, 2, api.Merge, false},
	} {
		f := annaFacts(func(f *Facts) { f.Restore.Spec.Mode = c.mode })
		set := factSet(c.replicas, func(s *appsv1.StatefulSet) { s.Name, s.Spec.PodManagementPolicy = "mem", c.policy })
		f.Sets = map[string]*appsv1.StatefulSet{"mem": set}
		if c.replicas == 1 { // else mem-1 is on its way out
			f.Pods = slices.DeleteFunc(f.Pods, func(p *corev1.Pod) bool { return p.Name == "mem-1" })
		}
		if _, p := Accept(f); (p != nil) != c.refused || p != nil && !strings.Contains(p.Message, "podManagementPolicy") {
			t.Errorf("%+v: %v", c, p)
		}
	}
}

// Nodes that their StatefulSet is to have are waited for, however few were named.
func TestAnnaAwaitsItsNodes(t *testing.T) {
	f := annaFacts()
	f.Sets = map[string]*appsv1.StatefulSet{"mem": factSet(4, func(s *appsv1.StatefulSet) { s.Name, s.Spec.PodManagementPolicy = "mem", appsv1.ParallelPodManagement })}
	f.awaitNodes(f.Pods)
	if !slices.Equal(f.Awaited, []string{"mem-2", "mem-3"}) {
		t.Fatalf("%q", f.Awaited)
	}
	if _, p := Accept(f); p == nil || !p.Wait || p.Reason != ReasonPodNotFound {
		t.Error(p)
	}
}

// A merge waits for a node that does not answer, and is not held up by budgets.
func TestMergeWaits(t *testing.T) {
	merge := func(f *Facts) { f.Restore.Spec.Mode = api.Merge }
	f := annaFacts(merge)
	delete(f.Reports, "mem-1")
	f.Silent["mem-1"] = errors.New("refused")
	unready(f.Pods[slices.IndexFunc(f.Pods, func(p *corev1.Pod) bool { return p.Name == "mem-1" })])
	if _, _, p := Plan(f); p == nil || !p.Wait || !strings.Contains(p.Message, "mem-1 to be Ready") {
		t.Error(p)
	}
	f = annaFacts(merge)
	f.Budgets = append(f.Budgets, factBudget("b", 0, 9, map[string]string{"app": "anna"}))
	if _, _, p := Plan(f); p != nil {
		t.Error(p)
	}
}
