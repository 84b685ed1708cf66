package certs

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"testing"
	"time"
)

func TestSelfSigned(t *testing.T) {
	pair, err := SelfSigned([]string{"stategraft-webhook.stategraft.svc", "127.0.0.1"}, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tls.X509KeyPair(pair.Cert, pair.Key); err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pair.CA) {
		t.Fatal("the authority is no certificate")
	}
	block, _ := pem.Decode(pair.Cert)
	leaf, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	for name, good := range map[string]bool{"stategraft-webhook.stategraft.svc": true, "127.0.0.1": true, "example.org": false} {
		_, err := leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: name})
		if (err == nil) != good {
			t.Errorf("%s: verified %v, want %v (%v)", name, err == nil, good, err)
		}
	}
}
