package webhook

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/stategraft/stategraft/patches"
	"github.com/stategraft/stategraft/test/golden"
	"github.com/stategraft/stategraft/workload"
)

// firstAdoption is of a pod that nothing was added to.
var firstAdoption = patches.Adoption{Next: 1, At: time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC), Pair: "0123456789abcdef"}

func adoptInput(raw []byte) Input {
	return Input{Pod: raw, Namespace: labelled(), Config: DefaultConfig(), NativeSidecars: true}
}

// adopted is a golden file: the decision on a pod that runs, and what is added to it.
type adopted struct {
	Verdict    workload.Verdict            `json:"verdict"`
	Reason     workload.Reason             `json:"reason,omitempty"`
	Message    string                      `json:"message"`
	Containers []corev1.EphemeralContainer `json:"containers,omitempty"`
}

// TestAdoptCorpus compares what each pod of the corpus is adopted with, with what was right
// before. After a change that is meant, go test ./webhook -run AdoptCorpus -update writes
// the files anew, and their difference is to be read.
func TestAdoptCorpus(t *testing.T) {
	dir := filepath.Join("..", "test", "corpus", "adopted")
	pods := corpus(t)
	for _, name := range slices.Sorted(maps.Keys(pods)) {
		t.Run(name, func(t *testing.T) {
			out, containers := Adopt(adoptInput(pods[name]), firstAdoption)
			var text bytes.Buffer
			if err := json.Indent(&text, encode(t, adopted{out.Verdict, out.Reason, out.Message, containers}), "", "  "); err != nil {
				t.Fatal(err)
			}
			golden.Compare(t, filepath.Join(dir, name+".json"), append(text.Bytes(), '\n'))
			runs := lived(t, pods[name])
			again, of := Adopt(adoptInput(runs), firstAdoption)
			if again.Verdict != out.Verdict || again.Reason != out.Reason || !reflect.DeepEqual(of, containers) {
				t.Errorf("as it runs: %s (%s) %s, %s\nfrom its template: %s", again.Verdict, again.Reason, again.Message, encode(t, of), encode(t, containers))
			}
		})
	}
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if _, ok := pods[strings.TrimSuffix(f.Name(), ".json")]; !ok {
			t.Errorf("%s is of no pod of the corpus", f.Name())
		}
	}
}

// lived gives the pod as the API server has it once it runs: with what admission and
// defaults put in, the node, the status, and the label of one that was adopted before.
func lived(tb testing.TB, raw []byte) []byte {
	tb.Helper()
	pod := mustTree(tb, withMetadata(tb, raw, "labels", map[string]string{"stategraft.io/injected": "cassandra"}))
	pod["metadata"].(map[string]any)["uid"] = "0e0e4ab5-7d4c-4f41-9d4c-000000000001"
	pod["status"] = map[string]any{"phase": "Running", "podIP": "10.0.0.7"}
	spec := pod["spec"].(map[string]any)
	missing := func(object map[string]any, key string, value any) {
		if object[key] == nil {
			object[key] = value
		}
	}
	missing(spec, "nodeName", "n1")
	missing(spec, "dnsPolicy", "ClusterFirst")
	missing(spec, "restartPolicy", "Always")
	missing(spec, "serviceAccountName", "default")
	missing(spec, "terminationGracePeriodSeconds", json.Number("30"))
	missing(spec, "securityContext", map[string]any{})
	volumes, _ := spec["volumes"].([]any)
	const token = "kube-api-access-x7x2z"
	spec["volumes"] = append(volumes, map[string]any{"name": token, "projected": map[string]any{"defaultMode": json.Number("420"), "sources": []any{}}})
	for _, list := range []string{"containers", "initContainers"} {
		entries, _ := spec[list].([]any)
		for _, entry := range entries {
			c := entry.(map[string]any)
			missing(c, "imagePullPolicy", "Always")
			missing(c, "terminationMessagePath", "/dev/termination-log")
			missing(c, "terminationMessagePolicy", "File")
			missing(c, "resources", map[string]any{})
			mounts, _ := c["volumeMounts"].([]any)
			if !slices.ContainsFunc(mounts, func(m any) bool {
				return m.(map[string]any)["mountPath"] == "/var/run/secrets/kubernetes.io/serviceaccount"
			}) {
				c["volumeMounts"] = append(mounts, map[string]any{"name": token, "readOnly": true, "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"})
			}
		}
	}
	return encode(tb, pod)
}

