package nodeserver

import (
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stategraft/stategraft/api/node"
	"github.com/stategraft/stategraft/certs"
)

// TestWhoIsLetIn tries everything that is not a client of the namespace's authority.
func TestWhoIsLetIn(t *testing.T) {
	t.Parallel()
	ca, other := authority(t), authority(t)
	mounted := &secret{t: t, dir: t.TempDir()}
	server := issue(t, ca, x509.ExtKeyUsageServerAuth, time.Hour, serverName)
	mounted.write(server, ca)
	r := start(t, func(c *Config) { c.TLSDir = mounted.dir })
	r.listening()
	good := issue(t, ca, x509.ExtKeyUsageClientAuth, time.Hour)
	old := clientOf(t, good, ca)
	old.MaxVersion = tls.VersionTLS12
	for name, c := range map[string]struct {
		config *tls.Config
		want   string // of the error; empty where it is let in
	}{
		"a client":                   {clientOf(t, good, ca), ""},
		"nothing shown":              {clientOf(t, certs.Issued{}, ca), "certificate required"},
		"another authority's client": {clientOf(t, issue(t, other, x509.ExtKeyUsageClientAuth, time.Hour), ca), "certificate"},
		"a server's pair":            {clientOf(t, server, ca), "bad certificate"},
		"TLS 1.2":                    {old, "protocol version"},
		"in the clear":               {nil, ""},
	} {
		status, body, err := r.get(c.config, node.PathReport)
		switch {
		case name == "in the clear":
			if status == http.StatusOK || strings.Contains(string(body), "cassandra-0") {
				t.Errorf("in the clear: got %d %s, %v", status, body, err)
			}
		case c.want == "":
			if status != http.StatusOK || !strings.Contains(string(body), `"node":"cassandra-0"`) {
				t.Errorf("%s: got %d %s, %v", name, status, body, err)
			}
		case err == nil || !strings.Contains(err.Error(), c.want):
			t.Errorf("%s: got %d %s, error %v, want %q", name, status, body, err, c.want)
		}
	}
}

// TestWaitsForThePair: without the Secret there is no service, and no plain one; it
// is there soon after the Secret.
func TestWaitsForThePair(t *testing.T) {
	t.Parallel()
	ca := authority(t)
	mounted := &secret{t: t, dir: t.TempDir()}
	r := start(t, func(c *Config) { c.TLSDir = mounted.dir })
	eventually(t, func() bool { return strings.Contains(r.log.String(), "waiting for Secret stategraft-grpc") })
	if _, _, err := r.get(nil, node.PathReport); err == nil {
		t.Error("something is served")
	}
	mounted.swap(map[string][]byte{"tls.crt": []byte("half"), "tls.key": nil, "ca.crt": nil})
	eventually(t, func() bool { return strings.Contains(r.log.String(), "cannot be used") })
	mounted.write(issue(t, ca, x509.ExtKeyUsageServerAuth, time.Hour, serverName), ca)
	r.listening()
	if status, body, err := r.get(clientOf(t, issue(t, ca, x509.ExtKeyUsageClientAuth, time.Hour), ca), node.PathReport); status != http.StatusOK {
		t.Errorf("got %d %s, %v", status, body, err)
	}
}

// TestRotation replaces the pair and the authorities under a connection that stays.
func TestRotation(t *testing.T) {
	t.Parallel()
	before, after := authority(t), authority(t)
	mounted := &secret{t: t, dir: t.TempDir()}
	mounted.write(issue(t, before, x509.ExtKeyUsageServerAuth, time.Hour, serverName), before)
	r := start(t, func(c *Config) { c.TLSDir = mounted.dir })
	r.listening()
	former := clientOf(t, issue(t, before, x509.ExtKeyUsageClientAuth, time.Hour), before, after)
	staying := client(former)
	defer staying.CloseIdleConnections()
	url := "https://" + r.address() + node.PathReport
	if status, _, err := ask(staying, url); status != http.StatusOK {
		t.Fatalf("got %d, %v", status, err)
	}

	mounted.write(issue(t, after, x509.ExtKeyUsageServerAuth, time.Hour, serverName), before, after)
	onlyAfter := clientOf(t, issue(t, after, x509.ExtKeyUsageClientAuth, time.Hour), after)
	eventually(t, func() bool { status, _, _ := r.get(onlyAfter, node.PathReport); return status == http.StatusOK })
	if status, body, err := ask(staying, url); status != http.StatusOK {
		t.Errorf("while both are trusted: got %d %s, %v", status, body, err)
	}

	mounted.write(issue(t, after, x509.ExtKeyUsageServerAuth, time.Hour, serverName), after)
	time.Sleep(lookAgain + 50*time.Millisecond)
	status, body, err := ask(staying, url)
	if status != http.StatusUnauthorized || !strings.Contains(message(t, body), "have changed") {
		t.Errorf("a connection from before: got %d %s, %v", status, body, err)
	}
	if status, body, err := ask(staying, url); err == nil {
		t.Errorf("a new connection with the former pair: got %d %s", status, body)
	}

	// What cannot be used does not take the place of what can.
	mounted.swap(map[string][]byte{"tls.crt": []byte("x"), "tls.key": []byte("x"), "ca.crt": []byte("x")})
	time.Sleep(lookAgain + 50*time.Millisecond)
	if status, body, err := r.get(onlyAfter, node.PathReport); status != http.StatusOK {
		t.Errorf("after a broken Secret: got %d %s, %v", status, body, err)
	}
}

// TestExpiredWhileConnected: a connection does not outlive the certificate.
func TestExpiredWhileConnected(t *testing.T) {
	t.Parallel()
	ca := authority(t)
	mounted := &secret{t: t, dir: t.TempDir()}
	mounted.write(issue(t, ca, x509.ExtKeyUsageServerAuth, time.Hour, serverName), ca)
	r := start(t, func(c *Config) { c.TLSDir = mounted.dir })
	r.listening()
	url := "https://" + r.address() + node.PathReport
	var short certs.Issued
	var staying *http.Client
	// On a busy machine two seconds may have gone before it is shown.
	for life := 2 * time.Second; ; life *= 4 {
		short = issue(t, ca, x509.ExtKeyUsageClientAuth, life)
		staying = client(clientOf(t, short, ca))
		defer staying.CloseIdleConnections()
		status, body, err := ask(staying, url)
		if status == http.StatusOK {
			break
		}
		if life > 30*time.Second {
			t.Fatalf("got %d %s, %v", status, body, err)
		}
	}
	time.Sleep(time.Until(short.Certificate.NotAfter) + time.Second)
	if status, body, err := ask(staying, url); status != http.StatusUnauthorized {
		t.Errorf("got %d %s, %v", status, body, err)
	}
}
