package controlplane

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/stategraft/stategraft/test/controlplane/compare"
	"github.com/stategraft/stategraft/webhook/offline"
	"github.com/stategraft/stategraft/workload"
)

// TestCorpus creates every pod of the corpus twice: in a labelled namespace and in
// one without the label. What the webhook adds is in the first, and all of the
// second is in it too. The command line, given the file, says the same.
func TestCorpus(t *testing.T) {
	ctx, rig := start(t)
	const in, plainIn = "corpus", "corpus-plain"
	namespace(ctx, t, in, labelled(), nil)
	namespace(ctx, t, plainIn, nil, nil)
	for _, row := range rows(t) {
		t.Run(row.name, func(t *testing.T) {
			pod := readPod(t, row.path)
			plain, _ := mustCreate(ctx, t, plainIn, pod)
			before := len(rig.Webhook.Decisions(in))
			got, _ := mustCreate(ctx, t, in, pod)

			said := explain(ctx, t, row.path)
			if string(said.Decision) != row.decision || string(said.Reason) != row.reason {
				t.Errorf("explain says %s %s, the truth is %s %s", said.Decision, said.Reason, row.decision, row.reason)
			}
			decided := rig.Webhook.Decisions(in)[before:]
			if row.reason == string(workload.ReasonMirrorPod) {
				// The API server does not even ask.
				if len(decided) > 0 {
					t.Errorf("the webhook was called for a mirror pod: %+v", decided)
				}
			} else if len(decided) == 0 {
				t.Error("the webhook was not called")
			} else if d := decided[0]; d.Decision != row.decision || d.Reason != row.reason || d.Kind != row.kind || d.Message != said.Message {
				t.Errorf("the webhook decided %s %s (%s): %s\nexplain says %s %s (%s): %s", d.Decision, d.Reason, d.Kind, d.Message,
					said.Decision, said.Reason, said.Workload.Kind, said.Message)
			}

			mine := addedTo(typed(t, got))
			want := added{said.Adds.InitContainers, said.Adds.Containers, said.Adds.Volumes}
			if !mine.equal(want) {
				t.Errorf("added %+v, explain says %+v", mine, want)
			}
			if injected := row.decision == "inject"; injected == mine.none() {
				t.Errorf("added %+v, and the truth is %s", mine, row.decision)
			}
			if pod.GetName() == "" { // the API server makes one up, each time another
				plain.SetName("")
				got.SetName("")
			}
			onlyOurs(t, row.kind, normal(t, plain), normal(t, got))
			samePositions(t, typed(t, got), patched(ctx, t, pod, row.path))
		})
	}
}

// mayGain are the places at which an injected pod may have more than the plain
// one, where the lists and maps that are new as a whole hold only ours.
var mayGain = regexp.MustCompile(`^\.spec\.(initContainers|containers|volumes)(\[stategraft-[a-z-]+\])?$|` +
	`^\.metadata\.(annotations|labels)(\.stategraft\.io/injected)?$|^\.status\.qosClass$`)

// annaGains are those of a pod of Anna besides: the hook by which a node hands its keys
// over, and what keeps the tiers apart on their nodes' network.
var annaGains = regexp.MustCompile(`^\.spec\.containers\[[a-z-]+\]\.lifecycle(\.preStop)?$|^\.spec\.affinity(\.podAntiAffinity)?$`)

// onlyOurs checks that the injected pod is the plain one with ours added.
func onlyOurs(t *testing.T, kind string, plain, got map[string]any) {
	t.Helper()
	for _, path := range compare.Lost(plain, got) {
		if path == ".status.qosClass" && qos(plain) == "BestEffort" && qos(got) == "Burstable" {
			continue // ours have requests
		}
		t.Errorf("lost or changed by the injection: %s", path)
	}
	for _, path := range compare.Gained(plain, got) {
		if !mayGain.MatchString(path) && (kind != string(workload.KindAnna) || !annaGains.MatchString(path)) {
			t.Errorf("more than a sidecar was added: %s", path)
		}
	}
}

func qos(pod map[string]any) string {
	text, _, _ := unstructured.NestedString(pod, "status", "qosClass")
	return text
}

var accessVolume = regexp.MustCompile(`kube-api-access-[a-z0-9]{5}`)

// normal is the pod without what differs between any two: names of the token's
// volume, identity, times, bookkeeping.
func normal(t *testing.T, pod *unstructured.Unstructured) map[string]any {
	t.Helper()
	raw, err := json.Marshal(pod)
	if err != nil {
		t.Fatal(err)
	}
	var out map[string]any
	if err := json.Unmarshal(accessVolume.ReplaceAll(raw, []byte("kube-api-access")), &out); err != nil {
		t.Fatal(err)
	}
	for _, field := range []string{"uid", "namespace", "resourceVersion", "creationTimestamp", "managedFields"} {
		unstructured.RemoveNestedField(out, "metadata", field)
	}
	return out
}

// command runs the built command line; status 1 says that a pod was refused.
func command(ctx context.Context, t *testing.T, args ...string) []byte {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, shared.Program("kubectl-stategraft"), args...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && (!errors.As(err, &exit) || exit.ExitCode() != 1) {
		t.Fatalf("kubectl-stategraft %s: %v: %s", strings.Join(args, " "), err, stderr.String())
	}
	return stdout.Bytes()
}

func explain(ctx context.Context, t *testing.T, path string) offline.Explanation {
	t.Helper()
	var said offline.Explanation
	if err := json.Unmarshal(command(ctx, t, "explain", "-o", "json", "-f", path), &said); err != nil {
		t.Fatal(err)
	}
	return said
}

// patched is the pod of the file with the command line's patch applied.
func patched(ctx context.Context, t *testing.T, pod *unstructured.Unstructured, path string) *corev1.Pod {
	t.Helper()
	patch, err := jsonpatch.DecodePatch(command(ctx, t, "inject", "-o", "patch", "-f", path))
	if err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(pod)
	if err == nil {
		raw, err = patch.Apply(raw)
	}
	if err != nil {
		t.Fatal(err)
	}
	out := &unstructured.Unstructured{}
	if err := out.UnmarshalJSON(raw); err != nil {
		t.Fatal(err)
	}
	return typed(t, out)
}

// samePositions checks that containers and volumes are the same, in the same
// order, but for the token's volume, which the API server adds by itself.
func samePositions(t *testing.T, got, want *corev1.Pod) {
	t.Helper()
	list := func(pod *corev1.Pod) string {
		var names []string
		for _, c := range pod.Spec.InitContainers {
			names = append(names, "init "+c.Name)
		}
		for _, c := range pod.Spec.Containers {
			names = append(names, "container "+c.Name)
		}
		for _, v := range pod.Spec.Volumes {
			if !strings.HasPrefix(v.Name, "kube-api-access-") {
				names = append(names, "volume "+v.Name)
			}
		}
		return strings.Join(names, "\n")
	}
	if list(got) != list(want) {
		t.Errorf("admission made\n%s\n\nthe command line makes\n%s", list(got), list(want))
	}
}
