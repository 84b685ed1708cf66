package main

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/patches"
	goldenfile "github.com/stategraft/stategraft/test/golden"
)

// running are the two pods of the ring as they were before Stategraft, on a node.
func running(changes ...func(*corev1.Pod)) []client.Object {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}
	node.Status.NodeInfo = corev1.NodeSystemInfo{KubeletVersion: "v1.37.0", OperatingSystem: "linux"}
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	all := []client.Object{node, medusaConfig("medusa.ini"), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "medusa-bucket-key"}}}
	for _, pod := range twoPods() {
		delete(pod.Labels, api.LabelInjected)
		pod.UID = types.UID("uid-" + pod.Name)
		pod.Spec.NodeName = "n1"
		pod.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
		pod.Spec.Containers = []corev1.Container{{Name: "cassandra", Image: "cassandra:4.1", Ports: []corev1.ContainerPort{{ContainerPort: 9042}},
			VolumeMounts: []corev1.VolumeMount{{Name: "data", MountPath: "/var/lib/cassandra"}}}}
		pod.Status.Phase = corev1.PodRunning
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		for _, change := range changes {
			change(&pod)
		}
		all = append(all, &pod)
	}
	return all
}

// only changes one of the pods.
func only(name string, change func(*corev1.Pod)) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		if pod.Name == name {
			change(pod)
		}
	}
}

// begun is a pod whose adoption has begun, and that nobody asks on any more.
func begun(pod *corev1.Pod) {
	graft(pod)
	delete(pod.Labels, api.LabelInjected)
	pod.Annotations = map[string]string{api.AnnotationAdopt: api.AdoptNever}
}

func annotated(key, value string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Annotations = map[string]string{key: value} }
}

// medusaConfig is the ConfigMap that Medusa reads.
func medusaConfig(key string) client.Object {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "medusa"}, Data: map[string]string{key: ""}}
}

func bySubPath(pod *corev1.Pod) { pod.Spec.Containers[0].VolumeMounts[0].SubPath = "x" }

func withSidecar(pod *corev1.Pod) {
	pod.Labels[api.LabelInjected] = "cassandra"
	pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: patches.ContainerMedusa})
}

// graft gives a pod the containers of a round, which do what they are there for.
func graft(pod *corev1.Pod) {
	renew := pod.Annotations[api.AnnotationAdoptRenew]
	pod.Labels[api.LabelInjected] = "cassandra"
	next := len(pod.Spec.EphemeralContainers) + 1
	for i, role := range []patches.Role{patches.RoleAgent, patches.RoleMedusa} {
		name := fmt.Sprintf("%s-%d", role.Container(), next+i)
		pod.Spec.EphemeralContainers = append(pod.Spec.EphemeralContainers, corev1.EphemeralContainer{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: name,
			Env: []corev1.EnvVar{{Name: patches.EnvAdopted, Value: fmt.Sprint(next + i)}, {Name: patches.EnvAdoptedRenew, Value: renew}}}})
		pod.Status.EphemeralContainerStatuses = append(pod.Status.EphemeralContainerStatuses, corev1.ContainerStatus{Name: name,
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}})
	}
	ended := &pod.Status.EphemeralContainerStatuses[next-1]
	ended.State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}
}

// adopts is a controller that does at once what is asked for.
func adopts(o client.Object) {
	pod, ok := o.(*corev1.Pod)
	if !ok || pod.Annotations[api.AnnotationAdopt] != api.AdoptRunning {
		return
	}
	last := ""
	if n := len(pod.Spec.EphemeralContainers); n > 0 {
		last = pod.Spec.EphemeralContainers[n-1].Env[1].Value
	}
	if len(pod.Spec.EphemeralContainers) == 0 || last != pod.Annotations[api.AnnotationAdoptRenew] {
		graft(pod)
	}
}

func (s *keeping) pods() map[string]*corev1.Pod {
	s.Lock()
	defer s.Unlock()
	all := map[string]*corev1.Pod{}
	for _, o := range s.objects["pods"] {
		if pod, ok := o.(*corev1.Pod); ok {
			all[pod.Name] = pod.DeepCopy()
		}
	}
	return all
}

func fast(t *testing.T) {
	was := adoptEvery
	adoptEvery = 2 * time.Millisecond
	t.Cleanup(func() { adoptEvery = was })
}

