package restore

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stategraft/stategraft/api/node"
	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/patches"
)

func TestNamesAreThoseOfPatches(t *testing.T) {
	if containerRestore != patches.ContainerRestore || envBackup != patches.EnvBackup {
		t.Error("the containers or their variables are called otherwise in patches")
	}
}

func spec(change func(*api.RestoreSpec)) func(*Facts) {
	return func(f *Facts) { change(&f.Restore.Spec) }
}

func pod0(change func(*corev1.Pod)) func(*Facts) { return func(f *Facts) { change(f.Pods[0]) } }

func earlier(phase api.RestorePhase, change ...func(*api.Restore)) func(*Facts) {
	return func(f *Facts) {
		f.Restore.Spec.Backup, f.Restore.Spec.Undo = "", "before"
		f.Earlier = &api.Restore{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "before"}}
		f.Earlier.Status = api.RestoreStatus{ID: "before/1", Phase: phase, Pods: []api.PodRestore{{Name: "cas-0", Previous: true}, {Name: "cas-1", Previous: true}}}
		for _, c := range change {
			c(f.Earlier)
		}
	}
}

func other(age time.Duration, change func(*api.Restore)) func(*Facts) {
	return func(f *Facts) {
		o := api.Restore{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "other", CreationTimestamp: metav1.NewTime(made.Add(-age))},
			Spec: api.RestoreSpec{Backup: "b", Pods: api.RestorePods{Names: []string{"cas-1", "cas-7"}}}}
		if change != nil {
			change(&o)
		}
		f.Others = append(f.Others, o, *f.Restore)
	}
}

