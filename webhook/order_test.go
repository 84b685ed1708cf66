package webhook

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/patches"
	"github.com/stategraft/stategraft/workload"
)

// orderOf has a pending order for pod db-0 of namespace cassandra, and one to tidy up
// for db-1.
func orderOf(namespace, pod string) (api.Order, bool) {
	o := api.Order{Restore: "nightly-back", ID: "nightly-back/0123456789ab", Action: api.ActionRestore, Backup: "b1", Node: pod}
	o.Pending, o.Tidy = pod == "db-0", pod == "db-1"
	return o, namespace == "cassandra" && (o.Pending || o.Tidy)
}

const cancel = "kubectl stategraft restore cancel nightly-back -n cassandra"

// A pod with a pending order is injected with it, or refused.
func TestOrderTable(t *testing.T) {
	named := func(name string) []byte {
		return []byte(strings.Replace(string(cassandraPod), `"name":"db-0"`, `"name":"`+name+`"`, 1))
	}
	full := labelled()
	full.Quotas = []corev1.ResourceQuota{{ObjectMeta: metav1.ObjectMeta{Name: "q"}, Spec: corev1.ResourceQuotaSpec{
		Hard: corev1.ResourceList{corev1.ResourceLimitsMemory: resource.MustParse("1Mi")}}}}
	opted := withMetadata(t, cassandraPod, "labels", map[string]string{api.LabelInject: api.InjectDisabled})
	held := func(string, string, string) (api.HeldBack, bool) { return heldEntry(api.CauseRefused), true }
	for _, c := range []struct {
		what    string
		raw     []byte
		ns      Namespace
		verdict workload.Verdict
		reason  workload.Reason
		say     []string
	}{
		{"good", cassandraPod, labelled(), workload.Inject, "", nil},
		{"good, in a namespace that is not known yet", cassandraPod, Namespace{Name: "cassandra", Unknown: true}, workload.Inject, "", nil},
		{"the namespace asks for another", cassandraPod, withAnnotation(labelled(), api.AnnotationRestore, "old"), workload.Inject, "", nil},
		{"the namespace asks badly", cassandraPod, withAnnotation(labelled(), api.AnnotationRestore, "/"), workload.Inject, "", nil},
		{"the namespace asks for another node's", cassandraPod, withAnnotation(labelled(), api.AnnotationRestoreSource, "x y"), workload.Inject, "", nil},
		{"its own annotation as well", annotated(t, cassandraPod, wantsRestore), labelled(), workload.Refuse, workload.ReasonBadAnnotation,
			[]string{"Restore nightly-back", "stategraft.io/restore: b1", cancel}},
		{"its own annotation, badly", annotated(t, cassandraPod, map[string]string{api.AnnotationRestore: "latest"}), labelled(), workload.Refuse, workload.ReasonBadAnnotation,
			[]string{"Restore nightly-back", "stategraft.io/restore: latest", cancel}},
		{"another annotation is bad", annotated(t, cassandraPod, map[string]string{api.AnnotationSpread: "x"}), labelled(), workload.Refuse, workload.ReasonBadAnnotation,
			[]string{"Restore nightly-back", api.AnnotationSpread, cancel}},
		{"opted out", opted, labelled(), workload.Refuse, workload.ReasonOptedOut, []string{"Restore nightly-back", cancel}},
		{"not labelled", cassandraPod, Namespace{Name: "cassandra"}, workload.Refuse, workload.ReasonNamespaceNotLabelled, []string{cancel}},
		{"no database", []byte(`{"metadata":{"name":"db-0"},"spec":{"containers":[{"name":"x"}]}}`), labelled(), workload.Refuse, workload.ReasonNotADatabase, []string{cancel}},
		{"cannot be read", []byte(`{"metadata":{"x":[1],"name":"db-0"},"spec":5}`), labelled(), workload.Refuse, workload.ReasonUnreadablePod, []string{"Restore nightly-back", cancel}},
		{"cannot be read, nor its name", []byte(`{"metadata":{"name":5},"spec":5}`), labelled(), workload.Skip, workload.ReasonUnreadablePod, nil},
		{"no room", cassandraPod, full, workload.Refuse, workload.ReasonQuotaExceeded, []string{"ResourceQuota q", cancel}},
		{"its node is named", withSpec(t, cassandraPod, func(spec map[string]any) { spec["nodeName"] = "n1" }), labelled(), workload.Refuse, workload.ReasonCannotRestore, []string{"n1", cancel}},
		{"another pod", named("db-2"), labelled(), workload.Skip, workload.ReasonHeldBack, nil},
		{"another namespace", cassandraPod, Namespace{Name: "other", Labels: labelled().Labels}, workload.Skip, workload.ReasonHeldBack, nil},
		{"to tidy up", named("db-1"), labelled(), workload.Skip, workload.ReasonHeldBack, nil},
		{"to tidy up, and its own annotation", annotated(t, named("db-1"), wantsRestore), labelled(), workload.Inject, "", nil},
		{"not named yet", []byte(strings.Replace(string(cassandraPod), `"name":"db-0"`, `"generateName":"db-0"`, 1)), labelled(), workload.Skip, workload.ReasonNoStableIdentity, nil},
	} {
		in := Input{Pod: c.raw, Namespace: c.ns, Config: DefaultConfig(), Order: orderOf, HeldBack: held}
		out := Decide(in)
		if out.Verdict != c.verdict || out.Reason != c.reason {
			t.Errorf("%s: %s (%s) %s, want %s (%s)", c.what, out.Verdict, out.Reason, out.Message, c.verdict, c.reason)
		}
		for _, text := range c.say {
			if !strings.Contains(out.Message, text) {
				t.Errorf("%s: %q is not in %q", c.what, text, out.Message)
			}
		}
		if response := answer(out); response.Allowed == (c.verdict == workload.Refuse) || response.Patch != nil != (c.verdict == workload.Inject) {
			t.Errorf("%s: allowed %v, patch %s", c.what, response.Allowed, response.Patch)
		}
		if out.Patch != nil && !strings.Contains(c.what, "tidy") {
			restored(t, c.what, mustPatch(t, c.raw, out))
		}
	}
}

