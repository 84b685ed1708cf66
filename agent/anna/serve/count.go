package serve

import (
	"context"
	"errors"

	"github.com/stategraft/stategraft/agent/anna/backup"
	"github.com/stategraft/stategraft/agent/anna/client"
	"github.com/stategraft/stategraft/agent/anna/membership"
	"github.com/stategraft/stategraft/agent/anna/wire"
)

// counting is a source of a backup of a node whose number of threads no file tells. Package
// backup counts them by their reports then; but a report stays when the node has been started
// anew with fewer threads, and is lost with the memory node that kept it. Thread n of a node
// binds the n-th port after each of Anna's, and lets it go only when the process ends
// (hydro-project/common include/kvs_threads.hpp): so there are the threads whose ports are
// bound, no others, and of none of them the report may be missing.
type counting struct {
	backup.Source
	listens func(ctx context.Context, tid int) bool
}

// errUnreported is asked again for, and after some reports' time the backup's end.
var errUnreported = errors.New("the thread is there, as its port is bound, and has not reported its keys")

func (a *anna) counting(from backup.Source) backup.Source {
	return counting{from, func(ctx context.Context, tid int) bool {
		return membership.Listens(ctx, a.Local, wire.PortRequest+tid)
	}}
}

// Report implements backup.Source. Thread 0 has every node.
func (c counting) Report(ctx context.Context, s wire.Server, tier wire.Tier, tid int) (client.Report, error) {
	if tid > 0 && !c.listens(ctx, tid) {
		if ctx.Err() != nil {
			return client.Report{}, ctx.Err()
		}
		return client.Report{Never: true}, nil
	}
	r, err := c.Source.Report(ctx, s, tier, tid)
	if tid > 0 && err == nil && r.Never {
		return client.Report{}, errUnreported
	}
	return r, err
}
