package annotated

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/telling"
	wl "github.com/stategraft/stategraft/workload"
)

// noteLimit is less than an event's note may have (k8s.io/api/events/v1).
const noteLimit = 900

// writer writes BackupSchedules, and events, for which nothing waits.
type writer struct {
	client client.Client
	events events.EventRecorder
}

// create makes a BackupSchedule. The cache may not have one that was just made: the API
// server has, and the next look finds it.
func (w *writer) create(ctx context.Context, s *api.BackupSchedule, c cluster) error {
	if err := w.client.Create(ctx, s); err != nil {
		return fmt.Errorf("making BackupSchedule %s/%s: %w", s.Namespace, s.Name, err)
	}
	log.FromContext(ctx).Info("BackupSchedule made of annotations", "schedule", s.Name, "runs", s.Spec.Schedule)
	w.say(c.reference(s.Namespace), corev1.EventTypeNormal, eventMade, fmt.Sprintf("BackupSchedule %s is made: %s, in UTC; %s", s.Name, s.Spec.Schedule, keeps(s)))
	return nil
}

// update writes one that was read from the cache: if it has changed since, it fails.
func (w *writer) update(ctx context.Context, s *api.BackupSchedule, c cluster) error {
	if err := w.client.Update(ctx, s); err != nil {
		return fmt.Errorf("changing BackupSchedule %s/%s: %w", s.Namespace, s.Name, err)
	}
	log.FromContext(ctx).Info("BackupSchedule changed by annotations", "schedule", s.Name, "runs", s.Spec.Schedule)
	w.say(c.reference(s.Namespace), corev1.EventTypeNormal, eventChanged, fmt.Sprintf("BackupSchedule %s is changed: %s; %s", s.Name, s.Spec.Schedule, keeps(s)))
	return nil
}

// delete deletes the very one that was looked at: somebody may have taken the label off
// meanwhile, to keep it.
func (w *writer) delete(ctx context.Context, s *api.BackupSchedule, c cluster, why string) error {
	err := w.client.Delete(ctx, s, client.Preconditions{UID: &s.UID, ResourceVersion: &s.ResourceVersion})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("deleting BackupSchedule %s/%s: %w", s.Namespace, s.Name, err)
	}
	log.FromContext(ctx).Info("BackupSchedule deleted", "schedule", s.Name, "reason", why)
	about := referenceOf(s)
	if len(c) > 0 {
		about = c.reference(s.Namespace)
	}
	w.say(about, corev1.EventTypeNormal, eventDeleted, fmt.Sprintf("BackupSchedule %s is deleted, and its Backups stay: %s", s.Name, why))
	return nil
}

func keeps(s *api.BackupSchedule) string {
	if r := s.Spec.Retention; r != nil && r.KeepLast != nil {
		return fmt.Sprintf("it keeps the last %d complete Backups", *r.KeepLast)
	}
	return "it keeps all Backups"
}

// done tells whether a BackupSchedule was written. One that the API server does not take
// it would not take the next time either: that is told, and no error.
func (l *look) done(c cluster, err error) (bool, error) {
	if apierrors.IsInvalid(err) {
		l.tellOnce(c, eventRejected, err.Error())
		return false, nil
	}
	return err == nil, err
}

// tellOnce tells something of a cluster that is amiss, unless it was the last that was
// told; an empty text is that nothing is.
func (l *look) tellOnce(c cluster, reason, text string) {
	about := c.reference(l.namespace)
	key := l.namespace + "/" + about.Kind + "/" + about.Name
	if l.memory.news(key, text) && text != "" {
		l.write.say(about, corev1.EventTypeWarning, reason, text)
	}
}

// reference is the first workload of a cluster, on which its events are.
func (c cluster) reference(namespace string) corev1.ObjectReference {
	owner := c[0].owner
	return corev1.ObjectReference{APIVersion: owner.APIVersion, Kind: owner.Kind, Namespace: namespace, Name: owner.Name, UID: types.UID(owner.UID)}
}

// say writes an event.
func (w *writer) say(about corev1.ObjectReference, kind, reason, note string) {
	w.events.Eventf(&about, nil, kind, reason, telling.Action("Annotated", note), "%s", wl.Clip(note, noteLimit))
}
