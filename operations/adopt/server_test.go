package adopt

import (
	"context"
	"encoding/json"
	"maps"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	clienttesting "k8s.io/client-go/testing"
	crfake "sigs.k8s.io/controller-runtime/pkg/client/fake"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/patches"
)

// The patch adds what there is to add at the end, and names the pod as it was read.
func TestAdditions(t *testing.T) {
	for _, has := range []int{0, 2} {
		pod := aPod("c-0", "c", "n")
		for range has {
			foreign(pod, "debugger")
		}
		body, err := additions(pod, grafted(patches.Adoption{Next: 4, At: start}, cassandra...))
		if err != nil {
			t.Fatal(err)
		}
		patch, err := jsonpatch.DecodePatch(body)
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(pod)
		if err != nil {
			t.Fatal(err)
		}
		var after corev1.Pod
		if text, err = patch.Apply(text); err == nil {
			err = json.Unmarshal(text, &after)
		}
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, c := range after.Spec.EphemeralContainers[has:] {
			names = append(names, c.Name)
		}
		if len(names) != 3 || names[0] != "stategraft-agent-4" || names[2] != "stategraft-medusa-6" || after.UID != pod.UID || after.ResourceVersion != pod.ResourceVersion {
			t.Errorf("of %d: %v, %s %s", has, names, after.UID, after.ResourceVersion)
		}
	}
}

// Requests go to the subresource, and to the very pod.
func TestServer(t *testing.T) {
	core := fake.NewClientset(aPod("c-0", "c", "n"), aNode("n"))
	s := &apiServer{core: core.CoreV1()}
	pod := aPod("c-0", "c", "n")
	if _, err := s.add(t.Context(), pod, grafted(patches.Adoption{Next: 1, At: start}, cassandra...)); err != nil {
		t.Fatal(err)
	}
	if err := s.label(t.Context(), pod, "cassandra"); err != nil {
		t.Fatal(err)
	}
	if err := s.label(t.Context(), pod, ""); err != nil {
		t.Fatal(err)
	}
	var sent []string
	for _, a := range core.Actions() {
		if p, ok := a.(clienttesting.PatchAction); ok {
			sent = append(sent, p.GetSubresource())
			if p.GetSubresource() == "" {
				sent = append(sent, string(p.GetPatch()))
			}
		}
	}
	want := []string{"ephemeralcontainers", "", `{"metadata":{"labels":{"stategraft.io/injected":"cassandra"},"resourceVersion":"1","uid":"c-0"}}`,
		"", `{"metadata":{"labels":{"stategraft.io/injected":null},"resourceVersion":"1","uid":"c-0"}}`}
	if got, _ := json.Marshal(sent); string(got) != string(must(json.Marshal(want))) {
		t.Errorf("sent %s\nwant %s", got, must(json.Marshal(want)))
	}
}

func must(text []byte, err error) []byte {
	if err != nil {
		panic(err)
	}
	return text
}

func TestPairDigest(t *testing.T) {
	whole := map[string][]byte{"tls.crt": []byte("a"), "tls.key": []byte("b"), "ca.crt": []byte("c")}
	digest := PairDigest(&corev1.Secret{Data: whole})
	if len(digest) != 16 || digest != PairDigest(&corev1.Secret{Data: maps.Clone(whole)}) {
		t.Errorf("digest %q", digest)
	}
	for _, key := range []string{"tls.crt", "tls.key", "ca.crt"} {
		other := maps.Clone(whole)
		other[key] = []byte("x")
		if PairDigest(&corev1.Secret{Data: other}) == digest {
			t.Errorf("another %s makes no difference", key)
		}
		delete(other, key)
		if got := PairDigest(&corev1.Secret{Data: other}); got != "" {
			t.Errorf("without %s: %q", key, got)
		}
	}
	core := fake.NewClientset(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: api.SecretGRPC}, Data: whole})
	s := &apiServer{core: core.CoreV1()}
	for namespace, want := range map[string]string{"prod": digest, "other": ""} {
		if got, err := s.pair(t.Context(), namespace); got != want || err != nil {
			t.Errorf("of %s: %q, %v", namespace, got, err)
		}
	}
}

func TestRestoring(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := api.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	if err := clientscheme.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	restore := func(name string, phase api.RestorePhase, pending, pods []string) *api.Restore {
		r := &api.Restore{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: name}, Status: api.RestoreStatus{Phase: phase, Pending: pending}}
		for _, pod := range pods {
			r.Status.Pods = append(r.Status.Pods, api.PodRestore{Name: pod})
		}
		return r
	}
	asks := aPod("x-0", "x", "n")
	asks.Namespace, asks.Annotations = "asks", map[string]string{api.AnnotationAdopt: api.AdoptRunning}
	found := aPod("x-1", "x", "n")
	found.Namespace, found.Annotations = "found", asks.Annotations
	label(found)
	s := &apiServer{read: crfake.NewClientBuilder().WithScheme(scheme).WithObjects(
		restore("now", api.RestoreRestoring, nil, []string{"a-0"}), restore("over", api.RestoreCompleted, nil, []string{"b-0"}),
		restore("held", api.RestoreFailed, []string{"c-0"}, []string{"c-0", "c-1"}), asks, found, aPod("y-0", "y", "n"),
	).WithStatusSubresource().Build()}
	got, err := s.restoring(context.Background(), "prod")
	if want := map[string]string{"a-0": "now", "c-0": "held"}; err != nil || !maps.Equal(got, want) {
		t.Errorf("%v, %v, want %v", got, err, want)
	}
	if namespaces, err := s.askers(context.Background()); err != nil || len(namespaces) != 1 || namespaces[0] != "asks" {
		t.Errorf("pods that ask by themselves are in %v, %v", namespaces, err)
	}
}