// TestAdoptProperties holds what each pod of the corpus is adopted with to what has to hold
// for every pod: whoever would be injected is adopted, or there is a reason.
func TestAdoptProperties(t *testing.T) {
	made := 0
	for name, raw := range corpus(t) {
		for variant, annotations := range propertyVariants {
			in := adoptInput(annotated(t, raw, annotations))
			n, err := adoptsRightly(t, in, Decide(in))
			if err != nil {
				t.Errorf("%s/%s: %v", name, variant, err)
			}
			made += n
		}
	}
	if made < 500 {
		t.Errorf("only %d containers were made: this proves nothing", made)
	}
}

// TestAdoptRandomPods holds random pods to the same. A failure prints the seed that gives
// its pod again.
func TestAdoptRandomPods(t *testing.T) {
	made, base := 0, uint64(time.Now().UnixNano())
	seen := map[string]bool{}
	for i := range 600 {
		seed := base + uint64(i)
		g := generator{rand.New(rand.NewPCG(seed, 1))}
		in := adoptInput(encode(t, g.pod()))
		n, err := adoptsRightly(t, in, Decide(in))
		if err != nil && !seen[err.Error()] {
			seen[err.Error()] = true
			t.Errorf("seed %d: %v\npod: %s", seed, err, in.Pod)
		}
		made += n
	}
	if made < 30 {
		t.Errorf("only %d containers were made: this proves nothing", made)
	}
}

// adoptsRightly checks an adoption of a pod on which Decide has decided, and what follows
// it, and tells how many containers the first has made.
func adoptsRightly(tb testing.TB, in Input, decided Outcome) (int, error) {
	tb.Helper()
	out, first := Adopt(in, firstAdoption)
	if decided.Verdict != workload.Inject {
		if out.Verdict != decided.Verdict || out.Reason != decided.Reason || first != nil {
			return 0, fmt.Errorf("%s (%s), and to be injected it would be %s (%s)", out.Verdict, out.Reason, decided.Verdict, decided.Reason)
		}
		return 0, nil
	}
	if out.Verdict != workload.Inject {
		if out.Patch != nil || first != nil || out.Message == "" || out.Verdict != workload.Skip || !slices.Contains(
			[]workload.Reason{workload.ReasonNoData, workload.ReasonSubPath, workload.ReasonNameConflict, workload.ReasonPortConflict}, out.Reason) {
			return 0, fmt.Errorf("%s (%s) %q with %d containers", out.Verdict, out.Reason, out.Message, len(first))
		}
		return 0, nil
	}
	var pod corev1.Pod
	if err := yaml.Unmarshal(in.Pod, &pod); err != nil {
		return 0, err
	}
	if err := ephemeralHolds(&pod, first); err != nil {
		return 0, err
	}
	byRole, err := rolesOf(first, 1)
	if err != nil {
		return 0, err
	}
	if byRole[patches.RoleAgent] == nil || out.Workload.Kind == workload.KindCassandra && byRole[patches.RoleMedusa] == nil {
		return 0, fmt.Errorf("only %v", slices.Collect(maps.Keys(byRole)))
	}
	if _, same := Adopt(in, firstAdoption); !reflect.DeepEqual(first, same) {
		return 0, fmt.Errorf("twice made, two results")
	}
	return len(first), adoptsAgain(tb, in, &pod, first)
}

