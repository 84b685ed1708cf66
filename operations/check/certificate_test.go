package check

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/stategraft/stategraft/api/v1alpha1"
)

// signer is an authority with its key, and what it signs.
type signer struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

// authority makes one that is valid from a day before noon on.
func authority(t *testing.T, until time.Time) *signer {
	t.Helper()
	return (*signer)(nil).sign(t, &x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
		Subject: pkix.Name{CommonName: "ca"}, NotBefore: noon.AddDate(-1, 0, 0), NotAfter: until})
}

func (s *signer) leaf(t *testing.T, name string, from, until time.Time, usage x509.ExtKeyUsage) *signer {
	t.Helper()
	return s.sign(t, &x509.Certificate{DNSNames: []string{name}, NotBefore: from, NotAfter: until, ExtKeyUsage: []x509.ExtKeyUsage{usage}})
}

func (s *signer) sign(t *testing.T, template *x509.Certificate) *signer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template.SerialNumber = big.NewInt(time.Now().UnixNano())
	parent, with := template, key
	if s != nil {
		parent, with = s.cert, s.key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, with)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &signer{cert, key, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}
}

func TestDueIn(t *testing.T) {
	const d = 24 * time.Hour
	for _, c := range []struct {
		life, left time.Duration
		late       bool
	}{
		{90 * d, 60 * d, false}, {90 * d, 19 * d, false}, {90 * d, 17 * d, true}, // a fifth is 18 days
		{60 * d, 15 * d, false}, {60 * d, 13 * d, true}, // a fifth is 12, two weeks are more
		{time.Hour, 21 * time.Minute, false}, {time.Hour, 19 * time.Minute, true}, // renewed at a third
		{1825 * d, 366 * d, false}, {1825 * d, 364 * d, true},
		{90 * d, -d, true},
	} {
		left, late := dueIn(&x509.Certificate{NotBefore: noon.Add(c.left - c.life), NotAfter: noon.Add(c.left)}, noon)
		if left != c.left || late != c.late {
			t.Errorf("life %s, left %s: got %s, %v", c.life, c.left, left, late)
		}
	}
}

func TestBundle(t *testing.T) {
	year, old := authority(t, noon.AddDate(4, 0, 0)), authority(t, noon.AddDate(0, 0, -1))
	late := authority(t, noon.AddDate(0, 0, 20))
	service, url := &admissionregistrationv1.ServiceReference{Name: "s"}, "https://example.org"
	for _, c := range []struct {
		what   string
		bundle []byte
		behind admissionregistrationv1.WebhookClientConfig
		certs  int
		want   []string
	}{
		{"good", year.pem, admissionregistrationv1.WebhookClientConfig{Service: service}, 1, nil},
		{"with an old one", append(old.pem, year.pem...), admissionregistrationv1.WebhookClientConfig{Service: service}, 2, nil},
		{"expired", old.pem, admissionregistrationv1.WebhookClientConfig{Service: service}, 0, []string{"fail c: expired on 2026-02-28"}},
		{"late", late.pem, admissionregistrationv1.WebhookClientConfig{Service: service}, 1, []string{"warn c: expires in 20 days"}},
		{"none, Service", nil, admissionregistrationv1.WebhookClientConfig{Service: service}, 0, []string{"fail c: has no caBundle"}},
		{"none, URL: the machine's own", nil, admissionregistrationv1.WebhookClientConfig{URL: &url}, 0, nil},
		{"garbage", []byte("x"), admissionregistrationv1.WebhookClientConfig{Service: service}, 0, []string{"fail c: cannot be read"}},
	} {
		c.behind.CABundle = c.bundle
		certs, findings := judgeBundle("c", "cert-manager", c.behind, noon)
		expect(t, c.what, findings, c.want...)
		if len(certs) != c.certs {
			t.Errorf("%s: %d certificates", c.what, len(certs))
		}
	}
}

func TestServing(t *testing.T) {
	const name = "stategraft-webhook.stategraft.svc"
	ca, other := authority(t, noon.AddDate(4, 0, 0)), authority(t, noon.AddDate(4, 0, 0))
	from, until := noon.AddDate(0, 0, -30), noon.AddDate(0, 0, 60)
	between := ca.sign(t, &x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
		Subject: pkix.Name{CommonName: "between"}, NotBefore: from, NotAfter: until})
	chain := func(list ...*signer) serving {
		s := serving{where: "ns/tls", name: name}
		for _, entry := range list {
			s.chain = append(s.chain, entry.cert)
		}
		return s
	}
	server := x509.ExtKeyUsageServerAuth
	for _, c := range []struct {
		what  string
		shown serving
		want  string
	}{
		{"good", chain(ca.leaf(t, name, from, until, server)), "ok ns/tls: until 2026-04-30"},
		{"through another", chain(between.leaf(t, name, from, until, server), between), "ok ns/tls: "},
		{"the one between is missing", chain(between.leaf(t, name, from, until, server)), "fail ns/tls: does not accept"},
		{"another CA", chain(other.leaf(t, name, from, until, server)), "fail ns/tls: does not accept"},
		{"another name", chain(ca.leaf(t, "localhost", from, until, server)), "fail ns/tls: not " + name},
		{"for clients", chain(ca.leaf(t, name, from, until, x509.ExtKeyUsageClientAuth)), "fail ns/tls: incompatible key usage"},
		{"expired", chain(ca.leaf(t, name, from, noon.Add(-time.Minute), server)), "fail ns/tls: expired on 2026-03-01 11:59 UTC"},
		{"late", chain(ca.leaf(t, name, noon.AddDate(0, 0, -80), noon.AddDate(0, 0, 10), server)), "warn ns/tls: expires in 10 days"},
		{"not yet valid", chain(ca.leaf(t, name, noon.Add(time.Hour), until, server)), "fail ns/tls: does not accept"},
		{"no Secret", serving{where: "ns/tls", err: unread(apierrors.NewNotFound(corev1.Resource("secrets"), "tls"), right{})}, "fail ns/tls: is missing"},
		{"an empty Secret", serving{where: "ns/tls", bad: errors.New("there is none")}, "fail ns/tls: cannot start"},
		{"no right", serving{err: unread(apierrors.NewForbidden(corev1.Resource("secrets"), "tls", nil), right{Verb: "get", Resource: "secrets", Namespace: "ns"})},
			"skip ns: no right to get secrets in namespace ns"},
	} {
		expect(t, c.what, judgeServing(c.shown, []*x509.Certificate{other.cert, ca.cert}[1:], noon), c.want)
	}
	both := []*x509.Certificate{other.cert, ca.cert}
	expect(t, "a bundle of two", judgeServing(chain(ca.leaf(t, name, from, until, server)), both, noon), "ok ns/tls: ")
}

