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
	want := append(slices.Clone(boundsNames), policyName, pendingName)
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
		"policy": judgePolicy("x", policyLost, nil, nil), "bounds": judgeBounds("x", nil, nil), "configuration": judgeConfiguration("ns/c", "k", nil).findings,
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
	judge := func(policy *admissionregistrationv1.ValidatingAdmissionPolicy, bindings []admissionregistrationv1.ValidatingAdmissionPolicyBinding) []Finding {
		return judgePolicy(policyName, policyLost, policy, bindings)
	}
	bound := []admissionregistrationv1.ValidatingAdmissionPolicyBinding{binding}
	expect(t, "as deployed", judge(policy, bound), "ok restore.stategraft.io: bound")
	expect(t, "none", judge(nil, nil), "fail restore.stategraft.io: no such")
	expect(t, "not bound", judge(policy, nil), "fail restore.stategraft.io: bound by nothing")

	audits := *binding.DeepCopy()
	audits.Spec.ValidationActions = []admissionregistrationv1.ValidationAction{admissionregistrationv1.Audit}
	expect(t, "audits", judge(policy, []admissionregistrationv1.ValidatingAdmissionPolicyBinding{audits}), "fail restore.stategraft.io: no binding of the policy denies")
	expect(t, "audits and denies", judge(policy, append([]admissionregistrationv1.ValidatingAdmissionPolicyBinding{audits}, binding)), "ok restore.stategraft.io: ")
	other := *binding.DeepCopy()
	other.Spec.PolicyName = "another"
	expect(t, "another's binding", judge(policy, []admissionregistrationv1.ValidatingAdmissionPolicyBinding{other}), "fail restore.stategraft.io: bound by nothing")
	narrow := *binding.DeepCopy()
	narrow.Spec.MatchResources = &admissionregistrationv1.MatchResources{}
	expect(t, "narrow", judge(policy, []admissionregistrationv1.ValidatingAdmissionPolicyBinding{narrow}), "warn restore.stategraft.io: outside of its matchResources")

	ignore := admissionregistrationv1.Ignore
	lax := policy.DeepCopy()
	lax.Spec.FailurePolicy = &ignore
	expect(t, "lax", judge(lax, bound), "fail restore.stategraft.io: failurePolicy Ignore")
	disliked := policy.DeepCopy()
	disliked.Status.TypeChecking = &admissionregistrationv1.TypeChecking{ExpressionWarnings: []admissionregistrationv1.ExpressionWarning{{FieldRef: "spec.x", Warning: "undeclared"}}}
	expect(t, "disliked", judge(disliked, bound), "warn restore.stategraft.io: dislikes spec.x: undeclared")
}

// The policy on pods that a Restore is about goes by all Restores of the namespace.
func TestPending(t *testing.T) {
	policy := read[admissionregistrationv1.ValidatingAdmissionPolicy](t, picked(t, "ValidatingAdmissionPolicy/"+pendingName))
	binding := *read[admissionregistrationv1.ValidatingAdmissionPolicyBinding](t, picked(t, "ValidatingAdmissionPolicyBinding/"+pendingName))
	judge := func(policy *admissionregistrationv1.ValidatingAdmissionPolicy, change func(*admissionregistrationv1.ValidatingAdmissionPolicyBinding)) []Finding {
		changed := *binding.DeepCopy()
		change(&changed)
		bindings := []admissionregistrationv1.ValidatingAdmissionPolicyBinding{changed}
		return append(judgePolicy(pendingName, pendingLost, policy, bindings), judgeParameters(policy, bindings)...)
	}
	as := func(*admissionregistrationv1.ValidatingAdmissionPolicyBinding) {}
	expect(t, "as deployed", judge(policy, as), "ok "+pendingName+": bound")
	expect(t, "none", judge(nil, as), "fail "+pendingName+": no such ValidatingAdmissionPolicy: while the webhook is down, a pod that a Restore is about")
	ignore := admissionregistrationv1.Ignore
	lax := policy.DeepCopy()
	lax.Spec.FailurePolicy = &ignore
	expect(t, "lax", judge(lax, as), "fail "+pendingName+": failurePolicy Ignore")
	blind := policy.DeepCopy()
	blind.Spec.ParamKind = nil
	expect(t, "blind", judge(blind, as), "ok "+pendingName+": bound", "fail "+pendingName+": paramKind")
	deny := admissionregistrationv1.DenyAction
	for want, change := range map[string]func(*admissionregistrationv1.ParamRef){
		"some Restores only":           func(r *admissionregistrationv1.ParamRef) { r.Selector.MatchLabels = map[string]string{"a": "b"} },
		"Restores only (paramRef)":     func(r *admissionregistrationv1.ParamRef) { r.Namespace, r.Selector = "db", nil },
		"parameterNotFoundAction Deny": func(r *admissionregistrationv1.ParamRef) { r.ParameterNotFoundAction = &deny },
	} {
		got := judge(policy, func(b *admissionregistrationv1.ValidatingAdmissionPolicyBinding) { change(b.Spec.ParamRef) })
		expect(t, want, got, "ok "+pendingName+": bound", "fail "+pendingName+": "+want)
	}
	expect(t, "no parameters", judge(policy, func(b *admissionregistrationv1.ValidatingAdmissionPolicyBinding) { b.Spec.ParamRef = nil }),
		"ok "+pendingName+": bound", "fail "+pendingName+": names no Restores")
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
