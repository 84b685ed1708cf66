package adopt

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/adopt"
	"github.com/stategraft/stategraft/test/adopt/simulated"
	"github.com/stategraft/stategraft/workload"
)

// left is a workload of one pod that is not adopted.
type left struct {
	name   string
	shapes []Shape
	node   simulated.Node // of its own; one of the others where it has no name
	reason adopt.Reason
	event  bool // its owner is told
	passes bool // once its node, or the pod, is well again it is adopted
}

var lefts = []left{
	{name: "opted-out", shapes: []Shape{OptedOut}, reason: adopt.Reason(workload.ReasonOptedOut)},
	{name: "never", shapes: []Shape{Never}, reason: adopt.ReasonNotAsked},
	{name: "sub-path", shapes: []Shape{SubPath}, reason: adopt.Reason(workload.ReasonSubPath), event: true},
	{name: "backed-up", shapes: []Shape{BackedUp}, reason: adopt.Reason(workload.ReasonAlreadyHasBackup)},
	{name: "nginx", shapes: []Shape{Nginx}, reason: adopt.Reason(workload.ReasonNotADatabase)},
	{name: "routing", shapes: []Shape{Anna("r")}, reason: adopt.Reason(workload.ReasonNoData)},
	{name: "windows", node: simulated.Node{Name: "node-windows", OS: "windows"}, reason: adopt.ReasonWindows, event: true},
	{name: "old", node: simulated.Node{Name: "node-old", Kubelet: "v1.24.17"}, reason: adopt.ReasonOldKubelet, event: true},
	{name: "pressed", node: simulated.Node{Name: "node-pressed", Has: corev1.NodeMemoryPressure}, reason: adopt.ReasonNodePressure, event: true, passes: true},
	{name: "unready", reason: adopt.ReasonNotReady, passes: true},
}

// Pods that cannot be adopted are given nothing, and the reason of each is told: by the
// command line, and where the owner would want to know by an event and the metric. What
// passes is waited for, and then they are adopted.
func TestReasons(t *testing.T) {
	t.Parallel()
	ctx, e := start(t, 20*time.Minute)
	const namespace = "reasons"
	var well atomic.Bool
	on := map[string]string{}
	var sets []*appsv1.StatefulSet
	for _, l := range lefts {
		sets = append(sets, Cassandra(l.name, 1, l.shapes...))
		if l.node.Name == "" {
			continue
		}
		on[l.name+"-0"] = l.node.Name
		if err := e.Kubelet.AddNode(ctx, l.node); err != nil {
			t.Fatal(err)
		}
	}
	sets = append(sets, Cassandra("well", 1), Cassandra("managed", 1, Managed), Cassandra("memory", 1, Anna("memory")))
	why := func(pod *corev1.Pod) string {
		for _, l := range lefts {
			if pod.Name == l.name+"-0" && (!l.passes || !well.Load()) {
				return string(l.reason)
			}
		}
		return ""
	}
	w, stop, err := e.Witness(ctx, namespace, usual(), nil, why)
	if err != nil {
		t.Fatal(err)
	}
	var town *Town
	defer func() { look(ctx, t, w, stop, compact(town)...) }()
	town, err = e.Settle(ctx, namespace, simulated.Played{
		Node: func(pod *corev1.Pod) string {
			if name := on[pod.Name]; name != "" {
				return name
			}
			return spread(pod)
		},
		Ready: func(pod *corev1.Pod) bool { return pod.Name != "unready-0" || well.Load() },
	}, sets...)
	if err != nil {
		t.Fatal(err)
	}
	if err := town.Label(ctx, api.AdoptRunning); err != nil {
		t.Fatal(err)
	}
	// Once those are adopted that can be, the others have been looked at.
	if err := town.adopted(ctx, "well-0", "managed-0", "memory-0"); err != nil {
		t.Fatal(err)
	}
	told, err := town.reasons(ctx, e)
	if err != nil {
		t.Error(err)
	}
	metrics, err := town.wanted(ctx)
	if err != nil {
		t.Error(err)
	}
	pause(ctx, lull())
	if got := w.Of(namespace); got.Rounds != 3 {
		t.Errorf("%d rounds in all, want those of the 3 that can be adopted", got.Rounds)
	}
	well.Store(true)
	if err := e.Kubelet.Change(ctx, simulated.Node{Name: "node-pressed"}); err != nil {
		t.Fatal(err)
	}
	recovered := []string{"unready-0"}
	if full() {
		recovered = append(recovered, "pressed-0") // nodes are read twice a minute
	}
	if err := town.adopted(ctx, recovered...); err != nil {
		t.Fatal(err)
	}
	figure(t, "%d kinds of pods given nothing, the reason told of %d by the command line, of %d by an event, of %d by the metric; %d adopted once their trouble was over",
		len(lefts), told, town.told(), metrics, len(recovered))
}

// adopted waits for pods to be adopted.
func (t *Town) adopted(ctx context.Context, names ...string) error {
	return await(ctx, 4*time.Minute, "pods to be adopted", func(ctx context.Context) (bool, error) {
		for _, name := range names {
			pod, err := t.Pod(ctx, name)
			if err != nil {
				return false, err
			}
			if pod.Labels[api.LabelInjected] == "" {
				return false, fmt.Errorf("pod %s is not: it has %d ephemeral containers", name, len(pod.Spec.EphemeralContainers))
			}
		}
		return true, nil
	})
}

