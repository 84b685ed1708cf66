package certificates

import (
	"bytes"
	"crypto/x509"
	"errors"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/certs"
)

var certManager = func() Options {
	o := selfSigned
	o.Mode = CertManager
	return o
}()

// authority is a Secret stategraft-ca as cert-manager leaves it.
func authority(t *testing.T, now time.Time) *corev1.Secret {
	t.Helper()
	ca, err := certs.NewCA(300*time.Hour, now)
	if err != nil {
		t.Fatal(err)
	}
	data, err := certs.State{Current: ca}.AuthorityData()
	if err != nil {
		t.Fatal(err)
	}
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: home, Name: SecretAuthority}, Type: corev1.SecretTypeTLS,
		Data: map[string][]byte{certs.KeyCert: data[certs.KeyCert], certs.KeyKey: data[certs.KeyKey], certs.KeyCA: data[certs.KeyCert]}}
}

func namespaceObject(name, inject string) *corev1.Namespace {
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if inject != "" {
		ns.Labels = map[string]string{api.LabelInject: inject}
	}
	return ns
}

func bundleOf(t *testing.T, secret *corev1.Secret) *x509.CertPool {
	t.Helper()
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(secret.Data[certs.KeyCA]) {
		t.Fatal("the bundle is empty")
	}
	return pool
}

// gauge reads stategraft_certificate_expiry_timestamp_seconds; 0 where it is not
// told.
func gauge(t *testing.T, certificate string) float64 {
	t.Helper()
	families, err := metrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() != "stategraft_certificate_expiry_timestamp_seconds" {
			continue
		}
		for _, m := range family.GetMetric() {
			if m.GetLabel()[0].GetValue() == certificate {
				return m.GetGauge().GetValue()
			}
		}
	}
	return 0
}

// TestNamespace makes the Secret of a labelled namespace, in both modes.
func TestNamespace(t *testing.T) {
	for _, o := range []Options{selfSigned, certManager} {
		t.Run(string(o.Mode), func(t *testing.T) {
			p := pretend(t, authority(t, noon), namespaceObject("ring", api.InjectEnabled))
			n := p.namespaces(o)
			after := settle(t, p, n, "ring")
			if !slices.Equal(p.writes, []string{"apply " + SecretGRPC}) || after != 12*time.Hour {
				t.Errorf("wrote %q, comes back after %s", p.writes, after)
			}
			secret := p.secret(t, "ring", SecretGRPC)
			pair, err := certs.ParseIssued(secret.Data[certs.KeyCert], secret.Data[certs.KeyKey])
			if err != nil {
				t.Fatal(err)
			}
			verify := func(name string, usage x509.ExtKeyUsage) error {
				_, err := pair.Certificate.Verify(x509.VerifyOptions{Roots: bundleOf(t, secret), DNSName: name, CurrentTime: noon, KeyUsages: []x509.ExtKeyUsage{usage}})
				return err
			}
			if err := verify("medusa.ring.stategraft.io", x509.ExtKeyUsageServerAuth); err != nil {
				t.Error(err)
			}
			if verify("medusa.other.stategraft.io", x509.ExtKeyUsageServerAuth) == nil {
				t.Error("the pair is good for another namespace")
			}
			if verify("stategraft-webhook.stategraft.svc", x509.ExtKeyUsageServerAuth) == nil {
				t.Error("the pair is good for the webhook")
			}
			if verify("medusa.ring.stategraft.io", x509.ExtKeyUsageClientAuth) == nil {
				t.Error("the pair is good for a client")
			}
			if got, want := gauge(t, certificateGRPC), float64(pair.Certificate.NotAfter.Unix()); got != want {
				t.Errorf("the metric says %v, want %v", got, want)
			}
		})
	}
}

// TestNamespaceLeftAlone are namespaces in which nothing is written.
func TestNamespaceLeftAlone(t *testing.T) {
	terminating := namespaceObject("ring", api.InjectEnabled)
	terminating.Finalizers = []string{"example.org/held"}
	now := metav1.NewTime(noon)
	terminating.DeletionTimestamp = &now
	foreign := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ring", Name: SecretGRPC}, Data: map[string][]byte{"theirs": []byte("kept")}}
	for name, test := range map[string]struct {
		objects []client.Object
		events  []string
	}{
		"no label":        {[]client.Object{namespaceObject("ring", "")}, nil},
		"switched off":    {[]client.Object{namespaceObject("ring", api.InjectDisabled)}, nil},
		"gone":            {nil, nil},
		"being removed":   {[]client.Object{terminating}, nil},
		"another's":       {[]client.Object{namespaceObject("ring", api.InjectEnabled), foreign}, []string{"StategraftSecretInTheWay"}},
		"and unlabelled":  {[]client.Object{namespaceObject("ring", ""), foreign}, []string{"StategraftSecretInTheWay"}},
		"no authority":    {[]client.Object{namespaceObject("ring", api.InjectEnabled), nil}, nil},
		"damaged, theirs": {[]client.Object{namespaceObject("ring", api.InjectEnabled), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: home, Name: SecretAuthority}}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			objects := slices.DeleteFunc(test.objects, func(o client.Object) bool { return o == nil })
			if len(objects) == len(test.objects) && name != "damaged, theirs" {
				objects = append(objects, authority(t, noon))
			}
			p := pretend(t, objects...)
			settle(t, p, p.namespaces(certManager), "ring")
			if len(p.writes) > 0 || !slices.Equal(p.events.reasons, test.events) {
				t.Errorf("wrote %q, events %q", p.writes, p.events.reasons)
			}
		})
	}
}

