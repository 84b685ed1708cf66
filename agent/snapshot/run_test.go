package snapshot

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
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

// listen takes a port that nobody takes when it is free again: connections are given
// others (ip_local_port_range).
func listen(t *testing.T) net.Listener {
	t.Helper()
	var err error
	for range 100 {
		var l net.Listener
		if l, err = net.Listen("tcp4", fmt.Sprintf("127.0.0.1:%d", 10_000+rand.IntN(20_000))); err == nil {
			return l
		}
	}
	t.Fatal(err)
	return nil
}

// TestBusyElsewhere: where Medusa's state file is another container's, the server stays as
// long as it is told that a backup is running.
func TestBusyElsewhere(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	free := listen(t)
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
		for deadline := time.Now().Add(time.Minute); !holds(); time.Sleep(5 * time.Millisecond) {
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