// TestAdopt goes through what the command prints, writes and ends with.
func TestAdopt(t *testing.T) {
	fast(t)
	event := &corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "e"}, Reason: "NotAdopted", Message: "quota-exceeded: it exceeds q",
		InvolvedObject: corev1.ObjectReference{Kind: "Pod", UID: "uid-db-1"}, EventTime: metav1.NewMicroTime(time.Now().Add(time.Hour))}
	for _, c := range []struct {
		what, line string
		objects    []client.Object
		react      func(client.Object)
		forbidden  string
		refused    bool   // status 1
		err        string // of status 2
		out, notes string // parts; empty for none at all
		asked      string // the pods that are asked on, and with what
	}{
		{what: "a StatefulSet", line: "sts/db", objects: running(), react: adopts, out: "pod/db-0 is asked to be adopted\npod/db-1 is asked to be adopted\nTIME db-0: adopted: stategraft-agent-1, stategraft-medusa-2\nTIME db-1: adopted: ", asked: "db-0=running db-1=running"},
		{what: "a pod", line: "pod/db-1", objects: running(), react: adopts, out: "db-1: adopted: stategraft-agent-1, stategraft-medusa-2\n", asked: "db-1=running"},
		{what: "by label", line: "-l app=db", objects: running(), react: adopts, out: "db-0: adopted", asked: "db-0=running db-1=running"},
		{what: "not waited for", line: "sts/db --wait=false", objects: running(), out: "pod/db-0 is asked to be adopted\npod/db-1 is asked to be adopted\n", asked: "db-0=running db-1=running"},
		{what: "one has its sidecar", line: "sts/db", objects: running(only("db-0", withSidecar)), react: adopts, out: "pod/db-0 has its sidecar (injected)\npod/db-1 is asked", asked: "db-1=running"},
		{what: "all have theirs", line: "sts/db", objects: running(only("db-0", withSidecar), only("db-1", graft)), out: "pod/db-0 has its sidecar (injected)\npod/db-1 has its sidecar (adopted); --renew has it read its ConfigMap and Secrets anew\n"},
		{what: "one cannot be", line: "sts/db", objects: running(only("db-0", bySubPath)), react: adopts, refused: true, out: "pod/db-1 is asked to be adopted\nTIME db-1: adopted", notes: "pod/db-0 cannot be adopted (sub-path): ", asked: "db-1=running"},
		{what: "none can be", line: "sts/db", objects: running(bySubPath), refused: true, notes: "error: not adopted: db-0, db-1\n"},
		{what: "the controller says no", line: "pod/db-1", objects: append(running(), event), refused: true, out: "TIME db-1: cannot be adopted (quota-exceeded): it exceeds q\n", notes: "error: not adopted: db-1\n", asked: "db-1=running"},
		{what: "nobody acts", line: "sts/db --timeout 5s", objects: running(), out: "TIME db-0: waits for the controller\n", asked: "db-0=running db-1=running",
			err: "2 pods are without sidecar after 5s (db-0: waits for the controller); the controller goes on.\n  to see it:  kubectl stategraft adopt pod/db-0 pod/db-1 -n ns\n  to stop it: kubectl stategraft adopt pod/db-0 pod/db-1 -n ns --never"},
		{what: "nobody acts on one", line: "sts/db --timeout 5s", objects: running(only("db-0", withSidecar)), out: "TIME db-1: waits", asked: "db-1=running", err: "db-1 is without sidecar after 5s"},
		{what: "nobody asks any more", line: "pod/db-0 --dry-run", objects: running(begun), out: "db-0   ask again   stategraft-agent-1, stategraft-medusa-2   its annotation is stategraft.io/adopt=never, so nobody asks", asked: "db-0=never db-1=never"},
		{what: "asked again", line: "pod/db-0 --wait=false -o json", objects: running(begun), out: `"state": "adopting"`, asked: "db-0=running db-1=never"},
		{what: "left out, begun", line: "pod/db-0 --never", objects: running(begun), out: "pod/db-0 is not adopted from now on; it keeps the containers that it has until", asked: "db-0=never db-1=never"},
		{what: "no ConfigMap", line: "sts/db", objects: running(annotated(api.AnnotationMedusaConfig, "mine")), react: adopts, out: "TIME db-1: adopted", notes: "ConfigMap mine of namespace ns is not there: the containers wait for it\n", asked: "db-0=running db-1=running"},
		{what: "no key in it", line: "sts/db --dry-run", objects: append(running(), medusaConfig("other.ini")), out: "db-1   adopt", notes: "ConfigMap medusa of namespace ns has no key medusa.ini: the containers wait for it, unless the configuration of the webhook names another\n"},
		{what: "no Secret", line: "sts/db --dry-run", objects: running(annotated(api.AnnotationStorageSecret, "keys")), out: "db-1   adopt", notes: "Secret keys of namespace ns is not there: the containers wait for it\n"},
		{what: "ConfigMap not known", line: "sts/db --dry-run", objects: running(annotated(api.AnnotationMedusaConfig, "mine")), forbidden: "configmaps", out: "db-1   adopt"},
		{what: "for programs", line: "sts/db -o json", objects: running(only("db-0", bySubPath)), react: adopts, refused: true, out: "{\n    \"namespace\": \"ns\",", notes: "db-1: adopted: ", asked: "db-1=running"},
		{what: "as YAML", line: "pod/db-1 -o yaml", objects: running(), react: adopts, out: "  state: adopted\n", notes: "TIME db-1: adopted: ", asked: "db-1=running"},
		{what: "names", line: "sts/db -o name --wait=false", objects: running(), out: "pod/db-0\npod/db-1\n", asked: "db-0=running db-1=running"},
		{what: "left out", line: "sts/db --never", objects: running(only("db-0", graft)), out: "pod/db-0 is not adopted from now on; it keeps the containers that it has until it is created anew\npod/db-1 is not adopted from now on\n", asked: "db-0=never db-1=never"},
		{what: "left out, dry", line: "sts/db --never --dry-run", objects: running(), out: "pod/db-0 is not adopted (dry run)\n"},
		{what: "left out, for programs", line: "pod/db-0 --never -o json", objects: running(), out: `"state": "never"`, asked: "db-0=never"},
		{what: "new containers", line: "sts/db --renew", objects: running(only("db-0", graft)), react: adopts, refused: true, out: "pod/db-0 is asked for new containers\nTIME db-0: adopted: stategraft-agent-3, stategraft-medusa-4\n", notes: "pod/db-1 cannot be adopted: nothing of it is adopted that could be renewed", asked: "db-0=running+renew"},
		{what: "new containers, no controller", line: "pod/db-0 --renew --timeout 5s", objects: running(graft), out: "TIME db-0: waits for the controller\n", err: "to see it: kubectl describe pod/db-0 -n ns", asked: "db-0=running+renew"},
		{what: "no namespace", line: "pod/db-0 -n hidden", objects: running(), err: `there is no namespace "hidden"`},
		{what: "nodes not known", line: "sts/db --dry-run", objects: running(), forbidden: "nodes", out: "db-0   adopt", notes: "Not looked at here, but by the controller: the nodes"},
		{what: "namespace not known", line: "sts/db", objects: running(), react: adopts, forbidden: "namespaces", out: "db-0: adopted", notes: "You have no right to read namespace ns", asked: "db-0=running db-1=running"},
		{what: "events not known", line: "sts/db", objects: running(), react: adopts, forbidden: "events", out: "db-0: adopted", asked: "db-0=running db-1=running"},
		{what: "the plan", line: "sts/db --dry-run", objects: running(only("db-0", bySubPath)), refused: true, out: "Plan for namespace ns: adopt 1 of 2 pods, which goes on running\n\n  POD    PLAN     CONTAINERS"},
		{what: "the plan, for programs", line: "sts/db --dry-run -o json", objects: running(), out: `"dryRun": true`},
	} {
		t.Run(c.what, func(t *testing.T) {
			if strings.Contains(c.line, "timeout") { // in which nothing happens
				t.Parallel()
			}
			s, kubeconfig := keepingServer(t, c.react, c.objects...)
			s.forbidden = c.forbidden
			args := append([]string{"adopt", "--kubeconfig", kubeconfig}, strings.Fields(c.line)...)
			if !strings.Contains(c.line, "-n ") {
				args = append(args, "-n", "ns")
			}
			out, notes, err := run(nil, args...)
			out, notes = stamps.ReplaceAllString(out, "TIME "), stamps.ReplaceAllString(notes, "TIME ")
			switch {
			case errors.Is(err, errRefused) != c.refused, c.err == "" && !c.refused && err != nil, c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)):
				t.Errorf("%s: error %v, want %q", c.what, err, c.err)
			}
			if !strings.Contains(out, c.out) || c.out == "" && out != "" || !strings.Contains(notes, c.notes) || c.notes == "" && notes != "" {
				t.Errorf("%s:\n%s\n%s", c.what, out, notes)
			}
			if got := askedOn(s); got != c.asked {
				t.Errorf("%s: asked on %s", c.what, got)
			}
		})
	}
}

