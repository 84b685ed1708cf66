package deploy_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/stategraft/stategraft/deploy/admission"
)

// The webhook is called only if five objects agree on its address, and nothing
// else would notice for a while if they did not: the failure policy is Ignore.
func TestWebhookIsReachable(t *testing.T) {
	docs := documents(t)
	hook := find[*admissionregistrationv1.MutatingWebhookConfiguration](t, docs, "admission/")
	svc := find[*corev1.Service](t, docs, "webhook.yaml")
	deploy := find[*appsv1.Deployment](t, docs, "webhook.yaml")
	pdb := find[*policyv1.PodDisruptionBudget](t, docs, "webhook.yaml")

	ref := hook.Webhooks[0].ClientConfig.Service
	if ref.Name != svc.Name || ref.Namespace != svc.Namespace || *ref.Port != svc.Spec.Ports[0].Port {
		t.Errorf("the configuration calls %v, the Service is %s/%s:%d", ref, svc.Namespace, svc.Name, svc.Spec.Ports[0].Port)
	}
	pod := deploy.Spec.Template
	if !labels.SelectorFromSet(svc.Spec.Selector).Matches(labels.Set(pod.Labels)) {
		t.Errorf("the Service does not select the Deployment's pods")
	}
	if sel, err := metav1.LabelSelectorAsSelector(pdb.Spec.Selector); err != nil || !sel.Matches(labels.Set(pod.Labels)) {
		t.Errorf("the PodDisruptionBudget does not select the Deployment's pods (%v)", err)
	}
	c := pod.Spec.Containers[0]
	target := svc.Spec.Ports[0].TargetPort.IntVal
	if !slices.ContainsFunc(c.Ports, func(p corev1.ContainerPort) bool { return p.ContainerPort == target }) ||
		!slices.Contains(c.Args, fmt.Sprintf("--port=%d", target)) {
		t.Errorf("the Service goes to port %d, the container is told %v", target, c.Args)
	}

	var secret string
	for _, d := range docs {
		u, ok := d.object.(*unstructured.Unstructured)
		if !ok || u.GetKind() != "Certificate" || u.GetNamespace()+"/"+u.GetName() != hook.Annotations["cert-manager.io/inject-ca-from"] {
			continue
		}
		secret, _, _ = unstructured.NestedString(u.Object, "spec", "secretName")
		names, _, _ := unstructured.NestedStringSlice(u.Object, "spec", "dnsNames")
		if want := svc.Name + "." + svc.Namespace + ".svc"; !slices.Contains(names, want) {
			t.Errorf("the certificate is for %v, the API server calls %s", names, want)
		}
	}
	if !slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool {
		return v.Secret != nil && v.Secret.SecretName == secret
	}) {
		t.Errorf("the pod does not mount the certificate's Secret %q", secret)
	}
}

func TestWebhookNeverHoldsUpAPod(t *testing.T) {
	hook := find[*admissionregistrationv1.MutatingWebhookConfiguration](t, documents(t), "admission/")
	if len(hook.Webhooks) != 1 {
		t.Fatalf("%d webhooks, want 1", len(hook.Webhooks))
	}
	w := hook.Webhooks[0]
	if *w.FailurePolicy != admissionregistrationv1.Ignore {
		t.Errorf("failurePolicy %s", *w.FailurePolicy)
	}
	if *w.TimeoutSeconds > 5 {
		t.Errorf("timeoutSeconds %d", *w.TimeoutSeconds)
	}
	if *w.SideEffects != admissionregistrationv1.SideEffectClassNoneOnDryRun {
		t.Errorf("sideEffects %s", *w.SideEffects)
	}
	if len(w.Rules) != 1 || !slices.Equal(w.Rules[0].Operations, []admissionregistrationv1.OperationType{"CREATE"}) ||
		!slices.Equal(w.Rules[0].Resources, []string{"pods"}) {
		t.Errorf("rules %v", w.Rules)
	}
	sel, err := metav1.LabelSelectorAsSelector(w.NamespaceSelector)
	if err != nil {
		t.Fatal(err)
	}
	for ns, want := range map[string]bool{
		"db": true, "kube-system": false, "kube-public": false, "kube-node-lease": false, "stategraft": false,
	} {
		set := labels.Set{"stategraft.io/inject": "enabled", "kubernetes.io/metadata.name": ns}
		if sel.Matches(set) != want {
			t.Errorf("namespace %s selected: %v", ns, !want)
		}
		delete(set, "stategraft.io/inject")
		if sel.Matches(set) {
			t.Errorf("namespace %s selected without the label", ns)
		}
	}
	if len(w.MatchConditions) == 0 {
		t.Error("no matchConditions")
	}
	for _, c := range w.MatchConditions {
		if c.Name == "" || strings.TrimSpace(c.Expression) == "" {
			t.Errorf("matchCondition %q: %q", c.Name, c.Expression)
		}
	}
}

