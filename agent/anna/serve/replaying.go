package serve

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/stategraft/stategraft/agent/anna/replay"
	"github.com/stategraft/stategraft/agent/anna/safejoin"
	"github.com/stategraft/stategraft/agent/anna/stage"
	"github.com/stategraft/stategraft/agent/anna/store"
	"github.com/stategraft/stategraft/api/node"
)

// How long is tried to stage what the controllers ask for: they wait for an answer, and
// what does not get better by itself is to be told.
const stagingLimit = 10 * time.Minute

// againAfter is the pause after something has gone wrong that may get better.
const againAfter = 10 * time.Second

// restore replays what is staged. It ends when that is done, or has failed for good; what
// may become better is tried for ever: the pod is not Ready before.
func (r *replays) restore(ctx context.Context, s stage.Staged) {
	r.mutex.Lock()
	r.state.Since = s.Since
	r.mutex.Unlock()
	r.tell(*waitingFor(s))
	release, err := r.turn.await(ctx, aReplay, s.Backup, func(why string) {
		p := *waitingFor(s)
		p.Message = why
		r.tell(p)
	})
	if err != nil {
		return
	}
	defer release()
	r.Log.Info("replay begins", "id", s.ID, "backup", s.Backup, "sources", s.Sources, "keys", s.Keys)
	err = r.untilOver(ctx, s)
	if ctx.Err() != nil {
		return
	}
	r.over(s, err)
}

// untilOver runs a replay again that has ended for a reason that may go away.
func (r *replays) untilOver(ctx context.Context, s stage.Staged) error {
	for {
		err := r.engine.ready()
		if err == nil {
			if panicked := guarded(func() { err = r.engine.replay(ctx, s, r.tellOf(s)) }); panicked != nil {
				err = panicked
			}
			if err == nil || ctx.Err() != nil || lasting(err) {
				return err
			}
			r.Log.Warn("a replay is tried again", "id", s.ID, "error", r.Secrets.Hide(err.Error()))
		}
		p := *r.last()
		p.Phase, p.Message = node.ReplayWaiting, r.Secrets.Hide(err.Error())
		r.tell(p)
		if !wait(ctx, r.pause()) {
			return context.Cause(ctx)
		}
	}
}

func (r *replays) pause() time.Duration {
	if r.every > 0 {
		return r.every
	}
	return againAfter
}

// lasting tells whether a replay would fail the same way each time.
func lasting(err error) bool {
	return errors.Is(err, replay.ErrRefused) || errors.Is(err, replay.ErrLost) || stage.CauseOf(err) != node.CauseNone
}

// tellOf takes over what a replay says of itself.
func (r *replays) tellOf(s stage.Staged) func(node.Replay) {
	return func(p node.Replay) {
		p.ID, p.Backup, p.Total = s.ID, s.Backup, s.Keys
		if p.Phase == node.ReplayDone || p.Phase == node.ReplayFailed {
			p.Phase = node.ReplayReplaying // over says so, when it is written down
		}
		r.tell(p)
	}
}

// over writes down how a replay ended, and removes what was staged for it.
func (r *replays) over(s stage.Staged, err error) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	last := r.state.Last
	last.ID, last.Backup, last.Total, last.Ended = s.ID, s.Backup, s.Keys, now()
	if last.Phase = node.ReplayDone; err != nil {
		last.Phase, last.Message = node.ReplayFailed, r.Secrets.Hide(err.Error())
		r.Log.Error("a replay has failed", "id", s.ID, "backup", s.Backup, "keys", last.Keys, "failed", last.Failed, "error", last.Message)
	} else {
		last.Message = ""
		last.Keys = max(last.Keys, s.Keys-last.Failed)
		done := node.Done{ID: s.ID, Backup: s.Backup, Started: last.Started, Finished: last.Ended, Bytes: s.Bytes}
		r.state.Done = append(r.state.Done, done)
		r.state.Done = r.state.Done[max(0, len(r.state.Done)-remembered):]
		r.Log.Info("replay is done", "id", s.ID, "backup", s.Backup, "keys", last.Keys, "newer", last.Newer, "seconds", last.Ended.Sub(last.Started).Seconds())
	}
	asked := r.state.Request != nil
	r.state.Request = nil
	if err := r.write(); err != nil {
		r.Log.Warn("how a replay ended cannot be written down: it would be done again by a sidecar that is started anew", "error", err.Error())
	}
	// What a restore has staged stays where it failed, for whoever looks into that.
	switch {
	case asked:
		r.remove(s)
	case last.Phase == node.ReplayDone:
		// With a note: the restore container, which runs again where the pod's machine has
		// been restarted, is not to need a backup that may be gone then.
		if err := s.Remove(); err != nil {
			r.Log.Warn("what was replayed cannot be removed", "directory", s.Dir, "error", err.Error())
		}
	}
}

