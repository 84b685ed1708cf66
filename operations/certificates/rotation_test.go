package certificates

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/stategraft/stategraft/certs"
)

// TestInstall starts with nothing but the webhook configuration.
func TestInstall(t *testing.T) {
	p := pretend(t, webhookConfiguration())
	r := p.rotation()
	settle(t, p, r, "")
	if want := []string{"apply stategraft-ca", "patch /stategraft", "apply stategraft-webhook-tls"}; !slices.Equal(p.writes[:3], want) {
		t.Errorf("wrote %q, want first %q", p.writes, want)
	}
	authority, serving := p.secret(t, home, SecretAuthority), p.secret(t, home, SecretServing)
	for _, secret := range []*corev1.Secret{authority, serving} {
		if secret.Type != corev1.SecretTypeOpaque || len(secret.Labels) > 0 { // as the chart has them
			t.Errorf("secret %s: type %s, labels %v", secret.Name, secret.Type, secret.Labels)
		}
	}
	bundle := serving.Data[certs.KeyCA]
	if _, shown := serving.Data["next.key"]; shown || bytes.Contains(serving.Data[certs.KeyKey], authority.Data[certs.KeyKey]) {
		t.Error("the webhook's Secret holds an authority's key")
	}
	got, was := p.configuration(t), webhookConfiguration()
	for i, w := range got.Webhooks {
		want := was.Webhooks[i]
		if i == 1 || i == 3 {
			want.ClientConfig.CABundle = bundle
		}
		if w.Name != want.Name || !bytes.Equal(w.ClientConfig.CABundle, want.ClientConfig.CABundle) || *w.TimeoutSeconds != *want.TimeoutSeconds || *w.SideEffects != *want.SideEffects {
			t.Errorf("webhook %s is %+v", want.Name, w)
		}
	}
	if got.Annotations["kept"] != "yes" {
		t.Error("an annotation was lost")
	}
}

// TestRepairBundle empties the bundle, and writes only the entries that differ.
func TestRepairBundle(t *testing.T) {
	p := pretend(t, webhookConfiguration())
	r := p.rotation()
	settle(t, p, r, "")
	bundle := p.configuration(t).Webhooks[1].ClientConfig.CABundle
	emptied := p.configuration(t)
	emptied.Webhooks[3].ClientConfig.CABundle = nil
	if err := p.Update(t.Context(), emptied); err != nil {
		t.Fatal(err)
	}
	p.writes = nil
	settle(t, p, r, "")
	if !slices.Equal(p.writes, []string{"patch /stategraft"}) || !bytes.Equal(p.configuration(t).Webhooks[3].ClientConfig.CABundle, bundle) {
		t.Errorf("not repaired: wrote %q", p.writes)
	}
}

// TestConfigurationAbsent has no webhook configuration at first.
func TestConfigurationAbsent(t *testing.T) {
	p := pretend(t)
	r := p.rotation()
	settle(t, p, r, "")
	if err := p.Create(t.Context(), webhookConfiguration()); err != nil {
		t.Fatal(err)
	}
	settle(t, p, r, "")
	if !bytes.Equal(p.configuration(t).Webhooks[1].ClientConfig.CABundle, p.secret(t, home, SecretServing).Data[certs.KeyCA]) {
		t.Error("the configuration that came later does not carry the bundle")
	}
}

// TestComeBack waits for what is due next, and no longer than an hour.
func TestComeBack(t *testing.T) {
	p := pretend(t, webhookConfiguration())
	r := p.rotation()
	if after := settle(t, p, r, ""); after != time.Hour {
		t.Errorf("comes back after %s, want an hour", after)
	}
	pair, err := certs.ParseIssued(p.secret(t, home, SecretServing).Data[certs.KeyCert], p.secret(t, home, SecretServing).Data[certs.KeyKey])
	if err != nil {
		t.Fatal(err)
	}
	p.now = certs.DueAt(pair.Certificate).Add(-time.Minute)
	if after := settle(t, p, r, ""); after != time.Minute {
		t.Errorf("comes back after %s, want a minute", after)
	}
}