func TestRestorePolicyDenies(t *testing.T) {
	docs := documents(t)
	policy := find[*admissionregistrationv1.ValidatingAdmissionPolicy](t, docs, "admission/")
	binding := find[*admissionregistrationv1.ValidatingAdmissionPolicyBinding](t, docs, "admission/")
	if *policy.Spec.FailurePolicy != admissionregistrationv1.Fail {
		t.Errorf("failurePolicy %s", *policy.Spec.FailurePolicy)
	}
	if binding.Spec.PolicyName != policy.Name {
		t.Errorf("the binding is for %s, the policy is %s", binding.Spec.PolicyName, policy.Name)
	}
	if !slices.Equal(binding.Spec.ValidationActions, []admissionregistrationv1.ValidationAction{"Deny"}) {
		t.Errorf("validationActions %v", binding.Spec.ValidationActions)
	}
	// An object selector could be used to get round the policy.
	if s := policy.Spec.MatchConstraints.ObjectSelector; s != nil {
		t.Errorf("objectSelector %v", s)
	}
	if len(policy.Spec.Validations) == 0 {
		t.Error("no validations")
	}
	for _, v := range policy.Spec.Validations {
		if strings.TrimSpace(v.Expression) == "" || v.MessageExpression == "" {
			t.Errorf("validation %q has no expression or no message", v.Expression)
		}
		// The API server refuses a message of several lines.
		if v.Message == "" || strings.Contains(strings.TrimSpace(v.Message), "\n") {
			t.Errorf("message %q", v.Message)
		}
	}
	for _, v := range policy.Spec.Variables {
		if v.Name == "" || strings.TrimSpace(v.Expression) == "" {
			t.Errorf("variable %q: %q", v.Name, v.Expression)
		}
	}
}

func TestRightsAreTheLeast(t *testing.T) {
	read, write := []string{"get", "list", "watch"}, []string{"create", "patch"}
	allowed := map[string][]string{
		"/namespaces": read, "/resourcequotas": read, "/limitranges": read,
		"/events": write, "events.k8s.io/events": write,
	}
	role := find[*rbacv1.ClusterRole](t, documents(t), "webhook.yaml")
	got := map[string][]string{}
	for _, r := range role.Rules {
		for _, g := range r.APIGroups {
			for _, res := range r.Resources {
				got[g+"/"+res] = append(got[g+"/"+res], r.Verbs...)
			}
		}
	}
	for what, verbs := range got {
		if !slices.Equal(verbs, allowed[what]) {
			t.Errorf("%s: %v, want %v", what, verbs, allowed[what])
		}
	}
	for what := range allowed {
		if got[what] == nil {
			t.Errorf("no rule for %s", what)
		}
	}
}

func TestEmbeddedFiles(t *testing.T) {
	for name, want := range map[string]struct {
		data  []byte
		kinds []string
	}{
		"MutatingWebhook": {admission.MutatingWebhook, []string{"MutatingWebhookConfiguration"}},
		"RestorePolicy":   {admission.RestorePolicy, []string{"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"}},
	} {
		var kinds []string
		for _, doc := range split(t, want.data) {
			obj, err := decode(doc)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			kinds = append(kinds, obj.GetObjectKind().GroupVersionKind().Kind)
		}
		if !slices.Equal(kinds, want.kinds) {
			t.Errorf("%s holds %v, want %v", name, kinds, want.kinds)
		}
	}
}
