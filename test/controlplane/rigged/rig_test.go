package rigged

import (
	"context"
	"os"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stategraft/stategraft/test/cluster"
)

// With the controllers the API server trusts the certificate that they made, and
// goes on doing so after one of them was killed.
func TestController(t *testing.T) {
	if os.Getenv(cluster.EnabledEnv) != "1" {
		t.Skip("starts a real control plane: set " + cluster.EnabledEnv + "=1")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute)
	defer cancel()
	r, err := Start(ctx, Options{Log: os.Stderr, Controller: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	config, err := r.Client.AdmissionregistrationV1().MutatingWebhookConfigurations().Get(ctx, configurationName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if c := config.Webhooks[0].ClientConfig; len(c.CABundle) == 0 || c.Service == nil || c.URL != nil {
		t.Errorf("the configuration calls %v", c)
	}
	if err := r.Controller.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := r.Controller.Start(ctx); err != nil {
		t.Fatal(err)
	}
	const labelled = "after-the-kill"
	if err := r.CreateNamespace(ctx, labelled, map[string]string{"stategraft.io/inject": "enabled"}, nil); err != nil {
		t.Fatal(err)
	}
	if err := r.AwaitInjection(ctx, labelled); err != nil {
		t.Error(err)
	}
}
