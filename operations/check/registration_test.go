package check

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stategraft/stategraft/deploy"
)

// registered is the configuration that clusters get, with a caBundle.
func registered(t *testing.T) admissionregistrationv1.MutatingWebhookConfiguration {
	t.Helper()
	config := read[admissionregistrationv1.MutatingWebhookConfiguration](t, picked(t, "MutatingWebhookConfiguration/stategraft"))
	config.Webhooks[0].ClientConfig.CABundle = []byte("x")
	return *config
}

func TestRegistration(t *testing.T) {
	expect(t, "none", judgeRegistration(nil, DefaultNamespace), "fail : no pod is ever injected")
	good := registered(t)
	expect(t, "as deployed", judgeRegistration([]admissionregistrationv1.MutatingWebhookConfiguration{good}, DefaultNamespace))
	twice := *good.DeepCopy()
	twice.Name = "old"
	expect(t, "twice", judgeRegistration([]admissionregistrationv1.MutatingWebhookConfiguration{good, twice}, DefaultNamespace),
		"warn : registered more than once (stategraft, old)")

	fail, never, long := admissionregistrationv1.Fail, admissionregistrationv1.NeverReinvocationPolicy, int32(30)
	cluster, nope, one := admissionregistrationv1.ClusterScope, "/nope", int32(1)
	for _, c := range []struct {
		what   string
		change func(*admissionregistrationv1.MutatingWebhook)
		want   []string
	}{
		{"updates only", func(h *admissionregistrationv1.MutatingWebhook) {
			h.Rules[0].Operations = []admissionregistrationv1.OperationType{admissionregistrationv1.Update}
		}, []string{"fail stategraft: not called for the creation"}},
		{"no pods", func(h *admissionregistrationv1.MutatingWebhook) { h.Rules[0].Resources = []string{"pods/status"} }, []string{"fail stategraft: not called"}},
		{"cluster scope", func(h *admissionregistrationv1.MutatingWebhook) { h.Rules[0].Scope = &cluster }, []string{"fail stategraft: not called"}},
		{"everything", func(h *admissionregistrationv1.MutatingWebhook) {
			h.Rules[0].Operations = []admissionregistrationv1.OperationType{admissionregistrationv1.OperationAll}
			h.Rules[0].APIGroups, h.Rules[0].APIVersions, h.Rules[0].Resources = []string{"*"}, []string{"*"}, []string{"*/*"}
		}, nil},
		{"another label", func(h *admissionregistrationv1.MutatingWebhook) {
			h.NamespaceSelector.MatchLabels = map[string]string{"stategraft": "yes"}
		}, []string{"fail stategraft: does not select"}},
		{"every namespace", func(h *admissionregistrationv1.MutatingWebhook) { h.NamespaceSelector = &metav1.LabelSelector{} }, []string{"warn stategraft: every namespace"}},
		{"itself, but for the condition", func(h *admissionregistrationv1.MutatingWebhook) { h.NamespaceSelector.MatchExpressions = nil }, nil},
		{"another path", func(h *admissionregistrationv1.MutatingWebhook) { h.ClientConfig.Service.Path = &nope }, []string{`fail stategraft: calls path "/nope"`}},
		{"no path", func(h *admissionregistrationv1.MutatingWebhook) { h.ClientConfig.Service.Path = nil }, []string{`fail stategraft: calls path ""`}},
		{"another port", func(h *admissionregistrationv1.MutatingWebhook) { h.ClientConfig.Service.Port = &one }, []string{"fail stategraft: calls port 1 of the Service"}},
		{"the port that is meant", func(h *admissionregistrationv1.MutatingWebhook) { h.ClientConfig.Service.Port = nil }, nil},
		{"behind a URL", func(h *admissionregistrationv1.MutatingWebhook) {
			h.ClientConfig.Service, h.ClientConfig.URL = nil, &nope
		}, nil},
		{"another condition", func(h *admissionregistrationv1.MutatingWebhook) {
			h.MatchConditions = append(h.MatchConditions, admissionregistrationv1.MatchCondition{Name: "never", Expression: "false"})
		}, []string{"fail stategraft: not Stategraft's, never (false)"}},
		{"a changed condition", func(h *admissionregistrationv1.MutatingWebhook) { h.MatchConditions[0].Expression = "false" },
			[]string{"fail stategraft: another match condition not-a-mirror-pod than Stategraft's (false)"}},
		{"a condition less", func(h *admissionregistrationv1.MutatingWebhook) { h.MatchConditions = h.MatchConditions[1:] },
			[]string{"warn stategraft: lacks the match condition not-a-mirror-pod"}},
		{"space", func(h *admissionregistrationv1.MutatingWebhook) {
			h.MatchConditions[0].Expression = " " + strings.ReplaceAll(h.MatchConditions[0].Expression, "\n", " ")
		}, nil},
		{"itself", func(h *admissionregistrationv1.MutatingWebhook) {
			h.NamespaceSelector.MatchExpressions, h.MatchConditions = nil, nil
		}, []string{"warn stategraft: lacks the match condition not-a-mirror-pod", "warn stategraft: lacks the match condition not-our-own-namespace",
			"warn stategraft: own namespace"}},
		{"no selector that can be read", func(h *admissionregistrationv1.MutatingWebhook) {
			h.NamespaceSelector.MatchExpressions[0].Operator = "Near"
		}, []string{"fail stategraft: cannot be read"}},
		{"objects", func(h *admissionregistrationv1.MutatingWebhook) {
			h.ObjectSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}
		}, []string{"warn stategraft: objectSelector"}},
		{"objects, all", func(h *admissionregistrationv1.MutatingWebhook) { h.ObjectSelector = &metav1.LabelSelector{} }, nil},
		{"Fail", func(h *admissionregistrationv1.MutatingWebhook) { h.FailurePolicy = &fail }, []string{"fail stategraft: failurePolicy Fail"}},
		{"Never", func(h *admissionregistrationv1.MutatingWebhook) { h.ReinvocationPolicy = &never }, []string{"warn stategraft: reinvocationPolicy"}},
		{"slow", func(h *admissionregistrationv1.MutatingWebhook) { h.TimeoutSeconds = &long }, []string{"warn stategraft: more than 10 seconds"}},
	} {
		config := good.DeepCopy()
		c.change(&config.Webhooks[0])
		got := judgeRegistration([]admissionregistrationv1.MutatingWebhookConfiguration{*config}, DefaultNamespace)
		expect(t, c.what, got, c.want...)
		for _, f := range got {
			if strings.Contains(f.Message, "match condition") && !strings.HasPrefix(f.Remedy, "kubectl delete mutatingwebhookconfiguration stategraft, then") {
				t.Errorf("%s: the remedy is %q", c.what, f.Remedy)
			}
		}
	}

	// A release in another namespace renders another condition.
	elsewhere := good.DeepCopy()
	hook := &elsewhere.Webhooks[0]
	hook.MatchConditions[1].Expression = "request.namespace != 'backup'"
	hook.NamespaceSelector.MatchExpressions[0].Values = []string{"backup"}
	expect(t, "elsewhere", judgeRegistration([]admissionregistrationv1.MutatingWebhookConfiguration{*elsewhere}, "backup"))
	expect(t, "the condition of another", judgeRegistration([]admissionregistrationv1.MutatingWebhookConfiguration{*elsewhere}, "sg"),
		"fail stategraft: another match condition not-our-own-namespace", "warn stategraft: own namespace sg")
}

