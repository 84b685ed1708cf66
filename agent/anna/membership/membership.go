// Package membership keeps Anna's own lists of its nodes right, with Anna's own messages
// and DNS, and nothing of Kubernetes. Anna tells of a node once, when it starts: a routing
// node that is restarted knows nobody, and one that is lost stays in every ring for good
// (facts measured on real Anna; hydro-project/anna src/route/membership_handler.cpp).
//
//	announce.go  beside a KVS node: tells routing nodes that do not know it
//	threads.go   and tells its threads of the others
//	depart.go    beside a routing node: tells all that a node is gone for good
//	leave.go     a KVS node that is stopped hands its keys over first
//	handover.go  thread by thread
//	send.go      the messages
//
// Wrong is worse than late: a node that is departed though it lives serves nothing any
// more until it is restarted, and routing ends where no memory node is left. So nothing is
// done where DNS, or the node itself, leaves a doubt.
package membership

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/stategraft/stategraft/agent/anna/wire"
)

// Every is how often the lists are looked at.
const Every = 10 * time.Second

// loopback is where the processes of the pod are dialled.
const loopback = "127.0.0.1"

// Messenger sends Anna's messages.
type Messenger interface {
	// Members asks a routing node whom it knows.
	Members(ctx context.Context, host string) (wire.Membership, error)
	// Push sends a message that nobody answers. That it was taken by the other end's
	// socket is all that is known.
	Push(ctx context.Context, host string, port int, message string) error
}

// Resolver is what is needed of *net.Resolver.
type Resolver interface {
	LookupHost(ctx context.Context, host string) ([]string, error)
}

// Hosts are the hosts of a kind, as they are now.
type Hosts func(ctx context.Context) ([]string, error)

// Counts are what was done, for metrics.
type Counts struct {
	Looks, Troubles   int64 // looks at the lists, and those that came to nothing
	Joins, Departs    int64 // messages about nodes, one for each node and receiver
	Threads           int64 // times that a thread of this node was told of the others
	Left              bool  // this node has handed its keys over
	Known, Routing    int   // routing nodes that know this node, of those there are
	Gone              int   // nodes that are members and gone, and not departed yet
	MemoryNodes, Disk int   // members
}

// counted is Counts for several goroutines.
type counted struct {
	mutex sync.Mutex
	Counts
}

func (c *counted) change(do func(*Counts)) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	do(&c.Counts)
}

func (c *counted) get() Counts {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.Counts
}

// Keep is how many nodes a tier has to have: its replication. Where a tier has fewer, and
// not none, every process that looks for the owners of a key looks for ever
// (hydro-project/anna src/hash_ring/hash_ring.cpp, responsible_global).
// One that is nil is not known, and allows nothing.
type Keep map[wire.Tier]int

// allows tells whether a tier may come down to a number of nodes. Routing does not survive
// the last memory node (hydro-project/anna#57), and the metadata are in that tier only; so
// another has to be there that answers.
func (k Keep) allows(tier wire.Tier, left int, others bool) bool {
	if k == nil || tier == wire.Memory && (left < 1 || !others) {
		return false
	}
	return left >= k[tier] || left == 0 && k[tier] <= 1
}

// find finds the member that a node of that private address is: rings know nodes by
// nothing else.
func find(m wire.Membership, tier wire.Tier, private string) (wire.Server, bool) {
	for _, s := range m.Of(tier) {
		if s.Private == private {
			return s, true
		}
	}
	return wire.Server{}, false
}

// absolute keeps the resolver from trying a name of a pod below every search domain, each
// of which may fail in its own way.
func absolute(name string) string {
	if strings.Count(name, ".") >= 4 && !strings.HasSuffix(name, ".") && net.ParseIP(name) == nil {
		return name + "."
	}
	return name
}

// notFound tells whether DNS has answered that there is no such name. All other errors
// say nothing of the name.
func notFound(err error) bool {
	var failed *net.DNSError
	return errors.As(err, &failed) && failed.IsNotFound && !failed.IsTemporary && !failed.IsTimeout
}

// each waits between looks until the context ends.
func each(ctx context.Context, every time.Duration, look func(context.Context)) {
	if every <= 0 {
		every = Every
	}
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		look(ctx)
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}
