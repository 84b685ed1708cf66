package cluster

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

// Kubectl runs kubectl as the administrator and answers its standard output.
// stdin may be nil. The error holds what kubectl wrote to standard error.
func (cp *ControlPlane) Kubectl(ctx context.Context, stdin io.Reader, args ...string) (string, error) {
	var stdout, stderr bytes.Buffer
	cmd := KubectlCommand(ctx, cp.bin, cp.state.dir, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return stdout.String(), fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, bytes.TrimSpace(stderr.Bytes()))
	}
	return stdout.String(), nil
}

// KubectlCommand prepares, but does not run, the kubectl of the folder bin (as
// answered by [Build]) for the control plane with the state folder dir.
func KubectlCommand(ctx context.Context, bin, dir string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, filepath.Join(bin, Kubectl), args...)
	// The user's own preferences and discovery cache stay out of it.
	cmd.Env = append(os.Environ(),
		"KUBECONFIG="+KubeconfigPath(dir),
		"KUBECACHEDIR="+filepath.Join(dir, "kubectl-cache"),
		"KUBERC=off")
	return cmd
}
