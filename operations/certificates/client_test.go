package certificates

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/certs"
)

// sidecar serves with the content of a namespace's Secret, as Medusa does: it
// wants a client certificate of an authority in ca.crt.
func sidecar(t *testing.T, p *pretended, namespace string) (address string, pair tls.Certificate) {
	t.Helper()
	secret := p.secret(t, namespace, SecretGRPC)
	pair, err := tls.X509KeyPair(secret.Data[certs.KeyCert], secret.Data[certs.KeyKey])
	if err != nil {
		t.Fatal(err)
	}
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{pair}, ClientCAs: bundleOf(t, secret), ClientAuth: tls.RequireAndVerifyClientCert})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() { _, _ = io.WriteString(conn, "hello"); _ = conn.Close() }()
		}
	}()
	return listener.Addr().String(), pair
}

// talk connects and reads: in TLS 1.3 a client hears only then that it was
// refused.
func talk(address string, config *tls.Config) error {
	conn, err := tls.Dial("tcp", address, config)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	text, err := io.ReadAll(conn)
	if err == nil && string(text) != "hello" {
		err = errors.New("got " + string(text))
	}
	return err
}

func TestClientConfig(t *testing.T) {
	now := time.Now()
	p := pretend(t, authority(t, now), namespaceObject("ring", api.InjectEnabled), namespaceObject("other", api.InjectEnabled))
	p.now = now
	n := p.namespaces(certManager)
	settle(t, p, n, "ring")
	settle(t, p, n, "other")
	ring, ringPair := sidecar(t, p, "ring")
	other, _ := sidecar(t, p, "other")
	client := func(namespace string) *tls.Config {
		t.Helper()
		config, err := ClientConfig(context.Background(), n.source, namespace)
		if err != nil {
			t.Fatal(err)
		}
		return config
	}
	if config := client("ring"); config.MinVersion != tls.VersionTLS13 {
		t.Error("the client does not insist on TLS 1.3")
	}
	withServersPair := client("ring")
	withServersPair.Certificates = []tls.Certificate{ringPair}
	withoutPair := client("ring")
	withoutPair.Certificates = nil
	stranger := pretend(t, authority(t, now))
	strangers, err := ClientConfig(t.Context(), newSource(stranger.Client, certManager, time.Now), "ring")
	if err != nil {
		t.Fatal(err)
	}
	trusting := client("ring")
	trusting.Certificates = strangers.Certificates
	for name, test := range map[string]struct {
		address string
		config  *tls.Config
		want    string // in the error; empty for none
	}{
		"its namespace":              {ring, client("ring"), ""},
		"and the other one":          {other, client("other"), ""},
		"another namespace's server": {other, client("ring"), "medusa.other.stategraft.io"},
		"the server's pair shown":    {ring, withServersPair, "bad certificate"},
		"nothing shown":              {ring, withoutPair, "certificate required"},
		"a stranger's server":        {ring, strangers, "unknown authority"},
		"a stranger's client":        {ring, trusting, "certificate"},
	} {
		err := talk(test.address, test.config)
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got error %v, want %q", name, err, test.want)
		}
	}
	none := pretend(t)
	if _, err := ClientConfig(t.Context(), newSource(none.Client, selfSigned, time.Now), "ring"); !errors.Is(err, certs.ErrNoAuthority) {
		t.Errorf("without an authority: got error %v", err)
	}
}
