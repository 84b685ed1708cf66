// Package nodeserver serves what a pod tells of itself to the controllers (api/node):
// HTTPS with the pair of the sidecar's gRPC, for clients that Stategraft's authority
// has signed.
//
//	nodeserver.go  listening, for as long as the container runs
//	handler.go     the answers
//	replay.go      the one request that has a body
//	pair.go        the certificate, and who is let in
//	grpc.go        the same certificate for a gRPC service beside this one
//	limit.go       how many at a time
package nodeserver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/stategraft/stategraft/agent/event"
	"github.com/stategraft/stategraft/api/node"
)

// Config is what is served, and where.
type Config struct {
	Address string // to listen on; empty for all of the pod's
	Port    int
	TLSDir  string // with tls.crt, tls.key and ca.crt; empty to serve everybody in the clear

	Report  func(context.Context) (node.Report, error)
	Backups func(ctx context.Context, prefix string) (node.Backups, error)      // nil: 404
	Backup  func(ctx context.Context, prefix, name string) (node.Backup, error) // nil: 404
	// Contents are a node's; its error is ErrNone where there are none. An empty node
	// is this one. nil: 404.
	Contents func(ctx context.Context, prefix, name, of string) (node.Contents, error)
	// Discard removes this node's part of a backup; its error is ErrKept where that is
	// not to go. nil: 405.
	Discard func(ctx context.Context, prefix, name string) (node.Discarded, error)
	// Replay has Anna's sidecar write a backup's keys again, and tells how far that is; it
	// does not wait for it. Its error is ErrKept while another goes on. nil: 404.
	Replay func(ctx context.Context, r node.ReplayRequest) (node.Replay, error)

	Secrets *event.Secrets // that no message may hold; may be nil
	Log     *slog.Logger
}

// ErrNone says that there is no such thing: 404.
var ErrNone = errors.New("there is none")

// ErrKept says that something is not removed, and stays as it is: 409.
var ErrKept = errors.New("it is kept")

// How long things may take. A lookup has a limit of its own, below writeLimit.
const (
	headerLimit = 10 * time.Second // the handshake too
	writeLimit  = 3 * time.Minute
	idleLimit   = 2 * time.Minute
	headerBytes = 8 << 10
)

// The wait before listening is tried again, doubled each time up to the longest.
const (
	firstWait   = time.Second
	longestWait = 30 * time.Second
)

// pairWait is how often the pair is looked for.
const pairWait = 2 * time.Second

// Run serves until the context ends. Whatever goes wrong is logged and tried again:
// the container's work is another, and must not end for this.
func Run(ctx context.Context, c Config) {
	wait := firstWait
	for ctx.Err() == nil {
		start := time.Now()
		err := c.serve(ctx)
		if ctx.Err() != nil {
			return
		}
		if time.Since(start) > longestWait {
			wait = firstWait
		}
		c.Log.Error("the node's service does not run and is started again", "port", c.Port, "error", fmt.Sprint(err), "wait_seconds", wait.Seconds())
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
		wait = min(2*wait, longestWait)
	}
}

// serve serves until the context ends or the listener fails.
func (c Config) serve(ctx context.Context) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("panic: %v\n%s", cause, debug.Stack())
		}
	}()
	var p *pair
	if c.TLSDir != "" {
		p = &pair{dir: c.TLSDir}
		if !c.await(ctx, p) {
			return nil
		}
	}
	var lc net.ListenConfig
	listener, err := lc.Listen(ctx, "tcp", net.JoinHostPort(c.Address, strconv.Itoa(c.Port)))
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	server := c.server(ctx, p)
	// Nothing that is answered here is worth a wait at the container's end.
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	c.Log.Info("the node's service runs", "port", c.Port, "tls", p != nil)
	if p == nil {
		err = server.Serve(newLimited(listener))
	} else {
		server.TLSConfig = p.handshake()
		err = server.ServeTLS(newLimited(listener), "", "")
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("serve: %w", err)
}

// await waits for a pair that can be served with.
func (c Config) await(ctx context.Context, p *pair) bool {
	said := ""
	for {
		config, err := p.current()
		if config != nil {
			return true
		}
		if said != err.Error() {
			said = err.Error()
			c.Log.Warn("the node's service is not served in the clear", "reason", said)
		}
		select {
		case <-ctx.Done():
			return false
		case <-time.After(pairWait):
		}
	}
}

func (c Config) server(ctx context.Context, p *pair) *http.Server {
	one := &http.Protocols{}
	one.SetHTTP1(true)
	return &http.Server{
		Handler:           c.handler(p),
		Protocols:         one,
		ReadHeaderTimeout: headerLimit, ReadTimeout: headerLimit, WriteTimeout: writeLimit, IdleTimeout: idleLimit,
		MaxHeaderBytes: headerBytes,
		BaseContext:    func(net.Listener) context.Context { return ctx },
		// Whoever fails a handshake would fill the log: one line in a while says enough.
		ErrorLog: slog.NewLogLogger(sparse(c.Log.Handler()), slog.LevelWarn),
	}
}
