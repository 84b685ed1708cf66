package status

import (
	"context"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/ask"
	"github.com/stategraft/stategraft/operations/rpo"
	"github.com/stategraft/stategraft/operations/scope"
)

// Troubled tells whether the protection of a pod, or of all that a schedule is for, is
// gone or late: what --check goes by.
func (s *Status) Troubled() bool {
	return len(s.Problems) > 0 || slices.ContainsFunc(s.Rows, func(r rpo.Row) bool { return r.Behind || r.Sidecar == rpo.SidecarMissing })
}

// unlabelled tells of a namespace without our label: of its databases, if it has any.
func (s *Status) unlabelled(ns *corev1.Namespace, databases int) {
	if scope.Asks(ns, "") || scope.LeftOut(ns.Name, "") {
		return
	}
	text := fmt.Sprintf("Namespace %s is not labelled, and new pods of it get no sidecar", ns.Name)
	remedy := fmt.Sprintf(": kubectl label namespace %s %s=%s", ns.Name, api.LabelInject, api.InjectEnabled)
	if databases == 0 {
		s.Notes = append(s.Notes, text+remedy)
		return
	}
	s.Problems = append(s.Problems, fmt.Sprintf("%s, though it has %s of a database, of which no backup is made%s; then kubectl stategraft adopt gives them theirs while they run, or re-create them once", text, ask.Plural(databases, "pod"), remedy))
}

// judgeSchedules tells of schedules that are refused, or have no pods: there is a row of
// each pod that one backs up.
func (s *Status) judgeSchedules(ctx context.Context, c client.Reader, namespaces []corev1.Namespace, schedules []api.BackupSchedule) {
	used := map[[2]string]bool{}
	for i := range s.Rows {
		for _, name := range s.Rows[i].Schedules {
			used[[2]string{s.Rows[i].Namespace, name}] = true
		}
	}
	for i := range schedules {
		b := &schedules[i]
		if !b.DeletionTimestamp.IsZero() {
			continue
		}
		name := fmt.Sprintf("BackupSchedule %s/%s", b.Namespace, b.Name)
		if refused := meta.FindStatusCondition(b.Status.Conditions, api.ConditionAccepted); refused != nil && refused.Status == metav1.ConditionFalse {
			to := &s.Problems
			if b.Spec.Suspend { // it would make none anyway
				to = &s.Notes
			}
			*to = append(*to, fmt.Sprintf("%s is refused, and makes no backup (%s): %s", name, refused.Reason, ask.Clean(refused.Message)))
			continue
		}
		at := slices.IndexFunc(namespaces, func(ns corev1.Namespace) bool { return ns.Name == b.Namespace })
		switch {
		case b.Spec.Suspend && !used[[2]string{b.Namespace, b.Name}]:
			s.Notes = append(s.Notes, name+" has no pods, and is suspended.")
		case b.Spec.Suspend:
		case at < 0 || !scope.Asks(&namespaces[at], ""):
			s.Problems = append(s.Problems, fmt.Sprintf("%s makes no backup: its namespace is not labelled (kubectl label namespace %s %s=%s)", name, b.Namespace, api.LabelInject, api.InjectEnabled))
		case used[[2]string{b.Namespace, b.Name}]:
		default:
			s.Problems = append(s.Problems, name+" has no pods: "+why(ctx, c, b))
		}
	}
}

// why says why a schedule has no pods, as far as that can be seen.
func why(ctx context.Context, c client.Reader, b *api.BackupSchedule) string {
	pods := b.Spec.Template.Spec.Pods
	var sets appsv1.StatefulSetList
	if pods == nil || c.List(ctx, &sets, client.InNamespace(b.Namespace)) != nil {
		return "none of those that it is for is there"
	}
	if pods.Workload != nil {
		at := slices.IndexFunc(sets.Items, func(set appsv1.StatefulSet) bool { return set.Name == pods.Workload.Name })
		switch {
		case pods.Workload.Kind != "" && pods.Workload.Kind != "StatefulSet":
		case at < 0:
			return "there is no statefulset " + pods.Workload.Name
		case scaledDown(&sets.Items[at]):
			return "statefulset " + pods.Workload.Name + " is scaled to 0, and nothing is backed up until it is scaled up"
		}
		return "none of " + pods.Workload.Name + " is there that could be backed up"
	}
	for i := range sets.Items {
		set := &sets.Items[i]
		if pods.Selector == nil || !scaledDown(set) {
			continue
		}
		if selector, err := metav1.LabelSelectorAsSelector(pods.Selector); err == nil && !selector.Empty() && selector.Matches(labels.Set(set.Spec.Template.Labels)) {
			return "statefulset " + set.Name + " is scaled to 0, and nothing is backed up until it is scaled up"
		}
	}
	return "none of those that it is for is there that could be backed up"
}

func scaledDown(set *appsv1.StatefulSet) bool {
	return set.Spec.Replicas != nil && *set.Spec.Replicas == 0
}
