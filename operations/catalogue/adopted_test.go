package catalogue

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/stategraft/stategraft/operations/adopted"
	"github.com/stategraft/stategraft/operations/adopted/adoptedtest"
	"github.com/stategraft/stategraft/operations/kvs"
)

// Of an adopted pod is kept what it is asked by, as of an injected one, and no more.
func TestLeanAdopted(t *testing.T) {
	for name, pair := range adoptedtest.Corpus(t, "../..") {
		serving := adopted.Serving(adopted.Parts(pair.Adopted)).Container.Name
		was, is := kvs.Sidecar(lean(pair.Injected)), kvs.Sidecar(lean(pair.Adopted))
		if was == nil || is == nil || !kvs.Serves(is) {
			t.Fatalf("%s: %+v; injected %+v", name, is, was)
		}
		for _, p := range is.Ports {
			same := func(q corev1.ContainerPort) bool {
				return pair.Text(fmt.Sprintf("%+v", q)) == pair.Text(fmt.Sprintf("%+v", p))
			}
			if !slices.ContainsFunc(was.Ports, same) {
				t.Errorf("%s: port %+v; injected %+v", name, p, was.Ports)
			}
		}
		if len(is.Env) > 0 || is.Image != "" {
			t.Errorf("%s: keeps %+v", name, is)
		}
		pod := lean(pair.Adopted)
		if adopted.Name(pod, is.Name) != serving {
			t.Errorf("%s: is called %s, not %s", name, adopted.Name(pod, is.Name), serving)
		}
		runs := func(s corev1.ContainerStatus) bool { return s.Name == is.Name && s.State.Running != nil }
		if !slices.ContainsFunc(pod.Status.ContainerStatuses, runs) {
			t.Errorf("%s: does not run: %+v", name, pod.Status.ContainerStatuses)
		}
		for _, c := range pod.Spec.EphemeralContainers {
			if len(c.Env) != 1 || len(c.VolumeMounts) > 0 {
				t.Errorf("%s: keeps of %s %+v", name, c.Name, c)
			}
		}
	}
}
