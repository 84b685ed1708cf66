package backup

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stategraft/stategraft/test/cluster"
	_ "github.com/stategraft/stategraft/test/golden" // takes -update
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

// figure logs what was measured, where the command that shows it finds it.
func figure(t *testing.T, format string, args ...any) {
	t.Helper()
	t.Logf("figure: "+format, args...)
}
