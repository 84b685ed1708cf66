package restore

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/kvs"
	"github.com/stategraft/stategraft/workload"
)

// The containers and variables that are looked for, as patches/ names them (a test
// compares).
const (
	envBackup = "STATEGRAFT_BACKUP"
)

// CheckPod tells why a pod cannot be restored by a Restore, or nil.
func CheckPod(pod *corev1.Pod) *Problem {
	no := func(reason, format string, args ...any) *Problem {
		return &Problem{Reason: reason, Message: "pod " + pod.Name + " " + fmt.Sprintf(format, args...)}
	}
	if p := sidecarOf(pod); p != nil {
		return p
	}
	if why := stable(pod); why != "" {
		return no(ReasonNoStableName, "%s: the pod that comes after it has another name, and nothing would find it; put the annotation %s into the template instead", why, api.AnnotationRestore)
	}
	if backup := TemplateBackup(pod); backup != "" && pod.Annotations[api.AnnotationRestore] == backup {
		return no(ReasonTemplateRestores, "has the annotation %s: %s from its template, which every pod that comes after it would have too; take it out of the template first", api.AnnotationRestore, workload.Short(backup))
	}
	if pod.DeletionTimestamp != nil {
		p := no(ReasonPodGoing, "is being deleted; waits for the one that comes after it")
		p.Wait = true
		return p
	}
	return nil
}

// sidecarOf tells why a pod has no sidecar that could look after a restore, or nil.
func sidecarOf(pod *corev1.Pod) *Problem {
	no := func(reason, format string, args ...any) *Problem {
		return &Problem{Reason: reason, Message: "pod " + pod.Name + " " + fmt.Sprintf(format, args...)}
	}
	kind := pod.Labels[api.LabelInjected]
	sidecar := kvs.Sidecar(pod)
	switch {
	case pod.Labels[api.LabelInject] == api.InjectDisabled:
		return no(ReasonOptedOut, "is opted out by its label %s=%s, so no restore container can be added to it; take the label out of its template", api.LabelInject, api.InjectDisabled)
	case kind != "" && kind != string(workload.KindCassandra) && !kvs.Of(pod):
		return no(ReasonNotSupported, "is of %s, which keeps no data of its own: there is nothing to restore", workload.Short(kind))
	case kvs.Idle(pod):
		return no(ReasonNotSupported, "is of Anna (%s) and holds no keys: name the pods of its memory and disk tier", kvs.Role(pod))
	case sidecar == nil:
		return no(ReasonNotInjected, "has no sidecar, so nothing could look after its restore; `kubectl stategraft explain` tells why, and a pod that was there before its namespace was labelled has to be re-created once (kubectl delete pod %[1]s), or is given one while it runs (kubectl stategraft adopt pod/%[1]s)", pod.Name)
	case !kvs.Serves(sidecar):
		return no(ReasonNotInjected, "was injected by an older Stategraft and tells nothing of itself; re-create it once (kubectl delete pod %s)", pod.Name)
	}
	return nil
}

// TemplateBackup is the backup that a pod's own restore container is for, where no
// Restore has asked for it but an annotation when the pod was made; empty for none.
func TemplateBackup(pod *corev1.Pod) string {
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		if c.Name != containerRestore {
			continue
		}
		backup := ""
		for _, v := range c.Env {
			switch v.Name {
			case envBackup:
				backup = v.Value
			case api.EnvRestoreID:
				return ""
			}
		}
		return backup
	}
	return ""
}

// passing are the kinds of owners whose pods have another name each time, or are
// bound to a machine. Some of their names end in digits by chance.
var passing = []string{"ReplicaSet", "ReplicationController", "Deployment", "Job", "DaemonSet", "Node", "CloneSet"}

// stable tells why a pod's name would be another one next time, or is empty. A
// StatefulSet's pods keep theirs; so do those of other kinds that count their pods
// (KubeDB's PetSet, OpenKruise's StatefulSet).
func stable(pod *corev1.Pod) string {
	owner := metav1.GetControllerOf(pod)
	switch {
	case owner == nil:
		return "belongs to no StatefulSet"
	case slices.Contains(passing, owner.Kind):
		return "belongs to " + owner.Kind + " " + owner.Name
	}
	if _, ok := ordinal(pod.Name, owner.Name); !ok {
		return "belongs to " + owner.Kind + " " + owner.Name + ", which does not count its pods"
	}
	return ""
}

// ordinal is the number of a pod within its owner, by their names.
func ordinal(pod, owner string) (int, bool) {
	digits, ok := strings.CutPrefix(pod, owner+"-")
	if !ok {
		return 0, false
	}
	n, err := strconv.Atoi(digits)
	return n, err == nil && strconv.Itoa(n) == digits
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