func TestGRPC(t *testing.T) {
	ca, other := authority(t, noon.AddDate(4, 0, 0)), authority(t, noon.AddDate(4, 0, 0))
	name := api.GRPCServerName("db")
	marked := metav1.ObjectMeta{Labels: map[string]string{"app.kubernetes.io/managed-by": "stategraft"}}
	from, until := noon.AddDate(0, 0, -30), noon.AddDate(0, 0, 60)
	secret := func(leaf *signer, authorities ...byte) *corev1.Secret {
		return &corev1.Secret{ObjectMeta: marked, Data: map[string][]byte{"tls.crt": leaf.pem, "ca.crt": authorities}}
	}
	server := x509.ExtKeyUsageServerAuth
	theirs := secret(ca.leaf(t, name, from, until, server), ca.pem...)
	theirs.Labels = map[string]string{"app.kubernetes.io/managed-by": "Helm"}
	for _, c := range []struct {
		what   string
		secret *corev1.Secret
		want   []string
	}{
		{"good", secret(ca.leaf(t, name, from, until, server), ca.pem...), nil},
		{"missing", nil, []string{"fail db/stategraft-grpc: is missing"}},
		{"not ours", theirs, []string{"fail db/stategraft-grpc: is not Stategraft's"}},
		{"not ours, and nothing in it", &corev1.Secret{}, []string{"fail db/stategraft-grpc: is not Stategraft's"}},
		{"empty", &corev1.Secret{ObjectMeta: marked}, []string{"fail db/stategraft-grpc: tls.crt cannot be read"}},
		{"no CA", secret(ca.leaf(t, name, from, until, server)), []string{"fail db/stategraft-grpc: ca.crt cannot be read"}},
		{"another CA", secret(ca.leaf(t, name, from, until, server), other.pem...), []string{"fail db/stategraft-grpc: do not accept"}},
		{"of another namespace", secret(ca.leaf(t, api.GRPCServerName("web"), from, until, server), ca.pem...), []string{"fail db/stategraft-grpc: do not accept"}},
		{"expired", secret(ca.leaf(t, name, from, noon.Add(-time.Hour), server), ca.pem...), []string{"fail db/stategraft-grpc: expired"}},
		{"late", secret(ca.leaf(t, name, noon.AddDate(0, 0, -85), noon.AddDate(0, 0, 5), server), ca.pem...), []string{"warn db/stategraft-grpc: expires in 5 days"}},
	} {
		expect(t, c.what, judgeGRPC("db", c.secret, "see that it runs", noon), c.want...)
	}
}

// Who has to be looked at is named, and nobody else.
func TestWriter(t *testing.T) {
	url := "https://10.0.0.1/"
	for _, c := range []struct {
		what   string
		change func(*admissionregistrationv1.MutatingWebhookConfiguration)
		remedy string
	}{
		{"self-signed", func(*admissionregistrationv1.MutatingWebhookConfiguration) {}, "the Stategraft controller writes it: see that it runs"},
		{"cert-manager", func(m *admissionregistrationv1.MutatingWebhookConfiguration) {
			m.Annotations = map[string]string{annotationInject: "stategraft/stategraft-webhook"}
		}, "cert-manager writes it: see that it runs"},
		{"URL", func(m *admissionregistrationv1.MutatingWebhookConfiguration) {
			m.Webhooks[0].ClientConfig = admissionregistrationv1.WebhookClientConfig{URL: &url}
		}, "whoever registered the webhook by its URL has to renew both"},
	} {
		config := registered(t)
		c.change(&config)
		if got := seeWriter(writer(&config, ours(&config))); got != c.remedy {
			t.Errorf("%s: %q, want %q", c.what, got, c.remedy)
		}
	}
	_, findings := judgeBundle("c", "cert-manager", admissionregistrationv1.WebhookClientConfig{Service: &admissionregistrationv1.ServiceReference{}}, noon)
	if want := "cert-manager's cainjector writes it: see that it runs"; findings[0].Remedy != want {
		t.Errorf("%+v, want %q", findings, want)
	}
}
