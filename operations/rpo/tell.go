package rpo

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/telling"
	"github.com/stategraft/stategraft/workload"
)

// The reasons of the events, a closed set: on the workload, and on the BackupSchedule.
const (
	eventBehind   = "BackupBehind"
	eventCaughtUp = "BackupCaughtUp"
	eventBad      = "BackupAnnotationBad" // on the workload whose pods, or namespace, have it
)

// noteLimit is less than an event's note may have (k8s.io/api/events/v1).
const noteLimit = 900

// teller tells of what has changed since it last told. It knows of workloads for as
// long as the process lives: the next one says once more which are behind.
type teller struct {
	status client.StatusClient
	events events.EventRecorder
	behind map[workloadKey]bool
	bad    map[workloadKey]string // the texts of annotations that were told
}

// tell tells all. It is to be called again soon where somebody else had written a status
// meanwhile; its error is of one that could not be written.
func (t *teller) tell(ctx context.Context, schedules []api.BackupSchedule, rows []Row, now time.Time) (again bool, failed error) {
	t.workloads(rows)
	of := bySchedule(rows)
	for i := range schedules {
		s := &schedules[i]
		switch err := t.schedule(ctx, s, of[client.ObjectKeyFromObject(s)], now); {
		case apierrors.IsConflict(err):
			again = true
		case err != nil:
			failed = errors.Join(failed, err)
		}
	}
	return again, failed
}

// schedule writes the condition of a BackupSchedule, where it says something new.
func (t *teller) schedule(ctx context.Context, s *api.BackupSchedule, rows []*Row, now time.Time) error {
	if s.DeletionTimestamp != nil {
		return nil
	}
	c := conditionOf(s, rows, now)
	before := meta.FindStatusCondition(s.Status.Conditions, ConditionWithinRPO)
	if before != nil && before.Status == c.Status && before.Reason == c.Reason && before.Message == c.Message && before.ObservedGeneration == c.ObservedGeneration {
		return nil
	}
	changed := s.DeepCopy()
	meta.SetStatusCondition(&changed.Status.Conditions, c)
	switch err := t.status.Status().Update(ctx, changed); {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("writing the status of BackupSchedule %s/%s: %w", s.Namespace, s.Name, err)
	}
	was := metav1.ConditionUnknown
	if before != nil {
		was = before.Status
	}
	about := corev1.ObjectReference{APIVersion: api.GroupVersion.String(), Kind: "BackupSchedule", Namespace: s.Namespace, Name: s.Name, UID: s.UID, ResourceVersion: s.ResourceVersion}
	switch {
	case c.Status == metav1.ConditionFalse && was != metav1.ConditionFalse:
		t.say(about, corev1.EventTypeWarning, eventBehind, c.Message)
	case c.Status == metav1.ConditionTrue && was == metav1.ConditionFalse:
		t.say(about, corev1.EventTypeNormal, eventCaughtUp, c.Message)
	}
	return nil
}

// workloads writes events on workloads that have fallen behind, or have caught up.
func (t *teller) workloads(rows []Row) {
	keys, of := byWorkload(rows)
	late, bad := map[workloadKey]bool{}, map[workloadKey]string{}
	for _, key := range keys {
		about := key.reference()
		switch all := behind(of[key]); {
		case len(all) > 0:
			late[key] = true
			if !t.behind[key] {
				t.say(about, corev1.EventTypeWarning, eventBehind, fmt.Sprintf("%d of %s: %s: %s", len(all), pods(len(of[key])), all[0].Pod, all[0].Why))
			}
		case t.behind[key]:
			t.say(about, corev1.EventTypeNormal, eventCaughtUp, "the last complete backup of each pod is within its RPO")
		}
		for _, r := range of[key] {
			if len(r.RPOBad) == 0 {
				continue
			}
			bad[key] = badText(r.RPOBad[0])
			if t.bad[key] != bad[key] {
				t.say(about, corev1.EventTypeWarning, eventBad, bad[key])
			}
			break
		}
	}
	t.behind, t.bad = late, bad
}

func badText(bad BadRPO) string {
	where := "the pod"
	if bad.OfNamespace {
		where = "the namespace"
	}
	return fmt.Sprintf("annotation %s of %s is %q: %v", api.AnnotationRPO, where, workload.Short(bad.Value), api.ErrRPO)
}

func (key workloadKey) reference() corev1.ObjectReference {
	return corev1.ObjectReference{APIVersion: key.owner.APIVersion, Kind: key.owner.Kind, Namespace: key.namespace, Name: key.owner.Name, UID: types.UID(key.owner.UID)}
}

// say writes an event. The recorder only queues: nothing waits for the API server.
func (t *teller) say(about corev1.ObjectReference, kind, reason, note string) {
	t.events.Eventf(&about, nil, kind, reason, telling.Action("RPO", note), "%s", workload.Clip(note, noteLimit))
}
