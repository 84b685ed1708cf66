package controlplane

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stategraft/stategraft/patches"
	"github.com/stategraft/stategraft/webhook"
)

// TestConfigReload changes the configuration file under the running webhook: a
// good one is taken over, a broken one changes nothing.
func TestConfigReload(t *testing.T) {
	ctx, rig := start(t)
	const in = "config"
	namespace(ctx, t, in, labelled(), nil)
	head := fmt.Sprintf("apiVersion: %s\nkind: %s\n", webhook.ConfigVersion, webhook.ConfigKind)
	good := head + "annotations:\n  medusa-image: "
	t.Cleanup(func() {
		// The tests after this one count on the defaults.
		writeConfig(t, head)
		await(context.Background(), t, "the defaults to be taken over", func() bool { return imageOf(context.Background(), t, in) == patches.DefaultMedusaImage })
	})
	if image := imageOf(ctx, t, in); image != patches.DefaultMedusaImage {
		t.Fatalf("image %s at first", image)
	}
	writeConfig(t, good+"example.invalid/medusa:1\n")
	await(ctx, t, "the new configuration to be taken over", func() bool { return imageOf(ctx, t, in) == "example.invalid/medusa:1" })

	before := reloads(ctx, t, "bad")
	writeConfig(t, good+"'not an image!'\n")
	await(ctx, t, "the broken configuration to be seen", func() bool { return reloads(ctx, t, "bad") > before })
	if image := imageOf(ctx, t, in); image != "example.invalid/medusa:1" {
		t.Errorf("image %s with a broken configuration", image)
	}
	before = reloads(ctx, t, "bad")
	if err := os.Remove(rig.Webhook.ConfigFile); err != nil {
		t.Fatal(err)
	}
	await(ctx, t, "the missing configuration to be seen", func() bool { return reloads(ctx, t, "bad") > before })
	if image := imageOf(ctx, t, in); image != "example.invalid/medusa:1" {
		t.Errorf("image %s without a configuration", image)
	}
	writeConfig(t, good+"example.invalid/medusa:2\n")
	await(ctx, t, "the next configuration to be taken over", func() bool { return imageOf(ctx, t, in) == "example.invalid/medusa:2" })
}

// writeConfig puts a file in place as a whole, as the kubelet does it.
func writeConfig(t *testing.T, text string) {
	t.Helper()
	file := shared.Webhook.ConfigFile
	if err := os.WriteFile(file+".new", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(file+".new", file); err != nil {
		t.Fatal(err)
	}
}

// imageOf is the image of Medusa in a new pod.
func imageOf(ctx context.Context, t *testing.T, in string) string {
	t.Helper()
	got, _ := mustCreate(ctx, t, in, readPod(t, filepath.Join(shared.Root, "test", "corpus", "pods", "cass-operator.yaml")))
	c := container(typed(t, got), patches.ContainerMedusa)
	if c == nil {
		t.Fatal("the pod is not injected")
	}
	return c.Image
}

// reloads reads how often a configuration was good or bad from the metrics.
func reloads(ctx context.Context, t *testing.T, result string) int {
	t.Helper()
	prefix := fmt.Sprintf("stategraft_config_reloads_total{result=%q} ", result)
	for line := range strings.Lines(metricsText(ctx, t)) {
		if number, ok := strings.CutPrefix(line, prefix); ok {
			var n int
			if _, err := fmt.Sscan(number, &n); err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	return 0
}

func metricsText(ctx context.Context, t *testing.T) string {
	t.Helper()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, shared.Webhook.MetricsURL(), nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
