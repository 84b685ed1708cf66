package sidecar

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/stategraft/stategraft/certs"
	"github.com/stategraft/stategraft/operations/certificates"
)

// settled is how old a certificate is before a failure may be its: a pod that always
// refuses us has not everybody's connections made anew each time.
const settled = 10 * time.Second

// forgotten is how long a client is kept after its certificate was to be renewed: its
// namespace is gone, or has nothing to be asked.
const forgotten = 24 * time.Hour

// The connections. A sidecar serves eight of one address at most (agent/nodeserver).
const (
	dialLimit = 3 * time.Second
	idleLimit = time.Minute
	mostOfPod = 4
)

// client makes an HTTP client that talks to pods and to nobody else: no proxy, and
// no going where an answer says.
func client(config *tls.Config) *http.Client {
	dialer := &net.Dialer{Timeout: dialLimit}
	only := &http.Protocols{}
	only.SetHTTP1(true)
	return &http.Client{
		Transport: &http.Transport{
			DialContext: dialer.DialContext, TLSClientConfig: config, TLSHandshakeTimeout: dialLimit, Protocols: only,
			MaxConnsPerHost: mostOfPod, MaxIdleConnsPerHost: 1, IdleConnTimeout: idleLimit, DisableCompression: true,
			MaxResponseHeaderBytes: 64 << 10,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// transports are what the namespaces are asked with. Each has a certificate of its own
// and takes no other server than that namespace's.
type transports struct {
	mutex       sync.Mutex
	byNamespace map[string]*kept
}

type kept struct {
	client    *http.Client
	config    *tls.Config // the same, for what is not HTTP
	authority []byte      // whose it is, as a digest
	made, due time.Time   // to be renewed
}

func (k *kept) serves(authority []byte, afresh bool, now time.Time) bool {
	return bytes.Equal(k.authority, authority) && now.Before(k.due) && !(afresh && now.Sub(k.made) > settled)
}

// of is that of a namespace, made anew where the authority has changed, where its
// certificate is old, or where that may be why a server refuses us (afresh).
func (t *transports) of(ctx context.Context, source certs.Source, namespace string, afresh bool) (*kept, error) {
	if source == nil {
		return nil, certs.ErrNoAuthority
	}
	authority, err := source.Authority(ctx)
	if err != nil {
		return nil, fmt.Errorf("making a client of namespace %s: %w", namespace, err)
	}
	digest, now := digest(authority), time.Now()
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if k := t.byNamespace[namespace]; k != nil && k.serves(digest, afresh, now) {
		return k, nil
	}
	config, err := certificates.ClientConfig(ctx, source, namespace)
	if err != nil {
		return nil, err
	}
	t.forget(namespace, now)
	k := &kept{client(config.Clone()), config, digest, now, certs.DueAt(config.Certificates[0].Leaf)}
	t.byNamespace[namespace] = k
	return k, nil
}

// forget drops a namespace's client, and those that nobody has asked for for long.
func (t *transports) forget(namespace string, now time.Time) {
	if t.byNamespace == nil {
		t.byNamespace = map[string]*kept{}
	}
	for name, k := range t.byNamespace {
		if name == namespace || now.Sub(k.due) > forgotten {
			// A connection in use ends some time after its answer.
			k.client.CloseIdleConnections()
			delete(t.byNamespace, name)
		}
	}
}

// digest tells one state of an authority from another.
func digest(a certs.Authority) []byte {
	sum := sha256.New()
	if !a.Signer.None() {
		sum.Write(a.Signer.Certificate.Raw)
	}
	sum.Write([]byte{0})
	sum.Write(a.Bundle())
	return sum.Sum(nil)
}