// What the manifest has of policies is what is looked for.
func TestPoliciesOfTheManifest(t *testing.T) {
	var names []string
	for _, match := range regexp.MustCompile(`(?m)^  name: (.*\.stategraft\.io)$`).FindAllStringSubmatch(picked(t, "ValidatingAdmissionPolicy"), -1) {
		names = append(names, match[1])
	}
	want := append(slices.Clone(boundsNames), policyName)
	if slices.Sort(names); !slices.Equal(names, slices.Sorted(slices.Values(want))) {
		t.Errorf("the manifest has %v, the check looks for %v", names, want)
	}
}

func TestBounds(t *testing.T) {
	name := boundsNames[0]
	policy := read[admissionregistrationv1.ValidatingAdmissionPolicy](t, picked(t, "ValidatingAdmissionPolicy/"+name))
	binding := *read[admissionregistrationv1.ValidatingAdmissionPolicyBinding](t, picked(t, "ValidatingAdmissionPolicyBinding/"+name))
	expect(t, "as deployed", judgeBounds(name, policy, []admissionregistrationv1.ValidatingAdmissionPolicyBinding{binding}))
	expect(t, "missing", judgeBounds(name, nil, nil), "warn "+name+": no such")
	expect(t, "not bound", judgeBounds(name, policy, nil), "warn "+name+": no binding")
}