func TestAccept(t *testing.T) {
	template := func(annotation string, more ...corev1.EnvVar) func(*Facts) {
		return pod0(func(p *corev1.Pod) {
			p.Annotations = map[string]string{api.AnnotationRestore: annotation}
			p.Spec.InitContainers = []corev1.Container{{Name: containerRestore, Env: append([]corev1.EnvVar{{Name: envBackup, Value: "old"}}, more...)}}
		})
	}
	owner := func(kind, name string) func(*Facts) {
		return pod0(func(p *corev1.Pod) { p.OwnerReferences[0].Kind, p.OwnerReferences[0].Name = kind, name })
	}
	selector := func(match map[string]string) func(*Facts) {
		return spec(func(s *api.RestoreSpec) {
			s.Pods = api.RestorePods{Selector: &metav1.LabelSelector{MatchLabels: match}}
		})
	}
	for _, c := range []struct {
		what   string
		change []func(*Facts)
		reason string
		wait   bool
		says   []string
	}{
		{"as it should be", nil, "", false, nil},
		{"no backup", []func(*Facts){spec(func(s *api.RestoreSpec) { s.Backup = "" })}, ReasonBadSpec, false, []string{"spec.backup"}},
		{"both", []func(*Facts){spec(func(s *api.RestoreSpec) { s.Undo = "x" })}, ReasonBadSpec, false, []string{"exclude"}},
		{"undo of itself", []func(*Facts){spec(func(s *api.RestoreSpec) { s.Backup, s.Undo = "", "r" })}, ReasonBadSpec, false, []string{"itself"}},
		{"undo of another's", []func(*Facts){earlier(api.RestoreCompleted), spec(func(s *api.RestoreSpec) { s.Mode = api.Remote })}, ReasonBadSpec, false, []string{"own volumes"}},
		{"slash", []func(*Facts){spec(func(s *api.RestoreSpec) { s.Backup = "a/b" })}, ReasonBadSpec, false, []string{`"a/b"`, "no slash"}},
		{"dots", []func(*Facts){spec(func(s *api.RestoreSpec) { s.Backup = "a..b" })}, ReasonBadSpec, false, []string{"a..b"}},
		{"a time", []func(*Facts){spec(func(s *api.RestoreSpec) { s.Backup = "2026-02-28T10:00:00+02:00" })}, "", false, nil},
		{"no pods said", []func(*Facts){spec(func(s *api.RestoreSpec) { s.Pods = api.RestorePods{} })}, ReasonBadSpec, false, []string{"spec.pods"}},
		{"pods said twice", []func(*Facts){spec(func(s *api.RestoreSpec) { s.Pods.Selector = &metav1.LabelSelector{} })}, ReasonBadSpec, false, []string{"both"}},
		{"all pods of the namespace", []func(*Facts){selector(nil)}, ReasonBadSpec, false, []string{"empty"}},
		{"bad selector", []func(*Facts){spec(func(s *api.RestoreSpec) {
			s.Pods = api.RestorePods{Selector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Near"}}}}
		})}, ReasonBadSpec, false, []string{"Near"}},
		{"deadline", []func(*Facts){spec(func(s *api.RestoreSpec) { s.Deadline = &metav1.Duration{} })}, ReasonBadSpec, false, []string{"deadline"}},
		{"prefix twice", []func(*Facts){spec(func(s *api.RestoreSpec) { s.Source = &api.RestoreSource{Prefix: new("p"), Cluster: "c"} })}, ReasonBadSpec, false, []string{"prefix and cluster"}},
		{"node twice", []func(*Facts){spec(func(s *api.RestoreSpec) {
			s.Source = &api.RestoreSource{Nodes: map[string]string{"cas-0": "n", "cas-1": "n"}}
		})}, ReasonBadSpec, false, []string{"cas-0", "cas-1", "node n"}},
		{"bad node", []func(*Facts){spec(func(s *api.RestoreSpec) { s.Source = &api.RestoreSource{Nodes: map[string]string{"cas-0": "a/b"}} })}, ReasonBadSpec, false, []string{"a/b"}},
		{"mapping of a stranger", []func(*Facts){spec(func(s *api.RestoreSpec) { s.Source = &api.RestoreSource{Nodes: map[string]string{"cass-0": "n"}} })}, ReasonBadSpec, false, []string{"cass-0", "cas-0, cas-1"}},

		{"namespace", []func(*Facts){func(f *Facts) { f.Labelled = false }}, ReasonNamespaceNotLabelled, false, []string{"namespace ns", "kubectl label", "kubectl stategraft adopt", "re-create"}},
		{"missing", []func(*Facts){func(f *Facts) { f.Missing = []string{"cas-10", "cas-9"} }}, ReasonPodNotFound, false, []string{"cas-9, cas-10", "ns"}},
		{"missing, being re-created", []func(*Facts){func(f *Facts) { f.Missing = []string{"cas-0"}; f.Now = made.Add(grace - 1) }}, ReasonPodNotFound, true, nil},
		{"missing still", []func(*Facts){func(f *Facts) { f.Missing = []string{"cas-0"}; f.Now = made.Add(grace) }}, ReasonPodNotFound, false, nil},
		{"nothing selected", []func(*Facts){selector(map[string]string{"a": "b"}), func(f *Facts) { f.Pods = nil }}, ReasonNoPods, false, []string{"matches no pod"}},
		{"only ended ones selected", []func(*Facts){selector(map[string]string{"a": "b"}), func(f *Facts) {
			f.Pods = []*corev1.Pod{factPod("job-1", func(p *corev1.Pod) { p.Status.Phase, p.Spec.Containers = corev1.PodSucceeded, nil })}
		}}, ReasonNoPods, false, nil},
		{"opted out", []func(*Facts){pod0(func(p *corev1.Pod) { p.Labels[api.LabelInject] = api.InjectDisabled })}, ReasonOptedOut, false, []string{"pod cas-0"}},
		{"not injected", []func(*Facts){pod0(func(p *corev1.Pod) { p.Spec.Containers, p.Labels = p.Spec.Containers[:1], nil })}, ReasonNotInjected, false, []string{"pod cas-0", "explain"}},
		{"injected by an older version", []func(*Facts){pod0(func(p *corev1.Pod) { p.Spec.Containers[1].Ports = p.Spec.Containers[1].Ports[:1] })}, ReasonNotInjected, false, []string{"older", "kubectl delete pod cas-0"}},
		{"cloudburst", []func(*Facts){pod0(func(p *corev1.Pod) { p.Labels[api.LabelInjected] = "cloudburst" })}, ReasonNotSupported, false, []string{"cloudburst", "no data"}},
		{"merged into", []func(*Facts){spec(func(s *api.RestoreSpec) { s.Mode = api.Merge })}, ReasonNotSupported, false, []string{"not of Anna"}},
		{"deployment", []func(*Facts){owner("ReplicaSet", "cas")}, ReasonNoStableName, false, []string{"ReplicaSet", "template"}},
		{"no owner", []func(*Facts){pod0(func(p *corev1.Pod) { p.OwnerReferences = nil })}, ReasonNoStableName, false, nil},
		{"another's name", []func(*Facts){owner("StatefulSet", "cass")}, ReasonNoStableName, false, nil},
		{"a PetSet's", []func(*Facts){owner("PetSet", "cas")}, "", false, nil},
		{"template", []func(*Facts){template("old")}, ReasonTemplateRestores, false, []string{"cas-0", "old"}},
		{"asked for on the live pod", []func(*Facts){template("new")}, "", false, nil},
		{"a Restore's container", []func(*Facts){template("old", corev1.EnvVar{Name: api.EnvRestoreID, Value: "x"})}, "", false, nil},
		{"going", []func(*Facts){pod0(func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: today} })}, ReasonPodGoing, true, []string{"cas-0"}},
		{"one goes, one has none", []func(*Facts){pod0(func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: today} }),
			func(f *Facts) { f.Pods[1].OwnerReferences = nil }}, ReasonNoStableName, false, nil}, // what does not pass is told first

		{"no such restore", []func(*Facts){earlier(""), func(f *Facts) { f.Earlier = nil }}, ReasonNoSuchRestore, false, []string{"before"}},
		{"undo", []func(*Facts){earlier(api.RestoreCompleted)}, "", false, nil},
		{"undo of a failed one", []func(*Facts){earlier(api.RestoreFailed)}, "", false, nil},
		{"undo too early", []func(*Facts){earlier(api.RestoreRestoring)}, ReasonBusy, true, []string{"before"}},
		{"undo while pods are held", []func(*Facts){earlier(api.RestoreFailed, func(r *api.Restore) { r.Status.Pending = []string{"cas-0"} })}, ReasonBusy, true, nil},
		{"undo of nothing", []func(*Facts){earlier(api.RestorePlanned, func(r *api.Restore) { r.Spec.DryRun = true })}, ReasonNotUndoable, false, nil},
		{"undo where nothing is kept", []func(*Facts){earlier(api.RestoreCompleted, func(r *api.Restore) { r.Status.Pods[1].Previous = false })}, ReasonNotUndoable, false, []string{"of cas-1"}},
		{"undo of all where nothing is kept", []func(*Facts){earlier(api.RestoreCompleted, func(r *api.Restore) { r.Status.Pods = nil }), spec(func(s *api.RestoreSpec) { s.Pods = api.RestorePods{} })}, ReasonNotUndoable, false, []string{"of any pod"}},

		{"an older one", []func(*Facts){other(time.Hour, nil)}, ReasonBusy, true, []string{"restore other", "cas-1 before"}},
		{"as old, by name", []func(*Facts){other(0, nil)}, ReasonBusy, true, nil},
		{"as old, by name the later", []func(*Facts){other(0, func(r *api.Restore) { r.Name = "z" })}, "", false, nil},
		{"a younger one", []func(*Facts){other(-time.Hour, nil)}, "", false, nil},
		{"a younger one at work", []func(*Facts){other(-time.Hour, func(r *api.Restore) { r.Status.Pending = []string{"cas-1"} })}, ReasonBusy, true, []string{"at work on cas-1"}},
		{"at work ourselves", []func(*Facts){other(time.Hour, nil), func(f *Facts) { f.Restore.Status.Pending = []string{"cas-0"} }}, "", false, nil},
		{"an older one by selector", []func(*Facts){other(time.Hour, func(r *api.Restore) {
			r.Spec.Pods = api.RestorePods{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "cas"}}}
		})}, ReasonBusy, true, []string{"cas-0, cas-1"}},
		{"an older one of other pods", []func(*Facts){other(time.Hour, func(r *api.Restore) { r.Spec.Pods.Names = []string{"x-0"} })}, "", false, nil},
		{"an older one by status", []func(*Facts){other(time.Hour, func(r *api.Restore) { r.Status.Pods = []api.PodRestore{{Name: "x-0"}} })}, "", false, nil},
		{"an older one that is over", []func(*Facts){other(time.Hour, func(r *api.Restore) { r.Status.Phase = api.RestoreCompleted })}, "", false, nil},
		{"an older dry run", []func(*Facts){other(time.Hour, func(r *api.Restore) { r.Spec.DryRun = true })}, "", false, nil},
		{"an older one that goes", []func(*Facts){other(time.Hour, func(r *api.Restore) { r.DeletionTimestamp = &metav1.Time{Time: today} })}, "", false, nil},
		{"a failed one that holds pods", []func(*Facts){other(-time.Hour, func(r *api.Restore) {
			r.Status.Phase, r.Status.Pending = api.RestoreFailed, []string{"cas-0"}
		})}, ReasonBusy, true, []string{"failed", "cas-0", "cancel or delete"}},
		{"an older suspended one", []func(*Facts){other(time.Hour, func(r *api.Restore) { r.Spec.Suspend = true })}, ReasonBusy, true, []string{"suspended"}},
		{"a dry run beside an older one", []func(*Facts){other(time.Hour, nil), spec(func(s *api.RestoreSpec) { s.DryRun = true })}, "", false, nil},
	} {
		f := facts(2, 3, c.change...)
		names, p := Accept(f)
		if !problemIs(p, c.reason) || p != nil && p.Wait != c.wait {
			t.Errorf("%s: got %+v, want %q, wait %v", c.what, p, c.reason, c.wait)
			continue
		}
		if p == nil {
			if !slices.Equal(names, []string{"cas-0", "cas-1"}) {
				t.Errorf("%s: the pods are %q", c.what, names)
			}
			continue
		}
		for _, says := range c.says {
			if !strings.Contains(p.Message, says) {
				t.Errorf("%s: %q does not say %q", c.what, p.Message, says)
			}
		}
	}
}

