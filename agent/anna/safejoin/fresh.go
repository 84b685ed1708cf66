package safejoin

import (
	"context"
	"sync"
	"time"

	"github.com/stategraft/stategraft/agent/anna/client"
	"github.com/stategraft/stategraft/agent/anna/wire"
)

// period is how often a thread of Anna reports its keys.
const period = 15 * time.Second

// fresh waits until each thread of the peers has reported its keys twice, which takes half
// a minute: what they hold at the beginning is in the second report for sure (package
// backup has why). An older list lacks what has just been handed over to them, which are
// all keys of a pod that is created anew: observed with Anna, a third of the keys were
// hidden by its new join. Peers that report no more, as they are gone, are waited for a
// little longer.
func (o Options) fresh(ctx context.Context, peers []wire.Server) {
	ctx, cancel := context.WithTimeout(ctx, 3*o.Period)
	defer cancel()
	gate := make(chan struct{}, together) // each may have a long list of keys in memory
	report := func(s wire.Server, tid int) (client.Report, error) {
		select {
		case gate <- struct{}{}:
		case <-ctx.Done():
			return client.Report{}, ctx.Err()
		}
		defer func() { <-gate }()
		return o.Client.Report(ctx, s, o.Tier, tid)
	}
	var all sync.WaitGroup
	for _, s := range peers {
		all.Go(func() {
			for tid := 0; ; tid++ {
				ask := func() (client.Report, error) { return report(s, tid) }
				stamp := o.reported(ctx, tid, ask)
				if stamp == 0 {
					return
				}
				all.Go(func() { o.advances(ctx, stamp, ask) })
			}
		})
	}
	all.Wait()
	if ctx.Err() != nil {
		o.Log.Warn("not every node of the tier has reported its keys anew: those that were written or handed over last may not be saved")
	}
}

// reported is the stamp of a thread's newest report; 0 where there is no such thread. The
// first thread there is, but a node reports for the first time a while after it has started.
func (o Options) reported(ctx context.Context, tid int, report func() (client.Report, error)) uint64 {
	for waited := false; ; waited = true {
		r, err := report()
		switch {
		case err == nil && !r.Never:
			if waited {
				pause(ctx, o.Period/6) // the others report at about the same time
			}
			return r.Stamp
		case tid > 0 && err == nil || !pause(ctx, o.Period/6):
			return 0
		}
	}
}

// advances waits until the report of a thread has advanced twice.
func (o Options) advances(ctx context.Context, stamp uint64, report func() (client.Report, error)) {
	for advanced := 0; advanced < 2; {
		if !pause(ctx, o.Period/6) {
			return
		}
		if r, err := report(); err == nil && r.Stamp > stamp {
			stamp = r.Stamp
			if advanced++; advanced < 2 && !pause(ctx, o.Period*3/4) {
				return
			}
		}
	}
}

// pause waits; it is false where the context ends before.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}
