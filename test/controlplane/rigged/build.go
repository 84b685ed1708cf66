package rigged

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// module is this repository's; it is looked for from the working folder, which
// in a test is that of the package.
const module = "github.com/stategraft/stategraft"

// RaceEnv is the environment variable that has the webhook built with the race
// detector where it is "1". It needs a C compiler.
const RaceEnv = "STATEGRAFT_RACE"

// Root answers the repository's folder.
func Root(ctx context.Context) (string, error) {
	out, err := goCommand(ctx, "", "list", "-m", "-f", "{{.Dir}}", module)
	if err != nil {
		return "", fmt.Errorf("finding the repository (run this inside of it): %w", err)
	}
	return strings.TrimSpace(out), nil
}

// Build builds the webhook and the command line into the folder bin.
func Build(ctx context.Context, root, bin string) error {
	webhook := []string{"./cmd/stategraft"}
	if os.Getenv(RaceEnv) == "1" {
		// Not for the command line, whose every run would then last a second.
		webhook = []string{"-race", "./cmd/stategraft"}
	}
	for _, what := range [][]string{webhook, {"./cmd/kubectl-stategraft"}} {
		// The state of the checkout is of no use here, and asking git for it fails
		// where the checkout belongs to another user.
		args := append([]string{"build", "-buildvcs=false", "-tags", "grpcnotrace", "-o", bin + string(filepath.Separator)}, what...)
		if _, err := goCommand(ctx, root, args...); err != nil {
			return fmt.Errorf("building %s: %w", what[len(what)-1], err)
		}
	}
	return nil
}

func (r *Rig) build(ctx context.Context, log io.Writer) error {
	fmt.Fprintln(log, "rigged: building the webhook and the command line")
	return Build(ctx, r.Root, filepath.Join(r.dir, "bin"))
}

func goCommand(ctx context.Context, dir string, args ...string) (string, error) {
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("go %s: %w: %s", args[0], err, bytes.TrimSpace(stderr.Bytes()))
	}
	return stdout.String(), nil
}
