package scheduler

import (
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/stategraft/stategraft/api/v1alpha1"
)

// AnnotationScheduled stands on a Backup that was made for a run, with the time of the
// run by its schedule.
const AnnotationScheduled = api.Group + "/scheduled"

// makeBackup is the Backup of a run. It has no owner: with the schedule it would go too.
func makeBackup(s *api.BackupSchedule, run api.ScheduleRun) *api.Backup {
	labels, annotations := map[string]string{}, map[string]string{}
	maps.Copy(labels, s.Spec.Template.Metadata.Labels)
	maps.Copy(annotations, s.Spec.Template.Metadata.Annotations)
	labels[api.LabelSchedule] = s.Name
	annotations[AnnotationScheduled] = run.Scheduled.UTC().Format("2006-01-02T15:04:05Z")
	return &api.Backup{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: run.Backup, Labels: labels, Annotations: annotations},
		Spec:       *s.Spec.Template.Spec.DeepCopy(),
	}
}
