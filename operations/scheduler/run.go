package scheduler

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/objects"
)

const measureEvery = 15 * time.Second

// runners are the controller and what keeps the metrics up to date.
func runners(cached cache.Cache, r *reconciler) ([]objects.Runner, error) {
	c, err := objects.NewController("backupschedule", workers, r.log, r)
	if err != nil {
		return nil, err
	}
	toSchedules := handler.TypedEnqueueRequestsFromMapFunc(func(ctx context.Context, b *api.Backup) []reconcile.Request { return concerned(ctx, cached, b) })
	for _, s := range []source.Source{
		source.Kind(cached, &api.BackupSchedule{}, &handler.TypedEnqueueRequestForObject[*api.BackupSchedule]{}, changed),
		source.Kind(cached, &api.Backup{}, toSchedules, matters),
	} {
		if err := c.Watch(s); err != nil {
			return nil, fmt.Errorf("watching for BackupSchedules: %w", err)
		}
	}
	return []objects.Runner{c, objects.Func(func(ctx context.Context) error { measure(ctx, cached); return nil })}, nil
}

// concerned are the schedule of a Backup and those that wait for something of its
// namespace. What waits for another namespace is looked at within a minute.
func concerned(ctx context.Context, cached client.Reader, b *api.Backup) (requests []reconcile.Request) {
	of := b.Labels[api.LabelSchedule]
	if of != "" {
		requests = append(requests, reconcile.Request{NamespacedName: types.NamespacedName{Namespace: b.Namespace, Name: of}})
	}
	if !b.Status.Phase.Final() && b.DeletionTimestamp == nil {
		return requests // nobody waits for it to begin
	}
	var list api.BackupScheduleList
	if err := cached.List(ctx, &list, client.InNamespace(b.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return requests
	}
	for i := range list.Items {
		s := &list.Items[i]
		if s.Name != of && waits(s) {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(s)})
		}
	}
	return requests
}

// waits tells whether a schedule, or its retention, waits for what goes on.
func waits(s *api.BackupSchedule) bool {
	if s.Status.Retention != nil && s.Status.Retention.Held != "" {
		return true
	}
	c := meta.FindStatusCondition(s.Status.Conditions, api.ConditionOnTime)
	return c != nil && (c.Reason == ReasonBusy || c.Reason == ReasonCleaning)
}

// changed lets through what somebody else has changed. Our own writing of the status is
// no reason to look again: what comes next has its time.
var changed = predicate.TypedFuncs[*api.BackupSchedule]{
	UpdateFunc: func(e event.TypedUpdateEvent[*api.BackupSchedule]) bool {
		return e.ObjectOld.Generation != e.ObjectNew.Generation || e.ObjectOld.UID != e.ObjectNew.UID ||
			(e.ObjectOld.DeletionTimestamp == nil) != (e.ObjectNew.DeletionTimestamp == nil)
	},
}

// matters lets through what a schedule goes by, and not how far a Backup is.
var matters = predicate.TypedFuncs[*api.Backup]{
	UpdateFunc: func(e event.TypedUpdateEvent[*api.Backup]) bool {
		a, b := e.ObjectOld, e.ObjectNew
		return a.Generation != b.Generation || a.UID != b.UID || (a.DeletionTimestamp == nil) != (b.DeletionTimestamp == nil) ||
			a.Status.Phase != b.Status.Phase || a.Status.Name != b.Status.Name || a.Labels[api.LabelSchedule] != b.Labels[api.LabelSchedule] ||
			!equality.Semantic.DeepEqual(a.Status.Verified, b.Status.Verified) ||
			!equality.Semantic.DeepEqual(meta.FindStatusCondition(a.Status.Conditions, api.ConditionDeleted), meta.FindStatusCondition(b.Status.Conditions, api.ConditionDeleted))
	},
}

// measure keeps the metrics up to date until the context ends.
func measure(ctx context.Context, cached client.Reader) {
	defer exported.set(nil)
	for ctx.Err() == nil {
		var list api.BackupScheduleList
		if err := cached.List(ctx, &list, client.UnsafeDisableDeepCopy); err == nil {
			exported.set(list.Items)
		}
		select {
		case <-ctx.Done():
		case <-time.After(measureEvery):
		}
	}
}
