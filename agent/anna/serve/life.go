package serve

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/stategraft/stategraft/agent/anna/membership"
)

// The life port is plain HTTP: kubelet asks there before it ends the database's container,
// and whoever collects metrics. It tells nothing that Anna's own ports do not do for
// everybody; a NetworkPolicy is for both.
const (
	PathDepart  = "/depart"  // hand the keys over and leave; answers when that is done or takes too long
	PathMetrics = "/metrics" // Prometheus' text
	PathHealth  = "/healthz" // 200: the sidecar runs
)

// The time that handing over may take: no longer than kubelet gives a pod, less what it
// takes to end.
const (
	longestLeave  = 20 * time.Second
	shortestLeave = time.Second
	toEnd         = 5 * time.Second
)

// leaveLimit is that of a pod.
func leaveLimit(grace time.Duration) time.Duration {
	if grace <= 0 {
		grace = 30 * time.Second // a pod's default
	}
	return max(shortestLeave, min(longestLeave, grace-toEnd))
}

// serveLife serves until the context ends, and a departure that is under way.
func (s *server) serveLife(ctx context.Context) {
	var once leaveOnce
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+PathHealth, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET "+PathMetrics, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		s.writeMetrics(w)
	})
	mux.HandleFunc("GET "+PathDepart, func(w http.ResponseWriter, r *http.Request) {
		s.leaving.Add(1)
		defer s.leaving.Done()
		// Whoever asked may give up; the node has begun by then.
		fmt.Fprintln(w, once.do(func() string { return s.depart(context.WithoutCancel(r.Context())) }))
	})
	pause := firstWait
	for ctx.Err() == nil {
		err := s.listenLife(ctx, mux)
		if ctx.Err() != nil {
			return
		}
		s.Log.Error("the life port is not served and is tried again", "port", s.LifePort, "error", fmt.Sprint(err), "wait_seconds", pause.Seconds())
		wait(ctx, pause)
		pause = min(2*pause, longestWait)
	}
}

func (s *server) listenLife(ctx context.Context, handler http.Handler) error {
	var lc net.ListenConfig
	listener, err := lc.Listen(ctx, "tcp", net.JoinHostPort(s.Address, strconv.Itoa(s.LifePort)))
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 5 * time.Second, WriteTimeout: time.Minute, IdleTimeout: time.Minute, MaxHeaderBytes: 8 << 10}
	ended := make(chan struct{})
	defer close(ended)
	go func() {
		select {
		case <-ctx.Done():
			s.leaving.Wait()
		case <-ended:
		}
		limited, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = server.Shutdown(limited)
		_ = server.Close()
	}()
	s.Log.Info("the life port is served", "port", s.LifePort)
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve: %w", err)
	}
	<-ctx.Done()
	return nil
}

// leaveOnce has who asks while the node leaves wait for that, and who asks later ask anew.
type leaveOnce struct {
	mutex sync.Mutex
	goes  chan struct{}
	said  string
}

func (l *leaveOnce) do(leave func() string) string {
	l.mutex.Lock()
	if goes := l.goes; goes != nil {
		l.mutex.Unlock()
		<-goes
		l.mutex.Lock()
		defer l.mutex.Unlock()
		return l.said
	}
	goes := make(chan struct{})
	l.goes = goes
	l.mutex.Unlock()
	said := leave()
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.said, l.goes = said, nil
	close(goes)
	return said
}

// depart has the node hand its keys over. The answer is for people: kubelet goes on
// whatever it is.
func (s *server) depart(ctx context.Context) string {
	if s.announcer == nil {
		return "this pod has no keys to hand over"
	}
	limit := leaveLimit(s.Pod.Grace)
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("not within %v", limit))
	defer cancel()
	began := time.Now()
	s.Log.Info("the node is to leave: it hands its keys over", "limit_seconds", limit.Seconds())
	err := s.announcer.Leave(ctx, s.anna.effective().Threads.Of(s.Pod.Role), nil)
	switch {
	case errors.Is(err, membership.ErrStays):
		s.Log.Info("the node stays a member as it ends", "why", err.Error())
		return err.Error()
	case err != nil:
		s.Log.Warn("the node leaves without having handed all over", "error", err.Error(), "seconds", time.Since(began).Seconds())
		return err.Error()
	}
	s.Log.Info("the node has handed its keys over", "seconds", time.Since(began).Seconds())
	return "the keys are handed over"
}
