package certs

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"
)

// Template says what to issue.
type Template struct {
	CommonName string
	// Names are DNS names and IP addresses.
	Names []string
	// Usage is what the pair may be used for: x509.ExtKeyUsageServerAuth or
	// x509.ExtKeyUsageClientAuth, never both. A server's pair that leaks is then
	// of no use as a client's.
	Usage    x509.ExtKeyUsage
	Validity time.Duration
}

// Issued is a certificate with its key.
type Issued struct {
	Certificate     *x509.Certificate
	CertPEM, KeyPEM []byte
}

// None tells whether there is no pair.
func (i Issued) None() bool { return i.Certificate == nil }

// TLS is the pair for crypto/tls.
func (i Issued) TLS() (tls.Certificate, error) {
	pair, err := tls.X509KeyPair(i.CertPEM, i.KeyPEM)
	if err != nil {
		return pair, fmt.Errorf("reading certificate and key: %w", err)
	}
	return pair, nil
}

// Works tells why an authority cannot issue by the template; nil where it can. It
// tries: one that others made may be expired, too weak, or bound to other names.
func (c CA) Works(t Template, now time.Time) error {
	if c.None() {
		return errMissing
	}
	if err := validAt(c.Certificate, now); err != nil {
		return err
	}
	issued, err := Issue(c, t, now)
	if err != nil {
		return err
	}
	return issued.Serves(t, []*x509.Certificate{c.Certificate}, now)
}

// Issue makes a key and a certificate for it. The certificate does not outlive
// the authority.
func Issue(ca CA, t Template, now time.Time) (Issued, error) {
	if ca.None() {
		return Issued{}, fmt.Errorf("issuing a certificate for %q: %w", t.CommonName, ErrNoAuthority)
	}
	key, keyPEM, err := newKey()
	if err != nil {
		return Issued{}, fmt.Errorf("making a key: %w", err)
	}
	template := &x509.Certificate{
		Subject:   pkix.Name{CommonName: t.CommonName},
		NotBefore: latest(now.Add(-backdate(t.Validity)), ca.Certificate.NotBefore), NotAfter: t.ends(ca, now),
		BasicConstraintsValid: true, // says that it is no authority
		KeyUsage:              x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{t.Usage},
	}
	for _, name := range t.Names {
		if ip := net.ParseIP(name); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, name)
		}
	}
	certificate, err := sign(template, ca.Certificate, &key.PublicKey, ca.Key)
	if err != nil {
		return Issued{}, fmt.Errorf("signing a certificate for %q: %w", t.CommonName, err)
	}
	return Issued{Certificate: certificate, CertPEM: encodeBundle([]*x509.Certificate{certificate}), KeyPEM: keyPEM}, nil
}

// ends is when a certificate that is issued now ends.
func (t Template) ends(ca CA, now time.Time) time.Time {
	return earliest(now.Add(t.Validity), ca.Certificate.NotAfter)
}

// ParseIssued reads a pair.
func ParseIssued(certPEM, keyPEM []byte) (Issued, error) {
	certificate, _, err := parsePair(certPEM, keyPEM)
	if err != nil {
		return Issued{}, err
	}
	return Issued{Certificate: certificate, CertPEM: certPEM, KeyPEM: keyPEM}, nil
}

// Serves tells why a pair cannot be used for what the template says by those who
// trust the given authorities; nil where it can.
func (i Issued) Serves(t Template, trusted []*x509.Certificate, now time.Time) error {
	if i.None() {
		return errMissing
	}
	if err := validAt(i.Certificate, now); err != nil {
		return err
	}
	for _, name := range t.Names {
		if err := i.Certificate.VerifyHostname(name); err != nil {
			return err
		}
	}
	if len(i.Certificate.DNSNames)+len(i.Certificate.IPAddresses) != len(t.Names) {
		return fmt.Errorf("it is for %q, not for %q", i.Certificate.DNSNames, t.Names)
	}
	if !slices.Equal(i.Certificate.ExtKeyUsage, []x509.ExtKeyUsage{t.Usage}) {
		return errors.New("it is for another use")
	}
	_, err := i.Certificate.Verify(x509.VerifyOptions{Roots: pool(trusted), CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{t.Usage}})
	return err
}

// SignedBy tells whether the authority signed the pair.
func (i Issued) SignedBy(ca *x509.Certificate) bool {
	return !i.None() && ca != nil && i.Certificate.CheckSignatureFrom(ca) == nil
}

// Renewable is when the pair is to be renewed by this authority. It answers no
// time where a new one would not last longer, as towards the authority's end.
func (i Issued) Renewable(t Template, ca CA, now time.Time) (time.Time, bool) {
	due := DueAt(i.Certificate)
	// Certificates hold whole seconds.
	return due, t.ends(ca, latest(now, due)).Sub(i.Certificate.NotAfter) > time.Second
}

func pool(certificates []*x509.Certificate) *x509.CertPool {
	p := x509.NewCertPool()
	for _, c := range certificates {
		p.AddCert(c)
	}
	return p
}

func earliest(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
