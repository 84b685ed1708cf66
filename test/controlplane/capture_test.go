package controlplane

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// updateReviews is the environment variable that has the requests recorded.
const updateReviews = "UPDATE_REVIEWS"

// TestCaptureReviews records, byte for byte, what the API server sends for pods
// of StatefulSets, before anybody changed them. The benchmark of the webhook
// runs on these. They are kept and not made on each run, so that two runs
// measure the same.
func TestCaptureReviews(t *testing.T) {
	if os.Getenv(updateReviews) != "1" {
		t.Skipf("writes webhook/testdata/reviews: set %s=1", updateReviews)
	}
	ctx, rig := start(t)
	const in = "cassandra" // part of every request
	labels := map[string]string{"capture": "yes"}
	namespace(ctx, t, in, labels, nil)
	recorder := &hook{name: "a-recorder", labels: labels}
	recorder.install(ctx, t, in)

	dir := filepath.Join(rig.Root, "webhook", "testdata", "reviews")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	home, _ := os.UserHomeDir()
	for _, shape := range []string{"plain-official-41", "cass-operator", "elassandra-operator"} {
		pod := typedPod(t, filepath.Join(rig.Root, "test", "corpus", "pods", shape+".yaml"))
		account(ctx, t, in, pod.Spec.ServiceAccountName)
		name := strings.TrimSuffix(pod.Name, "-0")
		set := statefulSet(pod, name, 1)
		// The fixture's own labels are the selector: nothing of the test's is to show.
		delete(set.Spec.Selector.MatchLabels, "stategraft-test")
		before := len(recorder.seen())
		if _, err := rig.Client.AppsV1().StatefulSets(in).Create(ctx, set, metav1.CreateOptions{}); err != nil {
			t.Fatalf("%s: %v", shape, err)
		}
		await(ctx, t, "the pod of "+shape, func() bool { return len(recorder.seen()) > before })
		body := recorder.seen()[before]
		if !compact(body) {
			t.Errorf("%s: the request is not one line of JSON", shape)
		}
		for _, part := range []string{`"managedFields"`, `"ownerReferences"`, "statefulset-controller"} {
			if !bytes.Contains(body, []byte(part)) {
				t.Errorf("%s: the request has no %s", shape, part)
			}
		}
		for _, private := range []string{rig.Root, home} {
			if len(private) > 1 && bytes.Contains(body, []byte(private)) {
				t.Fatalf("%s: the request has a path of this machine in it: %s", shape, private)
			}
		}
		if err := os.WriteFile(filepath.Join(dir, shape+".json"), body, 0o644); err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: %d bytes", shape, len(body))
	}
}
