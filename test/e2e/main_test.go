package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"testing"
	"time"
)

// env is what all scenarios run in; nil unless they are asked for.
var env *Env

func TestMain(m *testing.M) {
	code, err := runAll(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		code = 1
	}
	os.Exit(code)
}

func runAll(m *testing.M) (code int, err error) {
	restores := os.Getenv(RestoresEnv) == "1"
	if os.Getenv(EnabledEnv) != "1" && !restores {
		return m.Run(), nil
	}
	began := time.Now()
	if env, err = Start(context.Background(), os.Stderr, restores); err != nil {
		return 1, err
	}
	fmt.Fprintf(os.Stderr, "e2e: ready after %s\n", time.Since(began).Round(100*time.Millisecond))
	var once sync.Once
	stop := func() (err error) {
		once.Do(func() { err = env.Stop(context.Background()) })
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-interrupted
		fmt.Fprintln(os.Stderr, "e2e: interrupted", stop())
		os.Exit(130)
	}()
	return m.Run(), nil
}

// scenario answers the cluster and a context for a scenario, and keeps what
// explains its failure.
func scenario(t *testing.T, limit time.Duration) (*Env, context.Context) {
	t.Helper()
	if env == nil || env.Controller != nil {
		t.Skipf("runs whole pods: set %s=1 to run it, as root on Debian", EnabledEnv)
	}
	return begin(t, limit)
}

// restoring is scenario with the controllers running.
func restoring(t *testing.T, limit time.Duration) (*Env, context.Context) {
	t.Helper()
	if env == nil || env.Controller == nil {
		t.Skipf("runs whole pods with the controllers: set %s=1 to run it, as root on Debian", RestoresEnv)
	}
	return begin(t, limit)
}

func begin(t *testing.T, limit time.Duration) (*Env, context.Context) {
	t.Helper()
	limit = patient(limit)
	if end, ok := t.Deadline(); ok { // beyond it nothing would be cleaned up
		limit = min(limit, time.Until(end)-5*time.Minute)
	}
	ctx, cancel := context.WithTimeoutCause(t.Context(), limit, fmt.Errorf("not done within %s", limit))
	e := env.Scenario()
	t.Cleanup(func() {
		cancel()
		if t.Failed() {
			dir, err := e.Collect(context.Background(), t.Name())
			t.Logf("logs are in %s (%v)", dir, err)
		}
		if err := e.Forget(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return e, ctx
}

// figure logs what the scenario measured, where cmd/show finds it.
func figure(t *testing.T, format string, args ...any) {
	t.Helper()
	t.Logf("figure: "+format, args...)
}

// within holds what an injected pod took longer against its limit.
func within(t *testing.T, what string, longer, limit time.Duration) {
	t.Helper()
	switch {
	case longer <= limit:
	case os.Getenv(TimesEnv) == "print":
		figure(t, "over the limit, not judged: %s takes %s longer, at most %s is allowed", what, seconds(longer), limit)
	default:
		t.Errorf("%s takes %s longer, at most %s is allowed", what, seconds(longer), limit)
	}
}
