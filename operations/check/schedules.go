package check

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/webhook"
)

var scheduleResource = api.GroupVersion.WithResource("backupschedules")

// conditionWithinRPO is operations/rpo.ConditionWithinRPO; that package is the
// controller's.
const conditionWithinRPO = "WithinRPO"

// passingHolds are reasons for which retention waits for a while and that end by
// themselves.
var passingHolds = []string{"BackupActive", "DeletionRuns", "RestoreActive"}

func lookSchedules(ctx context.Context, c *Cluster) []Finding {
	s, err := c.sweep(ctx)
	if err != nil {
		return skipped(err)
	}
	findings := slices.Clone(s.unfollowed)
	all, making := 0, map[string]bool{}
	err = eachOf(ctx, c, scheduleResource, func(schedule *api.BackupSchedule) {
		all++
		making[schedule.Namespace] = true
		findings = append(findings, judgeSchedule(schedule, c.Now())...)
	})
	switch {
	case apierrors.IsNotFound(err): // no such resource, which the item backup-crds says
		return append(findings, finding(Info, "", "nothing to look at: there is no %s", crdSchedules))
	case err != nil:
		return append(findings, skipped(err)...)
	}
	for _, ns := range slices.Sorted(maps.Keys(s.backedUp)) {
		if !making[ns] {
			findings = append(findings, finding(Warn, ns, "%s, and no BackupSchedule: nothing backs them up by itself", counted(s.backedUp[ns], "injected pod", "")).
				With(`make one (docs/backup.md), or: kubectl annotate namespace %s %s="0 3 * * *" %s="7"`, ns, api.AnnotationBackupSchedule, api.AnnotationRetain))
		}
	}
	if all == 0 {
		return s.say(findings, "no BackupSchedule, and no database that wants one")
	}
	return s.say(findings, "%s, all in time", counted(all, "BackupSchedule", ""))
}

// judgeFollowed finds annotations of a pod that the controller is to follow, and cannot; but
// for that of adoption, which is judgeAsking's.
func judgeFollowed(pod *corev1.Pod) (findings []Finding) {
	annotations := maps.Clone(pod.Annotations)
	delete(annotations, api.AnnotationAdopt)
	for _, text := range webhook.Unfollowed("the pod", annotations) {
		findings = append(findings, finding(Fail, pod.Namespace+"/"+pod.Name, "%s", text).
			With("correct %s of the pod and of its template; until then what was asked for before counts", keysIn(text)))
	}
	return findings
}

// judgeSchedule judges one by the conditions that the controllers wrote.
func judgeSchedule(s *api.BackupSchedule, now time.Time) []Finding {
	subject := s.Namespace + "/" + s.Name
	show := fmt.Sprintf("kubectl -n %s get backupschedule %s -o yaml; kubectl stategraft status -n %[1]s", s.Namespace, s.Name)
	is := func(kind string) *metav1.Condition {
		c := meta.FindStatusCondition(s.Status.Conditions, kind)
		if c == nil || c.Status != metav1.ConditionFalse {
			return nil
		}
		return c
	}
	accepted := meta.FindStatusCondition(s.Status.Conditions, api.ConditionAccepted)
	switch {
	case s.DeletionTimestamp != nil:
		return nil
	case accepted == nil && now.Sub(s.CreationTimestamp.Time) > takenUpWithin:
		return []Finding{finding(Fail, subject, "nobody has taken it up").With("see that the controller runs (the item components)")}
	case accepted == nil:
		return nil
	case accepted.Status == metav1.ConditionFalse:
		return []Finding{finding(Fail, subject, "makes no backups (%s): %s", accepted.Reason, accepted.Message).With("correct its spec")}
	}
	var findings []Finding
	if c := is(conditionWithinRPO); c != nil {
		findings = append(findings, finding(Fail, subject, "backups are older than they may become: %s", c.Message).With("%s", show))
	}
	switch c := is(api.ConditionOnTime); {
	case s.Spec.Suspend:
		findings = append(findings, finding(Info, subject, "is suspended: it makes no backups, and deletes none").With("take spec.suspend off, or delete it, which deletes no backup"))
	case c != nil:
		findings = append(findings, finding(Warn, subject, "is not in time (%s): %s", c.Reason, c.Message).With("%s", show))
	}
	if c := is(api.ConditionRetained); c != nil && !slices.Contains(passingHolds, c.Reason) {
		findings = append(findings, finding(Warn, subject, "old backups are not deleted (%s): %s", c.Reason, c.Message).With("docs/backup.md says what each reason means"))
	}
	return findings
}
