package certs

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"strings"
	"testing"
	"time"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func newCA(t *testing.T, validity time.Duration, now time.Time) CA {
	t.Helper()
	ca, err := NewCA(validity, now)
	if err != nil {
		t.Fatal(err)
	}
	return ca
}

func issue(t *testing.T, ca CA, template Template, now time.Time) Issued {
	t.Helper()
	issued, err := Issue(ca, template, now)
	if err != nil {
		t.Fatal(err)
	}
	return issued
}

func server(name string) Template {
	return Template{CommonName: "test", Names: []string{name}, Usage: x509.ExtKeyUsageServerAuth, Validity: time.Hour}
}

// TestSameName has two authorities of the same name in one bundle, in either
// order: what each signed is accepted, in a real handshake.
func TestSameName(t *testing.T) {
	now := time.Now()
	first, second := newCA(t, time.Hour, now), newCA(t, time.Hour, now)
	if first.Certificate.Subject.String() != second.Certificate.Subject.String() {
		t.Fatal("the authorities have different names, so this test shows nothing")
	}
	if bytes.Equal(first.Certificate.SubjectKeyId, second.Certificate.SubjectKeyId) || len(first.Certificate.SubjectKeyId) == 0 {
		t.Error("the authorities cannot be told apart by their key identifiers")
	}
	if first.Certificate.SerialNumber.Cmp(second.Certificate.SerialNumber) == 0 {
		t.Error("the authorities have the same serial number")
	}
	for _, signer := range []CA{first, second} {
		issued := issue(t, signer, server("here"), now)
		if !bytes.Equal(issued.Certificate.AuthorityKeyId, signer.Certificate.SubjectKeyId) {
			t.Error("the certificate does not name its authority's key")
		}
		for _, bundle := range [][]*x509.Certificate{{first.Certificate, second.Certificate}, {second.Certificate, first.Certificate}} {
			if err := handshake(issued, pool(bundle), "here"); err != nil {
				t.Error(err)
			}
		}
		other := first
		if signer.Certificate == first.Certificate {
			other = second
		}
		if err := handshake(issued, pool([]*x509.Certificate{other.Certificate}), "here"); err == nil {
			t.Error("a certificate was accepted as signed by another authority of the same name")
		}
	}
}

// handshake connects to a server with the pair.
func handshake(issued Issued, roots *x509.CertPool, name string) error {
	pair, err := issued.TLS()
	if err != nil {
		return err
	}
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS13})
	if err != nil {
		return err
	}
	defer func() { _ = listener.Close() }()
	go func() {
		if conn, err := listener.Accept(); err == nil {
			_ = conn.(*tls.Conn).Handshake()
			_ = conn.Close()
		}
	}()
	conn, err := tls.Dial("tcp", listener.Addr().String(), &tls.Config{RootCAs: roots, ServerName: name, MinVersion: tls.VersionTLS13})
	if err != nil {
		return err
	}
	return conn.Close()
}

func TestIssue(t *testing.T) {
	ca := newCA(t, 3*time.Hour, noon)
	trusted := []*x509.Certificate{ca.Certificate}
	template := server("here")
	issued := issue(t, ca, template, noon)
	later := func(d time.Duration) time.Time { return noon.Add(d) }
	client := template
	client.Usage = x509.ExtKeyUsageClientAuth
	more := template
	more.Names = []string{"here", "there"}
	for name, test := range map[string]struct {
		issued  Issued
		for_    Template
		trusted []*x509.Certificate
		now     time.Time
		want    string // in the error; empty for none
	}{
		"good":                 {issued, template, trusted, noon, ""},
		"a clock behind":       {issued, template, trusted, later(-2 * time.Minute), ""},
		"none":                 {Issued{}, template, trusted, noon, "there is none"},
		"expired":              {issued, template, trusted, later(2 * time.Hour), "it expired at"},
		"not yet valid":        {issued, template, trusted, later(-time.Hour), "it is not valid before"},
		"another name":         {issued, server("there"), trusted, noon, "there"},
		"a name more":          {issued, more, trusted, noon, "there"},
		"a name less":          {issue(t, ca, more, noon), template, trusted, noon, "it is for"},
		"another use":          {issued, client, trusted, noon, "another use"},
		"another authority":    {issued, template, []*x509.Certificate{newCA(t, time.Hour, noon).Certificate}, noon, "unknown authority"},
		"nobody trusted":       {issued, template, nil, noon, "unknown authority"},
		"an IP address":        {issue(t, ca, server("127.0.0.1"), noon), server("127.0.0.1"), trusted, noon, ""},
		"for a client, a good": {issue(t, ca, client, noon), client, trusted, noon, ""},
	} {
		t.Run(name, func(t *testing.T) {
			err := test.issued.Serves(test.for_, test.trusted, test.now)
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("got error %v, want %q", err, test.want)
			}
		})
	}
	if long := issue(t, ca, server("here"), later(2*time.Hour+30*time.Minute)); long.Certificate.NotAfter != ca.Certificate.NotAfter {
		t.Errorf("the certificate ends at %s, the authority at %s", long.Certificate.NotAfter, ca.Certificate.NotAfter)
	}
}

func TestParseCA(t *testing.T) {
	ca := newCA(t, time.Hour, noon)
	other := newCA(t, time.Hour, noon)
	leaf := issue(t, ca, server("here"), noon)
	for name, test := range map[string]struct {
		cert, key []byte
		want      string
	}{
		"good":                 {ca.certPEM, ca.keyPEM, ""},
		"nothing":              {nil, nil, errMissing.Error()},
		"no key":               {ca.certPEM, nil, "key input"},
		"no certificate":       {nil, ca.keyPEM, "certificate"},
		"cut in the middle":    {ca.certPEM[:len(ca.certPEM)/2], ca.keyPEM, "certificate input"},
		"key cut":              {ca.certPEM, ca.keyPEM[:len(ca.keyPEM)/2], "key input"},
		"another's key":        {ca.certPEM, other.keyPEM, "does not match"},
		"not an authority's":   {leaf.CertPEM, leaf.KeyPEM, "is not an authority's"},
		"the other way around": {ca.keyPEM, ca.certPEM, "PEM"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ParseCA(test.cert, test.key)
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("got error %v, want %q", err, test.want)
			}
			if got.None() != (err != nil) {
				t.Errorf("an authority and an error: %v", err)
			}
		})
	}
}

// TestForeignCA issues with authorities as others make them.
func TestForeignCA(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	keyPEM := pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})
	for name, test := range map[string]struct {
		change func(*x509.Certificate)
		want   string
	}{
		"plain":                {func(*x509.Certificate) {}, ""},
		"for other names only": {func(c *x509.Certificate) { c.PermittedDNSDomains = []string{"example.org"} }, "not permitted"},
		"for clients only":     {func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth} }, "usage"},
		"expired":              {func(c *x509.Certificate) { c.NotAfter = noon.Add(-time.Second) }, "expired"},
	} {
		t.Run(name, func(t *testing.T) {
			template := &x509.Certificate{NotBefore: noon.Add(-time.Hour), NotAfter: noon.Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
			test.change(template)
			certificate, err := sign(template, template, &key.PublicKey, key)
			if err != nil {
				t.Fatal(err)
			}
			ca, err := ParseCA(encodeBundle([]*x509.Certificate{certificate}), keyPEM)
			if err != nil {
				t.Fatal(err)
			}
			err = ca.Works(server("here"), noon)
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("got error %v, want %q", err, test.want)
			}
		})
	}
}