// TestAcceptOrder looks at names and at the pods of an undo that names none.
func TestAcceptOrder(t *testing.T) {
	f := facts(12, 12)
	slices.Reverse(f.Pods)
	names, p := Accept(f)
	if p != nil || len(names) != 12 || names[1] != "cas-1" || names[11] != "cas-11" {
		t.Error(names, p)
	}
	f = facts(2, 2, earlier(api.RestoreCompleted))
	f.Restore.Spec.Pods = api.RestorePods{}
	f.Earlier.Status.Pods[0].Previous = false
	if asked, selector := Asked(f.Restore, f.Earlier); selector != nil || !slices.Equal(asked, []string{"cas-1"}) {
		t.Error(asked, selector)
	}
}

// TestNatural has names of which some are compared by their numbers and others as
// texts, which must not go round in a circle.
func TestNatural(t *testing.T) {
	sorted := []string{"a", "a-01", "a-1", "a-2", "a-9", "a-10", "a-1a", "b-1"}
	for i := range sorted {
		for j := range sorted {
			if got := natural(sorted[i], sorted[j]); (got < 0) != (i < j) || (got == 0) != (i == j) {
				t.Errorf("%s and %s compare as %d", sorted[i], sorted[j], got)
			}
		}
	}
}

// Where the source's medusa.ini names no prefix, its pods store below the one that
// the agent makes (agent/render).
func TestSourcePrefix(t *testing.T) {
	for _, c := range []struct {
		source *api.RestoreSource
		want   *string
	}{
		{nil, nil},
		{&api.RestoreSource{Nodes: map[string]string{"a": "b"}}, nil},
		{&api.RestoreSource{Prefix: new("")}, new("")},
		{&api.RestoreSource{Prefix: new("p")}, new("p")},
		{&api.RestoreSource{Cluster: "prod"}, new(node.Prefix("prod", ""))},
		{&api.RestoreSource{Cluster: "prod/ring"}, new("prod_ring")},
		{&api.RestoreSource{Cluster: "prod/Test Cluster"}, new(node.Prefix("prod", "Test Cluster"))},
		{&api.RestoreSource{Cluster: "prod/a/b"}, new(node.Prefix("prod", "a/b"))},
	} {
		got := SourcePrefix(&api.Restore{Spec: api.RestoreSpec{Source: c.source}})
		if (got == nil) != (c.want == nil) || got != nil && *got != *c.want {
			t.Errorf("%+v: %v", c.source, got)
		}
	}
}