var stamps = regexp.MustCompile(`(?m)^\d\d:\d\d:\d\d `)

// askedOn are the pods that are asked on, and with what.
func askedOn(s *keeping) string {
	var all []string
	pods := s.pods()
	for _, name := range []string{"db-0", "db-1"} {
		if pods[name] == nil {
			continue
		}
		value, ok := pods[name].Annotations[api.AnnotationAdopt]
		if _, renew := pods[name].Annotations[api.AnnotationAdoptRenew]; renew {
			value += "+renew"
		}
		if ok {
			all = append(all, name+"="+value)
		}
	}
	return strings.Join(all, " ")
}

// A command line that is wrong, or a namespace in which nothing is adopted, ends with
// status 2 before anything is written.
func TestAdoptUsage(t *testing.T) {
	for line, want := range map[string]string{
		"":                           "which pods?",
		"db-0":                       "db-0: it takes pod/NAME or statefulset/NAME",
		"deploy/x":                   "only pods and StatefulSets can be adopted",
		"pod/db-0 -l app=db":         "exclude one another",
		"-l app=none":                "no pod of namespace ns has the labels app=none",
		"-l x=y=z":                   "-l x=y=z",
		"sts/none":                   "there is no statefulset none in namespace ns",
		"pod/none":                   "there is no pod none in namespace ns; there are db-0, db-1",
		"sts/db --never --renew":     "exclude one another",
		"sts/db --dry-run --wait":    "exclude one another",
		"sts/db --never --wait":      "exclude one another",
		"sts/db --timeout 0s":        "--timeout 0s: it takes a duration above zero",
		"sts/db -o wide":             "--output wide: it takes json, yaml, name",
		"pod/x-0 -n plain":           "kubectl label namespace plain stategraft.io/inject=enabled, then ask again. With it pods that are created from then on are injected",
		"pod/x-0 -n plain --dry-run": "kubectl label namespace plain",
		"-l a=b -n gone":             `there is no namespace "gone"`,
		"sts/db --dry-run stray":     "stray: it takes pod/NAME",
		"sts/db --bogus":             "unknown flag",
	} {
		objects := append(running(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "plain"}},
			&corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, ObjectMeta: metav1.ObjectMeta{Namespace: "plain", Name: "x-0"}})
		s, kubeconfig := keepingServer(t, nil, objects...)
		args := append([]string{"adopt"}, append(strings.Fields(line), "--kubeconfig", kubeconfig)...)
		if !strings.Contains(line, "-n ") {
			args = append(args, "-n", "ns")
		}
		out, notes, err := run(nil, args...)
		if err == nil || errors.Is(err, errRefused) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") || out != "" || notes != "" || askedOn(s) != "" {
			t.Errorf("%s: %v, want %q; %q, %q, asked on %s", line, err, want, out, notes, askedOn(s))
		}
	}
}

