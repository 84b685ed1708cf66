package backup

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/kvs"
	"github.com/stategraft/stategraft/workload"
)

// kindSet is a workload's kind whose pods are known before they are there.
const kindSet = "StatefulSet"

// candidates are the names of the pods that the Backup is about, with the pods that
// there are.
func candidates(f Facts) (names []string, pods map[string]*corev1.Pod, p *Problem) {
	pods = map[string]*corev1.Pod{}
	matches, expected, p := wanted(f)
	if p != nil {
		return nil, nil, p
	}
	var found []*corev1.Pod
	for _, pod := range f.Pods {
		// A selector takes along the pods of Anna that hold nothing, such as those of routing.
		if matches(pod) && !over(f, pod) && !(f.Backup.Spec.Pods.Selector != nil && kvs.Idle(pod)) {
			found = append(found, pod)
		}
	}
	// A cluster of Anna is backed up as a whole: at each moment a key is at some node, and
	// not at the same at the next.
	others := kvs.Others(found, f.Cluster)
	if why := kvs.Doubt(found, others); why != "" {
		return nil, nil, &Problem{Reason: ReasonNotSupported, Message: why}
	}
	for _, pod := range append(found, others...) {
		pods[pod.Name] = pod
		names = append(names, pod.Name)
	}
	for _, name := range expected {
		if pods[name] == nil {
			names = append(names, name)
		}
	}
	slices.SortFunc(names, natural)
	return slices.Compact(names), pods, nil
}

// wanted tells of a pod whether it is meant, and which are whether they are there or
// not.
func wanted(f Facts) (matches func(*corev1.Pod) bool, expected []string, p *Problem) {
	spec := f.Backup.Spec.Pods
	switch {
	case spec == nil:
		return nil, nil, &Problem{Reason: ReasonBadSpec, Message: "the Backup names no pods"}
	case len(spec.Names) > 0:
		return func(pod *corev1.Pod) bool { return slices.Contains(spec.Names, pod.Name) }, spec.Names, nil
	case spec.Selector != nil:
		selector, err := metav1.LabelSelectorAsSelector(spec.Selector)
		if err != nil {
			return nil, nil, &Problem{Reason: ReasonBadSpec, Message: "spec.pods.selector: " + err.Error()}
		}
		return func(pod *corev1.Pod) bool { return selector.Matches(labels.Set(pod.Labels)) }, nil, nil
	case spec.Workload != nil:
		if f.Set != nil {
			expected = expectedOf(f.Set)
		}
		return func(pod *corev1.Pod) bool { return makes(f.Set, spec.Workload, pod) }, expected, nil
	}
	return nil, nil, &Problem{Reason: ReasonBadSpec, Message: "spec.pods has neither a workload nor a selector nor names"}
}

// over tells whether a pod has ended or is on its way out, and is not waited for.
func over(f Facts, pod *corev1.Pod) bool {
	if f.Backup.Spec.Pods.Selector != nil && (pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed) && kvs.Sidecar(pod) == nil {
		return true // a Job's
	}
	return f.Set != nil && pod.DeletionTimestamp != nil && !slices.Contains(expectedOf(f.Set), pod.Name)
}

// makes tells whether a workload is the controlling owner of a pod.
func makes(set *appsv1.StatefulSet, w *api.BackupWorkload, pod *corev1.Pod) bool {
	owner := metav1.GetControllerOf(pod)
	if owner == nil || owner.Kind != cmp.Or(w.Kind, kindSet) || owner.Name != w.Name {
		return false
	}
	return set == nil || owner.UID == set.UID
}

// expectedOf are the pods that a StatefulSet is to have.
func expectedOf(set *appsv1.StatefulSet) (names []string) {
	from, count := 0, 1
	if set.Spec.Replicas != nil {
		count = int(*set.Spec.Replicas)
	}
	if set.Spec.Ordinals != nil {
		from = int(set.Spec.Ordinals.Start)
	}
	for i := range count {
		names = append(names, set.Name+"-"+strconv.Itoa(from+i))
	}
	return names
}

// CheckPod tells why a pod cannot be backed up, or is empty.
func CheckPod(pod *corev1.Pod) string {
	sidecar := kvs.Sidecar(pod)
	switch {
	case pod.Labels[api.LabelInject] == api.InjectDisabled:
		return fmt.Sprintf("it is opted out by its label %s=%s, and has no sidecar; take the label out of its template", api.LabelInject, api.InjectDisabled)
	case sidecar == nil:
		return fmt.Sprintf("it has no sidecar; `kubectl stategraft check -n %s` tells why. Remedy that first; then re-create the pod (kubectl delete pod %[2]s), or give it one while it runs (kubectl stategraft adopt pod/%[2]s -n %[1]s)", pod.Namespace, pod.Name)
	case kvs.Idle(pod):
		return fmt.Sprintf("it is of Anna (%s) and holds no keys: name the pods of the memory and the disk tier", kvs.Role(pod))
	case !kvs.Serves(sidecar):
		return fmt.Sprintf("it was injected by an older Stategraft and tells nothing of itself; re-create it once (kubectl delete pod %s)", pod.Name)
	}
	return ""
}

// foreign is the kind of a pod's database where there is nothing to back up.
func foreign(pod *corev1.Pod) string {
	if kind := pod.Labels[api.LabelInjected]; kind != "" && kind != string(workload.KindCassandra) && !kvs.Of(pod) {
		return workload.Short(kind)
	}
	return ""
}

// natural orders names so that cas-10 comes after cas-9.
func natural(a, b string) int {
	headA, numberA := numbered(a)
	headB, numberB := numbered(b)
	return cmp.Or(cmp.Compare(headA, headB), cmp.Compare(numberA, numberB), cmp.Compare(a, b))
}

// numbered splits a name into its head and the number at its end; -1 for none.
func numbered(name string) (head string, number int) {
	head = strings.TrimRight(name, "0123456789")
	n, err := strconv.Atoi(name[len(head):])
	if err != nil {
		return name, -1
	}
	return head, n
}
