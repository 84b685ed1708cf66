package check

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/stategraft/stategraft/api/v1alpha1"
)

var backupResource = api.GroupVersion.WithResource("backups")

// How long is too long.
const (
	backupWaitsWithin = time.Hour       // for its turn, a sidecar, the storage
	backupEndsWithin  = 5 * time.Minute // after its timeout
	deletedWithin     = time.Hour       // its data, behind a backup that runs
)

func lookBackups(ctx context.Context, c *Cluster) []Finding {
	if c.installation(ctx).Mode() == Preflight {
		// What is left of an installation that is gone still has to be looked at.
		switch served, err := c.serves(ctx, api.GroupVersion.String(), backupResource.Resource); {
		case err != nil:
			return skipped(err)
		case !served:
			return []Finding{early(c.Named)}
		}
	}
	orphans, all := c.uncontrolled(ctx), 0
	var findings []Finding
	var ended endedBackups
	err := eachOf(ctx, c, backupResource, func(b *api.Backup) {
		all++
		if orphans {
			findings = append(findings, judgeOrphanBackup(b)...)
			return
		}
		findings = append(findings, judgeBackup(b, c.Now())...)
		ended.add(b)
	})
	if err == nil { // what is complete may be among those that could not be read
		findings = append(findings, ended.judge()...)
	}
	switch {
	case apierrors.IsNotFound(err): // no such resource, which the item backup-crds says
		return []Finding{finding(Info, "", "nothing to look at: there is no %s", crdBackups)}
	case err != nil:
		return append(findings, skipped(err)...)
	case len(findings) == 0 && all == 0:
		return []Finding{finding(OK, "", "no Backup")}
	case len(findings) == 0:
		return []Finding{finding(OK, "", "%s, and none in trouble", counted(all, "Backup", ""))}
	}
	return findings
}

// judgeBackup judges one by what the controllers wrote about it; those that failed,
// endedBackups does.
func judgeBackup(b *api.Backup, now time.Time) []Finding {
	subject, s := b.Namespace+"/"+b.Name, &b.Status
	command := func(what string) string {
		return fmt.Sprintf("kubectl stategraft backup %s %s -n %s", what, b.Name, b.Namespace)
	}
	const controller = "see that the controller runs (the item components, kubectl logs deployment/stategraft-controller)"
	if b.DeletionTimestamp != nil {
		return judgeDeletion(b, now, controller, command("pin")+", which keeps the data and lets the object go")
	}
	over := now.Sub(beginning(b).Add(b.Spec.TimeoutOrDefault()))
	verified := meta.FindStatusCondition(s.Conditions, api.ConditionVerified)
	switch age := now.Sub(b.CreationTimestamp.Time); {
	case s.Phase == "" && !b.Found() && age > takenUpWithin:
		return []Finding{finding(Fail, subject, "nobody has taken it up").With(controller)}
	case s.Phase == api.BackupMissing:
		return []Finding{finding(Warn, subject, "its data are not in the storage any more: %s", s.Message).
			With("find out who deletes in the bucket, such as a lifecycle rule; then delete it: %s", command("delete"))}
	case s.Phase == api.BackupComplete && verified != nil && verified.Status == metav1.ConditionFalse:
		return []Finding{finding(Fail, subject, "does not hold what it should (%s): %s", verified.Reason, verified.Message).
			With("make another, of type full; %s", command("show"))}
	case s.Phase.Final() || b.Found():
		return nil
	case over > backupEndsWithin:
		return []Finding{finding(Fail, subject, "its timeout is over since %s, and nobody has ended it", over.Round(time.Second)).With(controller)}
	case b.Spec.Suspend:
		return []Finding{finding(Info, subject, "is suspended").With("take spec.suspend off, or give up: %s", command("cancel"))}
	case s.Phase == api.BackupWaiting && now.Sub(beginning(b)) > backupWaitsWithin:
		return []Finding{finding(Warn, subject, "waits: %s", s.Message).With("settle what it waits for, or give up: %s", command("cancel"))}
	}
	return nil
}

// beginning is what the timeout counts from.
func beginning(b *api.Backup) time.Time {
	if b.Status.Started != nil {
		return b.Status.Started.Time
	}
	return b.CreationTimestamp.Time
}

// judgeDeletion judges one that is being deleted. One that still runs is let end first.
func judgeDeletion(b *api.Backup, now time.Time, controller, release string) []Finding {
	subject, since := b.Namespace+"/"+b.Name, now.Sub(b.DeletionTimestamp.Time)
	deleted := meta.FindStatusCondition(b.Status.Conditions, api.ConditionDeleted)
	switch running := b.Status.Phase == api.BackupRunning || b.Status.Phase == api.BackupWaiting; {
	case deleted != nil && deleted.Status == metav1.ConditionFalse && since > deletedWithin:
		return []Finding{finding(Warn, subject, "is being deleted since %s, and its data cannot be (%s): %s", day(b.DeletionTimestamp.Time), deleted.Reason, deleted.Message).
			With("settle that; or %s", release)}
	case deleted == nil && !running && since > takenUpWithin, deleted == nil && since > deletedWithin+b.Spec.TimeoutOrDefault():
		return []Finding{finding(Fail, subject, "is being deleted since %s, and the controller does not let it go", day(b.DeletionTimestamp.Time)).With("%s", controller)}
	}
	return nil
}

// judgeOrphanBackup judges a Backup that no controller looks after: one that goes on,
// or is deleted, stays so.
func judgeOrphanBackup(b *api.Backup) []Finding {
	state := ""
	switch {
	case b.DeletionTimestamp != nil && slices.Contains(b.Finalizers, api.FinalizerBackup):
		state = "is being deleted"
	case b.DeletionTimestamp == nil && !b.Found() && !b.Status.Phase.Final():
		state = strings.TrimSpace("is not over " + string(b.Status.Phase))
	default:
		return nil
	}
	return []Finding{finding(Fail, b.Namespace+"/"+b.Name, "%s, and no controller is installed: nobody goes on with it, or lets it go", state).
		With(`install Stategraft again, and it goes on; or let it go, and keep its data: kubectl patch backups.%s %s -n %s --type merge -p '{"metadata":{"finalizers":null}}', and delete it`, api.Group, b.Name, b.Namespace)}
}
