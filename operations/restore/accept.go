package restore

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/kvs"
)

// Reasons of a Problem, and so of the conditions of a Restore.
const (
	ReasonBadSpec              = "BadSpec"
	ReasonNamespaceNotLabelled = "NamespaceNotLabelled"
	ReasonPodNotFound          = "PodNotFound"
	ReasonNoPods               = "NoPods"
	ReasonPodGoing             = "PodGoing"
	ReasonOptedOut             = "OptedOut"
	ReasonNotInjected          = "NotInjected"
	ReasonNotSupported         = "NotSupported"
	ReasonNoStableName         = "NoStableName"
	ReasonTemplateRestores     = "TemplateRestores"
	ReasonBusy                 = "Busy"
	ReasonNoSuchRestore        = "NoSuchRestore"
	ReasonNotUndoable          = "NotUndoable"
)

// Accept settles the pods of a Restore, or tells why it cannot be tried.
func Accept(f Facts) (names []string, p *Problem) {
	if p := CheckSpec(f.Restore); p != nil {
		return nil, p
	}
	if !f.Labelled {
		return nil, &Problem{Reason: ReasonNamespaceNotLabelled, Message: fmt.Sprintf(
			"namespace %[1]s does not have the label %[2]s=%[3]s, so that no restore container can be added to its pods; kubectl label namespace %[1]s %[2]s=%[3]s, then kubectl stategraft adopt gives those that run their sidecars, or re-create them once, and make the Restore anew",
			f.Restore.Namespace, api.LabelInject, api.InjectEnabled)}
	}
	if p := undoable(f); p != nil {
		return nil, p
	}
	if p := present(f); p != nil {
		return nil, p
	}
	pods := chosen(f)
	for _, pod := range pods {
		if p := f.checkPod(pod); p != nil && !p.Wait {
			return nil, p
		}
	}
	if p := oneKind(f, pods); p != nil {
		return nil, p
	}
	gone := f.comeAgain(pods)
	if gone != nil && !gone.Wait {
		return nil, gone
	}
	for _, pod := range pods {
		names = append(names, pod.Name)
	}
	if p := strangers(f, names); p != nil {
		return nil, p
	}
	if !f.Restore.Spec.DryRun { // which touches nothing; its plan says that it would wait
		if p := busy(f, pods); p != nil {
			return nil, p
		}
	}
	for _, pod := range pods {
		if p := f.checkPod(pod); p != nil {
			return nil, p
		}
	}
	if gone != nil {
		return nil, gone
	}
	if !f.Restore.Spec.DryRun { // as above
		if p := lacks(f); p != nil {
			return nil, p
		}
	}
	return names, nil
}

// grace is how long after a Restore was made its pods may be missing: one that is
// being re-created is not there for a moment.
const grace = 15 * time.Second

// present tells which of the pods asked for are not there.
func present(f Facts) *Problem {
	p := &Problem{Wait: f.Now.Sub(f.Restore.CreationTimestamp.Time) < grace}
	if len(f.Missing) > 0 {
		missing := slices.Clone(f.Missing)
		slices.SortFunc(missing, natural)
		p.Reason, p.Message = ReasonPodNotFound, fmt.Sprintf("there is no pod %s in namespace %s; name pods that exist, or scale the workload up first",
			someOf(missing), f.Restore.Namespace)
		return p
	}
	if len(chosen(f)) == 0 {
		if p := lacks(f); p != nil {
			return p
		}
		p.Reason, p.Message = ReasonNoPods, fmt.Sprintf("spec.pods.selector matches no pod in namespace %s; kubectl get pods --show-labels tells their labels", f.Restore.Namespace)
		return p
	}
	return nil
}

// chosen are the pods that the Restore is about, by name. A selector may match
// what has ended and never was a database, such as a Job's.
func chosen(f Facts) []*corev1.Pod {
	var pods []*corev1.Pod
	for _, pod := range f.Pods {
		ended := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
		if f.Restore.Spec.Pods.Selector != nil && ended && kvs.Sidecar(pod) == nil {
			continue
		}
		pods = append(pods, pod)
	}
	slices.SortFunc(pods, func(a, b *corev1.Pod) int { return natural(a.Name, b.Name) })
	return pods
}

// strangers finds pods in the mapping that are not restored: a name misspelt there
// would give a pod another node's data than was meant.
func strangers(f Facts, names []string) *Problem {
	if f.Restore.Spec.Source == nil {
		return nil
	}
	var others []string
	for pod := range f.Restore.Spec.Source.Nodes {
		if !slices.Contains(names, pod) {
			others = append(others, pod)
		}
	}
	if len(others) == 0 {
		return nil
	}
	slices.SortFunc(others, natural)
	return &Problem{Reason: ReasonBadSpec, Message: fmt.Sprintf("spec.source.nodes names %s, which this restore is not about, but about %s; its keys are names of pods, its values nodes of the backup",
		someOf(others), someOf(names))}
}

