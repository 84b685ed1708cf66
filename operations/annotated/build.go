package annotated

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/schedule"
)

// annotatedTrue is the value of the label on what was made.
const annotatedTrue = "true"

// maxName is how long the name of a BackupSchedule may be; the CustomResourceDefinition
// has the same.
const maxName = 47

// jitterWide spreads the schedules of a namespace that all have the same expression.
const jitterWide = 15 * time.Minute

// isAnnotated tells whether a BackupSchedule was made here.
func isAnnotated(s *api.BackupSchedule) bool {
	return s.Labels[api.LabelAnnotated] == annotatedTrue
}

// nameOf is the name of the BackupSchedule of something that is called so. With apart it
// ends in a hash of what tells it from another of that name.
func nameOf(name, apart string) string {
	if apart == "" && len(name) <= maxName {
		return name
	}
	sum := sha256.Sum256([]byte(apart + "/" + name))
	hash := "-" + hex.EncodeToString(sum[:4])
	return strings.TrimRight(name[:min(len(name), maxName-len(hash))], "-.") + hash
}

// podsOf says which pods are backed up, of a cluster of one workload.
func podsOf(w workload) *api.BackupPods {
	if w.owner.Kind == "Pod" {
		return &api.BackupPods{Names: []string{w.owner.Name}}
	}
	return &api.BackupPods{Workload: &api.BackupWorkload{Kind: w.owner.Kind, Name: w.owner.Name}}
}

// build makes the BackupSchedule that is asked for.
func build(namespace, name string, pods *api.BackupPods, w wish) *api.BackupSchedule {
	s := &api.BackupSchedule{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{api.LabelAnnotated: annotatedTrue}}}
	if w.wide && roomForJitter(w.schedule) {
		s.Spec.Jitter = &metav1.Duration{Duration: jitterWide}
	}
	apply(&s.Spec, pods, w)
	return s
}

// apply writes what follows from the annotations, and leaves the rest.
func apply(spec *api.BackupScheduleSpec, pods *api.BackupPods, w wish) {
	spec.Schedule = w.schedule
	spec.Template.Spec.Pods = pods
	r := spec.Retention
	switch {
	case w.retain > 0 && r == nil:
		spec.Retention = &api.BackupRetention{KeepLast: new(w.retain)}
	case w.retain > 0:
		r.KeepLast = new(w.retain)
	case r == nil:
	case r.KeepWithin == "" && r.KeepDaily == nil && r.KeepWeekly == nil && r.KeepMonthly == nil:
		spec.Retention = nil // it said no more than the annotation had
	default:
		r.KeepLast = nil
	}
}

// changed is the BackupSchedule as it ought to be, and whether it is not.
func changed(s *api.BackupSchedule, pods *api.BackupPods, w wish) (*api.BackupSchedule, bool) {
	to := s.DeepCopy()
	if samePods(s.Spec.Template.Spec.Pods, pods) {
		pods = to.Spec.Template.Spec.Pods // a default is none of our business
	}
	apply(&to.Spec, pods, w)
	return to, !equality.Semantic.DeepEqual(s.Spec, to.Spec)
}

// samePods tells whether two say the same pods.
func samePods(a, b *api.BackupPods) bool {
	if a == nil || b == nil {
		return a == b
	}
	if a.Workload != nil && b.Workload != nil {
		return kindOf(a.Workload) == kindOf(b.Workload) && a.Workload.Name == b.Workload.Name
	}
	return equality.Semantic.DeepEqual(a, b)
}

func kindOf(w *api.BackupWorkload) string {
	if w.Kind == "" {
		return "StatefulSet"
	}
	return w.Kind
}

// roomForJitter tells whether runs are far enough apart to be moved.
func roomForJitter(text string) bool {
	cron, err := schedule.Parse(text, "")
	if err != nil {
		return false
	}
	run := cron.Next(time.Unix(0, 0))
	for range 48 {
		next := cron.Next(run)
		if next.Sub(run) < 2*jitterWide {
			return false
		}
		run = next
	}
	return true
}
