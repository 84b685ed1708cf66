package certificates_test

import (
	"bytes"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/stategraft/stategraft/certs"
	"github.com/stategraft/stategraft/deploy"
	"github.com/stategraft/stategraft/operations/certificates"
)

// issuer fills Secrets and the caBundle as cert-manager and its cainjector do.
type issuer struct {
	r    *rig
	ca   certs.CA
	data map[string][]byte // of the authority's Secret
}

func newIssuer(t *testing.T, r *rig) *issuer {
	t.Helper()
	ca, err := certs.NewCA(time.Hour, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	data, err := certs.State{Current: ca}.AuthorityData()
	if err != nil {
		t.Fatal(err)
	}
	i := &issuer{r, ca, map[string][]byte{certs.KeyCert: data[certs.KeyCert], certs.KeyKey: data[certs.KeyKey], certs.KeyCA: data[certs.KeyCert]}}
	i.fill(t, certificates.SecretAuthority, i.data)
	return i
}

func (i *issuer) fill(t *testing.T, name string, data map[string][]byte) {
	t.Helper()
	secrets := i.r.client.CoreV1().Secrets(home)
	secret, err := secrets.Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	secret.Data = data
	if _, err := secrets.Update(t.Context(), secret, metav1.UpdateOptions{FieldManager: "cert-manager"}); err != nil {
		t.Fatal(err)
	}
}

// renew signs another serving pair.
func (i *issuer) renew(t *testing.T) (certificate []byte) {
	t.Helper()
	host := certificates.DefaultWebhookService + "." + home + ".svc"
	pair, err := certs.Issue(i.ca, certs.Template{Names: []string{host, host + ".cluster.local"}, Usage: x509.ExtKeyUsageServerAuth, Validity: time.Hour}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	i.fill(t, certificates.SecretServing, map[string][]byte{certs.KeyCert: pair.CertPEM, certs.KeyKey: pair.KeyPEM, certs.KeyCA: i.data[certs.KeyCA]})
	return pair.CertPEM
}

// inject writes the caBundle.
func (i *issuer) inject(t *testing.T) {
	t.Helper()
	patch := fmt.Sprintf(`[{"op":"add","path":"/webhooks/0/clientConfig/caBundle","value":%q}]`, base64.StdEncoding.EncodeToString(i.data[certs.KeyCA]))
	if _, err := i.r.client.AdmissionregistrationV1().MutatingWebhookConfigurations().Patch(t.Context(), certificates.DefaultWebhookConfiguration,
		types.JSONPatchType, []byte(patch), metav1.PatchOptions{FieldManager: "cainjector"}); err != nil {
		t.Fatal(err)
	}
}

// TestCertManager installs with certificates that another makes. They are followed
// without a restart, and written by nobody else.
func TestCertManager(t *testing.T) {
	r := startRig(t)
	r.install(t, deploy.CertManager)
	address := freeAddress(t)
	r.register(t, deploy.CertManager, address)
	controller := r.start(t, "stategraft-controller", "controller", "--certificates", "cert-manager")
	r.namespace(t, "ring", labelled) // before there is an authority
	issuer := newIssuer(t, r)
	issuer.renew(t)
	webhook := r.webhook(t, address)
	issuer.inject(t)
	await(t, "the first injected pod", func() bool {
		pod, err := r.client.CoreV1().Pods("ring").Create(t.Context(), cassandra("first"), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err == nil && injected(pod)
	})

	load := r.run(t, "ring", address)
	for range 2 {
		loaded := len(webhook.lines("serving certificate loaded"))
		issuer.renew(t)
		await(t, "the webhook to load the certificate", func() bool { return len(webhook.lines("serving certificate loaded")) > loaded })
		time.Sleep(mountDelay) // some load on the new one
	}
	load.judge(t, 40)

	secret := r.secret(t, "ring", certificates.SecretGRPC)
	if !bytes.Equal(secret.Data[certs.KeyCA], issuer.data[certs.KeyCert]) {
		t.Error("the sidecars do not trust cert-manager's authority alone")
	}
	for _, name := range []string{certificates.SecretAuthority, certificates.SecretServing} {
		got := r.secret(t, home, name)
		for _, field := range got.ManagedFields {
			if strings.Contains(field.Manager, "stategraft") {
				t.Errorf("secret %s was written by %s", name, field.Manager)
			}
		}
	}
	if bundle, err := r.caBundle(t.Context()); err != nil || !bytes.Equal(bundle, issuer.data[certs.KeyCA]) {
		t.Errorf("the caBundle is another, error %v", err)
	}

	// Another authority, as when somebody removes the Secret: trusted at first.
	other := newIssuer(t, r)
	await(t, "both authorities to be trusted", func() bool {
		bundle := r.secret(t, "ring", certificates.SecretGRPC).Data[certs.KeyCA]
		return bytes.Contains(bundle, other.data[certs.KeyCert]) && bytes.Contains(bundle, issuer.data[certs.KeyCert])
	})
	after := r.secret(t, "ring", certificates.SecretGRPC)
	if !bytes.Equal(after.Data[certs.KeyCert], secret.Data[certs.KeyCert]) {
		t.Error("the new authority signs before the sidecars trust it")
	}
	if errors := controller.lines(`"level":"ERROR"`); len(errors) > 0 {
		t.Errorf("errors in the controller's log:\n%s", strings.Join(errors, ""))
	}
}
