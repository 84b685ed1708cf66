// Package sidecar asks the pods' sidecars: a client of api/node and one of api/medusa,
// both with the mutual TLS of the namespaces' gRPC.
//
//	sidecar.go    the questions of api/node
//	parts.go      what is asked of a node's part in a backup
//	replay.go     what Anna's nodes alone are asked
//	medusa.go     conversations with Medusa
//	backups.go    what is said in them, and what Medusa's answers mean
//	address.go    where a pod is asked
//	transport.go  connections and their certificates
//
// sidecartest has pods to try it with.
package sidecar

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/stategraft/stategraft/api/node"
	"github.com/stategraft/stategraft/certs"
)

// Nodes are the pods that can be asked.
type Nodes interface {
	// Report is what the pod tells of itself.
	Report(ctx context.Context, pod *corev1.Pod) (node.Report, error)
	// Backups are those that the pod sees in the storage below a prefix: an empty one
	// is the pod's own, "." is none.
	Backups(ctx context.Context, pod *corev1.Pod, prefix string) (node.Backups, error)
	// Backup is what the storage holds of one. One that is not there has no members.
	Backup(ctx context.Context, pod *corev1.Pod, prefix, name string) (node.Backup, error)
}

// ErrNoService says that the pod has no container to be asked: it was admitted
// without sidecars, or by a Stategraft from before.
var ErrNoService = errors.New("the pod has no service for the controllers")

// ErrUnreachable says that the pod did not answer: its container does not run, or the
// network or the certificates are in the way.
var ErrUnreachable = errors.New("the pod's sidecar does not answer")

// AnswerError is the answer of a sidecar that could not do what it was asked for.
type AnswerError struct {
	Status  int // of HTTP
	Message string
}

func (e *AnswerError) Error() string { return e.Message }

// How long a pod is waited for. A lookup takes as long as the storage and those
// before it do; the sidecar itself gives up a little earlier.
const (
	reportLimit = 5 * time.Second
	lookupLimit = 2 * time.Minute
)

// How large an answer may be, in bytes: ten thousand backups of a hundred nodes.
const (
	mostOfReport = 1 << 20
	mostOfLookup = 64 << 20
)

// Client asks pods. It may be used by several goroutines at once.
type Client struct {
	source     certs.Source
	transports transports
	clear      *http.Client
}

// New makes a client whose certificates are signed by the source's authority. With
// none it asks only pods that do without TLS.
func New(source certs.Source) *Client {
	return &Client{source: source, clear: client(nil)}
}

// Report implements Nodes.
func (c *Client) Report(ctx context.Context, pod *corev1.Pod) (r node.Report, err error) {
	err = c.ask(ctx, pod, question{path: node.PathReport, limit: reportLimit, most: mostOfReport}, &r)
	return r, err
}

// Backups implements Nodes.
func (c *Client) Backups(ctx context.Context, pod *corev1.Pod, prefix string) (b node.Backups, err error) {
	err = c.ask(ctx, pod, question{path: node.PathBackups, parameters: url.Values{"prefix": {prefix}}, limit: lookupLimit, most: mostOfLookup}, &b)
	return b, err
}

// Backup implements Nodes.
func (c *Client) Backup(ctx context.Context, pod *corev1.Pod, prefix, name string) (b node.Backup, err error) {
	err = c.ask(ctx, pod, question{path: node.PathBackup, parameters: url.Values{"prefix": {prefix}, "name": {name}}, limit: lookupLimit, most: mostOfLookup}, &b)
	return b, err
}

type question struct {
	method     string // of HTTP; empty for GET
	body       []byte // JSON; nil for none
	path       string
	parameters url.Values
	limit      time.Duration
	most       int64
}

// ask puts a question to a pod and reads the answer.
func (c *Client) ask(ctx context.Context, pod *corev1.Pod, q question, answer any) error {
	who := fmt.Sprintf("ask pod %s/%s", pod.Namespace, pod.Name)
	at, err := find(pod, nodeService)
	if err != nil {
		return fmt.Errorf("%s: %w", who, err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, q.limit, fmt.Errorf("no answer within %v", q.limit))
	defer cancel()
	body, err := c.try(ctx, pod.Namespace, at, q, false)
	if err != nil && at.tls && ctx.Err() == nil && worn(err) {
		// Authorities or pairs may have changed under the connection, or since this
		// client's certificate was made.
		body, err = c.try(ctx, pod.Namespace, at, q, true)
	}
	if err == nil {
		if err = json.Unmarshal(body, answer); err != nil {
			err = fmt.Errorf("read the answer: %w", err)
		}
	}
	if err != nil {
		return fmt.Errorf("%s: %w", who, err)
	}
	return nil
}

// worn tells whether an error may be gone with another certificate.
func worn(err error) bool {
	var answered *AnswerError
	if errors.As(err, &answered) {
		return answered.Status == http.StatusUnauthorized
	}
	// In TLS 1.3 a client hears of its refusal when it reads or writes, where the
	// server has not hung up before (crypto/tls: an alert is no type to ask for).
	var refused *net.OpError
	var verification *tls.CertificateVerificationError
	return errors.As(err, &refused) && refused.Op == "remote error" || errors.As(err, &verification) ||
		errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// try asks once, with a fresh certificate where the one at hand has failed.
func (c *Client) try(ctx context.Context, namespace string, at address, q question, afresh bool) ([]byte, error) {
	client, scheme := c.clear, "http"
	if at.tls {
		scheme = "https"
		k, err := c.transports.of(ctx, c.source, namespace, afresh)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrUnreachable, err)
		}
		client = k.client
	}
	target := url.URL{Scheme: scheme, Host: at.host, Path: q.path, RawQuery: q.parameters.Encode()}
	request, err := http.NewRequestWithContext(ctx, q.method, target.String(), bytes.NewReader(q.body))
	if err != nil {
		return nil, fmt.Errorf("make the request: %w", err)
	}
	if q.body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, unreachable(ctx, at, err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, q.most+1))
	switch {
	case err != nil:
		return nil, unreachable(ctx, at, err)
	case int64(len(body)) > q.most:
		return nil, fmt.Errorf("the answer has more than %d bytes", q.most)
	case response.StatusCode == http.StatusOK, response.StatusCode == http.StatusAccepted:
		return body, nil
	}
	var e node.Error
	if json.Unmarshal(body, &e) != nil || e.Message == "" {
		e.Message = "the sidecar answers " + response.Status
	}
	return nil, &AnswerError{response.StatusCode, e.Message}
}

// unreachable is the error of a pod that did not answer. One that was not waited for
// is the context's.
func unreachable(ctx context.Context, at address, err error) error {
	var reason *url.Error
	if errors.As(err, &reason) {
		err = reason.Err // without the URL, which says nothing that at does not
	}
	if ctx.Err() != nil {
		return fmt.Errorf("%w: container %s at %s: %w (%w)", ErrUnreachable, at.called, at.host, ctx.Err(), context.Cause(ctx))
	}
	return fmt.Errorf("%w: container %s at %s: %w", ErrUnreachable, at.called, at.host, err)
}
