package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"

	"github.com/stategraft/stategraft/certs"
	"github.com/stategraft/stategraft/operations/certificates"
)

// reloadInterval is the longest time until a changed pair is seen. The files are
// read, and not watched: not all file systems report changes, and whoever watches
// has to find anew what is removed and made again.
const reloadInterval = time.Second

// servingPair is the certificate to serve with, from files that the kubelet keeps
// up to date. It waits for files that are not there yet. A pair that cannot be
// read, or whose halves do not belong together, is not taken: the last good one
// stays.
type servingPair struct {
	dir      string
	log      logr.Logger
	interval time.Duration                   // 0 for reloadInterval
	current  atomic.Pointer[tls.Certificate] // nil before the first good pair
}

var errNoPair = errors.New("there is no serving certificate yet")

// configure makes a server serve the pair.
func (p *servingPair) configure(config *tls.Config) {
	config.MinVersion, config.GetCertificate = tls.VersionTLS13, p.get
}

func (p *servingPair) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	if pair := p.current.Load(); pair != nil {
		return pair, nil
	}
	return nil, errNoPair
}

// ready is a check for /readyz.
func (p *servingPair) ready(*http.Request) error {
	_, err := p.get(nil)
	return err
}

// Start follows the files until the context ends.
func (p *servingPair) Start(ctx context.Context) error {
	ticker := time.NewTicker(cmp.Or(p.interval, reloadInterval))
	defer ticker.Stop()
	said := ""
	for {
		said = p.look(said)
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// NeedLeaderElection is false: every replica serves.
func (p *servingPair) NeedLeaderElection() bool { return false }

// look takes a new pair, or says and answers what keeps it from that. What was said
// at the last look is not said again.
func (p *servingPair) look(said string) string {
	err := p.load()
	if err == nil {
		return ""
	}
	if err.Error() != said {
		p.log.Info("waiting for a serving certificate", "folder", p.dir, "reason", err.Error(), "serving", p.current.Load() != nil)
	}
	return err.Error()
}

// load takes the pair that the files hold, if it is another than the one that is
// served. The error says why it cannot be taken.
func (p *servingPair) load() error {
	pair, err := tls.LoadX509KeyPair(filepath.Join(p.dir, certs.KeyCert), filepath.Join(p.dir, certs.KeyKey))
	if err != nil {
		return fmt.Errorf("reading the serving certificate: %w", err)
	}
	if had := p.current.Load(); had != nil && bytes.Equal(had.Certificate[0], pair.Certificate[0]) {
		return nil
	}
	leaf, err := x509.ParseCertificate(pair.Certificate[0])
	if err != nil {
		return fmt.Errorf("reading the serving certificate: %w", err)
	}
	p.current.Store(&pair)
	certificates.Serving(leaf.NotAfter)
	p.log.Info("serving certificate loaded", "serial", fmt.Sprintf("%X", leaf.SerialNumber.Bytes()), "names", leaf.DNSNames, "until", leaf.NotAfter.Format(time.RFC3339))
	return nil
}
