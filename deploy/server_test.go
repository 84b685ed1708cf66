package deploy_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/stategraft/stategraft/deploy"
	"github.com/stategraft/stategraft/deploy/render"
	"github.com/stategraft/stategraft/test/cluster"
)

const home = "stategraft"

// client answers a client of the rig, for the administrator or for an account.
func client(t *testing.T, cp *cluster.ControlPlane, account string) kubernetes.Interface {
	t.Helper()
	config := cp.Config()
	config.WarningHandler = rest.NoWarnings{} // that what stands for a certificate is none
	if account != "" {
		config.Impersonate.UserName = "system:serviceaccount:" + home + ":" + account
		config.Impersonate.Groups = []string{"system:serviceaccounts", "system:serviceaccounts:" + home, "system:authenticated"}
	}
	c, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// namespace makes a namespace with its ServiceAccount and removes it afterwards.
func namespace(t *testing.T, cp *cluster.ControlPlane, name string, labels map[string]string) {
	t.Helper()
	c := client(t, cp, "")
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
	// One that a test before removed may still be on its way out.
	awaitTrue(t, "namespace "+name+" to be made", func() bool {
		_, err := c.CoreV1().Namespaces().Create(t.Context(), ns, metav1.CreateOptions{})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			t.Fatal(err)
		}
		return err == nil
	})
	t.Cleanup(func() {
		if err := c.CoreV1().Namespaces().Delete(context.WithoutCancel(t.Context()), name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			t.Error(err)
		}
	})
	awaitTrue(t, "the ServiceAccount default of "+name, func() bool {
		_, err := c.CoreV1().ServiceAccounts(name).Get(t.Context(), "default", metav1.GetOptions{})
		return err == nil
	})
}

// applied makes the manifest an API server's, and removes it afterwards.
func applied(t *testing.T, manifest []byte) *cluster.ControlPlane {
	t.Helper()
	cp, _ := rig(t)
	awaitGone(t, cp)
	kubectl(t, cp, string(manifest), "apply", "-f", "-")
	if bytes.Contains(manifest, []byte("kind: CustomResourceDefinition")) {
		kubectl(t, cp, "", append([]string{"wait", "--for=condition=Established", "--timeout=180s", "crd"}, crdNames...)...)
	}
	t.Cleanup(func() {
		_, err := cp.Kubectl(context.WithoutCancel(t.Context()), strings.NewReader(string(manifest)), "delete", "-f", "-", "--wait=false")
		if err != nil {
			t.Error(err)
		}
	})
	return cp
}

// cleanRelease removes a release and its namespace after the test, whatever it
// came to.
func cleanRelease(t *testing.T, cp *cluster.ControlPlane, h *render.Helm) {
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		_, uninstalled := h.Run(ctx, "uninstall", "stategraft", "--namespace", home, "--ignore-not-found")
		_, deleted := cp.Kubectl(ctx, nil, "delete", "namespace", home, "--wait=false", "--ignore-not-found")
		_, kept := cp.Kubectl(ctx, nil, append([]string{"delete", "crd", "--wait=false", "--ignore-not-found"}, crdNames...)...)
		if err := errors.Join(uninstalled, deleted, kept); err != nil {
			t.Error(err)
		}
	})
}

// awaitGone waits until our namespace and our CustomResourceDefinitions, which a
// test before removed, are gone.
func awaitGone(t *testing.T, cp *cluster.ControlPlane) {
	t.Helper()
	c, dyn := client(t, cp, ""), dynamicClient(t, cp)
	// The controller of namespaces tries again after a while when it meets kinds that are
	// just being removed.
	awaitFor(t, 10*time.Minute, "what another test made to be gone", func() bool {
		_, err := c.CoreV1().Namespaces().Get(t.Context(), home, metav1.GetOptions{})
		gone := apierrors.IsNotFound(err)
		for _, name := range crdNames {
			_, err := dyn.Resource(crdResource).Get(t.Context(), name, metav1.GetOptions{})
			gone = gone && apierrors.IsNotFound(err)
		}
		return gone
	})
}

// Every document is valid to the API server, which knows more than its types.
func TestServerAcceptsEveryDocument(t *testing.T) {
	cp, h := rig(t)
	awaitGone(t, cp)
	namespace(t, cp, home, nil)
	for name, set := range valueSets {
		t.Run(name, func(t *testing.T) {
			text, err := h.Template(t.Context(), "chart", set.args...)
			if err != nil {
				t.Fatal(err)
			}
			out := kubectl(t, cp, text, "apply", "--server-side", "--dry-run=server", "--validate=strict", "-f", "-")
			if n, want := strings.Count(out, "(server dry run)"), len(parse(t, name, []byte(text))); n != want {
				t.Errorf("%d of %d documents were tried:\n%s", n, want, out)
			}
		})
	}
}

// The API server's own judgement on our pods, and on ours of theirs.
func TestPodSecurityOfServer(t *testing.T) {
	cp := applied(t, deploy.SelfSigned)
	pods := client(t, cp, "").CoreV1().Pods(home)
	try := func(spec corev1.PodSpec) error {
		_, err := pods.Create(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "try"}, Spec: spec},
			metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	}
	docs := parse(t, "self-signed", deploy.SelfSigned)
	for _, d := range deployments(t, docs) {
		if err := try(d.Spec.Template.Spec); err != nil {
			t.Errorf("%s: %v", d.Name, err)
		}
		for name, spec := range spoilt(d.Spec.Template.Spec) {
			if err := try(spec); err == nil || !strings.Contains(err.Error(), "violates PodSecurity") {
				t.Errorf("%s, %s: got error %v", d.Name, name, err)
			}
		}
	}
}

// The expressions of the policies are what the API server takes them for.
func TestPoliciesAreTypeChecked(t *testing.T) {
	cp := applied(t, deploy.SelfSigned)
	policies := client(t, cp, "").AdmissionregistrationV1().ValidatingAdmissionPolicies()
	for _, name := range policyNames {
		awaitTrue(t, "policy "+name+" to be checked", func() bool {
			p, err := policies.Get(t.Context(), name, metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if p.Status.TypeChecking == nil || p.Status.ObservedGeneration != p.Generation {
				return false
			}
			for _, w := range p.Status.TypeChecking.ExpressionWarnings {
				t.Errorf("%s: %s: %s", name, w.FieldRef, w.Warning)
			}
			return true
		})
	}
}

// forbidden tells whether an error is a refusal, and whether by a policy of ours
// or by the lack of a right.
func forbidden(err error) (byPolicy, byRole bool) {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Reason != metav1.StatusReasonForbidden {
		return false, false
	}
	byPolicy = strings.Contains(err.Error(), "ValidatingAdmissionPolicy 'controller-")
	return byPolicy, !byPolicy
}

// kubectlAfter runs kubectl when the test is over.
func kubectlAfter(t *testing.T, cp *cluster.ControlPlane, args ...string) {
	t.Helper()
	if _, err := cp.Kubectl(context.WithoutCancel(t.Context()), nil, args...); err != nil {
		t.Error(err)
	}
}
