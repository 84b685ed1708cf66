// Package backup makes a node's part in a backup of Anna: it lists the node's keys,
// reads them from the node's own threads, and puts what is not in the storage yet there.
package backup

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/stategraft/stategraft/agent/anna/client"
	"github.com/stategraft/stategraft/agent/anna/wire"
)

// Source is what a backup needs of *client.Client.
type Source interface {
	Members(ctx context.Context) (wire.Membership, error)
	Report(ctx context.Context, s wire.Server, tier wire.Tier, tid int) (client.Report, error)
	Get(ctx context.Context, at string, keys []string) ([]wire.Tuple, error)
	// Find looks keys up and reads them where they are.
	Find(ctx context.Context, keys []string) ([]wire.Tuple, error)
}

var _ Source = (*client.Client)(nil)

// Job is a node's part in a backup that is to be made.
type Job struct {
	Name    string // of the backup
	Node    string // the pod's name
	Cluster string
	Role    string
	Full    bool // all records anew, where a differential one would be possible

	Self    wire.Server // as the cluster knows this node
	Tier    wire.Tier
	Threads int    // 0: counted, up to the first that has never reported
	Local   string // where the node's threads are dialled; empty: 127.0.0.1

	Scratch string        // a directory for what is too large for memory; empty: the system's
	Period  time.Duration // in which Anna's threads report; 0: the 15 s of its source
	Window  int           // batches in flight to a thread; 0: 8
	Batch   int           // keys in one; 0: 100
	Log     *slog.Logger
}

// Progress is how far it is.
type Progress struct {
	Phase string // node.Preparing, node.Uploading, node.Finishing
	Keys  int64  // that were read
	Total int64  // of the lists that are known so far
	Bytes int64  // of keys and values read
	// Message is what is waited for.
	Message string
}

// Errors that a caller decides by.
var (
	// ErrSilent says that the node does not report or does not answer.
	ErrSilent = errors.New("the node does not answer")
	// ErrBase says that a pack of an earlier backup, which this one was to use, was
	// removed meanwhile: it is to be made again.
	ErrBase = errors.New("an earlier backup was removed while this one used its packs: make it again")
)
