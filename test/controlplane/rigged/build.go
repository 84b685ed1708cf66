package rigged

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
)

// module is this repository's; it is looked for from the working folder, which
// in a test is that of the package.
const module = "github.com/stategraft/stategraft"

// programs are what the rig builds of this repository.
var programs = []string{"stategraft", "kubectl-stategraft"}

// Root answers the repository's folder.
func Root(ctx context.Context) (string, error) {
	out, err := goCommand(ctx, "", "list", "-m", "-f", "{{.Dir}}", module)
	if err != nil {
		return "", fmt.Errorf("finding the repository (run this inside of it): %w", err)
	}
	return strings.TrimSpace(out), nil
}

// Build builds the repository's programs into the folder bin.
func Build(ctx context.Context, root, bin string) error {
	args := []string{"build", "-o", bin + string(filepath.Separator)}
	for _, name := range programs {
		args = append(args, "./cmd/"+name)
	}
	if _, err := goCommand(ctx, root, args...); err != nil {
		return fmt.Errorf("building %s: %w", strings.Join(programs, " and "), err)
	}
	return nil
}

func (r *Rig) build(ctx context.Context, log io.Writer) error {
	fmt.Fprintln(log, "rigged: building", strings.Join(programs, " and "))
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
