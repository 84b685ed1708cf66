package kvs

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/stategraft/stategraft/patches"
	"github.com/stategraft/stategraft/webhook"
	"github.com/stategraft/stategraft/webhook/offline"
	"github.com/stategraft/stategraft/workload"
)

// TestCorpus asks of each pod of the corpus, as it is injected, whether what is said here
// is what was recognised.
func TestCorpus(t *testing.T) {
	files, err := filepath.Glob("../../test/corpus/pods/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	holding := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		documents, err := offline.Read(strings.NewReader(string(text)), file)
		if err != nil {
			t.Fatal(err)
		}
		for _, native := range []bool{true, false} {
			config := webhook.DefaultConfig()
			config.NativeSidecars = map[bool]string{true: "always", false: "never"}[native]
			result, err := offline.Decide(documents[0], offline.Options{Namespace: offline.Labelled(), Config: config})
			if err != nil {
				t.Fatal(err)
			}
			if result.Verdict != workload.Inject {
				continue
			}
			raw, err := result.Apply()
			if err != nil {
				t.Fatal(err)
			}
			pod := &corev1.Pod{}
			if err := json.Unmarshal(raw, pod); err != nil {
				t.Fatal(err)
			}
			w := result.Workload
			anna := w.Kind == workload.KindAnna
			if Of(pod) != anna || HoldsData(pod) != (anna && w.HoldsData()) || Idle(pod) != (anna && !w.HoldsData()) || anna && (Role(pod) != w.Role || Cluster(pod) != w.Cluster) {
				t.Errorf("%s: of Anna %v, holds data %v, idle %v, role %q, cluster %q; it is %+v", file, Of(pod), HoldsData(pod), Idle(pod), Role(pod), Cluster(pod), w)
			}
			sidecar := Sidecar(pod)
			if w.HoldsData() && (sidecar == nil || !Serves(sidecar)) {
				t.Errorf("%s: nobody can be asked: %+v", file, sidecar)
			}
			if anna && !w.HoldsData() && Serves(sidecar) {
				t.Errorf("%s: it is asked, and holds nothing", file)
			}
			if HoldsData(pod) {
				holding++
				cached := &corev1.Pod{ObjectMeta: pod.ObjectMeta}
				cached.Annotations = map[string]string{AnnotationRole: string(w.Role)}
				if !HoldsData(cached) {
					t.Errorf("%s: not as the cache has it", file)
				}
			}
		}
	}
	if holding == 0 {
		t.Error("no pod of the corpus holds keys")
	}
}

func TestOthers(t *testing.T) {
	pod := func(name, role, cluster string, phase corev1.PodPhase) *corev1.Pod {
		p := &corev1.Pod{}
		p.Name, p.Namespace, p.Labels, p.Status.Phase = name, "ns", map[string]string{"stategraft.io/injected": "anna"}, phase
		p.Spec.Containers = []corev1.Container{{Name: patches.ContainerAgent, Env: []corev1.EnvVar{{Name: EnvRole, Value: "routing"}, {Name: EnvRole, Value: role}, {Name: EnvCluster, Value: cluster}}}}
		return p
	}
	all := []*corev1.Pod{pod("m-0", "memory", "a", ""), pod("m-1", "memory", "a", ""), pod("e-0", "ebs", "a", ""), pod("r-0", "routing", "a", ""), pod("x-0", "memory", "b", ""), pod("m-9", "memory", "a", corev1.PodFailed)}
	var names []string
	for _, p := range Others(all[:1], all) {
		names = append(names, p.Name)
	}
	if !slices.Equal(names, []string{"m-1", "e-0"}) {
		t.Error(names)
	}
	if others := Others(all[3:4], all); len(others) > 0 {
		t.Error("of routing:", others)
	}
}
