package cluster

import (
	"crypto/tls"
	"crypto/x509"
	"path/filepath"
	"slices"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
)

func TestCertificatesVerify(t *testing.T) {
	ca, err := newAuthority()
	if err != nil {
		t.Fatal(err)
	}
	other, err := newAuthority()
	if err != nil {
		t.Fatal(err)
	}
	server, err := ca.server()
	if err != nil {
		t.Fatal(err)
	}
	client, err := ca.client("someone", "group-a", "group-b")
	if err != nil {
		t.Fatal(err)
	}
	trusted := func(a *authority) *x509.CertPool {
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(a.certPEM) {
			t.Fatal("the authority's certificate is not PEM")
		}
		return pool
	}
	leaf := func(pair keyPair) *x509.Certificate {
		loaded, err := tls.X509KeyPair(pair.certPEM, pair.keyPEM) // refuses a foreign key
		if err != nil {
			t.Fatal(err)
		}
		return loaded.Leaf
	}
	serverUse := []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	clientUse := []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}

	for _, name := range []string{"127.0.0.1", "10.96.0.1", NodeIP, "localhost", "kubernetes.default.svc"} {
		if _, err := leaf(server).Verify(x509.VerifyOptions{Roots: trusted(ca), DNSName: name, KeyUsages: serverUse}); err != nil {
			t.Errorf("server certificate for %s: %v", name, err)
		}
	}
	if _, err := leaf(client).Verify(x509.VerifyOptions{Roots: trusted(ca), KeyUsages: clientUse}); err != nil {
		t.Errorf("client certificate: %v", err)
	}
	if _, err := leaf(client).Verify(x509.VerifyOptions{Roots: trusted(ca), KeyUsages: serverUse}); err == nil {
		t.Error("a client certificate passes for a server's")
	}
	if _, err := leaf(client).Verify(x509.VerifyOptions{Roots: trusted(other), KeyUsages: clientUse}); err == nil {
		t.Error("another authority vouches for the client certificate")
	}
	subject := leaf(client).Subject
	if subject.CommonName != "someone" || !slices.Equal(subject.Organization, []string{"group-a", "group-b"}) {
		t.Errorf("client certificate is for %v", subject)
	}
}

func TestKubeconfig(t *testing.T) {
	ca, err := newAuthority()
	if err != nil {
		t.Fatal(err)
	}
	user, err := ca.client("someone")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := writeKubeconfig(path, "rig", "https://127.0.0.1:1234", ca.certPEM, user); err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		t.Fatal(err)
	}
	if config.Host != "https://127.0.0.1:1234" || config.Insecure {
		t.Errorf("host %q, insecure %v", config.Host, config.Insecure)
	}
	if string(config.CAData) != string(ca.certPEM) || string(config.CertData) != string(user.certPEM) || string(config.KeyData) != string(user.keyPEM) {
		t.Error("certificates or key do not come back as written")
	}
}
