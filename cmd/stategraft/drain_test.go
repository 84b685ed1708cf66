package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr"
)

// limit is how long a test waits for what happens at once on an idle machine.
const limit = time.Minute

func await[T any](t *testing.T, what string, from <-chan T) {
	t.Helper()
	select {
	case <-from:
	case <-time.After(limit):
		t.Fatalf("waited %s for %s", limit, what)
	}
}

// TestDrain asks once: not ready at once, ended only when the period is over.
func TestDrain(t *testing.T) {
	signals, exits := make(chan os.Signal, 2), make(chan int, 2)
	const period = 200 * time.Millisecond
	d := newDrain(signals, period, time.Hour, logr.Discard(), func(status int) { exits <- status })
	if d.draining() || d.ready(nil) != nil || d.ctx.Err() != nil {
		t.Fatal("the drain begins unasked")
	}
	asked := time.Now()
	signals <- syscall.SIGTERM
	await(t, "the drain to begin", d.begun)
	if d.ready(nil) == nil {
		t.Error("ready while draining")
	}
	await(t, "the end", d.ctx.Done())
	if took := time.Since(asked); took < period {
		t.Errorf("ended after %s, before the period of %s was over", took, period)
	}
	if len(exits) != 0 {
		t.Error("the process was ended by force")
	}
	// What is still being finished ends by force if asked again.
	signals <- syscall.SIGTERM
	await(t, "the end by force", exits)
}

// TestDrainTwice asks twice: the second time ends it within the period.
func TestDrainTwice(t *testing.T) {
	signals, exits := make(chan os.Signal, 2), make(chan int, 2)
	d := newDrain(signals, time.Hour, time.Hour, logr.Discard(), func(status int) { exits <- status })
	signals <- syscall.SIGTERM
	await(t, "the drain to begin", d.begun)
	signals <- syscall.SIGTERM
	await(t, "the end by force", exits)
}

// TestDrainEnds asks once a process that does not end by itself.
func TestDrainEnds(t *testing.T) {
	signals, exits := make(chan os.Signal, 2), make(chan int, 2)
	d := newDrain(signals, time.Millisecond, 20*time.Millisecond, logr.Discard(), func(status int) { exits <- status })
	signals <- syscall.SIGTERM
	await(t, "the end", d.ctx.Done())
	await(t, "the end by force", exits)
}

// TestDrainMovesConnections has a client that, like the API server, keeps one
// HTTP/2 connection: while the drain lasts all its requests are answered, and it
// is asked to connect anew.
func TestDrainMovesConnections(t *testing.T) {
	signals := make(chan os.Signal, 2)
	d := newDrain(signals, time.Hour, time.Hour, logr.Discard(), func(int) {})
	slow, inSlow := make(chan struct{}), make(chan struct{})
	server := httptest.NewUnstartedServer(d.handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			close(inSlow)
			<-slow
		}
		_, _ = io.WriteString(w, r.Proto)
	})))
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	client := server.Client()
	// ask tells whether the request used a connection that was there.
	ask := func(path string) (reused bool) {
		t.Helper()
		trace := &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) { reused = info.Reused }}
		request, err := http.NewRequestWithContext(httptrace.WithClientTrace(t.Context(), trace), http.MethodPost, server.URL+path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		response, err := client.Do(request)
		if err != nil {
			t.Errorf("%s: %v", path, err)
			return false
		}
		defer func() { _ = response.Body.Close() }()
		if text, err := io.ReadAll(response.Body); err != nil || string(text) != "HTTP/2.0" {
			t.Errorf("%s: got %q, %v", path, text, err)
		}
		return reused
	}
	ask("/")
	if !ask("/") {
		t.Fatal("the connection is not kept, so this test shows nothing")
	}
	var wait sync.WaitGroup
	wait.Go(func() { ask("/slow") }) // in flight all the while
	await(t, "the slow request", inSlow)
	signals <- syscall.SIGTERM
	await(t, "the drain to begin", d.begun)
	ask("/") // answered on the old connection, which then takes no more
	moved := false
	for range 100 {
		moved = moved || !ask("/")
	}
	if !moved {
		t.Error("the connection is kept although the process is about to end")
	}
	close(slow)
	wait.Wait()
}
