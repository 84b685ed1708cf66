// Package adoptedtest has pods that were adopted, for the tests of those who are to treat
// them like injected ones.
package adoptedtest

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	jsonpatch "github.com/evanphx/json-patch/v5"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/patches"
	"github.com/stategraft/stategraft/webhook"
	"github.com/stategraft/stategraft/workload"
)

// Pair is one pod twice, each time with all that it was given, which runs.
type Pair struct {
	Plain    *corev1.Pod // as it is without us
	Injected *corev1.Pod // as admission makes it
	Adopted  *corev1.Pod // as it is once adoption is through
	Workload workload.Workload
}

// At is when the adopted ones were.
var At = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// variants are annotations of the pods of the corpus, by a word for it; one without
// annotations changes the pod itself.
var variants = map[string]map[string]string{
	"":              nil,
	" secrets":      {api.AnnotationCQLSecret: "cql", api.AnnotationJMXSecret: "jmx", api.AnnotationStorageSecret: "bucket", api.AnnotationMedusaConfig: "backups"},
	" identity":     {api.AnnotationStorageSecret: "none"},
	" port":         {api.AnnotationGRPCPort: "50999"},
	" config":       {api.AnnotationConfigMap: "conf"},
	" host-network": nil,
}

// Corpus are the pods of the corpus that can be adopted, by file and variant. repo is the
// way to the repository's root.
func Corpus(tb testing.TB, repo string) map[string]Pair {
	tb.Helper()
	files, err := filepath.Glob(filepath.Join(repo, "test/corpus/pods/*.yaml"))
	if err != nil || len(files) == 0 {
		tb.Fatalf("no pods in the corpus (%v)", err)
	}
	pairs := map[string]Pair{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			tb.Fatal(err)
		}
		for word, annotations := range variants {
			pod := &corev1.Pod{}
			if err := yaml.Unmarshal(text, pod); err != nil {
				tb.Fatalf("%s: %v", file, err)
			}
			if pod.Annotations == nil {
				pod.Annotations = map[string]string{}
			}
			maps.Copy(pod.Annotations, annotations)
			pod.Spec.HostNetwork = pod.Spec.HostNetwork || word == " host-network"
			if p, ok := Make(tb, pod); ok {
				pairs[strings.TrimSuffix(filepath.Base(file), ".yaml")+word] = p
			}
		}
	}
	if len(pairs) < 60 {
		tb.Fatalf("only %d pods can be adopted", len(pairs))
	}
	return pairs
}

// Make gives a pod both ways; ok is false for one that is not adopted.
func Make(tb testing.TB, pod *corev1.Pod) (p Pair, ok bool) {
	tb.Helper()
	raw, err := json.Marshal(pod)
	if err != nil {
		tb.Fatal(err)
	}
	in := webhook.Input{Pod: raw, Config: webhook.DefaultConfig(), NativeSidecars: true,
		Namespace: webhook.Namespace{Name: "cassandra", Labels: map[string]string{api.LabelInject: api.InjectEnabled}}}
	out, containers := webhook.Adopt(in, patches.Adoption{Next: 1, At: At, Pair: "pair"})
	if out.Verdict != workload.Inject || len(containers) == 0 {
		return p, false
	}
	p = Pair{Plain: pod, Workload: out.Workload, Injected: grafted(tb, raw, webhook.Decide(in)), Adopted: pod.DeepCopy()}
	p.Adopted.Spec.EphemeralContainers = containers
	if p.Adopted.Labels == nil {
		p.Adopted.Labels = map[string]string{}
	}
	p.Adopted.Labels[api.LabelInjected] = string(out.Workload.Kind)
	for _, pod := range []*corev1.Pod{p.Injected, p.Adopted} {
		pod.Status = corev1.PodStatus{Phase: corev1.PodRunning, PodIP: "10.0.0.7", Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}}
		pod.Status.ContainerStatuses = running(pod.Spec.Containers)
		pod.Status.InitContainerStatuses = running(pod.Spec.InitContainers)
	}
	for i := range containers {
		s := Running(containers[i].Name)
		if out.Workload.Kind == workload.KindCassandra && strings.HasPrefix(containers[i].Name, patches.ContainerAgent) {
			s = Ended(containers[i].Name, 0)
		}
		p.Adopted.Status.EphemeralContainerStatuses = append(p.Adopted.Status.EphemeralContainerStatuses, s)
	}
	return p, true
}

// ourPorts are numbers from the ranges that ports of ours are looked for in.
var ourPorts = regexp.MustCompile(`\b(50[01]\d\d|9[12]\d\d)\b`)

// Text is what is said of one of the two pods, to be compared with what is said of the other:
// without ports of ours on the node's network, which are others on purpose.
func (p Pair) Text(text string) string {
	if p.Plain.Spec.HostNetwork {
		return ourPorts.ReplaceAllString(text, "PORT")
	}
	return text
}

// Official is a pod of a StatefulSet with Cassandra's official image.
func Official(tb testing.TB, repo string) Pair {
	tb.Helper()
	return named(tb, repo, "plain-official-41")
}

// Anna is a node of Anna's memory tier.
func Anna(tb testing.TB, repo string) Pair {
	tb.Helper()
	return named(tb, repo, "anna-memory")
}

func named(tb testing.TB, repo, name string) Pair {
	tb.Helper()
	text, err := os.ReadFile(filepath.Join(repo, "test/corpus/pods", name+".yaml"))
	if err != nil {
		tb.Fatal(err)
	}
	pod := &corev1.Pod{}
	if err := yaml.Unmarshal(text, pod); err != nil {
		tb.Fatalf("%s: %v", name, err)
	}
	pair, ok := Make(tb, pod)
	if !ok {
		tb.Fatalf("%s is not adopted", name)
	}
	return pair
}

// Running is the status of a container that runs.
func Running(name string) corev1.ContainerStatus {
	return corev1.ContainerStatus{Name: name, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(At)}}}
}

// Waiting is that of one that waits.
func Waiting(name, reason, message string) corev1.ContainerStatus {
	return corev1.ContainerStatus{Name: name, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}}
}

// Ended is that of one that has ended.
func Ended(name string, code int32) corev1.ContainerStatus {
	return corev1.ContainerStatus{Name: name, State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code,
		StartedAt: metav1.NewTime(At), FinishedAt: metav1.NewTime(At.Add(time.Minute))}}}
}

func running(containers []corev1.Container) (statuses []corev1.ContainerStatus) {
	for i := range containers {
		statuses = append(statuses, Running(containers[i].Name))
	}
	return statuses
}

// grafted is the pod that admission makes.
func grafted(tb testing.TB, raw []byte, out webhook.Outcome) *corev1.Pod {
	tb.Helper()
	if out.Verdict != workload.Inject {
		tb.Fatalf("adopted, and not injected: %s %s", out.Reason, out.Message)
	}
	text, err := json.Marshal(out.Patch.Operations)
	if err != nil {
		tb.Fatal(err)
	}
	patch, err := jsonpatch.DecodePatch(text)
	if err != nil {
		tb.Fatal(err)
	}
	if raw, err = patch.Apply(raw); err != nil {
		tb.Fatal(err)
	}
	pod := &corev1.Pod{}
	if err := json.Unmarshal(raw, pod); err != nil {
		tb.Fatal(err)
	}
	return pod
}
