package verify

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/schedule"
)

const (
	// mostInAll verifications run at once, and of a namespace one: they take the disk and
	// the network of some node each.
	mostInAll = 2
	// longest is until a schedule is looked at again: clocks are put.
	longest = time.Hour
	// lag is how long the cache may not know yet what was written.
	lag = 30 * time.Second
)

// starts begins verifications when they are due, and tells a schedule of its last. One
// worker runs it.
type starts struct {
	*world
	tell  teller
	clock func() time.Time
	every time.Duration // between two looks whether there is room for another
	log   logr.Logger

	begun map[types.UID]begun // lately
}

type begun struct {
	namespace string
	at        time.Time
}

// Reconcile implements reconcile.Reconciler, of BackupSchedules.
func (r *starts) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	s, err := r.schedule(ctx, request.NamespacedName)
	if apierrors.IsNotFound(err) {
		return reconcile.Result{}, nil
	}
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("reading BackupSchedule %s: %w", request, err)
	}
	if s.DeletionTimestamp != nil {
		return reconcile.Result{}, nil
	}
	status := s.Status.DeepCopy()
	result, err := r.decide(ctx, s, status)
	if err == nil && !equality.Semantic.DeepEqual(&s.Status, status) {
		err = r.writeSchedule(ctx, s, status)
	}
	if outdated(err) {
		return reconcile.Result{RequeueAfter: time.Second}, nil
	}
	return result, err
}

// decide begins what is due, and changes the status to what it is then.
func (r *starts) decide(ctx context.Context, s *api.BackupSchedule, status *api.BackupScheduleStatus) (reconcile.Result, error) {
	all, err := r.backups(ctx, s.Namespace)
	if err != nil {
		return reconcile.Result{}, err
	}
	own := ofSchedule(all, s)
	status.LastVerified = passed(own, status.LastVerified, r.clock())
	if s.Spec.Verify == nil {
		status.NextVerification = nil
		return reconcile.Result{}, nil
	}
	cron, err := schedule.Parse(s.Spec.Verify.Schedule, s.Spec.TimeZone)
	if err != nil {
		status.NextVerification = nil
		if s.Status.NextVerification != nil {
			r.tell.tell(ofScheduleObject(s), nil, corev1.EventTypeWarning, eventSkipped, "spec.verify: "+err.Error())
		}
		return reconcile.Result{}, nil
	}
	now := r.clock()
	next := due(s, cron, now)
	if !next.After(now) {
		done, err := r.start(ctx, s, own, next)
		if err != nil {
			return reconcile.Result{}, err
		}
		if !done {
			return reconcile.Result{RequeueAfter: r.every}, nil
		}
		next = cron.Next(now)
	}
	at := metav1.NewTime(next.UTC())
	status.NextVerification = &at
	return reconcile.Result{RequeueAfter: min(max(next.Sub(now), time.Second), longest)}, nil
}

// start begins the verification that was due at a time. It is done also where that has
// begun before and the schedule was not told, and where there is nothing to verify.
func (r *starts) start(ctx context.Context, s *api.BackupSchedule, own []*api.Backup, at time.Time) (bool, error) {
	for _, b := range own {
		if running(b) {
			return true, nil
		}
	}
	for _, b := range own {
		if v := b.Status.Verified; v != nil && v.Started != nil && !v.Started.Time.Before(at) && !future(v.Started.Time, r.clock()) {
			return true, nil
		}
	}
	b := pick(own)
	if b == nil {
		r.tell.tell(ofScheduleObject(s), nil, corev1.EventTypeNormal, eventSkipped, "there is no complete Backup of this schedule to be restored on trial")
		return true, nil
	}
	free, err := r.room(ctx, s.Namespace)
	if err != nil || !free {
		return false, err
	}
	status := b.Status.DeepCopy()
	status.Verified = begin(first(b, own), r.clock())
	if err := r.writeBackup(ctx, b, status); err != nil {
		return false, err
	}
	r.begun[b.UID] = begun{b.Namespace, r.clock()}
	tellBoth(r.tell, b, s, corev1.EventTypeNormal, eventStarted, "it is restored on trial, beginning with node "+current(status.Verified))
	return true, nil
}

// room tells whether one more may run.
func (r *starts) room(ctx context.Context, namespace string) (bool, error) {
	all, err := r.backups(ctx, "")
	if err != nil {
		return false, err
	}
	busy := map[types.UID]string{}
	for uid, of := range r.begun {
		if r.clock().Sub(of.at).Abs() > lag { // clocks are put back, too
			delete(r.begun, uid)
			continue
		}
		busy[uid] = of.namespace
	}
	for i := range all {
		if b := &all[i]; running(b) && b.DeletionTimestamp == nil {
			busy[b.UID] = b.Namespace
		}
	}
	for _, of := range busy {
		if of == namespace {
			return false, nil
		}
	}
	return len(busy) < mostInAll, nil
}

// passed is the newest verification that passed, of the Backups that are there and the
// one that was known before.
func passed(own []*api.Backup, before *api.ScheduledBackup, now time.Time) *api.ScheduledBackup {
	last := before
	if last != nil && last.Finished != nil && future(last.Finished.Time, now) {
		last = nil
	}
	for _, b := range own {
		v := b.Status.Verified
		if v == nil || v.Result != api.VerificationPassed || v.Finished == nil || future(v.Finished.Time, now) {
			continue
		}
		if last == nil || last.Finished == nil || v.Finished.After(last.Finished.Time) {
			last = &api.ScheduledBackup{Backup: b.Name, Finished: v.Finished.DeepCopy()}
		}
	}
	return last
}