// TestQuicker has another controller write first: nothing is overwritten, and it
// is no error.
func TestQuicker(t *testing.T) {
	resource := schema.GroupResource{Resource: "secrets"}
	terminating := apierrors.NewForbidden(resource, SecretAuthority, errors.New("it is being terminated"))
	terminating.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	for name, test := range map[string]struct {
		err   error
		fails bool
	}{
		"conflict":    {apierrors.NewConflict(resource, SecretAuthority, errors.New("changed")), false},
		"exists":      {apierrors.NewAlreadyExists(resource, SecretAuthority), false},
		"terminating": {terminating, false},
		"forbidden":   {apierrors.NewForbidden(resource, SecretAuthority, errors.New("no rights")), true},
	} {
		t.Run(name, func(t *testing.T) {
			p := pretend(t, webhookConfiguration())
			p.fail = func(string, string) error { return test.err }
			result, err := p.rotation().Reconcile(t.Context(), one)
			if (err != nil) != test.fails || !test.fails && result.RequeueAfter != soon {
				t.Errorf("got %+v, %v", result, err)
			}
			if len(p.writes) != 1 {
				t.Errorf("wrote on after a failure: %q", p.writes)
			}
		})
	}
}

// TestUnpublished has the webhook configuration refuse our writes. A pair that is
// trusted already is renewed all the same; one of a new authority is not served.
func TestUnpublished(t *testing.T) {
	p := pretend(t, webhookConfiguration())
	r := p.rotation()
	settle(t, p, r, "")
	refuse := func(verb, object string) error {
		if verb == "patch" {
			return errors.New("not by us")
		}
		return nil
	}
	first := p.secret(t, home, SecretServing).Data[certs.KeyCert]

	// The pair alone is due. Nothing is to be published for that.
	p.fail, p.now = refuse, noon.Add(50*time.Hour)
	settle(t, p, r, "")
	renewed := p.secret(t, home, SecretServing).Data[certs.KeyCert]
	if bytes.Equal(first, renewed) {
		t.Error("the pair was not renewed")
	}

	// The authority is due, and cannot be published.
	p.now = noon.Add(210 * time.Hour)
	for range 5 {
		if _, err := r.Reconcile(t.Context(), one); err == nil || !strings.Contains(err.Error(), "not by us") {
			t.Errorf("got error %v", err)
		}
		p.now = p.now.Add(10 * time.Hour)
	}
	state, problems := certs.Parse(p.secret(t, home, SecretAuthority).Data, p.secret(t, home, SecretServing).Data)
	if len(problems) > 0 || state.Next.None() || !state.Serving.SignedBy(state.Current.Certificate) {
		t.Errorf("an authority that is not published signs; problems %v", problems)
	}
	if state.Serving.Certificate.NotAfter.Before(p.now) {
		t.Error("the pair was not renewed by the old authority")
	}

	// Then it can.
	p.fail = nil
	settle(t, p, r, "")
	p.now = p.now.Add(time.Hour)
	settle(t, p, r, "")
	if next, _ := certs.Parse(p.secret(t, home, SecretAuthority).Data, p.secret(t, home, SecretServing).Data); !next.Current.Certificate.Equal(state.Next.Certificate) {
		t.Error("the next authority does not sign once it is published")
	}
}

// TestInstalled finds the Secrets empty, as the chart makes them, and keeps what
// others put on them.
func TestInstalled(t *testing.T) {
	empty := func(name string) *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: home, Name: name, Labels: map[string]string{labelManagedBy: "Helm"}, Annotations: map[string]string{"a": "b"}}, Type: corev1.SecretTypeOpaque}
	}
	p := pretend(t, empty(SecretAuthority), empty(SecretServing))
	settle(t, p, p.rotation(), "")
	for _, name := range []string{SecretAuthority, SecretServing} {
		got := p.secret(t, home, name)
		if got.Labels[labelManagedBy] != "Helm" || got.Annotations["a"] != "b" || got.Type != corev1.SecretTypeOpaque || len(got.Data[certs.KeyCert]) == 0 {
			t.Errorf("secret %s: type %s, labels %v, annotations %v", name, got.Type, got.Labels, got.Annotations)
		}
	}
}

// TestExpiryOf tells when what ends, whoever wrote it.
func TestExpiryOf(t *testing.T) {
	p := pretend(t)
	settle(t, p, p.rotation(), "")
	e := &expiryOf{reader: p.Client, key: client.ObjectKey{Namespace: home, Name: SecretServing}, certificate: "test"}
	look := func() float64 {
		t.Helper()
		if _, err := e.Reconcile(t.Context(), reconcile.Request{}); err != nil {
			t.Fatal(err)
		}
		return gauge(t, "test")
	}
	if got, want := look(), float64(noon.Add(60*time.Hour).Unix()); got != want {
		t.Errorf("expires at %v, want %v", got, want)
	}
	damaged := p.secret(t, home, SecretServing)
	damaged.Data[certs.KeyCert] = []byte("no certificate")
	if err := p.Update(t.Context(), damaged); err != nil {
		t.Fatal(err)
	}
	if got := look(); got != 0 {
		t.Errorf("a damaged certificate expires at %v", got)
	}
}
