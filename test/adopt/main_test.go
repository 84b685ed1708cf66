package adopt

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stategraft/stategraft/operations/adopt"
	"github.com/stategraft/stategraft/test/adopt/witness"
	"github.com/stategraft/stategraft/test/cluster"
)

// shared is what all tests use; nil where they are to skip.
var shared *Env

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) (status int) {
	if os.Getenv(cluster.EnabledEnv) != "1" {
		return m.Run()
	}
	ctx := context.Background()
	var err error
	if shared, err = Start(ctx, os.Stderr); err != nil {
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

// seeded is chance, with a seed that is told where the test fails.
func seeded(t *testing.T) *rand.Rand {
	t.Helper()
	seed := uint64(rand.Uint32())
	if text := os.Getenv(SeedEnv); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("%s is not a number: %q", SeedEnv, text)
		}
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%s=%d", SeedEnv, seed)
		}
	})
	return rand.New(rand.NewPCG(seed, 1))
}

// usual are the limits where nobody says otherwise.
func usual() witness.Limits {
	return witness.Limits{PerWorkload: 1, PerNode: adopt.DefaultPerNode, InAll: adopt.DefaultInAll, PerDay: adopt.DefaultPerDay,
		Day: 24 * time.Hour, Counts: adopt.DefaultPatience, Backoff: adopt.DefaultBackoff, Off: time.Minute}
}

// look has a witness look on until the test ends, which then fails for what it saw.
// Everything of the namespaces is kept, and removed.
func look(ctx context.Context, t *testing.T, w *witness.Witness, stop func(), towns ...*Town) {
	t.Helper()
	t.Cleanup(func() {
		stop()
		if faults := w.Faults(); len(faults) > 0 {
			t.Errorf("seen in the watch of all pods:\n%s", strings.Join(faults, "\n"))
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Minute)
		defer cancel()
		var names []string
		for _, town := range towns {
			names = append(names, town.Namespace)
		}
		if t.Failed() {
			t.Logf("all of it is in %s", shared.keep(ctx, t.Name(), names...))
		}
		for _, town := range towns {
			if err := town.Leave(ctx); err != nil {
				t.Error(err)
			}
		}
	})
}

// lull is how long it is looked whether anything more comes. The controller acts on what it
// sees, and looks at everything again every ten seconds.
func lull() time.Duration {
	if full() {
		return 25 * time.Second
	}
	return 5 * time.Second
}

// settled waits until nothing more is seen of a namespace's pods, of which the witness
// hears a moment later than whoever asks, and answers what was seen.
func settled(ctx context.Context, t *testing.T, w *witness.Witness, namespace string) witness.Tally {
	t.Helper()
	before := w.Of(namespace)
	if err := await(ctx, time.Minute, "the witness to have seen all", func(ctx context.Context) (bool, error) {
		pause(ctx, 2*time.Second)
		now := w.Of(namespace)
		quiet := now == before
		before = now
		return quiet, nil
	}); err != nil {
		t.Error(err)
	}
	return before
}

// figure logs what was measured, where the command that shows it finds it.
func figure(t *testing.T, format string, args ...any) {
	t.Helper()
	t.Logf("figure: "+format, args...)
}
