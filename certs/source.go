package certs

import (
	"context"
	"crypto/x509"
	"errors"
	"time"
)

// Authority is who signs now, and who is to be trusted.
type Authority struct {
	Signer CA
	// Trusted are the certificates of all authorities whose signatures count: the
	// signer's, one that will sign soon, and former ones that still may be met.
	Trusted []*x509.Certificate
	// Until is when the answer will be another without anything else having
	// changed; zero where that is not foreseen.
	Until time.Time
}

// Bundle is Trusted as PEM.
func (a Authority) Bundle() []byte { return encodeBundle(a.Trusted) }

// Pool is Trusted for crypto/tls.
func (a Authority) Pool() *x509.CertPool { return pool(a.Trusted) }

// Source is where the authority comes from: our own, or cert-manager's.
type Source interface {
	// Authority answers from memory. ErrNoAuthority says that there is none yet,
	// as right after an installation.
	Authority(ctx context.Context) (Authority, error)
}

// ErrNoAuthority says that a source has no authority yet.
var ErrNoAuthority = errors.New("there is no authority yet")
