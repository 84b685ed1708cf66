package nodeserver

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net/http"
)

// Pair is the content of Secret stategraft-grpc for a service of another protocol that
// is to let in the same clients.
type Pair struct{ p *pair }

// NewPair takes the pair that is mounted in a directory, or will be.
func NewPair(dir string) *Pair { return &Pair{&pair{dir: dir}} }

// Await waits for a pair that can be served with, and says in the log what is missing. It
// is false where the context ends before.
func (p *Pair) Await(ctx context.Context, log *slog.Logger) bool {
	return Config{Log: log}.await(ctx, p.p)
}

// TLS is the listener's configuration for a protocol of ALPN, such as h2. Each handshake
// goes by the pair as it is mounted then.
func (p *Pair) TLS(protocol string) *tls.Config {
	config := p.p.handshake()
	config.NextProtos = []string{protocol}
	current := config.GetConfigForClient
	config.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		now, err := current(hello)
		if err != nil {
			return nil, err
		}
		now = now.Clone()
		now.NextProtos = []string{protocol}
		return now, nil
	}
	return config
}

// Admits tells whether the client of a connection would still be let in. A connection may
// be older than the authorities that count now, or than its certificate's life.
func (p *Pair) Admits(state *tls.ConnectionState) bool {
	return p.p.admits(&http.Request{TLS: state})
}
