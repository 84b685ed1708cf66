package certs

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"time"
)

// CA is an authority: a certificate that may sign others, and its key. The zero
// value is none.
type CA struct {
	Certificate *x509.Certificate
	Key         crypto.Signer

	certPEM, keyPEM []byte // as they were read, so that writing changes nothing
}

// caName is the common name of every authority of ours. Two of them are told
// apart by their key identifiers (RFC 5280, 4.2.1.1 and 4.2.1.2).
const caName = "stategraft-ca"

// None tells whether there is no authority.
func (c CA) None() bool { return c.Certificate == nil }

// NewCA makes an authority that signs itself.
func NewCA(validity time.Duration, now time.Time) (CA, error) {
	key, keyPEM, err := newKey()
	if err != nil {
		return CA{}, fmt.Errorf("making the authority's key: %w", err)
	}
	template := &x509.Certificate{
		Subject:   pkix.Name{CommonName: caName},
		NotBefore: now.Add(-backdate(validity)), NotAfter: now.Add(validity),
		IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
		// CreateCertificate derives the subject key identifier from the key.
	}
	certificate, err := sign(template, template, &key.PublicKey, key)
	if err != nil {
		return CA{}, fmt.Errorf("signing the authority: %w", err)
	}
	return CA{Certificate: certificate, Key: key, certPEM: encodeBundle([]*x509.Certificate{certificate}), keyPEM: keyPEM}, nil
}

// errMissing says that neither half of a pair is there.
var errMissing = errors.New("there is none")

// ParseCA reads an authority as cert-manager and we write it: the certificate
// first in one file, its key in the other. Keys of any kind will do.
func ParseCA(certPEM, keyPEM []byte) (CA, error) {
	certificate, key, err := parsePair(certPEM, keyPEM)
	if err != nil {
		return CA{}, err
	}
	if err := maySign(certificate); err != nil {
		return CA{}, err
	}
	return CA{Certificate: certificate, Key: key, certPEM: certPEM, keyPEM: keyPEM}, nil
}

// maySign tells why a certificate cannot be an authority's; nil where it can.
func maySign(c *x509.Certificate) error {
	if !c.BasicConstraintsValid || !c.IsCA || c.KeyUsage != 0 && c.KeyUsage&x509.KeyUsageCertSign == 0 {
		return fmt.Errorf("the certificate %q is not an authority's", c.Subject.CommonName)
	}
	return nil
}

// parsePair reads a certificate and its key.
func parsePair(certPEM, keyPEM []byte) (*x509.Certificate, crypto.Signer, error) {
	if len(bytes.TrimSpace(certPEM)) == 0 && len(bytes.TrimSpace(keyPEM)) == 0 {
		return nil, nil, errMissing
	}
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return nil, nil, fmt.Errorf("reading certificate and key: %w", err)
	}
	certificate, err := x509.ParseCertificate(pair.Certificate[0])
	if err != nil {
		return nil, nil, fmt.Errorf("reading the certificate: %w", err)
	}
	key, ok := pair.PrivateKey.(crypto.Signer)
	if !ok {
		return nil, nil, fmt.Errorf("a key of type %T cannot sign", pair.PrivateKey)
	}
	return certificate, key, nil
}

func newKey() (*ecdsa.PrivateKey, []byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, nil, err
	}
	return key, pem.EncodeToMemory(&pem.Block{Type: privateKeyType, Bytes: der}), nil
}

// sign gives the template a serial number of its own and signs it.
func sign(template, parent *x509.Certificate, public crypto.PublicKey, key crypto.Signer) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, err
	}
	template.SerialNumber = serial
	der, err := x509.CreateCertificate(rand.Reader, template, parent, public, key)
	if err != nil {
		return nil, err
	}
	return x509.ParseCertificate(der)
}
