package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/http"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/certwatcher"

	"github.com/stategraft/stategraft/certs"
	"github.com/stategraft/stategraft/operations/certificates"
)

// reloadInterval is the longest time until a changed pair is seen. Mostly it is
// seen at once, but some file systems report no changes.
const reloadInterval = time.Second

// servingPair is the certificate to serve with, from files that the kubelet keeps
// up to date. It waits for files that are not there yet. A pair that cannot be
// read, or whose halves do not belong together, is not taken: the last good one
// stays.
type servingPair struct {
	dir     string
	log     logr.Logger
	watcher atomic.Pointer[certwatcher.CertWatcher] // nil before the first good pair
}

var errNoPair = errors.New("there is no serving certificate yet")

// configure makes a server serve the pair.
func (p *servingPair) configure(config *tls.Config) {
	config.MinVersion, config.GetCertificate = tls.VersionTLS13, p.get
}

func (p *servingPair) get(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	watcher := p.watcher.Load()
	if watcher == nil {
		return nil, errNoPair
	}
	return watcher.GetCertificate(hello)
}

// ready is a check for /readyz.
func (p *servingPair) ready(*http.Request) error {
	if p.watcher.Load() == nil {
		return errNoPair
	}
	return nil
}

// Start follows the files until the context ends.
func (p *servingPair) Start(ctx context.Context) error {
	said := ""
	for ctx.Err() == nil {
		watcher, err := certwatcher.New(filepath.Join(p.dir, certs.KeyCert), filepath.Join(p.dir, certs.KeyKey))
		if err == nil {
			said = ""
			watcher.WithWatchInterval(reloadInterval).RegisterCallback(p.loaded)
			p.watcher.Store(watcher)
			err = watcher.Start(ctx) // returns early where the files vanish just now
		}
		if err != nil && err.Error() != said {
			said = err.Error()
			p.log.Info("waiting for the serving certificate", "folder", p.dir, "reason", said)
		}
		select {
		case <-ctx.Done():
		case <-time.After(reloadInterval):
		}
	}
	return nil
}

// NeedLeaderElection is false: every replica serves.
func (p *servingPair) NeedLeaderElection() bool { return false }

func (p *servingPair) loaded(pair tls.Certificate) {
	leaf := pair.Leaf
	if leaf == nil {
		var err error
		if leaf, err = x509.ParseCertificate(pair.Certificate[0]); err != nil {
			p.log.Error(err, "reading the serving certificate")
			return
		}
	}
	certificates.Serving(leaf.NotAfter)
	p.log.Info("serving certificate loaded", "serial", leaf.SerialNumber.String(), "names", leaf.DNSNames, "until", leaf.NotAfter.Format(time.RFC3339))
}