// Who presses Ctrl-C is told that the controller goes on, and how to see it.
func TestAdoptInterrupted(t *testing.T) {
	fast(t)
	_, kubeconfig := keepingServer(t, nil, running()...)
	ctx, cancel := context.WithCancel(t.Context())
	command := root()
	command.SetArgs([]string{"adopt", "sts/db", "-n", "ns", "--kubeconfig", kubeconfig})
	command.SetOut(writer(func(text string) {
		if strings.Contains(text, "db-1: waits for the controller") {
			cancel()
		}
	}))
	const want = "interrupted; the controller goes on with db-0, db-1.\n  to see it:  kubectl stategraft adopt pod/db-0 pod/db-1 -n ns\n"
	if err := command.ExecuteContext(ctx); !errors.Is(err, errInterrupted) || errors.Is(err, errRefused) || !strings.HasPrefix(err.Error(), want) {
		t.Error(err)
	}
}

// writer is told of what is written.
type writer func(string)

func (w writer) Write(text []byte) (int, error) {
	w(string(text))
	return len(text), nil
}

// TestAdoptHelp keeps what the help says.
func TestAdoptHelp(t *testing.T) {
	out, _, err := run(nil, "adopt", "--help")
	if err != nil {
		t.Fatal(err)
	}
	goldenfile.Compare(t, "testdata/adopt-help.txt", []byte(out))
}

// What can be adopted is completed: no pod that has its sidecar.
func TestAdoptCompletes(t *testing.T) {
	web := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web", OwnerReferences: []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "r", Controller: new(true)}}}}
	_, kubeconfig := keepingServer(t, nil, append(running(only("db-0", withSidecar)), web)...)
	for line, want := range map[string]string{"adopt pod/": "pod/db-1\n:4\n", "backup --adopt pod/": "pod/db-1\n:4\n", "backup pod/": "pod/db-0\n:4\n", "adopt -o=": "json\nyaml\nname\n:4\n"} {
		words := strings.Fields(line)
		args := append([]string{"__complete", words[0], "-n", "ns", "--kubeconfig", kubeconfig}, words[1:]...)
		if out, _, err := run(nil, args...); err != nil || out != want {
			t.Errorf("%s: %q, %v", line, out, err)
		}
	}
}
