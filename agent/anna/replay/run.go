package replay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/stategraft/stategraft/agent/anna/stage"
	"github.com/stategraft/stategraft/agent/anna/wire"
	"github.com/stategraft/stategraft/api/node"
)

// run is one replay.
type run struct {
	Options
	at     *checkpoint
	report node.Replay
	told   time.Time
	disk   map[string]bool // hosts of the disk tier
}

// rounds is how often it begins from the start because nodes have lost what they had.
const rounds = 3

// Run replays what is staged, and gives nil when every key was answered as done. It
// waits for ever for a cluster that does not answer; it ends before with the context's
// error, ErrRefused, ErrLost, or where the staged files cannot be read. Called again, it
// goes on after the last pack that was done.
func Run(ctx context.Context, o Options) error {
	o = o.withDefaults()
	at, err := open(o.State, o.Staged)
	if err != nil {
		return err
	}
	r := &run{Options: o, at: at}
	r.report = node.Replay{ID: o.Staged.ID, Backup: o.Staged.Backup, Phase: node.ReplayWaiting, Total: o.Staged.Keys, Started: at.Started, Ended: at.Ended}
	err = r.run(ctx)
	switch {
	case err == nil:
		r.report.Phase, r.report.Ended = node.ReplayDone, at.Ended
		r.message("")
	case ctx.Err() != nil:
		return err // it goes on in the next run
	default:
		r.report.Phase, r.report.Ended = node.ReplayFailed, time.Now().UTC().Truncate(time.Second)
		r.message(err.Error())
	}
	r.told = time.Time{}
	r.tell()
	return err
}

func (o Options) withDefaults() Options {
	o.Batch = cmp.Or(o.Batch, 50)
	o.Bytes = cmp.Or(o.Bytes, 32<<20)
	o.Check = cmp.Or(o.Check, 32)
	o.Pause = cmp.Or(o.Pause, 500*time.Millisecond)
	o.LongestPause = max(o.Pause, cmp.Or(o.LongestPause, 15*time.Second))
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}

func (r *run) run(ctx context.Context) error {
	r.count(counts{})
	for r.at.Ended.IsZero() && r.Staged.Keys > 0 {
		count, err := r.wait(ctx)
		if err != nil {
			return err
		}
		budget := r.Budget
		if budget <= 0 {
			budget = max(1, Outstanding/count)
		}
		r.report.Phase = node.ReplayReplaying
		r.message("")
		r.Log.Info("the replay runs", "id", r.Staged.ID, "keys", r.Staged.Keys, "packs", len(r.Staged.Packs), "packs_done", len(r.at.Packs), "outstanding", budget)
		if err := r.packs(ctx, budget); err != nil {
			return err
		}
		gone, err := r.forgotten(ctx)
		if err != nil {
			return err
		}
		if gone == "" {
			break
		}
		if r.at.Rounds+1 >= rounds {
			r.at.Lost = true
			r.at.fail(gone)
			break
		}
		r.Log.Warn("the replay begins anew: "+gone, "round", r.at.Rounds+1)
		r.at.again()
		if err := r.at.write(); err != nil {
			return err
		}
		r.count(counts{})
	}
	return r.end()
}

// end writes down that all was tried.
func (r *run) end() error {
	if r.at.Ended.IsZero() {
		r.at.Ended = time.Now().UTC().Truncate(time.Second)
		if err := r.at.write(); err != nil {
			return err
		}
	}
	r.count(counts{})
	if len(r.at.Failures) == 0 {
		r.Log.Info("the replay is done", "id", r.Staged.ID, "keys", r.report.Keys, "newer_seen", r.report.Newer)
		return nil
	}
	what := ErrRefused
	if r.at.Lost {
		what = ErrLost
	}
	return fmt.Errorf("%d of %d keys were not restored, %w: %s", r.report.Failed, r.Staged.Keys, what, strings.Join(r.at.Failures, "; "))
}

// forgotten asks for the keys that were written first, and says which node has lost them.
func (r *run) forgotten(ctx context.Context) (string, error) {
	for at, keys := range r.at.Witnesses {
		for _, key := range keys {
			there, err := r.there(ctx, key)
			if err != nil {
				return "", err
			}
			if !there {
				return fmt.Sprintf("key %.100q, written to %s, is not there any more: its node has started anew or has lost it", key, at), nil
			}
		}
	}
	return "", nil
}

// there tells whether the cluster has a key, with however many tries.
func (r *run) there(ctx context.Context, key string) (bool, error) {
	pause := r.Pause
	for {
		owners, err := r.Client.Owners(ctx, key)
		if err == nil && len(owners) == 0 {
			err = errors.New("it has no owner")
		}
		for _, owner := range owners {
			found, failed := r.Client.Get(ctx, owner, []string{key})
			if failed == nil && len(found) == 1 {
				t := found[0]
				if t.Error == wire.NoError || t.Error == wire.KeyDNE {
					if t.Lattice != wire.None || len(t.Payload) > 0 {
						return true, nil
					}
					if owner == owners[len(owners)-1] {
						return false, nil
					}
					continue
				}
				failed = errors.New(t.Error.String())
			}
			err = errors.Join(err, failed)
		}
		r.message(fmt.Sprintf("a key cannot be read back: %v", err))
		r.tell()
		if err := sleep(ctx, pause); err != nil {
			return false, err
		}
		pause = min(2*pause, r.LongestPause)
	}
}

// packs replays those that are not done.
func (r *run) packs(ctx context.Context, budget int) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	p := newPipeline(r, budget)
	failed := make(chan error, 1)
	left := slices.DeleteFunc(slices.Clone(r.Staged.Packs), r.at.done)
	go func() {
		defer close(p.in)
		failed <- r.read(ctx, left, p.in)
	}()
	err := p.flow(ctx)
	stop()
	for range p.in { // until the reader has seen it
	}
	if read := <-failed; err == nil {
		err = read
	}
	return err
}

// read passes the records of packs on, some at a time.
func (r *run) read(ctx context.Context, packs []stage.Pack, to chan<- []*item) error {
	var some []*item
	bytes := int64(0)
	send := func() error {
		select {
		case to <- some:
			some, bytes = nil, 0
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	for _, pack := range packs {
		state := &packState{of: pack}
		err := r.Staged.Records(pack, func(record stage.Record) error {
			it := &item{Record: record, pack: state}
			some = append(some, it)
			if bytes += it.size(); len(some) < group && bytes < min(mostBytes, r.Bytes/4) {
				return nil
			}
			return send()
		})
		some = append(some, &item{pack: state, last: true})
		if err == nil {
			err = send()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// count is what is done: the packs, and what is under way.
func (r *run) count(more counts) {
	sum := r.at.total()
	r.report.Keys, r.report.Newer, r.report.Failed = sum.Keys+more.Keys, sum.Newer+more.Newer, sum.Failed+more.Failed
}

// message is what is told with the rest; empty where nothing is waited for.
func (r *run) message(text string) {
	const longest = 1000
	if len(text) > longest {
		text = strings.ToValidUTF8(text[:longest], "") + " …"
	}
	r.report.Message = text
}

// tell tells how far it is, not more than once a second.
func (r *run) tell() {
	if r.Progress != nil && time.Since(r.told) >= time.Second {
		r.told = time.Now()
		r.Progress(r.report)
	}
}
