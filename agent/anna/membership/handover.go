package membership

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/stategraft/stategraft/agent/anna/wire"
)

// heard is how long everybody has to read that a node goes, before they get its keys: who
// gets them earlier sends them back, to nobody.
const heard = 2 * time.Second

// handOver has each thread of the node hand its keys over to the others.
//
// Anna means thread 0 to see to that: it tells everybody, then the other threads, and hands
// its own keys over. But the process ends by a mistake as soon as thread 0 is done (main in
// hydro-project/anna src/kvs/server.cpp joins threads by numbers that are one too high, the
// last of which there is not), and with it the others in the middle: observed with two
// threads and 20,000 keys, of which 3,125 were lost. So the others go first, which tell
// nobody: that is done here, with the messages of thread 0, which comes to the same when it
// sends them again.
func (a *Announcer) handOver(ctx context.Context, m wire.Membership, self wire.Server, threads int) error {
	at, acknowledged, err := listen(ctx)
	if err != nil {
		return err
	}
	local := cmp.Or(a.Local, loopback)
	if threads > 1 {
		a.tellAll(ctx, m, self)
		if err := pause(ctx, heard); err != nil {
			return fmt.Errorf("have the node leave: %w", err)
		}
		for tid := 1; tid < threads; tid++ {
			if err := a.Messenger.Push(ctx, local, wire.PortSelfDepart+tid, at); err != nil {
				return fmt.Errorf("have thread %d leave: %w", tid, err)
			}
		}
		if err := await(ctx, acknowledged, threads-1); err != nil {
			return err
		}
	}
	if err := a.Messenger.Push(ctx, local, wire.PortSelfDepart, at); err != nil {
		return fmt.Errorf("have the node leave: %w", err)
	}
	return await(ctx, acknowledged, min(1, threads))
}

// rush is how long those who are told may take together before the rest are told at once, and
// then all of them: a push is taken within milliseconds, or by nobody.
const rush = time.Second

// tellAll tells peers and routing that this node goes. Who is not reached is told by thread 0:
// members that are gone without a word must not use up the time for the keys.
func (a *Announcer) tellAll(ctx context.Context, m wire.Membership, self wire.Server) {
	message := wire.DepartMessage(a.Tier, self)
	hurry, cancel := context.WithTimeout(ctx, rush)
	defer cancel()
	var all sync.WaitGroup
	send := func(host string, port int, text string) {
		told := make(chan struct{})
		all.Go(func() {
			defer close(told)
			if err := a.Messenger.Push(ctx, host, port, text); err != nil {
				a.Log.Debug("a node is not told that this one leaves", "node", host, "error", err.Error())
			}
		})
		select {
		case <-told:
		case <-hurry.Done():
		}
	}
	for _, tier := range m.Tiers {
		for _, s := range tier.Servers {
			if (tier.Tier == wire.Memory || tier.Tier == wire.Disk) && s.Private != self.Private {
				send(s.Private, wire.PortDepart, wire.PeerMessage(message))
			}
		}
	}
	if hosts, err := a.routing(ctx); err == nil {
		for _, host := range hosts {
			send(host, wire.PortNotify, message)
		}
	}
	done := make(chan struct{})
	go func() { all.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(rush):
	}
}