// merge does what the controllers ask for: it stages a backup and replays it.
func (r *replays) merge(ctx context.Context, q node.ReplayRequest) {
	began := time.Now()
	s := stage.Staged{ID: q.ID, Backup: q.Backup, Dir: stage.Dir(Staged(r.Places), q.ID)}
	for {
		staged, err := r.stage(ctx, q)
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			r.restore(ctx, staged)
			return
		}
		text := r.Secrets.Hide(err.Error())
		if errors.Is(err, store.ErrNoKey) {
			err = fmt.Errorf("a running sidecar has no key to decrypt a backup with, so that nobody gets at old ones by way of it; a Restore of mode InPlace, whose pods have the key as they start, is what restores it: %w", err)
		}
		if stage.CauseOf(err) != node.CauseNone || errors.Is(err, store.ErrNoKey) || time.Since(began) > stagingLimit {
			r.over(s, err)
			return
		}
		r.Log.Warn("a backup cannot be staged yet", "id", q.ID, "backup", q.Backup, "error", text)
		r.tell(node.Replay{ID: q.ID, Backup: q.Backup, Phase: node.ReplayStaging, Message: text})
		if !wait(ctx, r.pause()) {
			return
		}
	}
}

// stage fetches a backup, in a turn of its own: a deletion would take it away meanwhile.
func (r *replays) stage(ctx context.Context, q node.ReplayRequest) (s stage.Staged, err error) {
	tell := func(message string) {
		r.tell(node.Replay{ID: q.ID, Backup: q.Backup, Phase: node.ReplayStaging, Message: message})
	}
	release, err := r.turn.await(ctx, aReplay, q.Backup, tell)
	if err != nil {
		return s, err
	}
	defer release()
	from, done, err := r.shelf.borrow(ctx, q.Prefix)
	if err != nil {
		return s, err
	}
	defer done()
	panicked := guarded(func() {
		s, err = stage.Fetch(ctx, from, q.ID, q.Backup, q.Sources, nil, stage.Dir(Staged(r.Places), q.ID), func(bytes, total int64) {
			tell(fmt.Sprintf("%d of %d bytes of the storage are there", bytes, total))
		})
	})
	if panicked != nil {
		err = panicked
	}
	return s, err
}

// healed writes what the join of this node has hidden. Whatever goes wrong in it, the node
// serves already.
func (r *replays) healed(ctx context.Context) {
	if _, err := os.Stat(Saved(r.Places)); err != nil {
		return // no turn is taken for nothing
	}
	release, err := r.turn.await(ctx, aHealing, "", func(string) {})
	if err != nil {
		return
	}
	defer release()
	if panicked := guarded(func() { err = r.engine.heal(ctx, func(p node.Replay) { r.healing(p) }) }); panicked != nil {
		err = panicked
	}
	if err != nil && ctx.Err() == nil && !errors.Is(err, safejoin.ErrNothing) {
		r.Log.Warn("keys that this node took over when it joined may be hidden: kubectl stategraft repair writes them again from a backup", "error", err.Error())
	}
}

// healing is told in the log only: it is nothing that anybody has asked for.
func (r *replays) healing(p node.Replay) {
	if p.Phase == node.ReplayDone {
		r.Log.Info("keys that a join hides were written again", "keys", p.Keys, "of", p.Total)
	}
}