// undoable tells whether the earlier Restore is one to go back from.
func undoable(f Facts) *Problem {
	undo := f.Restore.Spec.Undo
	if undo == "" {
		return nil
	}
	e := f.Earlier
	switch {
	case e == nil:
		return &Problem{Reason: ReasonNoSuchRestore, Message: fmt.Sprintf("there is no restore %s in namespace %s to undo; kubectl get restores.stategraft.io tells which there are", undo, f.Restore.Namespace)}
	case !e.Status.Phase.Final() || len(e.Status.Pending) > 0:
		return &Problem{Reason: ReasonBusy, Wait: true, Message: fmt.Sprintf("waits for restore %s to end, or to be cancelled, before it is undone", undo)}
	case e.Spec.Mode == api.Merge:
		return &Problem{Reason: ReasonNotUndoable, Message: fmt.Sprintf("restore %s has written keys into the running cluster (mode %s) and set nothing aside: there is nothing to go back to", undo, api.Merge)}
	case e.Status.ID == "" || e.Spec.DryRun:
		return &Problem{Reason: ReasonNotUndoable, Message: fmt.Sprintf("restore %s has touched nothing: there is nothing to undo", undo)}
	}
	names := f.Restore.Spec.Pods.Names
	if f.Restore.Spec.Pods.Selector != nil {
		for _, pod := range chosen(f) {
			names = append(names, pod.Name)
		}
	}
	var without []string
	for _, name := range names {
		if at := e.Status.Pod(name); at == nil || !at.MayHavePrevious() {
			without = append(without, name)
		}
	}
	if len(without) > 0 {
		slices.SortFunc(without, natural)
		return &Problem{Reason: ReasonNotUndoable, Message: fmt.Sprintf("restore %s has kept no data from before of %s; name only pods that have PREVIOUS in `kubectl stategraft restore show %s`, or restore a backup instead", undo, someOf(without), undo)}
	}
	if asked, selector := Asked(f.Restore, e); len(asked) == 0 && selector == nil {
		return &Problem{Reason: ReasonNotUndoable, Message: fmt.Sprintf("restore %s has kept no data from before of any pod (its keepPrevious is %s); restore a backup instead", undo, orElse(string(e.Spec.KeepPrevious), string(api.KeepIfRoom)))}
	}
	return nil
}

// busy tells which other Restore has a pod of this one. The later waits, unless it
// has begun: who holds a pod is let finish, whatever its age.
func busy(f Facts, pods []*corev1.Pod) *Problem {
	if len(f.Restore.Status.Pending) > 0 {
		return nil
	}
	for i := range f.Others {
		other := &f.Others[i]
		if other.Name == f.Restore.Name {
			continue
		}
		var held, asked []string
		for _, pod := range pods {
			if slices.Contains(other.Status.Pending, pod.Name) {
				held = append(held, pod.Name)
			}
			if isAbout(other, f.Others, pod) {
				asked = append(asked, pod.Name)
			}
		}
		switch {
		case len(held) > 0 && other.Status.Phase.Final():
			return &Problem{Reason: ReasonBusy, Wait: true, Message: fmt.Sprintf("waits for restore %s, which is %s and still keeps %s from starting; cancel or delete it",
				other.Name, strings.ToLower(string(other.Status.Phase)), someOf(held))}
		case len(held) > 0:
			return &Problem{Reason: ReasonBusy, Wait: true, Message: fmt.Sprintf("waits for restore %s, which is at work on %s%s", other.Name, someOf(held), hint(other))}
		case other.Status.Phase.Final() || other.DeletionTimestamp != nil || other.Spec.DryRun || other.Spec.Cancel:
		case len(asked) > 0 && older(other, f.Restore):
			return &Problem{Reason: ReasonBusy, Wait: true, Message: fmt.Sprintf("waits for restore %s, which asked for %s before%s", other.Name, someOf(asked), hint(other))}
		}
	}
	return nil
}

func hint(other *api.Restore) string {
	if other.Spec.Cancel || other.DeletionTimestamp != nil {
		return "; it is being cancelled"
	}
	if other.Spec.Suspend {
		return "; it is suspended: resume, cancel or delete it"
	}
	return ""
}

// isAbout tells whether a Restore is about a pod: by its status once it is
// accepted, by its spec before.
func isAbout(r *api.Restore, all []api.Restore, pod *corev1.Pod) bool {
	if len(r.Status.Pods) > 0 {
		return r.Status.Pod(pod.Name) != nil
	}
	var earlier *api.Restore
	for i := range all {
		if r.Spec.Undo != "" && all[i].Name == r.Spec.Undo {
			earlier = &all[i]
		}
	}
	names, selector := Asked(r, earlier)
	return slices.Contains(names, pod.Name) || selector != nil && selector.Matches(labels.Set(pod.Labels))
}

// older tells which of two was made first.
func older(a, b *api.Restore) bool {
	if !a.CreationTimestamp.Equal(&b.CreationTimestamp) {
		return a.CreationTimestamp.Before(&b.CreationTimestamp)
	}
	return a.Name < b.Name
}