// adoptsAgain checks the round that follows: the same under other names, also for who has
// not seen the first.
func adoptsAgain(tb testing.TB, in Input, pod *corev1.Pod, first []corev1.EphemeralContainer) error {
	tb.Helper()
	tree := mustTree(tb, in.Pod)
	tree["spec"].(map[string]any)["ephemeralContainers"] = first
	in.Pod = encode(tb, tree)
	pod.Spec.EphemeralContainers = first
	for _, next := range []int{0, len(first) + 1, 40} {
		later := firstAdoption
		later.Next, later.At, later.Pair, later.Renew = next, later.At.Add(time.Hour), "other", "now"
		_, second := Adopt(in, later)
		if len(second) != len(first) {
			return fmt.Errorf("next %d: %d containers, and %d before", next, len(second), len(first))
		}
		if err := ephemeralHolds(pod, second); err != nil {
			return fmt.Errorf("next %d: %w", next, err)
		}
		if _, err := rolesOf(second, max(next, len(first)+1)); err != nil {
			return fmt.Errorf("next %d: %w", next, err)
		}
		for i := range second {
			if !reflect.DeepEqual(timeless(first[i]), timeless(second[i])) {
				return fmt.Errorf("next %d: %s is not as %s", next, second[i].Name, first[i].Name)
			}
			if envOf(&first[i], patches.EnvAdoptedDigest) != envOf(&second[i], patches.EnvAdoptedDigest) {
				return fmt.Errorf("next %d: another digest for the same", next)
			}
		}
	}
	return nil
}

// TestAdoptDigest: of all containers of the corpus, those with one digest are the same but
// for what differs from one round to the next, and the same ones have one digest.
func TestAdoptDigest(t *testing.T) {
	digests, texts := map[string]string{}, map[string]string{}
	for name, raw := range corpus(t) {
		for variant, annotations := range propertyVariants {
			_, containers := Adopt(adoptInput(annotated(t, raw, annotations)), firstAdoption)
			for _, c := range containers {
				digest, text := envOf(&c, patches.EnvAdoptedDigest), string(encode(t, timeless(c)))
				if other, ok := texts[digest]; ok && other != text {
					t.Errorf("%s/%s, %s: digest %s of two containers:\n%s\n%s", name, variant, c.Name, digest, text, other)
				}
				if other, ok := digests[text]; ok && other != digest {
					t.Errorf("%s/%s, %s: digests %s and %s of one", name, variant, c.Name, digest, other)
				}
				texts[digest], digests[text] = text, digest
			}
		}
	}
	if len(texts) < 100 {
		t.Errorf("only %d digests: this proves nothing", len(texts))
	}
}

// FuzzAdopt: whatever a pod's document has, there are containers or a reason.
func FuzzAdopt(f *testing.F) {
	for _, raw := range corpus(f) {
		f.Add([]byte(raw), 1)
	}
	f.Add([]byte(strings.Replace(string(cassandraPod), `"name":"cassandra",`, `"name":"cassandra","securityContext":{"seLinuxOptions":{"level":1}},`, 1)), 3)
	f.Add([]byte(strings.Replace(string(cassandraPod), `"containers"`, `"ephemeralContainers":[null,{"name":"stategraft-agent-99999999999999999999"},{"name":"stategraft-agent--5"}],"containers"`, 1)), -1)
	f.Fuzz(func(t *testing.T, raw []byte, next int) {
		in := adoptInput(raw)
		out, containers := Adopt(in, patches.Adoption{Next: next})
		if (out.Verdict == workload.Inject) != (len(containers) > 0) || len(containers) > len(patches.Roles) || out.Verdict != workload.Inject && !known(out.Reason) {
			t.Errorf("%s (%s) %s, %d containers", out.Verdict, out.Reason, out.Message, len(containers))
		}
		if decided := Decide(in); decided.Verdict != workload.Inject && (decided.Reason != out.Reason || decided.Verdict != out.Verdict) {
			t.Errorf("%s (%s), and to be injected it would be %s (%s)", out.Verdict, out.Reason, decided.Verdict, decided.Reason)
		}
	})
}
