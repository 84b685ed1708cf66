package certs

import (
	"crypto/x509"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// Pair is a serving certificate with its key and the authority that signed it,
// all in PEM.
type Pair struct {
	CA   []byte
	Cert []byte
	Key  []byte
}

// SelfSigned makes an authority and a serving certificate signed by it, for the
// given DNS names and IP addresses. The authority's key is not kept.
func SelfSigned(names []string, validity time.Duration) (Pair, error) {
	now := time.Now()
	ca, err := NewCA(validity, now)
	if err != nil {
		return Pair{}, err
	}
	issued, err := Issue(ca, Template{CommonName: servingName, Names: names, Usage: x509.ExtKeyUsageServerAuth, Validity: validity}, now)
	if err != nil {
		return Pair{}, err
	}
	return Pair{CA: ca.certPEM, Cert: issued.CertPEM, Key: issued.KeyPEM}, nil
}

// Write puts the pair into a folder under the names of a kubernetes.io/tls
// Secret: tls.crt, tls.key and ca.crt.
func (p Pair) Write(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("making the certificate's folder: %w", err)
	}
	for name, text := range map[string][]byte{KeyCA: p.CA, KeyCert: p.Cert, KeyKey: p.Key} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			return fmt.Errorf("writing the certificate: %w", err)
		}
	}
	return nil
}
