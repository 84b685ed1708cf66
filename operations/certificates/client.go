package certificates

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"time"

	"github.com/stategraft/stategraft/certs"
)

// clientValidity is the life of a client's pair. It is made for one connection,
// which may be made again as long as this.
const clientValidity = 24 * time.Hour

// ClientConfig is TLS for a gRPC client of the sidecars of a namespace: it shows
// a pair of the common name stategraft-controller, and takes no other server than
// that namespace's. It is good for a day; each connection gets one of its own, so
// that it knows the authorities of its time.
func ClientConfig(ctx context.Context, source certs.Source, namespace string) (*tls.Config, error) {
	authority, err := source.Authority(ctx)
	if err != nil {
		return nil, fmt.Errorf("making a client of namespace %s: %w", namespace, err)
	}
	pair, err := certs.Issue(authority.Signer, certs.Template{CommonName: "stategraft-controller", Usage: x509.ExtKeyUsageClientAuth, Validity: clientValidity}, time.Now())
	if err != nil {
		return nil, fmt.Errorf("making a client of namespace %s: %w", namespace, err)
	}
	shown, err := pair.TLS()
	if err != nil {
		return nil, fmt.Errorf("making a client of namespace %s: %w", namespace, err)
	}
	return &tls.Config{
		MinVersion:   tls.VersionTLS13,
		ServerName:   ServerName(namespace),
		RootCAs:      authority.Pool(),
		Certificates: []tls.Certificate{shown},
	}, nil
}
