package deploy_test

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestRelease is the life of a release: installed from an older chart, upgraded
// in all ways, removed. Databases that run are not touched by any of it, and what
// others fill in is never undone.
func TestRelease(t *testing.T) {
	cp, h := rig(t)
	awaitGone(t, cp)
	cleanRelease(t, cp, h)
	c := client(t, cp, "")
	const db = "release-db"
	namespace(t, cp, db, map[string]string{"stategraft.io/inject": "enabled"})
	pod := createPod(t, c, db, "db-0", map[string]string{"stategraft.io/injected": "cassandra"})

	folder := t.TempDir()
	run := func(args ...string) {
		t.Helper()
		if out, err := h.Run(t.Context(), args...); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	run("package", "chart", "--version", "0.0.9", "--app-version", "v0.0.9", "--destination", folder)
	run("install", "stategraft", filepath.Join(folder, "stategraft-0.0.9.tgz"), "--namespace", home, "--create-namespace", "--set", "webhook.drainSeconds=5")
	fillIn(t, cp)
	before := objects(t, cp)
	if len(before) < 25 {
		t.Errorf("only %d objects are installed", len(before))
	}

	for _, step := range []struct {
		name string
		args []string
		lost []string // of the objects so far
		made []string
	}{
		{"newer chart", []string{"--reset-then-reuse-values"}, nil, nil},
		{"more replicas, another image and mode", []string{"--set", "certificates.mode=self-signed,webhook.replicas=3,image.tag=v9"},
			[]string{"certificates/stategraft-ca", "certificates/stategraft-webhook", "issuers/stategraft-ca", "issuers/stategraft-selfsigned"}, nil},
		{"every value another", []string{"--values", "testdata/everything.yaml"}, []string{"priorityclasses/stategraft"}, nil},
		{"back", []string{"--reset-values"}, nil,
			[]string{"certificates/stategraft-ca", "certificates/stategraft-webhook", "issuers/stategraft-ca", "issuers/stategraft-selfsigned", "priorityclasses/stategraft"}},
		// As Helm 3 does it.
		{"patched by the client", []string{"--reset-values", "--server-side=false", "--set", "image.tag=v10"}, nil, nil},
	} {
		t.Run(step.name, func(t *testing.T) {
			run(append([]string{"upgrade", "stategraft", "chart", "--namespace", home}, step.args...)...)
			after := objects(t, cp)
			lost, made := changes(before, after)
			made = slices.DeleteFunc(made, isMonitoring)
			lost = slices.DeleteFunc(lost, isMonitoring)
			if !slices.Equal(lost, step.lost) || !slices.Equal(made, step.made) {
				t.Errorf("lost %v, want %v; made %v, want %v", lost, step.lost, made, step.made)
			}
			stillFilledIn(t, cp)
			before = after
		})
	}
	if got := webhookDeployment(t, cp).Spec.Template.Spec.Containers[0].Image; !strings.HasSuffix(got, ":v10") {
		t.Errorf("the image is %s", got)
	}

	// The controller's, which is not of the release.
	create(t, c, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "stategraft-grpc", Namespace: db}})
	gone := watchRemovals(t, cp)
	run("uninstall", "stategraft", "--namespace", home)
	removedInOrder(t, gone)
	awaitTrue(t, "all that was installed to be gone", func() bool {
		return slices.Equal(slices.Sorted(maps.Keys(objects(t, cp))), staysBehind)
	})
	after, err := c.CoreV1().Pods(db).Get(t.Context(), "db-0", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if after.UID != pod.UID || after.DeletionTimestamp != nil || after.Generation != pod.Generation {
		t.Errorf("the database's pod was touched: %v", after.ObjectMeta)
	}
}

// changes are the objects that are lost, made anew under an old name being both.
func changes(before, after map[string]string) (lost, made []string) {
	for name, uid := range before {
		if after[name] != uid {
			lost = append(lost, name)
		}
	}
	for name, uid := range after {
		if before[name] != uid {
			made = append(made, name)
		}
	}
	slices.Sort(lost)
	slices.Sort(made)
	return lost, made
}

// isMonitoring is for what has tests of its own.
func isMonitoring(name string) bool {
	resource, object, _ := strings.Cut(name, "/")
	return resource == "servicemonitors" || resource == "podmonitors" || resource == "prometheusrules" || strings.Contains(object, "dashboard")
}

// removedInOrder wants the webhook's configuration to go before what it needs.
// The API server numbers all changes of all objects, removals too.
func removedInOrder(t *testing.T, gone func(resource, name string) uint64) {
	t.Helper()
	configuration := gone("mutatingwebhookconfigurations", "stategraft")
	for _, later := range [][2]string{
		{"services", "stategraft-webhook"}, {"deployments", "stategraft-webhook"}, {"deployments", "stategraft-controller"},
		{"secrets", "stategraft-webhook-tls"},
	} {
		if at := gone(later[0], later[1]); at <= configuration {
			t.Errorf("%s was removed at %d, the webhook's configuration at %d", later, at, configuration)
		}
	}
}

// What an administrator changed by hand is named by an upgrade, and taken back
// where that is asked for; what others fill in is not.
func TestUpgradeAfterEdit(t *testing.T) {
	cp, h := rig(t)
	awaitGone(t, cp)
	cleanRelease(t, cp, h)
	upgrade := func(args ...string) error {
		_, err := h.Run(t.Context(), append([]string{"upgrade", "stategraft", "chart", "--namespace", home, "--reset-then-reuse-values"}, args...)...)
		return err
	}
	if _, err := h.Run(t.Context(), "install", "stategraft", "chart", "--namespace", home, "--create-namespace"); err != nil {
		t.Fatal(err)
	}
	fillIn(t, cp)
	kubectl(t, cp, "", "-n", home, "patch", "deployment", "stategraft-webhook", "-p", `{"spec":{"replicas":4}}`)
	if err := upgrade("--set", "webhook.replicas=3"); err == nil || !strings.Contains(err.Error(), `conflict with "kubectl-patch"`) {
		t.Errorf("an upgrade over a change by hand: %v", err)
	}
	if err := upgrade("--set", "webhook.replicas=3", "--force-conflicts"); err != nil {
		t.Error(err)
	}
	if got := *webhookDeployment(t, cp).Spec.Replicas; got != 3 {
		t.Errorf("%d replicas", got)
	}
	stillFilledIn(t, cp)
}