// reasons asks the command line about each pod that is not adopted.
func (t *Town) reasons(ctx context.Context, e *Env) (told int, err error) {
	file := e.Program("administrator.kubeconfig")
	if err := clientcmd.WriteToFile(*administrator(e), file); err != nil {
		return 0, fmt.Errorf("writing a kubeconfig: %w", err)
	}
	var wrong []string
	for _, l := range lefts {
		cmd := exec.CommandContext(ctx, e.Program("kubectl-stategraft"), "adopt", "pod/"+l.name+"-0", "-n", t.Namespace, "--dry-run", "--kubeconfig", file)
		out, _ := cmd.CombinedOutput() // the status is that of what cannot be adopted
		want := string(l.reason)
		if l.reason == adopt.ReasonNotAsked { // who names the pod asks, over what it says
			want = api.AnnotationAdopt + "=" + api.AdoptNever
		}
		if !strings.Contains(string(out), want) {
			wrong = append(wrong, fmt.Sprintf("of %s, want %s: %s", l.name, want, out))
			continue
		}
		told++
	}
	if len(wrong) > 0 {
		return told, fmt.Errorf("the command line does not tell the reason %s", strings.Join(wrong, "\n"))
	}
	return told, nil
}

func administrator(e *Env) *clientcmdapi.Config {
	from := e.Config()
	config := clientcmdapi.NewConfig()
	config.Clusters["rig"] = &clientcmdapi.Cluster{Server: from.Host, CertificateAuthorityData: from.CAData}
	config.AuthInfos["rig"] = &clientcmdapi.AuthInfo{ClientCertificateData: from.CertData, ClientKeyData: from.KeyData}
	config.Contexts["rig"] = &clientcmdapi.Context{Cluster: "rig", AuthInfo: "rig"}
	config.CurrentContext = "rig"
	return config
}

// told is how many kinds of pods have an event that tells the reason.
func (t *Town) told() (n int) {
	for _, l := range lefts {
		if l.event {
			n++
		}
	}
	return n
}

// wanted waits until the events and the metric tell what is to be told.
func (t *Town) wanted(ctx context.Context) (series int, err error) {
	err = await(ctx, 3*time.Minute, "the reasons to be told", func(ctx context.Context) (bool, error) {
		refused, err := t.Series(ctx, "stategraft_adoption_refused_pods")
		if err != nil {
			return false, err
		}
		series = 0
		for _, l := range lefts {
			if refused[string(l.reason)] > 0 {
				series++
			}
			if !l.event {
				continue
			}
			if refused[string(l.reason)] == 0 {
				return false, fmt.Errorf("the metric does not count %s: %v", l.reason, refused)
			}
			told, err := t.Told(ctx, l.name+"-0")
			if err != nil {
				return false, err
			}
			if !strings.Contains(told["NotAdopted"], string(l.reason)) {
				return false, fmt.Errorf("of pod %s-0 the events tell %v, want NotAdopted with %s", l.name, told, l.reason)
			}
		}
		return true, nil
	})
	return series, err
}

// Where nobody asks, nothing is added; a pod that asks for itself is adopted where the
// namespace allows injection, and nowhere else.
func TestNotAsked(t *testing.T) {
	t.Parallel()
	ctx, e := start(t, 15*time.Minute)
	const prefix = "asked-"
	w, stop, err := e.Witness(ctx, prefix, usual(), nil, func(pod *corev1.Pod) string {
		if pod.Namespace != prefix+"labelled" {
			return "the namespace is not labelled"
		}
		if pod.Name != "asks-0" {
			return "nobody asked"
		}
		return ""
	})
	if err != nil {
		t.Fatal(err)
	}
	var towns []*Town
	defer func() { look(ctx, t, w, stop, towns...) }()
	for _, name := range []string{"labelled", "bare"} {
		town, err := e.Settle(ctx, prefix+name, simulated.Played{Node: spread}, Cassandra("asks", 1, Asks), Cassandra("silent", 1))
		if err != nil {
			t.Fatal(err)
		}
		towns = append(towns, town)
	}
	// The one is labelled and asks for nothing; the other asks, and is not labelled.
	bare, err := e.Client.CoreV1().Namespaces().Get(ctx, prefix+"bare", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	bare.Annotations = map[string]string{api.AnnotationAdopt: api.AdoptRunning}
	if _, err := e.Client.CoreV1().Namespaces().Update(ctx, bare, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := towns[0].Label(ctx, ""); err != nil {
		t.Fatal(err)
	}
	if err := towns[0].adopted(ctx, "asks-0"); err != nil {
		t.Fatal(err)
	}
	pause(ctx, lull())
	if got := w.Of(""); got.Rounds != 1 {
		t.Errorf("%d rounds, want that of the pod that asks", got.Rounds)
	}
	figure(t, "of 4 pods the one is adopted that asks in a labelled namespace")
}