// TestNamespaceLeftOut labels the namespaces that are never acted in, by hand and
// with a Secret that an earlier version made.
func TestNamespaceLeftOut(t *testing.T) {
	for _, name := range []string{home, "kube-system", "kube-public", "kube-node-lease"} {
		t.Run(name, func(t *testing.T) {
			made := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: SecretGRPC, Labels: map[string]string{labelManagedBy: managedBy}}}
			for what, objects := range map[string][]client.Object{"bare": nil, "with a Secret": {made}} {
				p := pretend(t, append(objects, authority(t, noon), namespaceObject(name, api.InjectEnabled))...)
				if after := settle(t, p, p.namespaces(certManager), name); len(p.writes) > 0 || after != 0 {
					t.Errorf("%s: wrote %q, comes back after %s", what, p.writes, after)
				}
				if requests := allNamespaces(t.Context(), p.Client, pretend(t), home); len(requests) > 0 {
					t.Errorf("asked for %v", requests)
				}
			}
		})
	}
}

// TestNamespaceRaces are errors that go away by themselves.
func TestNamespaceRaces(t *testing.T) {
	resource := schema.GroupResource{Resource: "secrets"}
	ending := apierrors.NewForbidden(resource, SecretGRPC, errors.New("being terminated"))
	ending.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	for name, test := range map[string]struct {
		err   error
		again time.Duration
		fails bool
	}{
		"the namespace is ending": {ending, 0, false},
		"the namespace is gone":   {apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "ring"), 0, false},
		"another was quicker":     {apierrors.NewConflict(resource, SecretGRPC, errors.New("changed")), soon, false},
		"a quota":                 {apierrors.NewForbidden(resource, SecretGRPC, errors.New("exceeded quota")), 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			p := pretend(t, authority(t, noon), namespaceObject("ring", api.InjectEnabled))
			p.fail = func(string, string) error { return test.err }
			result, err := p.namespaces(certManager).Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKey{Name: "ring"}})
			if (err != nil) != test.fails || result.RequeueAfter != test.again {
				t.Errorf("got %+v, %v", result, err)
			}
		})
	}
}

// TestNamespaceRenewed follows one Secret through what happens to it.
func TestNamespaceRenewed(t *testing.T) {
	p := pretend(t, authority(t, noon), namespaceObject("ring", api.InjectEnabled))
	n := p.namespaces(certManager)
	settle(t, p, n, "ring")
	get := func() *corev1.Secret { return p.secret(t, "ring", SecretGRPC) }
	first := get()
	changed := func(what string, want bool, before *corev1.Secret) *corev1.Secret {
		t.Helper()
		settle(t, p, n, "ring")
		now := get()
		if got := !bytes.Equal(now.Data[certs.KeyCert], before.Data[certs.KeyCert]); got != want {
			t.Errorf("%s: made anew %v, want %v", what, got, want)
		}
		return now
	}
	p.now = noon.Add(39 * time.Hour)
	second := changed("before two thirds", false, first)
	p.now = noon.Add(40 * time.Hour)
	second = changed("at two thirds", true, second)

	// Without the label it is left, and renewed for the pods that run.
	if err := p.Update(t.Context(), namespaceObject("ring", "")); err != nil {
		t.Fatal(err)
	}
	third := changed("unlabelled", false, second)
	p.now = noon.Add(90 * time.Hour)
	third = changed("unlabelled and due", true, third)
	for what, damage := range map[string]func(map[string][]byte){
		"emptied":         clearData,
		"key of another":  func(d map[string][]byte) { d[certs.KeyKey] = first.Data[certs.KeyKey] },
		"certificate cut": func(d map[string][]byte) { d[certs.KeyCert] = d[certs.KeyCert][:50] },
	} {
		broken := get()
		damage(broken.Data)
		if err := p.Update(t.Context(), broken); err != nil {
			t.Fatal(err)
		}
		third = changed(what, true, third)
	}

	// Another authority: trusted first, signing later.
	other := authority(t, p.now)
	old := p.secret(t, home, SecretAuthority)
	old.Data = other.Data
	if err := p.Update(t.Context(), old); err != nil {
		t.Fatal(err)
	}
	trusted := changed("another authority", false, third)
	if !bytes.Contains(trusted.Data[certs.KeyCA], other.Data[certs.KeyCert]) || !bytes.Contains(trusted.Data[certs.KeyCA], third.Data[certs.KeyCA]) {
		t.Error("both authorities have to be trusted")
	}
	p.now = p.now.Add(settle(t, p, n, "ring"))
	signed := changed("after the margin", true, trusted)
	if !bytes.Contains(signed.Data[certs.KeyCA], third.Data[certs.KeyCA]) {
		t.Error("the former authority is not trusted any more")
	}
}

func clearData(d map[string][]byte) { clear(d) }
