package certificates_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/certs"
	"github.com/stategraft/stategraft/deploy"
	"github.com/stategraft/stategraft/operations/certificates"
	"github.com/stategraft/stategraft/test/cluster"
)

// home is our namespace in the manifests.
const home = "stategraft"

// mountDelay is how long our stand-in for the kubelet takes.
const mountDelay = 2 * time.Second

// rig is a control plane and the built program.
type rig struct {
	*cluster.ControlPlane
	client  kubernetes.Interface
	program string
}

// startRig skips without STATEGRAFT_RIG=1.
func startRig(t *testing.T) *rig {
	t.Helper()
	if os.Getenv(cluster.EnabledEnv) != "1" {
		t.Skipf("needs a real control plane: set %s=1", cluster.EnabledEnv)
	}
	r := &rig{program: filepath.Join(t.TempDir(), "stategraft")}
	build := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-o", r.program, "../../cmd/stategraft")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building the program: %v\n%s", err, out)
	}
	var err error
	if r.ControlPlane, err = cluster.Start(t.Context(), cluster.Options{Log: t.Output()}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	config := r.Config()
	config.QPS, config.Burst = 500, 500
	if r.client, err = kubernetes.NewForConfig(config); err != nil {
		t.Fatal(err)
	}
	return r
}

// install applies what the processes need of a manifest: rights, bounds, and the
// objects that are there before the processes. The webhook's Service stands for an
// address of this machine.
func (r *rig) install(t *testing.T, manifest []byte) {
	t.Helper()
	objects, err := deploy.Pick(manifest, "Namespace", "CustomResourceDefinition", "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding",
		"Secret", "ConfigMap", "Lease", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Kubectl(t.Context(), bytes.NewReader(objects), "apply", "-f", "-"); err != nil {
		t.Fatal(err)
	}
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: certificates.DefaultWebhookService},
		Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "localhost"}}
	if _, err := r.client.CoreV1().Services(home).Create(t.Context(), service, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// register creates the webhook configuration of a manifest, without a caBundle.
func (r *rig) register(t *testing.T, manifest []byte, address string) {
	t.Helper()
	text, err := deploy.Pick(manifest, "MutatingWebhookConfiguration")
	if err != nil {
		t.Fatal(err)
	}
	var config admissionregistrationv1.MutatingWebhookConfiguration
	if err := yaml.UnmarshalStrict(text, &config); err != nil {
		t.Fatal(err)
	}
	_, portText, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	number, err := strconv.ParseInt(portText, 10, 32)
	if err != nil {
		t.Fatal(err)
	}
	port := int32(number)
	for i := range config.Webhooks {
		config.Webhooks[i].ClientConfig.Service.Port = &port
	}
	if _, err := r.client.AdmissionregistrationV1().MutatingWebhookConfigurations().Create(t.Context(), &config, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// caBundle is that of the first entry.
func (r *rig) caBundle(ctx context.Context) ([]byte, error) {
	config, err := r.client.AdmissionregistrationV1().MutatingWebhookConfigurations().Get(ctx, certificates.DefaultWebhookConfiguration, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	return config.Webhooks[0].ClientConfig.CABundle, nil
}

// webhook starts the webhook at the address, with the mounted Secret.
func (r *rig) webhook(t *testing.T, address string) *process {
	t.Helper()
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	dir := r.mount(t, certificates.SecretServing, mountDelay)
	return r.start(t, "stategraft-webhook", "webhook", "--host", host, "--port", port, "--cert-dir", dir, "--drain", "100ms")
}

// namespace makes one and waits until pods can be created in it.
func (r *rig) namespace(t *testing.T, name string, labels map[string]string) {
	t.Helper()
	if _, err := r.client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	await(t, "a ServiceAccount in "+name, func() bool {
		_, err := r.client.CoreV1().ServiceAccounts(name).Get(t.Context(), "default", metav1.GetOptions{})
		return err == nil
	})
}

var labelled = map[string]string{api.LabelInject: api.InjectEnabled}

// secret waits for a Secret with a pair.
func (r *rig) secret(t *testing.T, namespace, name string) *corev1.Secret {
	t.Helper()
	var found *corev1.Secret
	await(t, fmt.Sprintf("secret %s/%s", namespace, name), func() bool {
		got, err := r.client.CoreV1().Secrets(namespace).Get(t.Context(), name, metav1.GetOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			t.Fatal(err)
		}
		found = got
		return err == nil && len(got.Data[certs.KeyCert]) > 0
	})
	return found
}

// await polls for two minutes.
func await(t *testing.T, what string, done func() bool) {
	t.Helper()
	until := time.Now().Add(2 * time.Minute)
	for !done() {
		if time.Now().After(until) {
			t.Fatalf("waited in vain for %s", what)
		}
		time.Sleep(50 * time.Millisecond)
	}
}
