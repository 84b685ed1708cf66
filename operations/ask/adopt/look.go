package adopt

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/adopt"
	"github.com/stategraft/stategraft/operations/adopted"
	"github.com/stategraft/stategraft/operations/ask"
	"github.com/stategraft/stategraft/patches"
	"github.com/stategraft/stategraft/webhook"
	"github.com/stategraft/stategraft/workload"
)

// State is how a pod stands to adoption.
type State string

// The states.
const (
	StateInjected State = "injected" // created with its sidecar: there is nothing to adopt
	StateAdopted  State = "adopted"  // its parts are up
	StateAdopting State = "adopting" // it has parts, and not all are up
	StatePossible State = "possible" // it can be given its parts now
	StateLater    State = "later"    // not before what the reason names is over, which goes by itself
	StateCannot   State = "cannot"   // not before somebody settles what the reason names
	StateNeedless State = "needless" // it keeps no data, so there is nothing to back up
	StateOptedOut State = "never"    // it is not to be
)

// Pod is what is known of one.
type Pod struct {
	Name       string   `json:"name"`
	State      State    `json:"state"`
	Containers []string `json:"containers,omitempty"` // the last of each role, or those that would be added
	Reason     string   `json:"reason,omitempty"`     // in a word: one of adopt.Reasons
	Message    string   `json:"message,omitempty"`
}

// Has tells whether the pod has its sidecar, however it came by it.
func (p *Pod) Has() bool { return p.State == StateInjected || p.State == StateAdopted }

// Over tells whether nothing is to be waited for.
func (p *Pod) Over() bool { return p.Has() || p.State == StateCannot || p.State == StateNeedless }

// To tells whether the pod is one to ask on: it has no sidecar, and could get one.
func (p *Pod) To() bool {
	return p.State == StatePossible || p.State == StateLater || p.State == StateAdopting || p.State == StateOptedOut
}

// Looker looks at pods as the controller does.
type Looker struct {
	Client    client.Reader // for the nodes; nil where no cluster is to be asked
	Config    *webhook.Config
	Namespace webhook.Namespace
	Now       func() time.Time

	nodes   map[string]*corev1.Node
	unknown error           // why nodes are not known
	lookups map[string]bool // what containers read that was looked for
	absent  []string        // what of it is not there, a sentence each
}

// NewLooker makes one. Config is that of the webhook, as far as it is known.
func NewLooker(c client.Reader, config *webhook.Config, ns *corev1.Namespace, now func() time.Time) *Looker {
	return &Looker{Client: c, Config: config, Now: now, Namespace: webhook.Namespace{Name: ns.Name, Labels: ns.Labels, Annotations: ns.Annotations}}
}

// Look says how pods stand. With a value of api.AnnotationAdoptRenew it says so of new
// containers in place of those that they have.
func (l *Looker) Look(ctx context.Context, pods []corev1.Pod, renew string) []Pod {
	var out []Pod
	for i := range pods {
		if renew != "" {
			out = append(out, l.renewed(ctx, &pods[i], renew))
		} else {
			p := l.one(ctx, &pods[i])
			p.leave(&pods[i])
			out = append(out, p)
		}
	}
	return out
}

// leave tells of a pod whose adoption has begun, and that is not to be adopted by its own
// annotation, that nobody goes on with it.
func (p *Pod) leave(pod *corev1.Pod) {
	value, says := pod.Annotations[api.AnnotationAdopt]
	if says && value != api.AdoptRunning && len(p.Containers) > 0 && p.State == StateAdopting {
		p.State, p.Message = StateOptedOut, fmt.Sprintf("its annotation is %s=%s, so nobody asks for its adoption any more; what was added to it stays until it is created anew", api.AnnotationAdopt, ask.Clean(value))
	}
}

// Notes are what could not be looked at, and what containers wait for, a sentence each.
func (l *Looker) Notes() []string {
	notes := slices.Clone(l.absent)
	if l.unknown == nil {
		return notes
	}
	return append(notes, fmt.Sprintf("Not looked at here, but by the controller: the nodes, whether their kubelets are new enough and they have room (%s).", ask.Clean(l.unknown.Error())))
}

// one is about a first adoption.
func (l *Looker) one(ctx context.Context, pod *corev1.Pod) Pod {
	p := Pod{Name: pod.Name}
	parts := adopted.Parts(pod)
	switch {
	case Injected(pod):
		p.State, p.Message = StateInjected, "it was created with its sidecar"
		return p
	case Adopted(pod, ""):
		p.State, p.Containers, p.Message = StateAdopted, newest(parts), "it has its sidecar by adoption"
		return p
	case len(parts) > 0 && pod.DeletionTimestamp.IsZero():
		p.State, p.Containers, p.Message = StateAdopting, newest(parts), doing(parts)
		facts := adopt.Of(pod)
		facts.Asked, facts.Now = true, l.Now()
		if stuck := adopt.Stuck(facts); stuck != "" {
			p.Message = stuck
		}
		if step := adopt.Plan(facts); step.Reason == adopt.ReasonExhausted {
			p.stop(step.Reason, step.Text)
		}
		return p
	}
	l.judge(ctx, pod, &p, patches.Adoption{Next: adopt.Of(pod).Taken + 1, At: l.Now()})
	return p
}

