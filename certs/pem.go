package certs

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"time"
)

const (
	certificateType = "CERTIFICATE" // RFC 7468
	privateKeyType  = "PRIVATE KEY" // PKCS #8
)

// maxBundle bounds the certificates that are read of one file. A bundle of ours
// holds two or three.
const maxBundle = 100

// parseBundle reads the certificates of a PEM file. What can be read of a damaged
// file is answered together with the error.
func parseBundle(text []byte) ([]*x509.Certificate, error) {
	var found []*x509.Certificate
	var wrong []error
	rest := text
	for len(found) < maxBundle {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		if block.Type != certificateType {
			wrong = append(wrong, fmt.Errorf("a block of type %.40q", block.Type))
			continue
		}
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			wrong = append(wrong, err)
			continue
		}
		found = append(found, certificate)
	}
	if len(bytes.TrimSpace(rest)) > 0 {
		wrong = append(wrong, errors.New("text that is not PEM"))
	}
	return found, errors.Join(wrong...)
}

// encodeBundle writes certificates as one PEM file.
func encodeBundle(certificates []*x509.Certificate) []byte {
	var text bytes.Buffer
	for _, c := range certificates {
		text.Write(pem.EncodeToMemory(&pem.Block{Type: certificateType, Bytes: c.Raw}))
	}
	return text.Bytes()
}

// contains tells whether the very certificate is among others.
func contains(certificates []*x509.Certificate, c *x509.Certificate) bool {
	for _, other := range certificates {
		if other.Equal(c) {
			return true
		}
	}
	return false
}

// validAt tells why a certificate cannot be used at a time; nil where it can.
func validAt(c *x509.Certificate, now time.Time) error {
	switch {
	case now.After(c.NotAfter):
		return fmt.Errorf("it expired at %s", c.NotAfter.Format(time.RFC3339))
	case now.Before(c.NotBefore):
		return fmt.Errorf("it is not valid before %s", c.NotBefore.Format(time.RFC3339))
	}
	return nil
}

// DueAt is when a certificate is to be renewed: when two thirds of its life are
// over, which leaves a third for whatever stands in the way.
func DueAt(c *x509.Certificate) time.Time {
	return c.NotBefore.Add(c.NotAfter.Sub(c.NotBefore) / 3 * 2)
}

// backdate is how long before now a certificate starts to be valid, for clocks
// that do not agree. Short lives, as tests have them, get less.
func backdate(validity time.Duration) time.Duration { return min(5*time.Minute, validity/20) }
