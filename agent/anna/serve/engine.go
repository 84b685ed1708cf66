package serve

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"github.com/stategraft/stategraft/agent/anna/backup"
	"github.com/stategraft/stategraft/agent/anna/config"
	"github.com/stategraft/stategraft/agent/anna/manifest"
	"github.com/stategraft/stategraft/agent/anna/replay"
	"github.com/stategraft/stategraft/agent/anna/safejoin"
	"github.com/stategraft/stategraft/agent/anna/stage"
	"github.com/stategraft/stategraft/agent/anna/store"
	"github.com/stategraft/stategraft/agent/anna/wire"
	"github.com/stategraft/stategraft/api/node"
)

// settled is how long DNS has to tell of the same nodes before a replay believes that
// these are all: pods that are created together appear one after the other.
const settled = 20 * time.Second

// self is what the node is called: by its own file, or else it is the member whose name
// leads to this pod.
func (a *anna) self(ctx context.Context) (wire.Server, error) {
	if e, err := a.file(); err == nil && e.Self.Public != "" && e.Self.Private != "" {
		return e.Self, nil
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return wire.Server{}, err
	}
	c, err := a.asked()
	if err != nil {
		return wire.Server{}, err
	}
	members, err := c.Members(ctx)
	if err != nil {
		return wire.Server{}, err
	}
	s, ok, err := config.Member(ctx, a.resolver, members, a.tier(), a.Pod.IP)
	switch {
	case ok:
		return s, nil
	case err != nil:
		return s, err
	}
	return s, fmt.Errorf("no member of tier %s leads to this pod's address %s: has the node joined?", a.tier(), a.Pod.IP)
}

// backup implements engine.
func (a *anna) backup(ctx context.Context, name string, full bool, to storage, tell func(backup.Progress)) (m manifest.Manifest, err error) {
	c, err := a.asked()
	if err != nil {
		return m, err
	}
	self, err := a.self(ctx)
	if err != nil {
		return m, fmt.Errorf("find out what this node is called: %w", err)
	}
	bucket, ok := to.(*store.Store)
	if !ok {
		return m, fmt.Errorf("a storage of type %T takes no backups", to)
	}
	var from backup.Source = c
	threads := a.threads()
	if threads == 0 {
		from = a.counting(c)
	}
	defer a.share(ctx, c)()
	return backup.Run(ctx, backup.Job{
		Name: name, Node: a.Pod.Name, Cluster: a.Pod.Cluster, Role: a.Pod.Role, Full: full,
		Self: self, Tier: a.tier(), Threads: threads, Local: a.Local,
		Scratch: a.Private, Period: a.period, Log: a.Log.With("backup", name),
	}, from, bucket, tell)
}

// replay implements replaying. What is done is written down beside what is staged, and
// goes with it.
func (a *anna) replay(ctx context.Context, s stage.Staged, tell func(node.Replay)) error {
	c, err := a.asked()
	if err != nil {
		return err
	}
	return replay.Run(ctx, replay.Options{Client: c, Staged: s, State: s.Dir, Expect: a.expect, Progress: tell, Log: a.Log.With("replay", s.ID)})
}

// expect gives the data nodes that DNS tells of, when it has told of the same for a while.
func (a *anna) expect(ctx context.Context) (all []replay.Member, err error) {
	for _, pick := range []func(config.Services) string{
		func(s config.Services) string { return s.Memory }, func(s config.Services) string { return s.Disk },
	} {
		host := a.host(pick)
		if host == "" {
			continue
		}
		peers, err := config.Peers(ctx, a.resolver, host)
		if err != nil && !errors.Is(err, config.ErrNoPeers) {
			return nil, err
		}
		for _, p := range peers {
			m := replay.Member{Name: p.Name}
			if p.Addr != "" {
				m.Addresses = []string{p.Addr}
			}
			all = append(all, m)
		}
	}
	long := settled
	if a.every > 0 {
		long = 2 * a.every
	}
	if len(all) > 0 {
		return all, a.settles("DNS", all, long)
	}
	// No Service is called as the configuration says: then it is the members that have to
	// stay the same, and for longer, as those that are missing are not known.
	c, err := a.asked()
	if err != nil {
		return nil, err
	}
	members, err := c.Members(ctx)
	if err != nil {
		return nil, err
	}
	for _, s := range append(members.Of(wire.Memory), members.Of(wire.Disk)...) {
		all = append(all, replay.Member{Name: s.Private})
	}
	return all, a.settles("no Service of data nodes is in DNS (section stategraft.services of anna-config.yml names them), and routing", all, 6*long)
}

// settles is an error while the peers that somebody tells of change.
func (a *anna) settles(who string, all []replay.Member, long time.Duration) error {
	var names []string
	for _, m := range all {
		names = append(names, m.Name)
	}
	slices.Sort(names)
	a.mutex.Lock()
	defer a.mutex.Unlock()
	if a.changed.IsZero() || !slices.Equal(names, a.peers) {
		a.peers, a.changed = names, time.Now()
	}
	if time.Since(a.changed) < long {
		return fmt.Errorf("%s tells of %d data nodes, and that is to stay so for %v before the first key is written", who, len(names), long)
	}
	return nil
}

// heal implements replaying.
func (a *anna) heal(ctx context.Context, tell func(node.Replay)) error {
	if !a.config().Options.SafeJoin {
		return safejoin.ErrNothing
	}
	for {
		c, err := a.asked()
		var self wire.Server
		if err == nil {
			self, err = a.self(ctx)
		}
		if err == nil {
			return safejoin.Heal(ctx, safejoin.Options{Client: c, Dir: Saved(a.Places), Self: self, Tier: a.tier(), Tell: tell, Log: a.Log})
		}
		if !wait(ctx, a.pause()) {
			return context.Cause(ctx)
		}
	}
}
