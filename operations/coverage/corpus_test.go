package coverage

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	jsonpatch "github.com/evanphx/json-patch/v5"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/patches"
	"github.com/stategraft/stategraft/webhook"
)

// truth is what the corpus says of a pod.
type truth struct{ decision, reason, kind string }

// corpus gives the pods of the corpus and what is true of them, by name.
func corpus(t *testing.T) (pods map[string][]byte, truths map[string]truth) {
	t.Helper()
	pods, truths = map[string][]byte{}, map[string]truth{}
	for _, dir := range []string{"corpus", "corpus/extra"} {
		dir = filepath.Join("..", "..", "test", dir)
		text, err := os.ReadFile(filepath.Join(dir, "truth.tsv"))
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range strings.Split(strings.TrimSpace(string(text)), "\n")[1:] {
			f := strings.Split(strings.ReplaceAll(line, "\t-", "\t"), "\t")
			truths[f[0]] = truth{f[1], f[2], f[3]}
			text, err := os.ReadFile(filepath.Join(dir, "pods", f[0]+".yaml"))
			if err != nil {
				t.Fatal(err)
			}
			raw, err := yaml.YAMLToJSONStrict(text)
			if err != nil {
				t.Fatalf("%s: %v", f[0], err)
			}
			pods[f[0]] = raw
		}
	}
	return pods, truths
}

// created is when the pods of the tests were.
var created = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// live gives the pod as it is in a cluster that has run it for a while: the same
// type that the API server's answer is decoded into, encoded again.
func live(t *testing.T, raw []byte, edit ...func(*corev1.Pod)) []byte {
	t.Helper()
	pod := &corev1.Pod{}
	if err := json.Unmarshal(raw, pod); err != nil {
		t.Fatal(err)
	}
	pod.UID, pod.ResourceVersion = "5f1c8a52-0000-4000-8000-000000000001", "12345"
	pod.CreationTimestamp.Time = created
	if pod.Name == "" {
		pod.Name = pod.GenerateName + "x7k2p"
	}
	pod.Spec.NodeName = "worker-1"
	pod.Status = corev1.PodStatus{Phase: corev1.PodRunning, PodIP: "10.0.0.7", QOSClass: corev1.PodQOSBurstable,
		Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}}
	for _, f := range edit {
		f(pod)
	}
	out, err := json.Marshal(pod)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// labelled is a namespace that asks for injection.
func labelled() webhook.Namespace {
	return webhook.Namespace{Name: "cassandra", Labels: map[string]string{api.LabelInject: api.InjectEnabled}}
}

// input surrounds a pod as a labelled namespace without any configuration does.
func input(raw []byte) webhook.Input {
	return webhook.Input{Pod: raw, Namespace: labelled(), Config: webhook.DefaultConfig(), NativeSidecars: true}
}

// injected gives the pod as admission makes it.
func injected(t *testing.T, raw []byte) []byte {
	t.Helper()
	out := webhook.Decide(input(raw))
	if out.Patch == nil {
		t.Fatalf("not injected: %s %s", out.Reason, out.Message)
	}
	text, err := patches.Marshal(out.Patch.Operations)
	if err != nil {
		t.Fatal(err)
	}
	patch, err := jsonpatch.DecodePatch(text)
	if err != nil {
		t.Fatal(err)
	}
	result, err := patch.Apply(raw)
	if err != nil {
		t.Fatal(err)
	}
	return result
}
