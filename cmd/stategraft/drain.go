package main

import (
	"context"
	"errors"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/go-logr/logr"
)

// drain is the end of a process that others call. When it is asked to end, it
// says that it is not ready and goes on answering, until those who call have had
// the time to hear of it; then it ends. Asked a second time it ends at once.
//
// The API server learns from a Service's endpoints whom to call. A pod that is
// being deleted is taken out of them at once, but every node hears of that a
// little later.
type drain struct {
	begun chan struct{}
	// ctx is done when the process has to finish what it does and end.
	ctx context.Context
}

// onSignal makes a drain that SIGTERM or an interrupt begins.
func onSignal(period time.Duration, log logr.Logger) *drain {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	return newDrain(signals, period, shutdownLimit+forceAfter, log, os.Exit)
}

// forceAfter is what the manager may take longer than it was given. One whose
// informers were never filled, as with rights that are missing, does not end by
// itself at all (controller-runtime v0.25, pkg/manager/runnable_group.go).
const forceAfter = 2 * time.Second

func newDrain(signals <-chan os.Signal, period, finish time.Duration, log logr.Logger, exit func(int)) *drain {
	ctx, cancel := context.WithCancel(context.Background())
	d := &drain{begun: make(chan struct{}), ctx: ctx}
	go func() {
		first := <-signals
		log.Info("asked to end: not ready from now on, still answering", "signal", first.String(), "for", period.String())
		close(d.begun)
		over := time.NewTimer(period)
		defer over.Stop()
		select {
		case <-over.C:
			cancel()
		case <-signals:
			log.Info("asked to end once more: ending at once")
			exit(1)
			return
		}
		late := time.NewTimer(finish)
		defer late.Stop()
		select {
		case <-signals:
			log.Info("asked to end once more: ending at once")
		case <-late.C:
			log.Info("not ended in time: ending by force", "after", finish.String())
		}
		exit(1)
	}()
	return d
}

// draining tells whether the drain has begun.
func (d *drain) draining() bool {
	select {
	case <-d.begun:
		return true
	default:
		return false
	}
}

// ready is a check for /readyz.
func (d *drain) ready(*http.Request) error {
	if d.draining() {
		return errors.New("draining: this process is about to end")
	}
	return nil
}

// handler asks callers, while the drain lasts, to call elsewhere next time: a
// connection that is open leads here whatever the endpoints say. For HTTP/2, as
// the API server speaks it, net/http turns the header into a GOAWAY after which
// the requests of that connection are still answered.
func (d *drain) handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if d.draining() {
			w.Header().Set("Connection", "close")
		}
		next.ServeHTTP(w, r)
	})
}
