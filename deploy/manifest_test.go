package deploy_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/deploy"
	"github.com/stategraft/stategraft/operations/scope"
	"github.com/stategraft/stategraft/patches"
	"github.com/stategraft/stategraft/webhook"
)

// pendingPolicy is the one that is asked of Restores.
const pendingPolicy = "restore-pending.stategraft.io"

// policyNames are all there are.
var policyNames = []string{"restore.stategraft.io", pendingPolicy, "controller-secrets.stategraft.io", "controller-pods.stategraft.io",
	"controller-creates.stategraft.io", "controller-namespaces.stategraft.io", "controller-configmaps.stategraft.io",
	"controller-backups.stategraft.io", "controller-schedules.stategraft.io",
	"controller-services.stategraft.io", "controller-evictions.stategraft.io", "controller-adopt.stategraft.io"}

const (
	certManager = "cert-manager"
	selfSigned  = "self-signed"
)

// checks are what has to hold of everything that the chart renders, whatever the
// values. mode is that of the certificates.
var checks = map[string]func(t *testing.T, docs []document, mode string){
	"strict":       func(t *testing.T, docs []document, _ string) { decodesStrictly(t, docs) },
	"reachable":    webhookIsReachable,
	"holds up":     webhookHoldsUpNoPod,
	"policies":     policiesDeny,
	"crds":         crdsAreMade,
	"certificates": certificatesAreOfMode,
	"config":       configurationIsRead,
	"rights":       rightsAreTheLeast,
	"restricted":   podsAreRestricted,
	"replicas":     replicasAreGuarded,
	"network":      networkIsBound,
}

func checkAll(t *testing.T, docs []document, mode string) {
	for name, check := range checks {
		t.Run(name, func(t *testing.T) { check(t, docs, mode) })
	}
}

func TestManifests(t *testing.T) {
	for mode, manifest := range map[string][]byte{certManager: deploy.CertManager, selfSigned: deploy.SelfSigned} {
		t.Run(mode, func(t *testing.T) {
			docs := parse(t, mode, manifest)
			checkAll(t, docs, mode)
			if len(docs) < 25 {
				t.Errorf("only %d documents", len(docs))
			}
			ns := object[*corev1.Namespace](t, docs, "stategraft")
			if ns.Labels["pod-security.kubernetes.io/enforce"] != "restricted" {
				t.Errorf("the namespace's labels are %v", ns.Labels)
			}
			for _, d := range docs {
				// A namespaced object that names none goes wherever kubectl is.
				if o := d.object.(metav1.Object); o.GetNamespace() != "" && o.GetNamespace() != ns.Name {
					t.Errorf("%s is in namespace %s", d.file, o.GetNamespace())
				}
			}
			if !strings.HasPrefix(string(manifest), "# ") || !strings.Contains(string(manifest[:400]), "do not edit") {
				t.Error("does not say that it is rendered")
			}
		})
	}
}

// The images that go together are of one version.
func TestImagesAreOfOneVersion(t *testing.T) {
	docs := parse(t, "stategraft.yaml", deploy.CertManager)
	_, agent, _ := strings.Cut(patches.DefaultAgentImage, ":")
	for _, name := range []string{"stategraft-webhook", "stategraft-controller"} {
		image := object[*appsv1.Deployment](t, docs, name).Spec.Template.Spec.Containers[0].Image
		if _, tag, _ := strings.Cut(image, ":"); tag != agent {
			t.Errorf("%s runs %s, and injects %s", name, image, patches.DefaultAgentImage)
		}
	}
}

func TestPick(t *testing.T) {
	picked, err := deploy.Pick(deploy.SelfSigned, "MutatingWebhookConfiguration", "ClusterRole/stategraft-webhook")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, d := range parse(t, "picked", picked) {
		got = append(got, d.object.GetObjectKind().GroupVersionKind().Kind+"/"+d.object.(metav1.Object).GetName())
	}
	if want := []string{"ClusterRole/stategraft-webhook", "MutatingWebhookConfiguration/stategraft"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	for _, name := range []string{"Pod", "ClusterRole/nobody", "clusterrole"} {
		if _, err := deploy.Pick(deploy.SelfSigned, name); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: got error %v", name, err)
		}
	}
}