// renewed is about new containers of a pod that has some.
func (l *Looker) renewed(ctx context.Context, pod *corev1.Pod, renew string) Pod {
	p := Pod{Name: pod.Name}
	parts := adopted.Parts(pod)
	switch {
	case Injected(pod):
		p.State, p.Message = StateCannot, "it was created with its sidecar, which is renewed when the pod is created anew"
	case len(parts) == 0:
		p.State, p.Message = StateCannot, "nothing of it is adopted that could be renewed: ask without --renew"
	default:
		l.judge(ctx, pod, &p, patches.Adoption{Next: adopt.Of(pod).Taken + 1, At: l.Now(), Renew: renew})
	}
	return p
}

// judge makes the controller's decision on a pod as it would be asked on.
func (l *Looker) judge(ctx context.Context, pod *corev1.Pod, p *Pod, a patches.Adoption) {
	asked := pod.DeepCopy()
	if asked.Annotations == nil {
		asked.Annotations = map[string]string{}
	}
	asked.Annotations[api.AnnotationAdopt] = api.AdoptRunning
	raw, err := json.Marshal(asked)
	if err != nil {
		p.stop(adopt.Reason(workload.ReasonInternalError), fmt.Sprintf("encoding the pod: %v", err))
		return
	}
	out, containers := webhook.Adopt(webhook.Input{Pod: raw, Config: l.Config, NativeSidecars: true, Namespace: l.Namespace}, a)
	defer func() {
		if p.State == StatePossible || p.State == StateLater {
			l.sources(ctx, pod, containers)
		}
	}()
	reason, message := adopt.Judge(asked, l.node(ctx, pod.Spec.NodeName), out)
	switch {
	case reason == adopt.ReasonNotRunning && ended(pod):
		p.stop(reason, "its containers have ended, and are not started again")
		return
	case reason == adopt.Reason(workload.ReasonNoData):
		p.State, p.Reason, p.Message = StateNeedless, string(reason), ask.Clean(message)
		return
	case reason != "":
		p.stop(reason, message)
		if Passes(reason) {
			p.State = StateLater
		}
		return
	case pod.Annotations[api.AnnotationAdopt] == api.AdoptNever:
		p.Message = "its annotation " + api.AnnotationAdopt + "=" + api.AdoptNever + " is replaced"
	}
	if _, labelled := pod.Labels[api.LabelInjected]; labelled && !adopted.Is(pod) && l.Namespace.Annotations[api.AnnotationAdopt] != api.AdoptRunning {
		p.Message = fmt.Sprintf("its label %[1]s, which it was created with, has it taken for a pod that has its sidecar: kubectl -n %[3]s label pod %[2]s %[1]s-", api.LabelInjected, pod.Name, pod.Namespace)
	}
	p.State = StatePossible
	for i := range containers {
		p.Containers = append(p.Containers, containers[i].Name)
	}
}

func (p *Pod) stop(reason adopt.Reason, message string) {
	p.State, p.Reason, p.Message = StateCannot, string(reason), ask.Clean(message)
}

// ended tells of a pod whose containers will not run again.
func ended(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// Passes tells whether a reason goes by itself, and so is waited for.
func Passes(r adopt.Reason) bool {
	return slices.Contains([]adopt.Reason{adopt.ReasonNotRunning, adopt.ReasonNotReady, adopt.ReasonBeingDeleted, adopt.ReasonRestorePending,
		adopt.ReasonNodePressure, adopt.ReasonNodeNotReady, adopt.ReasonNoPair, adopt.ReasonWaits, adopt.ReasonBackingOff}, r)
}

// node is a pod's node. One that is not to be read is taken for one that has no fault: what
// is not known does not speak against it, and Notes says so.
func (l *Looker) node(ctx context.Context, name string) *corev1.Node {
	if name == "" {
		return nil
	}
	if l.Client == nil {
		return faultless(name)
	}
	if node, known := l.nodes[name]; known {
		return node
	}
	node := &corev1.Node{}
	if err := l.Client.Get(ctx, client.ObjectKey{Name: name}, node); err != nil {
		l.unknown, node = ask.Explain(err, "get", ask.Nodes, "", name), faultless(name)
		if first, _, long := strings.Cut(l.unknown.Error(), " (kubectl auth can-i"); long {
			l.unknown = fmt.Errorf("%s", first)
		}
	}
	if l.nodes == nil {
		l.nodes = map[string]*corev1.Node{}
	}
	l.nodes[name] = node
	return node
}

// forget has nodes read again, where they can be.
func (l *Looker) forget() {
	if l.unknown == nil {
		l.nodes = nil
	}
}

// faultless is a node of which nothing but its name is known.
func faultless(name string) *corev1.Node {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelOSStable: "linux"}}}
	node.Status.NodeInfo.KubeletVersion, node.Status.NodeInfo.OperatingSystem = "v1.37.0", "linux"
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	return node
}