// What somebody changed by hand is not brought back without force.
func TestAppliedAgain(t *testing.T) {
	for what, got := range map[string][]Finding{
		"policy": judgePolicy(nil, nil), "bounds": judgeBounds("x", nil, nil), "configuration": judgeConfiguration("ns/c", "k", nil).findings,
		"certificates": judgeCertificates(true, nil), "registration": judgeRegistration(nil, DefaultNamespace), "restore": judgeRestoring(probe{outcome: failedOpen}),
	} {
		if len(got) != 1 || strings.Count(got[0].Remedy, "--force-conflicts") != 2 {
			t.Errorf("%s: %+v", what, got)
		}
	}
}

func TestPolicy(t *testing.T) {
	policy := read[admissionregistrationv1.ValidatingAdmissionPolicy](t, picked(t, "ValidatingAdmissionPolicy/"+policyName))
	binding := *read[admissionregistrationv1.ValidatingAdmissionPolicyBinding](t, picked(t, "ValidatingAdmissionPolicyBinding/"+policyName))
	bound := []admissionregistrationv1.ValidatingAdmissionPolicyBinding{binding}
	expect(t, "as deployed", judgePolicy(policy, bound), "ok restore.stategraft.io: bound")
	expect(t, "none", judgePolicy(nil, nil), "fail restore.stategraft.io: no such")
	expect(t, "not bound", judgePolicy(policy, nil), "fail restore.stategraft.io: bound by nothing")

	audits := *binding.DeepCopy()
	audits.Spec.ValidationActions = []admissionregistrationv1.ValidationAction{admissionregistrationv1.Audit}
	expect(t, "audits", judgePolicy(policy, []admissionregistrationv1.ValidatingAdmissionPolicyBinding{audits}), "fail restore.stategraft.io: no binding of the policy denies")
	expect(t, "audits and denies", judgePolicy(policy, append([]admissionregistrationv1.ValidatingAdmissionPolicyBinding{audits}, binding)), "ok restore.stategraft.io: ")
	other := *binding.DeepCopy()
	other.Spec.PolicyName = "another"
	expect(t, "another's binding", judgePolicy(policy, []admissionregistrationv1.ValidatingAdmissionPolicyBinding{other}), "fail restore.stategraft.io: bound by nothing")
	narrow := *binding.DeepCopy()
	narrow.Spec.MatchResources = &admissionregistrationv1.MatchResources{}
	expect(t, "narrow", judgePolicy(policy, []admissionregistrationv1.ValidatingAdmissionPolicyBinding{narrow}), "warn restore.stategraft.io: outside of its matchResources")

	ignore := admissionregistrationv1.Ignore
	lax := policy.DeepCopy()
	lax.Spec.FailurePolicy = &ignore
	expect(t, "lax", judgePolicy(lax, bound), "fail restore.stategraft.io: failurePolicy Ignore")
	disliked := policy.DeepCopy()
	disliked.Status.TypeChecking = &admissionregistrationv1.TypeChecking{ExpressionWarnings: []admissionregistrationv1.ExpressionWarning{{FieldRef: "spec.x", Warning: "undeclared"}}}
	expect(t, "disliked", judgePolicy(disliked, bound), "warn restore.stategraft.io: dislikes spec.x: undeclared")
}

// picked gives a document of the manifest that clusters get.
func picked(t *testing.T, name string) string {
	t.Helper()
	text, err := deploy.Pick(deploy.SelfSigned, name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