func webhookHoldsUpNoPod(t *testing.T, docs []document, _ string) {
	hook := object[*admissionregistrationv1.MutatingWebhookConfiguration](t, docs, "stategraft")
	if len(hook.Webhooks) != 1 {
		t.Fatalf("%d webhooks, want 1", len(hook.Webhooks))
	}
	w := hook.Webhooks[0]
	if *w.FailurePolicy != admissionregistrationv1.Ignore {
		t.Errorf("failurePolicy %s", *w.FailurePolicy)
	}
	if *w.TimeoutSeconds > 10 {
		t.Errorf("timeoutSeconds %d", *w.TimeoutSeconds)
	}
	if *w.SideEffects != admissionregistrationv1.SideEffectClassNoneOnDryRun {
		t.Errorf("sideEffects %s", *w.SideEffects)
	}
	if len(w.Rules) != 1 || !slices.Equal(w.Rules[0].Operations, []admissionregistrationv1.OperationType{"CREATE"}) ||
		!slices.Equal(w.Rules[0].Resources, []string{"pods"}) {
		t.Errorf("rules %v", w.Rules)
	}
	home := object[*appsv1.Deployment](t, docs, "stategraft-webhook").Namespace
	for _, ns := range []string{"db", "kube-system", "kube-public", "kube-node-lease", home} {
		want := !scope.LeftOut(ns, home)
		set := map[string]string{"stategraft.io/inject": "enabled", "kubernetes.io/metadata.name": ns}
		if got := selects(t, w.NamespaceSelector, set); got != want {
			t.Errorf("namespace %s selected: %v", ns, got)
		}
		delete(set, "stategraft.io/inject")
		if selects(t, w.NamespaceSelector, set) {
			t.Errorf("namespace %s selected without the label", ns)
		}
	}
	if !slices.ContainsFunc(w.MatchConditions, func(c admissionregistrationv1.MatchCondition) bool {
		return c.Expression == "request.namespace != '"+home+"'"
	}) {
		t.Errorf("no condition keeps %s out: %v", home, w.MatchConditions)
	}
}

func policiesDeny(t *testing.T, docs []document, _ string) {
	for _, name := range policyNames {
		policy := object[*admissionregistrationv1.ValidatingAdmissionPolicy](t, docs, name)
		binding := object[*admissionregistrationv1.ValidatingAdmissionPolicyBinding](t, docs, name)
		if *policy.Spec.FailurePolicy != admissionregistrationv1.Fail {
			t.Errorf("%s: failurePolicy %s", name, *policy.Spec.FailurePolicy)
		}
		if binding.Spec.PolicyName != policy.Name {
			t.Errorf("the binding is for %s, the policy is %s", binding.Spec.PolicyName, policy.Name)
		}
		if !slices.Equal(binding.Spec.ValidationActions, []admissionregistrationv1.ValidationAction{"Deny"}) {
			t.Errorf("%s: validationActions %v", name, binding.Spec.ValidationActions)
		}
		// Selectors could be used to get round the policy. The one that has one stops
		// pods when its Restores cannot be read.
		if m := policy.Spec.MatchConstraints; m.ObjectSelector != nil || (m.NamespaceSelector != nil) != (name == pendingPolicy) {
			t.Errorf("%s: objectSelector %v, namespaceSelector %v", name, m.ObjectSelector, m.NamespaceSelector)
		}
		if len(policy.Spec.Validations) == 0 {
			t.Errorf("%s: no validations", name)
		}
		for _, v := range policy.Spec.Validations {
			// The API server refuses a message of several lines.
			if v.Message == "" || strings.Contains(strings.TrimSpace(v.Message), "\n") {
				t.Errorf("%s: message %q", name, v.Message)
			}
		}
	}
	for _, name := range []string{"restore.stategraft.io", pendingPolicy} {
		for _, v := range object[*admissionregistrationv1.ValidatingAdmissionPolicy](t, docs, name).Spec.Validations {
			if v.MessageExpression == "" {
				t.Errorf("%s: %q names no pod", name, v.Expression)
			}
		}
	}
	// Both see the same namespaces, but that pods are held only where Restores are under
	// way: a pod that nobody adds a container to is not to wait for it.
	hook := object[*admissionregistrationv1.MutatingWebhookConfiguration](t, docs, "stategraft").Webhooks[0].NamespaceSelector
	pending := object[*admissionregistrationv1.ValidatingAdmissionPolicy](t, docs, pendingPolicy).Spec.MatchConstraints.NamespaceSelector
	hook = hook.DeepCopy()
	hook.MatchLabels[api.LabelRestoring] = api.RestoringTrue
	if !reflect.DeepEqual(hook, pending) {
		t.Errorf("the webhook sees namespaces %v, %s %v", hook, pendingPolicy, pending)
	}
}

