package adopt

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/adopt"
	"github.com/stategraft/stategraft/test/golden"
)

// standing are pods in all ways in which they stand to adoption.
func standing() []corev1.Pod {
	unready := func(p *corev1.Pod) { p.Status.Conditions = nil }
	var all []corev1.Pod
	for _, p := range []*corev1.Pod{
		database("c-0"),
		database("c-1", injected),
		database("c-2", labelled, with("stategraft-agent-1", done()), with("stategraft-snapshot-2", runs()), with("stategraft-medusa-3", runs())),
		database("c-3", with("stategraft-agent-1", done()), with("stategraft-snapshot-2", runs()), with("stategraft-medusa-3", waits("ImagePullBackOff", "Back-off pulling image\n\"m:1\""))),
		database("c-4", unready),
		database("c-5", with("stategraft-agent-1", runs()), with("stategraft-medusa-2", waits("x", "")), func(p *corev1.Pod) { p.Annotations = map[string]string{api.AnnotationAdopt: api.AdoptNever} }),
		database("c-10", func(p *corev1.Pod) { p.Status.Phase = corev1.PodPending }),
		database("c-11", manyEnded),
		database("sub-0", func(p *corev1.Pod) { p.Spec.Containers[0].VolumeMounts[0].SubPath = "cassandra" }),
		database("out-0", func(p *corev1.Pod) { p.Labels[api.LabelInject] = api.InjectDisabled }),
		database("never-0", func(p *corev1.Pod) { p.Annotations = map[string]string{api.AnnotationAdopt: api.AdoptNever} }),
		database("route-0", func(p *corev1.Pod) {
			p.Labels[api.LabelWorkload] = "anna"
			p.Spec.Containers = []corev1.Container{{Name: "route-container", Image: "hydroproject/anna", Env: []corev1.EnvVar{{Name: "SERVER_TYPE", Value: "r"}}}}
		}),
		database("web-0", func(p *corev1.Pod) { p.Spec.Containers = []corev1.Container{{Name: "nginx", Image: "nginx"}} }),
		database("win-0", on("windows")),
		database("old-0", on("old")),
		database("full-0", on("full")),
		database("deleted-0", func(p *corev1.Pod) { p.DeletionTimestamp, p.Finalizers = &metav1.Time{Time: noon}, []string{"x/y"} }),
		database("ended-0", func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }),
	} {
		all = append(all, *p)
	}
	return all
}

func nodes() []client.Object {
	return []client.Object{node("n1", nil), medusaConfig("prod"), bucketKey("prod"),
		node("windows", func(n *corev1.Node) { n.Status.NodeInfo.OperatingSystem = "windows" }),
		node("old", func(n *corev1.Node) { n.Status.NodeInfo.KubeletVersion = "v1.24.17" }),
		node("full", func(n *corev1.Node) {
			n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: corev1.NodeMemoryPressure, Status: corev1.ConditionTrue})
		})}
}

// manyEnded gives a pod as many containers as it may be given within a day, all of which
// have ended.
func manyEnded(p *corev1.Pod) {
	for n := range adopt.DefaultPerDay {
		with(fmt.Sprintf("stategraft-agent-%d", 2*n+1), endedWith(1, "Error"))(p)
		with(fmt.Sprintf("stategraft-medusa-%d", 2*n+2), endedWith(137, "OOMKilled"))(p)
	}
	for i := range p.Spec.EphemeralContainers { // a round every two hours
		p.Spec.EphemeralContainers[i].Env[1].Value = noon.Add(time.Duration(i/2-adopt.DefaultPerDay) * 2 * time.Hour).Format(time.RFC3339)
	}
}

// TestPlan compares what is said of pods with golden files.
func TestPlan(t *testing.T) {
	var text bytes.Buffer
	l := looker(store(interceptor.Funcs{}, nodes()...))
	looked := l.Look(t.Context(), standing(), "")
	first := looker(store(interceptor.Funcs{}, nodes()...)).Look(t.Context(), standing()[:5], "2026")
	for _, c := range []struct {
		what  string
		pods  []Pod
		renew bool
	}{{"all", looked, false}, {"none is to be", looked[1:3], false}, {"one", looked[:1], false}, {"renewed", first, true}} {
		fmt.Fprintln(&text, "==", c.what)
		if err := WritePlan(&text, "prod", c.pods, c.renew); err != nil {
			t.Fatal(err)
		}
	}
	golden.Compare(t, "testdata/plan.txt", text.Bytes())
	document, err := json.MarshalIndent(Document{Namespace: "prod", DryRun: true, Pods: looked, Notes: l.Notes()}, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden.Compare(t, "testdata/plan.json", append(document, '\n'))
	if len(l.Notes()) > 0 {
		t.Errorf("%q, though all was looked at", l.Notes())
	}
}

// What stands of nodes is not known does not speak against a pod, and is said, once.
func TestNodesUnknown(t *testing.T) {
	for what, c := range map[string]client.Reader{
		"no right": store(interceptor.Funcs{Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return forbidden("nodes")
		}}),
		"gone": store(interceptor.Funcs{}, medusaConfig("prod"), bucketKey("prod")),
	} {
		l := looker(c)
		looked := l.Look(t.Context(), []corev1.Pod{*database("c-0"), *database("old-0", on("old"))}, "")
		if looked[0].State != StatePossible || looked[1].State != StatePossible || len(l.Notes()) != 1 || !strings.Contains(l.Notes()[0], "the nodes, whether their kubelets are new enough") {
			t.Errorf("%s: %+v, %q", what, looked, l.Notes())
		}
		if what == "no right" && (!strings.HasSuffix(l.Notes()[0], "(you have no right to get nodes).") || strings.Contains(l.Notes()[0], "auth can-i")) {
			t.Errorf("%q", l.Notes())
		}
	}
	offline := looker(nil)
	if looked := offline.Look(t.Context(), []corev1.Pod{*database("c-0")}, ""); looked[0].State != StatePossible || len(offline.Notes()) > 0 {
		t.Errorf("without a cluster: %+v, %q", looked, offline.Notes())
	}
}