// restored checks that the pod is restored by the Restore and by nothing else.
func restored(t *testing.T, what string, result []byte) {
	t.Helper()
	pod, err := workload.Parse(result)
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(pod.Spec.InitContainers, func(c workload.Container) bool { return c.Name == patches.ContainerRestore })
	if at < 0 {
		t.Fatalf("%s: no restore", what)
	}
	got := map[string]string{}
	for _, v := range pod.Spec.InitContainers[at].Env {
		got[v.Name] = v.Value
	}
	if got[api.EnvRestoreID] != "nightly-back/0123456789ab" || got[patches.EnvBackup] != "b1" || got[patches.EnvRestoreSource] != "" {
		t.Errorf("%s: variables %v", what, got)
	}
}

// The handler asks with the request's namespace, and refuses where it breaks.
func TestOrderHandled(t *testing.T) {
	h := testHandler(labelled())
	h.Order = orderOf
	body := review(t, cassandraPod, admissionv1.Create)
	if _, answer := serve(t, h, body); !answer.Allowed || !strings.Contains(string(answer.Patch), "nightly-back/0123456789ab") {
		t.Errorf("%+v", answer)
	}
	h.Config = func() *Config { panic("broken") }
	_, answer := serve(t, h, body)
	if answer.Allowed || answer.Result.Code != http.StatusForbidden || !strings.Contains(answer.Result.Message, cancel) {
		t.Errorf("%+v", answer)
	}
	if _, answer := serve(t, h, review(t, []byte(strings.Replace(string(cassandraPod), "db-0", "db-7", 1)), admissionv1.Create)); !answer.Allowed {
		t.Errorf("one without an order: %+v", answer)
	}
}

// The answer to a live pod's annotation is known, and in a template means nothing.
func TestRestoreAnswer(t *testing.T) {
	raw := annotated(t, cassandraPod, map[string]string{api.AnnotationRestoreAnswer: "b1: done"})
	if out := decideOn(raw); out.Verdict != workload.Inject || len(out.Warnings) > 0 {
		t.Errorf("%s: %q", out.Verdict, out.Warnings)
	}
	raw = annotated(t, cassandraPod, map[string]string{api.AnnotationRestoreAnswer: "b1: done", api.AnnotationRestore: "b1"})
	if out := decideOn(raw); out.Patch == nil || len(out.Patch.Init) != 2 {
		t.Errorf("it keeps a restore away: %+v", out)
	}
}
