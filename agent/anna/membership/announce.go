package membership

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/stategraft/stategraft/agent/anna/wire"
)

// missed is how many looks in a row a routing node does not know this one before it is
// told: a node that just starts tells it itself, with a count that says more.
const missed = 2

// Announcer tells routing nodes that do not know this node of it, and the threads of this
// node of the others.
type Announcer struct {
	Messenger Messenger
	Self      func(ctx context.Context) (wire.Server, error)
	Tier      wire.Tier
	Routing   Hosts
	Keep      func() Keep
	Answers   func(ctx context.Context) bool // whether this node serves
	Local     string                         // where this node is dialled; empty: 127.0.0.1
	Threads   func() int                     // of this node; nil, or less than 1: not known, and none is told
	Every     time.Duration                  // 0: Every
	Clock     func() time.Time               // nil: time.Now
	Log       *slog.Logger
	// Watch tells of the end of the node's process; nil: Watch.
	Watch func(ctx context.Context, host string, port int) (ended <-chan struct{}, err error)

	lacking map[string]int // looks in a row, by routing node
	said    string
	counted counted
	own     own

	// telling is held while somebody is told, and when this node leaves: nothing is
	// told behind that.
	telling sync.Mutex
	stage   leaving
	routes  []string // the routing nodes there were at the last look

	silent silence
}

// leaving is how far this node has left.
type leaving int

const (
	stays  leaving = iota
	leaves         // it was asked to, and routing may know it for a moment yet
	gone           // no routing node knows it: who knows it from now on was told by a new start of it
)

// at is how far it is, at a look that has found these routing nodes.
func (a *Announcer) at(hosts []string) leaving {
	a.telling.Lock()
	defer a.telling.Unlock()
	a.routes = hosts
	return a.stage
}

// silence is for how long the node has not answered, and whether that was told.
type silence struct {
	since time.Time
	told  bool
}

// waits is how long a node may take until it serves before that is told: what Anna waits for
// at its start it waits for without a word, and its log is in files of its container.
const waits = 2 * time.Minute

// quiet notes whether the node answers, and says once what one that does not may wait for.
func (a *Announcer) quiet(answers bool) {
	now := a.now()
	switch {
	case answers:
		a.silent = silence{}
	case a.silent.since.IsZero():
		a.silent.since = now
	case !a.silent.told && now.Sub(a.silent.since) >= waits:
		a.silent.told = true
		a.Log.Warn("the node does not answer: its container does not run, or Anna waits at its start, which it does without a word, for the routing node that seed_ip names (port 6350), or for the management where mgmt_ip is not NULL (port 7000)",
			"port", wire.PortRequest, "since", a.silent.since.UTC().Format(time.RFC3339))
	}
}

func (a *Announcer) now() time.Time {
	if a.Clock != nil {
		return a.Clock()
	}
	return time.Now()
}

// Counts are what was done.
func (a *Announcer) Counts() Counts { return a.counted.get() }

// Run looks until the context ends.
func (a *Announcer) Run(ctx context.Context) { each(ctx, a.Every, a.look) }

// look asks every routing node once.
func (a *Announcer) look(ctx context.Context) {
	a.counted.change(func(c *Counts) { c.Looks++ })
	self, err := a.Self(ctx)
	if err != nil {
		a.trouble("what this node is called is not known yet", err)
		return
	}
	hosts, err := a.Routing(ctx)
	if err != nil {
		a.trouble("the routing nodes are not known", err)
		return
	}
	a.said = ""
	answers := a.Answers(ctx)
	a.quiet(answers)
	if !answers {
		a.lacking = nil
		return
	}
	stage := a.at(hosts)
	lacking, known, answered := map[string]int{}, 0, 0
	var lists []wire.Membership
	for _, host := range hosts {
		m, err := a.Messenger.Members(ctx, host)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			a.counted.change(func(c *Counts) { c.Troubles++ })
			a.Log.Debug("a routing node does not answer", "routing", host, "error", err.Error())
			continue
		}
		answered++
		there, ok := find(m, a.Tier, self.Private)
		switch {
		case ok && there == self:
			known++
			lists = append(lists, m)
		case stage != stays:
		case a.Tier == wire.Disk && len(m.Of(wire.Memory)) == 0:
			// A routing node that knows disk nodes only ends (hydro-project/anna#57). A memory
			// node tells of itself first.
		default:
			if lacking[host] = a.lacking[host] + 1; lacking[host] >= missed {
				a.tell(ctx, host, self, there, ok)
			}
		}
	}
	a.lacking = lacking
	left := a.moved(stage, known, answered)
	a.counted.change(func(c *Counts) { c.Known, c.Routing, c.Left = known, len(hosts), left })
	a.tellOwn(ctx, self, lists)
}

// moved goes by what a look has shown that began at a stage.
func (a *Announcer) moved(from leaving, known, answers int) (left bool) {
	a.telling.Lock()
	defer a.telling.Unlock()
	switch {
	case a.stage != from:
	case from == leaves && known == 0 && answers > 0:
		a.stage = gone
	case from == gone && known > 0:
		a.stage = stays // it was started anew
	}
	return a.stage != stays
}

// announced is the count that a node is told of with. A routing node passes it on to all KVS
// nodes, and those that know the node with a smaller one take it for one that has started
// anew. With 0 that are all that joined with the management's -1 (package management): each
// restart of a routing node would have them send keys that are not theirs any more, the
// same fifty for ever where there are more (hydro-project/anna include/hash_ring.hpp,
// insert; src/kvs/node_join_handler.cpp). Nothing is smaller than -1, and whoever does not
// know the node takes it into its ring, and moves nothing.
const announced = -1

// tell tells a routing node of this one. A node that is known by another public address is
// forgotten first, as the first one stays.
func (a *Announcer) tell(ctx context.Context, host string, self, there wire.Server, stale bool) {
	a.telling.Lock()
	defer a.telling.Unlock()
	if a.stage != stays {
		return
	}
	messages := []string{wire.JoinMessage(a.Tier, self, announced)}
	if stale {
		messages = slices.Insert(messages, 0, wire.DepartMessage(a.Tier, there))
	}
	for _, message := range messages {
		if err := a.Messenger.Push(ctx, host, wire.PortNotify, message); err != nil {
			a.Log.Warn("a routing node cannot be told of this node", "routing", host, "error", err.Error())
			return
		}
	}
	a.counted.change(func(c *Counts) { c.Joins++ })
	a.Log.Info("told a routing node of this node, which it did not know", "routing", host, "tier", a.Tier.String(), "public", self.Public, "private", self.Private,
		"known_as", there.Public)
}

// trouble is told once for each kind.
func (a *Announcer) trouble(what string, err error) {
	a.lacking = nil
	a.counted.change(func(c *Counts) { c.Troubles++ })
	if text := what + err.Error(); text != a.said {
		a.said = text
		a.Log.Warn("routing nodes are not told of this node: "+what, "error", err.Error())
	}
}
