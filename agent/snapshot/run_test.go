package snapshot

import (
	"context"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stategraft/stategraft/agent/event"
	"github.com/stategraft/stategraft/agent/files"
)

type lines struct {
	mutex sync.Mutex
	text  strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.text.Write(p)
}

func (l *lines) has(part string) bool {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return strings.Contains(l.text.String(), part)
}

// TestBusyElsewhere: where Medusa's state file is another container's, the server stays as
// long as it is told that a backup is running.
func TestBusyElsewhere(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	free, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := free.Addr().(*net.TCPAddr).Port
	free.Close()
	var busy atomic.Bool
	var asked atomic.Int32
	busy.Store(true)
	out := &lines{}
	c := Config{
		Places: files.Standard(t.TempDir()), Port: port, JMXPort: 1, Timeout: time.Minute, StopLimit: time.Hour, Temp: t.TempDir(),
		Busy:    func() bool { asked.Add(1); return busy.Load() },
		Secrets: &event.Secrets{}, Log: slog.New(slog.NewTextHandler(out, nil)),
	}
	if _, err := files.MakeSegment(c.Places.Segment(), files.Owner{}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan struct{})
	go func() { Run(ctx, c); close(done) }()
	wait := func(what string, holds func() bool) {
		t.Helper()
		for deadline := time.Now().Add(20 * time.Second); !holds(); time.Sleep(5 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("never: %s", what)
			}
		}
	}
	wait("it serves", func() bool { return out.has("serving") })
	cancel()
	wait("it asks", func() bool { return asked.Load() > 2 })
	if out.has("stopped") {
		t.Error("it has not waited for the backup")
	}
	busy.Store(false)
	<-done
}
