package scheduler

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/schedule/retention"
)

// The reasons of the condition Retained beside the holds of retention.
const (
	ReasonRetained = "Retained"
	ReasonKeepsAll = "KeepsAll" // the spec has no retention
	ReasonNothing  = "NothingYet"
	ReasonDryRun   = "DryRun"
	// ReasonDeletionWaits: one is being deleted, and its data cannot be.
	ReasonDeletionWaits = "DeletionWaits"
)

// holdRestore is a hold beside those of retention: a restore of the cluster.
const holdRestore retention.Hold = "RestoreActive"

// passing are the holds of which nothing is said in an event, as they end by
// themselves.
var passing = map[retention.Hold]bool{retention.BackupActive: true, retention.DeletionRuns: true, holdRestore: true}

// ofListing are the holds that a look at the storage ends.
var ofListing = map[retention.Hold]bool{retention.ListFailed: true, retention.ListOld: true, retention.ListEmpty: true, retention.ListShort: true}

// holds is why nothing is deleted now, as far as that is known without the storage.
func (w *world) holds(s *api.BackupSchedule, prefix string, before retention.Result) (retention.Hold, string) {
	if before.Held != "" {
		return before.Held, before.Waits
	}
	if h := w.holder; h != nil {
		switch h.kind {
		case HolderDeletion, HolderPurge:
			return retention.DeletionRuns, fmt.Sprintf("data of backup %s are being deleted", h.who)
		case HolderRestore:
			return holdRestore, fmt.Sprintf("restore %s of the cluster is not over", h.who)
		}
		return retention.BackupActive, fmt.Sprintf("%s %s of the cluster is not over", strings.ToLower(h.kind), h.who)
	}
	if r := w.restoring(s.Namespace, prefix); r != nil {
		return holdRestore, fmt.Sprintf("restore %s of the cluster is not over", r.Name)
	}
	return "", ""
}

// hindered is a Backup of the schedule whose data cannot be deleted.
func (w *world) hindered() (b *api.Backup, why string) {
	for _, b := range w.own {
		c := meta.FindStatusCondition(b.Status.Conditions, api.ConditionDeleted)
		if w.going(b) && c != nil && c.Status == metav1.ConditionFalse && c.Reason != reasonDeleting {
			return b, c.Message
		}
	}
	return nil, ""
}

// reasonDeleting is the reason of the condition Deleted while data are being deleted, by
// operations/backup.
const reasonDeleting = "Deleting"

// retained sets the condition, and tells when it has become false.
func (st *step) retained(s *api.BackupSchedule, w *world, p *pass) {
	value, reason, message := metav1.ConditionTrue, ReasonRetained, "nothing is to be deleted"
	switch stuck, why := w.hindered(); {
	case s.Spec.Suspend:
		reason, message = ReasonSuspended, "suspended: nothing is deleted"
	case p.result == nil && s.Spec.Retention == nil:
		reason, message = ReasonKeepsAll, "all are kept, as spec.retention says nothing"
	case p.result == nil:
		reason, message = ReasonNothing, "it has made no backup yet, and deletes none before"
	case stuck != nil:
		value, reason, message = metav1.ConditionFalse, ReasonDeletionWaits, "the data of Backup "+stuck.Name+" cannot be deleted yet: "+why
	case p.held != "":
		value, reason, message = metav1.ConditionFalse, string(p.held), fmt.Sprintf("%d are to be deleted, and wait: %s", p.would, p.waits)
	case p.result.DryRun:
		reason, message = ReasonDryRun, "dryRun: nothing is deleted"
	case p.removing != nil:
		message = "Backup " + p.removing.backup.Name + " is deleted"
	}
	if p.elsewhere > 0 {
		message += fmt.Sprintf("; %d below another prefix are left alone", p.elsewhere)
	}
	if st.set(s, api.ConditionRetained, value, reason, message, p.now) && value == metav1.ConditionFalse && (reason == ReasonDeletionWaits || !passing[p.held]) {
		st.tell(corev1.EventTypeWarning, eventHeld, message, nil)
	}
}
