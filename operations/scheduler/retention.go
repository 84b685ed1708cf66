package scheduler

import (
	"context"
	"fmt"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/stategraft/stategraft/api/v1alpha1"
)

// listingAge is how old a listing of the storage may be that something is deleted by.
const listingAge = 5 * time.Minute

// retention decides what is deleted, and writes it into the step. Done is to be called
// when the step is done: until then no other schedule of the cluster decides.
func (r *reconciler) retention(ctx context.Context, s *api.BackupSchedule, w *world, a asked, st *step) (done func(), err error) {
	done = func() {}
	p, ask := survey(s, w, a, r.clock())
	if !ask {
		st.retain(s, w, p)
		return done, nil
	}
	if ended := w.ended(p.prefix); !r.clock().After(ended) {
		st.look(ended.Add(time.Second))
		return done, nil
	}
	turn := key(s.Namespace, p.prefix)
	if !r.turns.take(turn) {
		st.look(r.clock().Add(turnPause))
		return done, nil
	}
	select {
	case r.asking <- struct{}{}:
	default: // others ask already
		r.turns.give(turn)
		st.look(r.clock().Add(turnPause))
		return done, nil
	}
	bounded, cancel := context.WithTimeout(ctx, askLimit)
	listing := r.catalogue.Listing(bounded, s.Namespace, p.prefix, min(listingAge, max(0, r.clock().Sub(w.ended(p.prefix)))))
	cancel()
	<-r.asking
	done = func() { r.turns.give(turn) }

	// In the meantime things may have changed: all is decided from what is there now.
	again, err := r.gather(ctx, s)
	if err != nil {
		return done, err
	}
	*w = *again
	if listing.Failed == "" && !listing.Listed.After(w.ended(p.prefix)) {
		// A backup has ended since: that the listing does not have it says nothing.
		st.look(r.clock().Add(turnPause))
		return done, nil
	}
	p, ask = survey(s, w, a, r.clock())
	if ask {
		p.decide(s, w, a, listing)
		if p.held == "" {
			st.forget = w.spare(s, p.stock, &listing)
		}
		if p.removing != nil {
			if err := r.confirm(ctx, s, w, p); err != nil {
				return done, err
			}
		}
	}
	st.retain(s, w, p)
	return done, nil
}

// confirm asks the API server whether what a deletion is decided by is still so: the
// rules are these, the newest complete one is there, and nothing reads the one to go.
// That one itself is written only in the version that was read.
func (r *reconciler) confirm(ctx context.Context, s *api.BackupSchedule, w *world, p *pass) error {
	var schedule api.BackupSchedule
	if err := r.live.Get(ctx, client.ObjectKeyFromObject(s), &schedule); err != nil {
		return fmt.Errorf("reading BackupSchedule %s/%s: %w", s.Namespace, s.Name, err)
	}
	if schedule.UID != s.UID || schedule.ResourceVersion != s.ResourceVersion || schedule.DeletionTimestamp != nil {
		return conflict("backupschedules", s.Name)
	}
	var keeper api.Backup
	if err := r.live.Get(ctx, client.ObjectKeyFromObject(p.removing.keeper), &keeper); err != nil {
		return fmt.Errorf("reading Backup %s/%s, the newest complete one: %w", s.Namespace, p.removing.keeper.Name, err)
	}
	if keeper.UID != p.removing.keeper.UID || keeper.DeletionTimestamp != nil || keeper.Status.Phase != api.BackupComplete {
		return conflict("backups", keeper.Name)
	}
	var list api.RestoreList
	if err := r.live.List(ctx, &list, client.InNamespace(s.Namespace)); err != nil {
		return fmt.Errorf("listing Restores: %w", err)
	}
	now := &world{own: w.own, marked: w.marked}
	for i := range list.Items {
		if using(&list.Items[i]) {
			now.restores = append(now.restores, &list.Items[i])
		}
	}
	if now.usedBy(p.removing.backup) != "" || now.restoring(s.Namespace, p.prefix) != nil {
		return conflict("restores", s.Name)
	}
	return nil
}
