package sidecar

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"

	"github.com/stategraft/stategraft/api/medusa"
)

// CallError is the answer of a Medusa that could not do what it was asked for.
type CallError struct {
	Code    codes.Code
	Message string
}

func (e *CallError) Error() string { return e.Message }

// How long Medusa is waited for. All but the first look into the storage; a deletion
// goes through every object of the backup.
const (
	greetLimit  = 5 * time.Second
	callLimit   = 30 * time.Second
	removeLimit = 15 * time.Minute
)

// alive finds out within about a minute that a node has gone. It is TCP that asks, as
// Medusa's gRPC takes frequent pings for an attack: asked every 10 seconds, it hung up
// after 40, in the middle of a call (too_many_pings; grpcio 1.85).
var alive = net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 15 * time.Second, Count: 3}

// Medusa is a conversation with a pod's Medusa, on a connection of its own. It may be
// used by several goroutines at once.
type Medusa struct {
	who        string
	at         address
	connection *grpc.ClientConn
	calls      medusa.MedusaClient
}

// Medusa begins a conversation with a pod's Medusa, which has answered when it does.
// It is to be closed. One is meant for each time that a pod is asked: to connect takes
// a few milliseconds, and a connection that stays would have to be watched, and made
// anew with every change of certificates.
func (c *Client) Medusa(ctx context.Context, pod *corev1.Pod) (*Medusa, error) {
	who := fmt.Sprintf("ask Medusa of pod %s/%s", pod.Namespace, pod.Name)
	at, err := find(pod, medusaService)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", who, err)
	}
	m, reached, err := c.greet(ctx, pod.Namespace, at, false)
	if err != nil && at.tls && reached && ctx.Err() == nil && errors.Is(err, ErrUnreachable) {
		// Somebody is there who does not talk to us: see ask. gRPC has no type for a
		// failed handshake.
		m, _, err = c.greet(ctx, pod.Namespace, at, true)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", who, err)
	}
	m.who = who
	return m, nil
}

// greet connects and has the service of health answer, so that what is asked next is
// not lost to a certificate. It tells whether there was anybody at that address.
func (c *Client) greet(ctx context.Context, namespace string, at address, afresh bool) (*Medusa, bool, error) {
	secured := insecure.NewCredentials()
	if at.tls {
		k, err := c.transports.of(ctx, c.source, namespace, afresh)
		if err != nil {
			return nil, false, fmt.Errorf("%w: %w", ErrUnreachable, err)
		}
		secured = credentials.NewTLS(k.config.Clone())
	}
	var reached atomic.Bool
	dialer := &net.Dialer{Timeout: dialLimit, KeepAliveConfig: alive}
	connection, err := grpc.NewClient("passthrough:///"+at.host,
		grpc.WithTransportCredentials(secured),
		grpc.WithContextDialer(func(ctx context.Context, target string) (net.Conn, error) {
			conn, err := dialer.DialContext(ctx, "tcp", target)
			if err == nil {
				reached.Store(true)
			}
			return conn, err
		}),
		grpc.WithConnectParams(grpc.ConnectParams{MinConnectTimeout: dialLimit}),
		grpc.WithNoProxy(), grpc.WithDisableServiceConfig(), grpc.WithUserAgent("stategraft"),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(mostOfLookup)),
	)
	if err != nil {
		return nil, false, fmt.Errorf("make a client of %s: %w", at.host, err)
	}
	m := &Medusa{at: at, connection: connection, calls: medusa.NewMedusaClient(connection)}
	err = m.call(ctx, greetLimit, func(ctx context.Context) error {
		_, err := grpc_health_v1.NewHealthClient(connection).Check(ctx, &grpc_health_v1.HealthCheckRequest{})
		return err
	})
	if answered := (*CallError)(nil); errors.As(err, &answered) && (answered.Code == codes.Unimplemented || answered.Code == codes.NotFound) {
		err = nil // it speaks gRPC, whatever it thinks of its health
	}
	if err != nil {
		return nil, reached.Load(), errors.Join(err, connection.Close())
	}
	return m, true, nil
}

// Close ends the conversation. A backup that was begun goes on.
func (m *Medusa) Close() error { return m.connection.Close() }

// call makes a call within its limit, and its error one of ours.
func (m *Medusa) call(ctx context.Context, limit time.Duration, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("no answer within %v", limit))
	defer cancel()
	err := do(ctx)
	if err == nil {
		return nil
	}
	if m.who == "" {
		return m.failure(ctx, err)
	}
	return fmt.Errorf("%s: %w", m.who, m.failure(ctx, err))
}

// failure tells those who did not answer from those who could not.
func (m *Medusa) failure(ctx context.Context, err error) error {
	answer := status.Convert(err)
	switch {
	case ctx.Err() != nil:
		return unreachable(ctx, m.at, err)
	case answer.Code() == codes.Unavailable:
		return unreachable(ctx, m.at, errors.New(answer.Message()))
	case answer.Code() == codes.NotFound:
		return fmt.Errorf("%w: %w", ErrForgotten, &CallError{answer.Code(), answer.Message()})
	case answer.Code() == codes.FailedPrecondition: // of agent/python/serve.py only
		return fmt.Errorf("%w: %w", ErrBusy, &CallError{answer.Code(), answer.Message()})
	}
	return &CallError{answer.Code(), answer.Message()}
}