// The numbers of new containers follow those that the pod has.
func TestRenewNumbers(t *testing.T) {
	p := database("c-0", labelled, with("stategraft-agent-4", done()), with("stategraft-medusa-5", runs()), with("stategraft-agent-1", done()))
	looked := looker(nil).Look(t.Context(), []corev1.Pod{*p}, "2026")
	if looked[0].State != StatePossible || len(looked[0].Containers) == 0 || looked[0].Containers[0] != "stategraft-agent-6" {
		t.Errorf("%+v", looked)
	}
}

// A pod has its sidecar when a part of each role does its work and the controllers know
// it; what is asked anew counts by its value.
func TestAdopted(t *testing.T) {
	agent, medusa := with("stategraft-agent-1", done()), with("stategraft-medusa-2", runs())
	for what, c := range map[string]struct {
		pod       *corev1.Pod
		has, anew bool
	}{
		"all up":              {database("c-0", labelled, agent, medusa), true, false},
		"not labelled":        {database("c-0", agent, medusa), false, false},
		"nothing":             {database("c-0", labelled), false, false},
		"agent failed":        {database("c-0", labelled, with("stategraft-agent-1", endedWith(1, "Error")), medusa), false, false},
		"medusa done":         {database("c-0", labelled, agent, with("stategraft-medusa-2", done())), false, false},
		"an older one serves": {database("c-0", labelled, agent, medusa, with("stategraft-agent-3", done()), with("stategraft-medusa-4", waits("x", ""))), true, false},
		"anna":                {database("c-0", labelled, with("stategraft-agent-1", runs(), corev1.EnvVar{Name: "STATEGRAFT_NODE_PORT", Value: "1"})), true, false},
		"new":                 {database("c-0", labelled, agent, medusa, with("stategraft-agent-3", done(), renewed("v")), with("stategraft-medusa-4", runs(), renewed("v"))), true, true},
		"new, half":           {database("c-0", labelled, agent, medusa, with("stategraft-agent-3", done(), renewed("v")), with("stategraft-medusa-4", nil, renewed("v"))), true, false},
		"somebody's name": {database("c-0", labelled, func(p *corev1.Pod) {
			p.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "stategraft-medusa-1"}}}
		}), false, false},
	} {
		if has, anew := Adopted(c.pod, ""), Adopted(c.pod, "v"); has != c.has || anew != c.anew {
			t.Errorf("%s: %v, anew %v", what, has, anew)
		}
	}
}

// Each reason is either waited for or somebody's to settle; those of pods as they were
// written do not go by themselves.
func TestPasses(t *testing.T) {
	passing := 0
	for _, r := range adopt.Reasons {
		if Passes(r) {
			passing++
		}
	}
	if passing != 9 || Passes(adopt.ReasonExhausted) || Passes("sub-path") || Passes("") || !slices.Contains(adopt.Reasons, adopt.ReasonWaits) || !Passes(adopt.ReasonWaits) {
		t.Errorf("%d pass", passing)
	}
}

// What has a pod wait although all of it runs, or be taken for what it is not, is said.
func TestLookTroubles(t *testing.T) {
	long := func(p *corev1.Pod) {
		for i := range p.Status.EphemeralContainerStatuses {
			p.Status.EphemeralContainerStatuses[i].State.Running.StartedAt = metav1.NewTime(noon.Add(-time.Hour))
		}
	}
	asking := looker(nil)
	asking.Namespace.Annotations = map[string]string{api.AnnotationAdopt: api.AdoptRunning}
	for what, c := range map[string]struct {
		by    *Looker
		pod   *corev1.Pod
		state State
		says  string
	}{
		"brings nothing": {looker(nil), database("c-0", with("stategraft-agent-1", runs()), with("stategraft-medusa-2", runs()), long), StateAdopting,
			"stategraft-agent-1 runs since 2026-11-30T11:00:00Z, and has not brought the agent's program to the others: its log (kubectl logs -c stategraft-agent-1)"},
		"brings it": {looker(nil), database("c-0", with("stategraft-agent-1", runs()), with("stategraft-medusa-2", runs())), StateAdopting,
			"stategraft-agent-1 runs, stategraft-medusa-2 runs"},
		"a copied label":         {looker(nil), database("c-0", labelled), StatePossible, "kubectl -n prod label pod c-0 stategraft.io/injected-"},
		"and the namespace asks": {asking, database("c-0", labelled), StatePossible, ""},
	} {
		got := c.by.Look(t.Context(), []corev1.Pod{*c.pod}, "")[0]
		if got.State != c.state || !strings.Contains(got.Message, c.says) || c.says == "" && got.Message != "" {
			t.Errorf("%s: %+v", what, got)
		}
	}
}
