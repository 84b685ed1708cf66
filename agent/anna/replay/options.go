// Package replay writes the keys of a staged backup into a running Anna cluster, by
// PUTs, which Anna merges with what it has: whatever is newer there stays. So it may be
// done twice, be stopped anywhere, and be done while clients write.
//
//	options.go     what it needs and gives
//	run.go         the course: waiting for the cluster, then pack after pack
//	wait.go        who has to be a member before the first PUT
//	pipeline.go    the flow of records: look up, group by owner, PUT
//	item.go        a record on its way
//	ask.go         the lookups
//	answers.go     what becomes of the answers, and the look at what was written
//	trouble.go     peers that do not answer
//	checkpoint.go  what is done, so that another run goes on there
package replay

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/stategraft/stategraft/agent/anna/client"
	"github.com/stategraft/stategraft/agent/anna/stage"
	"github.com/stategraft/stategraft/agent/anna/wire"
	"github.com/stategraft/stategraft/api/node"
)

// Client is what a replay needs of *client.Client.
type Client interface {
	Members(ctx context.Context) (wire.Membership, error)
	Owners(ctx context.Context, key string) ([]string, error)
	Get(ctx context.Context, at string, keys []string) ([]wire.Tuple, error)
	Put(ctx context.Context, at string, tuples []wire.Tuple) ([]client.PutResult, error)
}

// Outstanding is how many tuples, PUTs and lookups together, may be unanswered at a
// time in the whole cluster: above 1000 a KVS thread blocks itself for good, and takes
// its data with it.
const Outstanding = 800

// Member is a node that has to be a member before the first key is written: keys that
// a node which joins later would take over are lost where they are more than 50.
type Member struct {
	Name      string   // of the pod, or its whole DNS name
	Addresses []string // it may be known by instead
}

// Options are what a replay needs. The zero values of numbers and durations stand for
// what their comments say.
type Options struct {
	Client Client
	Staged stage.Staged
	State  string // directory for the checkpoint; empty for none

	// Expect gives the nodes to wait for. It is asked again while one is missing, and
	// an error of it is waited out too. nil: none but a first one.
	Expect func(context.Context) ([]Member, error)
	// Progress is told what there is to say, about once a second and at the end. nil: nobody.
	Progress func(node.Replay)
	// Budget is of this replay alone; 0: Outstanding, divided by the KVS nodes that are
	// members, as each of them may replay its part at the same time.
	Budget int
	// Batch is of tuples in a PUT; 0: 50.
	Batch int
	// Bytes are those of records in memory; 0: 32 MB. A larger record goes alone.
	Bytes int64
	// Check says that every so many keys one is read back after it was written, 1 all;
	// 0: 32; less: none. Of the disk tier all are, but with none. Node.Replay.Newer counts
	// among those.
	Check int
	// Only, where it is set, gives those of a key's owners (as client.Owners names them)
	// that it is to be written to; with none the key counts as done.
	Only func(owners []string) []string

	Pause        time.Duration // the first between two tries; 0: 500 ms, doubled up to LongestPause
	LongestPause time.Duration // 0: 15 s
	Log          *slog.Logger
}

// ErrRefused says that keys could not be written, and would not be however often it
// were tried: the cluster has them with another type.
var ErrRefused = errors.New("keys were refused")

// ErrLost says that keys were answered as written, and are not there.
var ErrLost = errors.New("keys are not there after they were written")
