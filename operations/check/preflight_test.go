package check

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/patches"
)

// plain is a namespace without label.
func plain(name string) *corev1.Namespace {
	ns := namespace(name, nil, nil)
	return &ns
}

// What is named and not looked at is never taken for good.
func TestBeforeTheInstallation(t *testing.T) {
	stuck := databasePod(t)
	gone := labelledNamespace("gone")
	gone.DeletionTimestamp = &metav1.Time{Time: noon}
	gone.Finalizers = []string{"x"}
	for _, c := range []struct {
		what      string
		objects   []runtime.Object
		namespace string
		only      string // an item; empty for namespaces, among all
		want      string
		result    Result
	}{
		{"nothing", nil, "", "", "ok : none is labelled yet", Fine},
		{"admission, among all", nil, "", "-admission", "info : not installed yet", Fine},
		{"admission, named", nil, "", "admission", "skip : Stategraft is not installed", Incomplete},
		{"sidecars of a namespace", []runtime.Object{plain("cassandra")}, "cassandra", "sidecars", "skip : Stategraft is not installed", Incomplete},
		{"a namespace", []runtime.Object{plain("cassandra")}, "cassandra", "", "info cassandra: is not labelled", Fine},
		{"a labelled one", []runtime.Object{plain("a"), labelledNamespace("cassandra")}, "", "", "fail cassandra: pods here are not injected: Stategraft is not installed", Broken},
		{"a labelled one, asked for", []runtime.Object{labelledNamespace("cassandra")}, "cassandra", "namespaces", "fail cassandra: pods here are not injected", Broken},
		{"of the system", []runtime.Object{labelledNamespace("kube-system")}, "", "", "ok : none is labelled yet", Fine},
		{"one that ends", []runtime.Object{gone}, "", "", "ok : none is labelled yet", Fine},
	} {
		cluster, _ := stand(c.objects...)
		cluster.Namespace = c.namespace
		id, items := "namespaces", Items
		if c.only != "" {
			id = strings.TrimPrefix(c.only, "-")
		}
		if id == c.only {
			cluster.Named = true
			var err error
			if items, err = Select([]string{id}); err != nil {
				t.Fatal(err)
			}
		}
		report, err := Run(t.Context(), cluster, items)
		if err != nil {
			t.Fatalf("%s: %v", c.what, err)
		}
		expect(t, c.what, of(report, id), c.want)
		if report.Result != c.result || report.Mode != Preflight {
			t.Errorf("%s: %s in %s, want %s", c.what, report.Result, report.Mode, c.result)
		}
		if id == c.only && strings.Contains(report.conclusion(), "Nothing stands") != (c.result == Fine) {
			t.Errorf("%s: %q", c.what, report.conclusion())
		}
	}
	expect(t, "injected pods", look(t, "namespaces", plain("ns"), stuck), "ok : none is labelled", "fail ns: has 1 injected pod, and new pods here are not injected")
}

func of(report *Report, item string) []Finding {
	var found []Finding
	for _, f := range report.Findings {
		if f.Item == item {
			found = append(found, f)
		}
	}
	return found
}

// A namespace that is not there is refused in one line, installed or not.
func TestNamespaceThatWasAskedFor(t *testing.T) {
	config := registered(t)
	for _, c := range []struct {
		what, namespace, err string
	}{
		{"there", "ns", ""},
		{"missing", "nosuch", `there is no namespace "nosuch" in the cluster at https://example`},
		{"no name", "Bad_Name!", `"Bad_Name!" is not the name of a namespace: `},
		{"too long", strings.Repeat("a", 64), "is not the name of a namespace: "},
	} {
		for _, objects := range [][]runtime.Object{{plain("ns")}, {plain("ns"), &config}} {
			cluster, _ := stand(objects...)
			cluster.Namespace = c.namespace
			_, err := Run(t.Context(), cluster, Items)
			if c.err == "" && err == nil {
				continue
			}
			if c.err == "" || err == nil || !strings.Contains(err.Error(), c.err) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%s: %v, want %q", c.what, err, c.err)
			}
		}
	}
}

// A pod that asked for a restore where nobody saw it.
func TestUnrestored(t *testing.T) {
	config := registered(t)
	asking := func(namespace string, change func(*corev1.Pod)) *corev1.Pod {
		pod := probePod("nightly")
		pod.Namespace, pod.Name = namespace, "db-0"
		change(pod)
		return pod
	}
	misspelt := namespace("ns", map[string]string{api.LabelInject: "true"}, nil)
	as := func(*corev1.Pod) {}
	for _, c := range []struct {
		what string
		ns   *corev1.Namespace
		pod  *corev1.Pod
		want []string
	}{
		{"not labelled", plain("ns"), asking("ns", as), []string{"fail ns/db-0: asks for a restore and its namespace is not labelled: "}},
		{"misspelt", &misspelt, asking("ns", as), []string{"fail ns/db-0: asks for a restore and its namespace is not labelled (stategraft.io/inject is true)"}},
		{"labelled: the policy's", labelledNamespace("ns"), asking("ns", as), nil},
		{"does not ask", plain("ns"), asking("ns", func(p *corev1.Pod) { p.Annotations = nil }), nil},
		{"restored, the label was taken off since", plain("ns"), asking("ns", func(p *corev1.Pod) {
			p.Spec.InitContainers = []corev1.Container{{Name: patches.ContainerRestore}}
		}), nil},
		{"over", plain("ns"), asking("ns", func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }), nil},
	} {
		cluster, _ := stand(&config, c.ns, c.pod)
		expect(t, c.what, cluster.unrestored(t.Context()), c.want...)
	}
	cluster, _ := stand(&config, plain("ns"), plain("other"), asking("ns", as), asking("other", as))
	cluster.Namespace = "other"
	expect(t, "of another namespace", cluster.unrestored(t.Context()), "fail other/db-0: asks for a restore")
}

// Labelled or not, system namespaces are not tried and their pods not looked at.
func TestSystemNamespacesAreLeftOut(t *testing.T) {
	config := registered(t)
	expect(t, "only these", look(t, "admission", &config, labelledNamespace("kube-system"), labelledNamespace("stategraft")), "info : no namespace is labelled")
}
