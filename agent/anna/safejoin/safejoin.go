// Package safejoin keeps the keys that a join of a node loses. Anna hands a node that
// joins fifty keys of each thread and never gets further: the rest are hidden for good,
// on the old owner, which says that they are not its own any more, and on the new one,
// which has not got them. So before a node joins, its setup container copies the keys of its
// tier from the nodes that are there, and when it has joined the sidecar writes those that
// are the node's now. Nothing of it keeps a node from starting.
//
//	safejoin.go  both halves
//	save.go      the first
//	fresh.go     what it waits for
package safejoin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/stategraft/stategraft/agent/anna/client"
	"github.com/stategraft/stategraft/agent/anna/replay"
	"github.com/stategraft/stategraft/agent/anna/stage"
	"github.com/stategraft/stategraft/agent/anna/wire"
	"github.com/stategraft/stategraft/agent/files"
	"github.com/stategraft/stategraft/api/node"
)

// Client is what it needs of *client.Client.
type Client interface {
	replay.Client
	Report(ctx context.Context, s wire.Server, tier wire.Tier, tid int) (client.Report, error)
}

// Options are of both halves.
type Options struct {
	Client Client
	Dir    string      // where the keys are kept between the halves, on an emptyDir of the pod
	Self   wire.Server // the node that joins
	Tier   wire.Tier
	// Again has keys saved for a node that is a member already, since it was one before its
	// pod was created anew: nobody hands it anything. It has its keys from other replicas.
	Again bool

	Limit time.Duration // of Save; 0: 2 min
	// Period is how often nodes report their keys; 0: as often as Anna's.
	Period time.Duration
	Bytes  int64             // most that Save keeps; 0: 2 GiB, or half of the room that there is
	Tell   func(node.Replay) // of Heal; may be nil
	Log    *slog.Logger
}

// ErrNothing says that there is nothing to do: no other node of the tier is there, or
// this one has joined before. It is no reason for a warning.
var ErrNothing = errors.New("there is nothing to save")

// ID is that of what Heal replays, in node.Replay.
const ID = "safe-join"

func (o Options) withDefaults() Options {
	o.Limit = cmp.Or(o.Limit, 2*time.Minute)
	o.Period = cmp.Or(o.Period, period)
	if o.Bytes == 0 {
		o.Bytes = 2 << 30
		if free, err := files.Free(filepath.Dir(o.Dir)); err == nil {
			o.Bytes = min(o.Bytes, free/2)
		}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}

// Save copies the keys of the node's tier from the members that are there. With any
// error the node is to start all the same, with a warning where it is not ErrNothing;
// what could be copied until then is kept. Done before, it is not done again: the node
// may have joined since.
func Save(ctx context.Context, o Options) (keys int64, err error) {
	o = o.withDefaults()
	if s, err := stage.Read(o.Dir); err == nil {
		return s.Keys, nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, o.Limit, fmt.Errorf("it has taken %v", o.Limit))
	defer cancel()
	peers, err := o.peers(ctx)
	if err != nil {
		return 0, err
	}
	if err := os.RemoveAll(o.Dir); err != nil { // half of an earlier try
		return 0, fmt.Errorf("save the tier's keys: %w", err)
	}
	if err := files.MakeDir(o.Dir, 0o755, files.Owner{}); err != nil {
		return 0, err
	}
	began := time.Now()
	o.fresh(ctx, peers)
	s, err := o.save(ctx, peers)
	if err == nil || s.Keys > 0 {
		err = errors.Join(err, s.Write())
	}
	o.Log.Info("keys were saved before the join", "keys", s.Keys, "bytes", s.Bytes, "peers", len(peers), "seconds", time.Since(began).Seconds())
	return s.Keys, err
}

// peers are the nodes of the tier, if this one is about to join them.
func (o Options) peers(ctx context.Context) ([]wire.Server, error) {
	members, err := o.Client.Members(ctx)
	if err != nil {
		return nil, fmt.Errorf("save the tier's keys: %w", err)
	}
	var peers []wire.Server
	for _, s := range members.Of(o.Tier) {
		switch {
		case s.Private != o.Self.Private:
			peers = append(peers, s)
		case !o.Again:
			return nil, fmt.Errorf("%s is a member already: %w", s.Private, ErrNothing)
		}
	}
	if len(peers) == 0 {
		return nil, fmt.Errorf("the %s tier has no member yet: %w", o.Tier, ErrNothing)
	}
	return peers, nil
}

// Heal writes the saved keys that are this node's now that it has joined, and removes
// what was saved. It gives ErrNothing where nothing was. It waits until the node is a
// member, and for answers for as long as that takes.
func Heal(ctx context.Context, o Options) error {
	o = o.withDefaults()
	s, err := stage.Read(o.Dir)
	if errors.Is(err, stage.ErrNotStaged) {
		return ErrNothing
	}
	if err == nil {
		err = replay.Run(ctx, replay.Options{
			Client: o.Client, Staged: s, State: o.Dir, Progress: o.Tell, Log: o.Log,
			Expect: func(context.Context) ([]replay.Member, error) {
				return []replay.Member{{Name: o.Self.Private}}, nil
			},
			Only: o.own,
		})
	}
	if err != nil && ctx.Err() != nil {
		return err // the next start goes on
	}
	if failed := os.RemoveAll(o.Dir); failed != nil && !errors.Is(failed, fs.ErrNotExist) {
		err = errors.Join(err, failed)
	}
	if err != nil {
		return fmt.Errorf("write the keys that the join may have lost: %w", err)
	}
	return nil
}

// own are those owners that are this node's threads.
func (o Options) own(owners []string) []string {
	var own []string
	for _, owner := range owners {
		if host, _, err := wire.ParseAddress(owner); err == nil && host == o.Self.Public {
			own = append(own, owner)
		}
	}
	return own
}
