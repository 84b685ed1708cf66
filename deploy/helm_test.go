package deploy_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stategraft/stategraft/deploy/render"
	"github.com/stategraft/stategraft/test/cluster"
)

// shared is what the tests with Helm have in common: Helm itself, and a control
// plane, which is started for the first that needs it.
var shared struct {
	sync.Mutex
	home string
	rig  *cluster.ControlPlane
}

func TestMain(m *testing.M) {
	code := m.Run()
	if shared.rig != nil {
		if err := shared.rig.Stop(context.Background()); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	if shared.home != "" {
		_ = os.RemoveAll(shared.home)
	}
	os.Exit(code)
}

// helm answers Helm without a cluster.
func helm(t *testing.T) *render.Helm {
	t.Helper()
	if os.Getenv(cluster.EnabledEnv) != "1" {
		t.Skip("builds Helm: set " + cluster.EnabledEnv + "=1")
	}
	return newHelm(t, "")
}

func newHelm(t *testing.T, kubeconfig string) *render.Helm {
	t.Helper()
	shared.Lock()
	defer shared.Unlock()
	if shared.home == "" {
		home, err := os.MkdirTemp("", "stategraft-helm-")
		if err != nil {
			t.Fatal(err)
		}
		shared.home = home
	}
	h, err := render.New(t.Context(), os.Stderr, shared.home, kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// rig answers the control plane, with stand-ins for the CustomResourceDefinitions
// of cert-manager and of the Prometheus operator, and Helm for it.
func rig(t *testing.T) (*cluster.ControlPlane, *render.Helm) {
	t.Helper()
	if os.Getenv(cluster.EnabledEnv) != "1" {
		t.Skip("starts a real control plane: set " + cluster.EnabledEnv + "=1")
	}
	shared.Lock()
	if shared.rig == nil {
		// Longer than the test at hand, so not with its context.
		cp, err := cluster.Start(context.Background(), cluster.Options{Log: os.Stderr})
		if err != nil {
			shared.Unlock()
			t.Fatal(err)
		}
		shared.rig = cp
		kubectl(t, cp, "", "apply", "-f", "testdata/crds")
		kubectl(t, cp, "", "wait", "--for=condition=Established", "--timeout=180s", "-f", "testdata/crds")
	}
	shared.Unlock()
	return shared.rig, newHelm(t, shared.rig.Kubeconfig())
}

// kubectl runs kubectl with an input, and fails the test where it fails.
func kubectl(t *testing.T, cp *cluster.ControlPlane, input string, args ...string) string {
	t.Helper()
	out, err := cp.Kubectl(t.Context(), strings.NewReader(input), args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// awaitTrue waits until done answers true.
func awaitTrue(t *testing.T, what string, done func() bool) {
	t.Helper()
	awaitFor(t, 3*time.Minute, what, done)
}

// awaitFor is awaitTrue with a limit of its own.
func awaitFor(t *testing.T, limit time.Duration, what string, done func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	for !done() {
		select {
		case <-ctx.Done():
			t.Fatalf("still waiting for %s", what)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// The manifests in the repository are what the chart gives.
func TestManifestsAreFresh(t *testing.T) {
	rendered, err := helm(t).Manifests(t.Context(), ".")
	if err != nil {
		t.Fatal(err)
	}
	if len(rendered) != 2 {
		t.Errorf("%d manifests", len(rendered))
	}
	for name, want := range rendered {
		got, err := os.ReadFile(filepath.Join(".", name))
		if err != nil {
			t.Error(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s is stale: run `make manifests`", name)
		}
	}
}

func TestLint(t *testing.T) {
	out, err := helm(t).Run(t.Context(), "lint", "--strict", "chart", "--values", "testdata/everything.yaml")
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
