// Package render runs Helm on the chart: for the manifests in the repository and
// for the tests of the chart.
//
//	helm.go        Helm as a program
//	manifests.go   the manifests that are kept in the repository
package render

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/stategraft/stategraft/test/cluster"
)

// Helm is the program, apart from the settings of the user who runs it.
type Helm struct {
	program    string
	home       string
	kubeconfig string
}

// New builds Helm, unless it is cached; progress goes to log, which may be nil.
// What Helm itself keeps goes into the folder home. kubeconfig may be empty for
// what needs no cluster.
func New(ctx context.Context, log io.Writer, home, kubeconfig string) (*Helm, error) {
	bin, err := cluster.Build(ctx, log, cluster.Helm)
	if err != nil {
		return nil, err
	}
	return &Helm{program: filepath.Join(bin, cluster.Helm), home: home, kubeconfig: kubeconfig}, nil
}

// Run runs helm and answers its standard output. The error holds what it wrote
// to standard error.
func (h *Helm) Run(ctx context.Context, args ...string) (string, error) {
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, h.program, args...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	cmd.Env = append(os.Environ(),
		"HELM_CACHE_HOME="+filepath.Join(h.home, "cache"),
		"HELM_CONFIG_HOME="+filepath.Join(h.home, "config"),
		"HELM_DATA_HOME="+filepath.Join(h.home, "data"),
		// An empty one would be that of the user.
		"KUBECONFIG="+filepath.Join(h.home, "no-cluster"))
	if h.kubeconfig != "" {
		cmd.Env = append(cmd.Env, "KUBECONFIG="+h.kubeconfig)
	}
	if err := cmd.Run(); err != nil {
		return stdout.String(), fmt.Errorf("helm %s: %w: %s", strings.Join(args, " "), err, bytes.TrimSpace(stderr.Bytes()))
	}
	return stdout.String(), nil
}

// Template renders a chart as the release "stategraft" in the namespace of that
// name, which is what the manifests in the repository are. args are added, such
// as --set.
func (h *Helm) Template(ctx context.Context, chart string, args ...string) (string, error) {
	return h.Run(ctx, append([]string{"template", "stategraft", chart, "--namespace", "stategraft"}, args...)...)
}
