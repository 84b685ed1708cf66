// Package controlplane tests the webhook on a real control plane: the built
// program, called by a real API server, for pods that real controllers create.
// One control plane serves all tests; each makes its own namespaces.
package controlplane

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/test/cluster"
	"github.com/stategraft/stategraft/test/controlplane/rigged"
)

// shared is the control plane of all tests; nil where they are to skip.
var shared *rigged.Rig

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) (status int) {
	if os.Getenv(cluster.EnabledEnv) != "1" {
		return m.Run()
	}
	ctx := context.Background()
	var err error
	if shared, err = rigged.Start(ctx, rigged.Options{Log: os.Stderr}); err != nil {
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

// start gives the control plane, or skips the test. What goes wrong shows the
// end of the webhook's log.
func start(t *testing.T) (context.Context, *rigged.Rig) {
	t.Helper()
	if shared == nil {
		t.Skipf("needs a real control plane: set %s=1, after `go run ./test/cluster/cmd/rig build`", cluster.EnabledEnv)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute)
	t.Cleanup(cancel)
	if !shared.Webhook.Running() {
		t.Fatal("the webhook does not run, after an earlier test")
	}
	return ctx, shared
}

// namespace makes a namespace for the test and removes it afterwards.
func namespace(ctx context.Context, t *testing.T, name string, labels, annotations map[string]string) {
	t.Helper()
	if err := shared.CreateNamespace(ctx, name, labels, annotations); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		// Not waited for: the pods in it hold nothing up.
		if err := shared.Client.CoreV1().Namespaces().Delete(context.Background(), name, metav1.DeleteOptions{}); err != nil {
			t.Errorf("removing namespace %s: %v", name, err)
		}
	})
}

// labelled is the label that switches injection on, with others.
func labelled(more ...string) map[string]string {
	labels := map[string]string{api.LabelInject: api.InjectEnabled}
	for i := 0; i+1 < len(more); i += 2 {
		labels[more[i]] = more[i+1]
	}
	return labels
}

// patience is how long is waited for what takes moments on an idle machine. A controller
// that was refused tries again ever later: after as long again as it was refused for.
const patience = 3 * time.Minute

// await polls until done answers true, and fails the test where it does not.
func await(ctx context.Context, t *testing.T, what string, done func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for !done() {
		select {
		case <-ctx.Done():
			t.Fatalf("waiting for %s: %v", what, ctx.Err())
		case <-time.After(50 * time.Millisecond):
		}
	}
}
