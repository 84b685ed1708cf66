package snapshot

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/stategraft/stategraft/agent/event"
	"github.com/stategraft/stategraft/agent/files"
	"github.com/stategraft/stategraft/agent/supervise"
)

// Config is what the container's environment says.
type Config struct {
	Places    files.Places
	Port      int // to listen on
	JMXPort   int
	Timeout   time.Duration // of one nodetool run
	StopLimit time.Duration // for which a running backup keeps the server up
	Temp      string        // private directory
	// Busy tells whether a backup is running; nil to go by what Medusa's container tells in
	// its state file.
	Busy    func() bool
	Secrets *event.Secrets
	Log     *slog.Logger
}

// retry is the time between two tries to get what the server waits for.
const retry = time.Second

// Run serves until the context ends, and then for as long as a running backup
// needs the server, up to the limit. Nothing that goes wrong ends it before.
func Run(ctx context.Context, c Config) {
	tool := &Nodetool{Env: os.Getenv, Port: c.JMXPort, JMX: c.Places.JMX, Temp: c.Temp, Timeout: c.Timeout, Secrets: c.Secrets}
	if path, err := Find(os.Getenv); err != nil {
		c.Log.Error("degraded: no snapshot can be taken", "error", err.Error())
	} else {
		c.Log.Info("found nodetool", "path", path)
	}
	segment := func() (string, error) { return files.ReadSegment(c.Places.Segment()) }
	if !waitFor(ctx, c.Log, "the snapshot server's path", func() error { _, err := segment(); return err }) {
		return
	}
	var listener net.Listener
	// On loopback only: the database's rights are behind it.
	address := fmt.Sprintf("127.0.0.1:%d", c.Port)
	if !waitFor(ctx, c.Log, "the snapshot server's port", func() (err error) { listener, err = net.Listen("tcp4", address); return err }) {
		return
	}
	busy := c.Busy
	if busy == nil {
		busy = func() bool { return supervise.Busy(c.Places.State("medusa")) }
	}
	server := NewServer(segment, tool, c.Log)
	server.Busy = busy
	web := &http.Server{Handler: server, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: time.Minute}
	go func() { _ = web.Serve(listener) }()
	c.Log.Info("serving", "address", address)

	sweeper := &Sweeper{
		Server: server, Delay: time.Minute, Age: 24 * time.Hour, Every: time.Hour, Retry: 30 * time.Second,
		Seen: c.Places.State("snapshots"), Busy: busy, Now: time.Now,
		Up: func() error {
			connection, err := net.DialTimeout("tcp4", fmt.Sprintf("127.0.0.1:%d", c.JMXPort), time.Second)
			if err == nil {
				connection.Close()
			}
			return err
		},
	}
	go sweeper.Run(ctx)
	<-ctx.Done()
	server.Stop(busy, c.StopLimit)
	_ = web.Close()
	c.Log.Info("stopped")
}

// waitFor tries until it works, and says once what it waits for.
func waitFor(ctx context.Context, log *slog.Logger, what string, try func() error) bool {
	said := ""
	for {
		err := try()
		if err == nil {
			return true
		}
		if err.Error() != said {
			said = err.Error()
			log.Warn("waiting for "+what, "error", said)
		}
		select {
		case <-ctx.Done():
			return false
		case <-time.After(retry):
		}
	}
}

// Stop waits while a backup is running or nodetool runs, up to the limit: a
// backup that cannot clear its snapshot in the end counts as failed.
func (s *Server) Stop(busy func() bool, limit time.Duration) {
	s.stopping.Store(true)
	deadline := time.After(limit)
	for busy() {
		select {
		case <-deadline:
			s.Log.Warn("stopped while a backup is running")
			return
		case <-time.After(100 * time.Millisecond):
		}
	}
	select {
	case <-s.turn: // and nobody gets it any more
	case <-deadline:
		s.Log.Warn("stopped while nodetool is running")
	}
}
