package nodeserver

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// lookAgain is how often the files are read at most: a handshake costs whoever
// asks for it nothing, and should not cost us much.
const lookAgain = time.Second

// pair is the content of Secret stategraft-grpc as it is mounted now. The kubelet
// replaces it while we run: it makes a new directory and swaps a symlink, so that a
// moment's look may see two states. What does not fit together is not taken.
type pair struct {
	dir string

	mutex  sync.Mutex
	looked time.Time
	files  [3][]byte
	config *tls.Config // nil while there never was one
	why    error       // why the files as they are now cannot be used
}

// current is the configuration to serve with: that of the files, or the last one
// that could be used. The error says why the files cannot be.
func (p *pair) current() (*tls.Config, error) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if time.Since(p.looked) < lookAgain {
		return p.config, p.why
	}
	p.looked = time.Now()
	var now [3][]byte
	for i, name := range [...]string{"tls.crt", "tls.key", "ca.crt"} {
		content, err := os.ReadFile(filepath.Join(p.dir, name))
		if err != nil {
			p.files, p.why = [3][]byte{}, missing(err)
			return p.config, p.why
		}
		now[i] = content
	}
	if p.why == nil && p.config != nil && equal(now, p.files) {
		return p.config, nil
	}
	p.files = now
	config, err := serving(now)
	if p.why = err; err == nil {
		p.config = config
	}
	return p.config, p.why
}

func equal(a, b [3][]byte) bool {
	return bytes.Equal(a[0], b[0]) && bytes.Equal(a[1], b[1]) && bytes.Equal(a[2], b[2])
}

func missing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return errors.New("waiting for Secret stategraft-grpc with tls.crt, tls.key and ca.crt in the pod's namespace; Stategraft's controller makes it " +
			"in every namespace with the label stategraft.io/inject: enabled, and it is seen here within two minutes")
	}
	return fmt.Errorf("read Secret stategraft-grpc: %w", err)
}

// serving makes what the files say into TLS that asks for a client's certificate
// and takes none but one of an authority in ca.crt, made for a client. There are no
// tickets: who was let in an hour ago is asked again.
func serving(files [3][]byte) (*tls.Config, error) {
	certificate, err := tls.X509KeyPair(files[0], files[1])
	if err != nil {
		return nil, fmt.Errorf("certificate and key of Secret stategraft-grpc cannot be used: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(files[2]) {
		return nil, errors.New("ca.crt of Secret stategraft-grpc holds no certificate, so no client could be verified")
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{certificate},
		ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool,
		SessionTicketsDisabled: true, NextProtos: []string{"http/1.1"},
	}, nil
}

// handshake is the configuration of the listener: each handshake gets the current
// one.
func (p *pair) handshake() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13, ClientAuth: tls.RequireAndVerifyClientCert, NextProtos: []string{"http/1.1"},
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			config, err := p.current()
			if config == nil {
				return nil, err
			}
			return config, nil
		},
	}
}

// admits tells whether the client of a request would still be let in. A connection
// may be older than the authorities that count now, or than its certificate's life.
func (p *pair) admits(r *http.Request) bool {
	config, _ := p.current()
	if config == nil || r.TLS == nil || len(r.TLS.PeerCertificates) == 0 {
		return false
	}
	between := x509.NewCertPool()
	for _, c := range r.TLS.PeerCertificates[1:] {
		between.AddCert(c)
	}
	_, err := r.TLS.PeerCertificates[0].Verify(x509.VerifyOptions{
		Roots: config.ClientCAs, Intermediates: between, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	return err == nil
}
