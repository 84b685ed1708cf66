package restore

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stategraft/stategraft/test/cluster"
)

// shared is what all tests use; nil where they are to skip.
var shared *Env

// seed is that of everything that is left to chance.
var seed uint64

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) (status int) {
	if os.Getenv(cluster.EnabledEnv) != "1" {
		return m.Run()
	}
	var err error
	if seed, err = findSeed(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	ctx := context.Background()
	if shared, err = Start(ctx, os.Stderr, seed); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() {
		if err := shared.Stop(ctx); err != nil {
			fmt.Fprintln(os.Stderr, err)
			status = 1
		}
	}()
	return m.Run()
}

func findSeed() (uint64, error) {
	text := os.Getenv(SeedEnv)
	if text == "" {
		return uint64(rand.Uint32()), nil
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%s is not a number: %q", SeedEnv, text)
	}
	return n, nil
}

// start gives the environment, or skips the test.
func start(t *testing.T, limit time.Duration) (context.Context, *Env) {
	t.Helper()
	if shared == nil {
		t.Skipf("needs a real control plane: set %s=1, after `go run ./test/cluster/cmd/rig build`", cluster.EnabledEnv)
	}
	ctx, cancel := context.WithTimeoutCause(t.Context(), limit, fmt.Errorf("not done within %s", limit))
	t.Cleanup(cancel)
	return ctx, shared
}

// figure logs what was measured, where the command that shows it finds it.
func figure(t *testing.T, format string, args ...any) {
	t.Helper()
	t.Logf("figure: "+format, args...)
}

// explain logs what there is about a scenario that failed.
func explain(t *testing.T, e *Env, ns string) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	t.Logf("seed %d; all of it is in %s", seed, e.keep(ctx, ns, ns))
	if restores, err := e.Kubectl(ctx, nil, "-n", ns, "get", "restores", "-o", "yaml"); err == nil {
		t.Logf("the Restores:\n%s", restores)
	}
	t.Logf("what happened:\n%s", e.Timeline.Of(ns))
}