// configurationIsRead has the webhook's own code read the file.
func configurationIsRead(t *testing.T, docs []document, _ string) {
	text := object[*corev1.ConfigMap](t, docs, "stategraft-config").Data["config.yaml"]
	if _, err := webhook.ParseConfig([]byte(text)); err != nil {
		t.Errorf("%v\n%s", err, text)
	}
}

func certificatesAreOfMode(t *testing.T, docs []document, mode string) {
	hook := object[*admissionregistrationv1.MutatingWebhookConfiguration](t, docs, "stategraft")
	home := object[*appsv1.Deployment](t, docs, "stategraft-webhook").Namespace
	// Rendered, they would be put back by each upgrade.
	if len(hook.Webhooks[0].ClientConfig.CABundle) > 0 {
		t.Error("the configuration has a caBundle")
	}
	for _, name := range []string{"stategraft-ca", "stategraft-webhook-tls"} {
		if s := object[*corev1.Secret](t, docs, name); len(s.Data)+len(s.StringData) > 0 || s.Type != corev1.SecretTypeOpaque {
			t.Errorf("Secret %s is not empty, or of type %s", name, s.Type)
		}
	}
	args := object[*appsv1.Deployment](t, docs, "stategraft-controller").Spec.Template.Spec.Containers[0].Args
	if !slices.Contains(args, "--certificates="+mode) {
		t.Errorf("the controller is told %v", args)
	}
	var certificates []string
	for _, d := range docs {
		if u, ok := d.object.(*unstructured.Unstructured); ok && u.GroupVersionKind().Group == "cert-manager.io" {
			certificates = append(certificates, u.GetKind()+"/"+u.GetName())
		}
	}
	inject := hook.Annotations["cert-manager.io/inject-ca-from"]
	if mode == selfSigned {
		if inject != "" || len(certificates) > 0 {
			t.Errorf("cert-manager is asked for something: %q, %v", inject, certificates)
		}
		return
	}
	if inject != home+"/stategraft-webhook" {
		t.Errorf("the CA is injected from %q", inject)
	}
	want := []string{"Certificate/stategraft-ca", "Certificate/stategraft-webhook", "Issuer/stategraft-ca", "Issuer/stategraft-selfsigned"}
	slices.Sort(certificates)
	if !slices.Equal(certificates, want) {
		t.Errorf("cert-manager is asked for %v, want %v", certificates, want)
	}
	for _, d := range docs {
		u, ok := d.object.(*unstructured.Unstructured)
		if !ok || u.GetKind() != "Certificate" {
			continue
		}
		wantSecret := map[string]string{"stategraft-ca": "stategraft-ca", "stategraft-webhook": "stategraft-webhook-tls"}[u.GetName()]
		if secret, _, _ := unstructured.NestedString(u.Object, "spec", "secretName"); secret != wantSecret {
			t.Errorf("Certificate %s is for Secret %s", u.GetName(), secret)
		}
		names, _, _ := unstructured.NestedStringSlice(u.Object, "spec", "dnsNames")
		if u.GetName() == "stategraft-webhook" && !slices.Contains(names, "stategraft-webhook."+home+".svc") {
			t.Errorf("the certificate is for %v", names)
		}
	}
}

// deployments are the two that there are.
func deployments(t *testing.T, docs []document) []*appsv1.Deployment {
	return []*appsv1.Deployment{
		object[*appsv1.Deployment](t, docs, "stategraft-webhook"),
		object[*appsv1.Deployment](t, docs, "stategraft-controller"),
	}
}

func selects(t *testing.T, selector *metav1.LabelSelector, set map[string]string) bool {
	t.Helper()
	s, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		t.Fatal(err)
	}
	return s.Matches(labels.Set(set))
}
