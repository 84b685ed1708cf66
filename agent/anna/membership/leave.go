package membership

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/stategraft/stategraft/agent/anna/wire"
)

// ErrStays says that the node does not hand its keys over, and why: it is no failure.
var ErrStays = errors.New("the keys are not handed over")

// quiet is how long after an acknowledgement no other comes until all have, where the
// number of threads is not known.
const quiet = 2 * time.Second

// Leave has the node of this pod hand its keys over to the others and leave the rings, as
// it will be stopped. It returns when all its threads have said that they are done, or
// with the context's error; the node serves nothing from then on until it is restarted.
//
// It stays where nobody of its tier could take the keys, or where the tier would have too
// few nodes left.
func (a *Announcer) Leave(ctx context.Context, threads int, listens func(ctx context.Context, host string, port int) bool) error {
	self, err := a.Self(ctx)
	if err != nil {
		return fmt.Errorf("%w: what this node is called is not known: %w", ErrStays, err)
	}
	// A rolling restart stops the next node at the moment at which the one before it counts as
	// Ready, while that joins: who hears of both at once may keep this one in its ring, and
	// then nobody serves its keys, nor finds the lists of them.
	if err := pause(ctx, giveWay(ctx)); err != nil {
		return fmt.Errorf("%w: %w", ErrStays, err)
	}
	m, err := a.members(ctx, self)
	if err != nil {
		return fmt.Errorf("%w: no routing node tells who else is there: %w", ErrStays, err)
	}
	if _, ok := find(m, a.Tier, self.Private); !ok {
		return fmt.Errorf("%w: no routing node knows this node", ErrStays)
	}
	if listens == nil {
		listens = Listens
	}
	if err := a.mayLeave(ctx, m, self, listens); err != nil {
		return err
	}
	if a.Tier == wire.Memory && first(m.Of(a.Tier), self) {
		// Where all are stopped at once, the others leave first, and this one stays: without
		// a memory node routing ends.
		if err := pause(ctx, giveWay(ctx)); err != nil {
			return fmt.Errorf("%w: %w", ErrStays, err)
		}
		if m, err = a.members(ctx, self); err != nil {
			return fmt.Errorf("%w: no routing node tells who else is there: %w", ErrStays, err)
		}
		if err := a.mayLeave(ctx, m, self, listens); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	a.telling.Lock()
	a.stage = leaves
	a.telling.Unlock()
	a.counted.change(func(c *Counts) { c.Left = true })
	return a.handOver(ctx, m, self, threads)
}

// way is how long a node that leaves waits for others that join, and the first memory node
// for others that leave at the same time.
const way = 3 * time.Second

// giveWay is that, or less of what time there is.
func giveWay(ctx context.Context) time.Duration {
	if end, ok := ctx.Deadline(); ok {
		return min(way, time.Until(end)/4)
	}
	return way
}

// first tells whether a node comes before all others of its tier, by its name.
func first(tier []wire.Server, self wire.Server) bool {
	return !slices.ContainsFunc(tier, func(s wire.Server) bool { return s.Private < self.Private })
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// mayLeave is an error where the tier cannot do without the node.
func (a *Announcer) mayLeave(ctx context.Context, m wire.Membership, self wire.Server, listens func(ctx context.Context, host string, port int) bool) error {
	if !successor(ctx, m.Of(a.Tier), self, listens) {
		return fmt.Errorf("%w: no other node of tier %s answers that could take them", ErrStays, a.Tier)
	}
	keep := a.Keep()
	if keep == nil {
		return fmt.Errorf("%w: the replication is not known, so nobody knows whether the others can do without it", ErrStays)
	}
	if left := len(m.Of(a.Tier)) - 1; !keep.allows(a.Tier, left, true) {
		return fmt.Errorf("%w: %d nodes would be left in tier %s, fewer than its replication of %d", ErrStays, left, a.Tier, keep[a.Tier])
	}
	return nil
}

// better is how long is waited for a better answer than one that knows nobody to take the
// keys: a routing node that has just been started anew knows nobody.
const better = 2 * time.Second

// members asks all routing nodes at once, and gives the first answer that has this node and
// another of its tier, or else the one that has most: one that is gone without a word, as its
// machine is, must not use up the time there is for handing the keys over.
func (a *Announcer) members(ctx context.Context, self wire.Server) (best wire.Membership, err error) {
	hosts, err := a.routing(ctx)
	if err != nil {
		return best, err
	}
	type answer struct {
		wire.Membership
		err error
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	answers := make(chan answer, len(hosts))
	for _, host := range hosts {
		go func() {
			m, err := a.Messenger.Members(ctx, host)
			answers <- answer{m, err}
		}()
	}
	err = errors.New("there is none")
	found, enough := false, (<-chan time.Time)(nil)
	for range hosts {
		select {
		case m := <-answers:
			switch _, knows := find(m.Membership, a.Tier, self.Private); {
			case m.err != nil && !found:
				err = m.err
			case m.err != nil:
			case knows && len(m.Of(a.Tier)) > 1:
				return m.Membership, nil
			case !found || size(m.Membership) > size(best):
				best, found, err = m.Membership, true, nil
			}
			if found && enough == nil {
				enough = time.After(better)
			}
		case <-enough:
			return best, nil
		case <-ctx.Done():
			if found {
				return best, nil
			}
			return best, context.Cause(ctx)
		}
	}
	return best, err
}

// size is how many data nodes a list has.
func size(m wire.Membership) int { return len(m.Of(wire.Memory)) + len(m.Of(wire.Disk)) }

// lookup is how long the DNS may take while the node leaves.
const lookup = 2 * time.Second

// routing are the routing nodes, or those that there were at the last look where the DNS does
// not tell in time.
func (a *Announcer) routing(ctx context.Context) ([]string, error) {
	limited, cancel := context.WithTimeout(ctx, lookup)
	defer cancel()
	hosts, err := a.Routing(limited)
	if err == nil {
		return hosts, nil
	}
	a.telling.Lock()
	defer a.telling.Unlock()
	if len(a.routes) > 0 {
		return a.routes, nil
	}
	return nil, err
}

// successor tells whether another node of the tier answers. They are asked at once, as
// those that are gone take their time.
func successor(ctx context.Context, tier []wire.Server, self wire.Server, listens func(ctx context.Context, host string, port int) bool) bool {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	found := make(chan struct{}, 1)
	var all sync.WaitGroup
	for _, s := range tier {
		if s.Private == self.Private {
			continue
		}
		all.Go(func() {
			if listens(ctx, s.Private, wire.PortRequest) {
				select {
				case found <- struct{}{}:
				default:
				}
			}
		})
	}
	done := make(chan struct{})
	go func() { all.Wait(); close(done) }()
	select {
	case <-found:
		return true
	case <-done:
		return len(found) > 0
	}
}

// await takes the acknowledgement of each thread.
func await(ctx context.Context, acknowledged <-chan string, threads int) error {
	var silence <-chan time.Time
	for n := 0; threads == 0 || n < threads; {
		select {
		case <-acknowledged:
			n++
			if threads == 0 {
				silence = time.After(quiet)
			}
		case <-silence:
			return nil
		case <-ctx.Done():
			return fmt.Errorf("the node has not handed all its keys over: %d threads have said that they are done: %w", n, context.Cause(ctx))
		}
	}
	return nil
}
