package scheduler

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	api "github.com/stategraft/stategraft/api/v1alpha1"
)

const (
	workers = 8
	// askers is how many schedules may wait for a look at the storage, which takes long:
	// less than all, so that runs begin meanwhile.
	askers   = 4
	askLimit = 5 * time.Minute

	quickPause = 500 * time.Millisecond // what was read is older than what is there
	turnPause  = 5 * time.Second
)

// reconciler takes a schedule a step further. What it keeps in memory is about how
// often, and what the cache does not show yet; what was done is in the objects.
type reconciler struct {
	cached    client.Reader // Backups, BackupSchedules, Restores
	live      client.Reader // the API server
	store     store
	catalogue Catalogue
	claims    Claims
	tell      teller
	clock     func() time.Time
	log       logr.Logger

	marks    *marks
	turns    *turns
	asking   chan struct{}
	refusals *refusals
}

func newReconciler(cached, live client.Reader, store store, tell teller, o Options) *reconciler {
	return &reconciler{cached: cached, live: live, store: store, catalogue: o.Catalogue, claims: o.Claims, tell: tell, clock: o.Clock, log: logr.Discard(),
		marks: &marks{at: map[types.UID]time.Time{}}, turns: &turns{taken: map[string]bool{}}, asking: make(chan struct{}, askers), refusals: &refusals{of: map[types.NamespacedName]string{}}}
}

// Reconcile implements reconcile.Reconciler.
func (r *reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	var s api.BackupSchedule
	if err := r.cached.Get(ctx, request.NamespacedName, &s); apierrors.IsNotFound(err) {
		r.refusals.set(request.NamespacedName, "")
		return reconcile.Result{}, nil
	} else if err != nil {
		return reconcile.Result{}, fmt.Errorf("reading BackupSchedule %s: %w", request.NamespacedName, err)
	}
	if s.DeletionTimestamp != nil {
		return reconcile.Result{}, nil
	}
	after, err := r.step(ctx, &s)
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) { // somebody was faster
		return reconcile.Result{RequeueAfter: quickPause}, nil
	}
	return reconcile.Result{RequeueAfter: after}, err
}

// step reads what is there, and does what comes next.
func (r *reconciler) step(ctx context.Context, s *api.BackupSchedule) (time.Duration, error) {
	w, err := r.gather(ctx, s)
	if err != nil {
		return 0, err
	}
	if name := s.Status.Pending; name != "" && w.find(name) == nil {
		if err := r.missed(ctx, s, w); err != nil {
			return 0, err
		}
	}
	st, a := next(s, w, r.clock())
	if a.spec.Cron != nil && st.create == nil {
		done, err := r.retention(ctx, s, w, a, st)
		defer done()
		if err != nil {
			return 0, err
		}
	}
	if err := r.do(ctx, s, st); err != nil {
		return 0, err
	}
	if st.at.IsZero() {
		return 0, nil
	}
	return max(st.at.Sub(r.clock()), quickPause), nil
}

// missed looks for the Backup of a run that was begun and that the cache does not have:
// it was made a moment ago, or was not. What is asked of the API server is also whether
// the run is still to be made: a cache that is behind says so of one that was made and
// deleted.
func (r *reconciler) missed(ctx context.Context, s *api.BackupSchedule, w *world) error {
	var now api.BackupSchedule
	if err := r.live.Get(ctx, client.ObjectKeyFromObject(s), &now); err != nil {
		return fmt.Errorf("reading BackupSchedule %s/%s: %w", s.Namespace, s.Name, err)
	}
	if now.UID != s.UID || now.ResourceVersion != s.ResourceVersion {
		return apierrors.NewConflict(api.GroupVersion.WithResource("backupschedules").GroupResource(), s.Name, errOutdated)
	}
	var b api.Backup
	err := r.live.Get(ctx, types.NamespacedName{Namespace: s.Namespace, Name: s.Status.Pending}, &b)
	switch {
	case apierrors.IsNotFound(err):
		w.refusal = r.refusals.get(client.ObjectKeyFromObject(s))
	case err != nil:
		return fmt.Errorf("reading Backup %s/%s: %w", s.Namespace, s.Status.Pending, err)
	case b.Labels[api.LabelSchedule] == s.Name:
		w.own = append([]*api.Backup{&b}, w.own...)
		newestFirst(w.own)
	default:
		w.refusal = "there is a Backup of that name that is not of this schedule, as its label " + api.LabelSchedule + " says: delete or rename it"
	}
	return nil
}

// do does a step, in the order that step says.
func (r *reconciler) do(ctx context.Context, s *api.BackupSchedule, st *step) error {
	if !equality.Semantic.DeepEqual(s.Status, st.status) {
		written := s.DeepCopy()
		written.Status = st.status
		if err := r.store.writeStatus(ctx, written); err != nil {
			return fmt.Errorf("writing the status of BackupSchedule %s/%s: %w", s.Namespace, s.Name, err)
		}
		s = written
	}
	for _, say := range st.say {
		r.tell.tell(ofSchedule(s), say.backup, say.kind, say.reason, say.note)
		r.log.Info("schedule", "namespace", s.Namespace, "schedule", s.Name, "event", say.reason, "message", say.note)
	}
	for _, b := range st.keep {
		if err := r.giveBack(ctx, b); err != nil {
			return err
		}
	}
	for _, b := range st.cancel {
		if err := r.cancel(ctx, b); err != nil {
			return err
		}
	}
	if st.create != nil {
		return r.create(ctx, s, st.create)
	}
	for _, b := range st.forget {
		if err := r.forget(ctx, s, b); err != nil {
			return err
		}
	}
	if st.remove != nil {
		return r.remove(ctx, s, st.remove)
	}
	return nil
}
