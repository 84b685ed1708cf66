package annanode

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/stategraft/stategraft/agent/anna/wire"
)

// moveLimit is how many keys a join moves to a thread of the new node.
const moveLimit = 50

// deadlock is how many tuples of new keys are too many at once for a thread.
const deadlock = 1000

// kvs is a thread of a node that keeps keys.
type kvs struct {
	*actor
	node *Node
	cfg  *Config
	view *view
	disk bool
	keys store

	entries map[string]entry
	special map[string]factors
	changed map[string]struct{} // since the last gossip

	pending       map[string][]pendingTuple
	pendingGossip map[string][]wire.Tuple
	ask           map[string]struct{} // keys whose factors are to be asked for

	gone       atomic.Bool // it has departed
	stuck      bool        // a join that will never be done
	caches     []string
	reportSize int
	epoch      uint32
}

// pendingTuple is a tuple that waits for the factors of its key.
type pendingTuple struct {
	kind    wire.Kind
	lattice wire.Lattice
	payload []byte
	to, id  string
}

func newKVS(n *Node, tid int) *kvs {
	t := &kvs{
		actor: newActor(n.ctx, tid, n.cfg.Log), node: n, cfg: &n.cfg, view: newView(&n.cfg),
		disk: n.cfg.Tier == wire.Disk, keys: memoryStore{},
		entries: map[string]entry{}, special: map[string]factors{}, changed: map[string]struct{}{},
		pending: map[string][]pendingTuple{}, pendingGossip: map[string][]wire.Tuple{},
		ask: map[string]struct{}{},
	}
	if t.disk {
		t.keys = newDiskStore(n.cfg.Root, tid, t.log)
	}
	c := t.cfg
	t.own[address(c.Public, wire.PortRequest, tid)] = wire.PortRequest
	for _, port := range []int{wire.PortGossip, wire.PortReplication} {
		t.own[address(c.Private, port, tid)] = port
	}
	return t
}

// ports are what a KVS thread binds.
var kvsPorts = []int{
	wire.PortJoin, wire.PortDepart, wire.PortSelfDepart, wire.PortRequest, wire.PortGossip,
	wire.PortReplication, wire.PortReplicationChange, wire.PortCacheResponse, wire.PortManagement,
}

func (t *kvs) bindAll() error {
	for _, port := range kvsPorts {
		var read func(*item)
		if port == wire.PortRequest {
			read = t.arrived
		}
		if err := t.bind(t.cfg.Bind, port, read); err != nil {
			return err
		}
	}
	return nil
}

// arrived reads a request where it comes in and counts its tuples, as they are
// outstanding from now on.
func (t *kvs) arrived(it *item) {
	request, err := wire.ParseKeyRequest(it.message)
	if err != nil {
		t.log.Warn("a request that cannot be read", "err", err)
	}
	it.request, it.message = &request, nil
	if request.Kind == wire.Put && request.ResponseAddress != "" {
		raise(&t.counts.maxOutstanding, t.counts.outstanding.Add(int64(len(request.Tuples))))
	}
}

func (t *kvs) loop() {
	t.run(t.handle, t.idle,
		tick{every: t.cfg.Gossip, do: t.gossip},
		tick{every: t.cfg.Report, do: t.report})
}

func (t *kvs) handle(it item) {
	switch {
	case it.call != nil:
		it.call()
	case it.port == wire.PortRequest:
		if it.request == nil {
			request, _ := wire.ParseKeyRequest(it.message)
			it.request = &request
		}
		t.requested(it.request)
	case it.port == wire.PortGossip:
		t.gossiped(it.message)
	case it.port == wire.PortReplication:
		t.factorsCame(it.message)
	case it.port == wire.PortReplicationChange:
		t.factorsChange(it.message)
	case it.port == wire.PortJoin:
		t.joined(string(it.message))
	case it.port == wire.PortDepart:
		t.departed(string(it.message))
	case it.port == wire.PortSelfDepart:
		t.selfDepart(string(it.message))
	case it.port == wire.PortManagement:
		t.caches = parseStrings(it.message)
	}
}

// idle asks for the factors of the keys that came since; the real one asks for each
// at once.
func (t *kvs) idle() {
	if len(t.ask) == 0 {
		return
	}
	requests := map[string]*wire.KeyRequest{}
	for key := range t.ask {
		name := wire.ReplicationKey(key)
		owners := t.view.metadataOwners(name)
		if len(owners) == 0 {
			// The real one divides by the number of owners and dies.
			t.node.die("no memory node is known, and so no owner of metadata")
			return
		}
		to := owners[0].requests()
		r := requests[to]
		if r == nil {
			r = &wire.KeyRequest{Kind: wire.Get, ResponseAddress: address(t.cfg.Private, wire.PortReplication, t.tid)}
			requests[to] = r
		}
		r.Tuples = append(r.Tuples, wire.Tuple{Key: name, Lattice: wire.TypeLWW})
	}
	clear(t.ask)
	for to, r := range requests {
		t.send(to, r.Append(make([]byte, 0, r.Size())))
	}
}

// factorsOf are the factors of a key, if this thread knows them.
func (t *kvs) factorsOf(key string, e *entry) (factors, bool) {
	switch {
	case !e.known:
		return factors{}, false
	case e.special:
		return t.special[key], true
	}
	return t.view.defaults, true
}

// owners are the threads of tiers that keep a key whose factors are known.
func (t *kvs) owners(key string, e *entry, tiers ...wire.Tier) []owner {
	if isMetadata(key) {
		return t.view.metadataOwners(key)
	}
	f, _ := t.factorsOf(key, e)
	owners, ok := t.view.owners(key, f, tiers...)
	if !ok {
		t.hang("a key is to have more replicas than there are nodes or threads", "key", key, "factors", f)
	}
	return owners
}

func (t *kvs) responsible(owners []owner) bool { return contains(owners, t.cfg.Private, t.tid) }

// wait counts what waits for factors.
func (t *kvs) wait(key string, p pendingTuple) {
	if t.cfg.Freeze && t.counts.outstanding.Load() > deadlock {
		t.hang("too many tuples of new keys are outstanding", "outstanding", t.counts.outstanding.Load())
	}
	t.pending[key] = append(t.pending[key], p)
	t.ask[key] = struct{}{}
	raise(&t.counts.maxPending, t.counts.pending.Add(1))
}

// put is a PUT of a client, and tells whether it was taken.
func (t *kvs) put(key string, e *entry, lattice wire.Lattice, payload []byte) bool {
	if !lattice.Known() || e.stored && e.kind() != lattice {
		t.log.Warn("a PUT is refused", "key", key, "type", lattice, "has", e.kind())
		t.counts.refused.Add(1)
		return false
	}
	t.keys.put(key, e, lattice, payload)
	t.changed[key] = struct{}{}
	return true
}

// served is the answer to a tuple that this thread is responsible for.
func (t *kvs) served(kind wire.Kind, key string, e *entry, lattice wire.Lattice, payload []byte) wire.Tuple {
	tuple := wire.Tuple{Key: key}
	switch kind {
	case wire.Get:
		t.counts.gets.Add(1)
		if !e.stored {
			tuple.Error = wire.KeyDNE
			break
		}
		tuple.Lattice = e.kind()
		tuple.Payload, tuple.Error = t.keys.get(key, e)
	case wire.Put:
		t.counts.puts.Add(1)
		if t.put(key, e, lattice, payload) {
			tuple.Lattice = lattice
		}
	}
	return tuple
}

func (t *kvs) requested(r *wire.KeyRequest) {
	response := wire.KeyResponse{Kind: r.Kind, ID: r.ID}
	client := r.Kind == wire.Put && r.ResponseAddress != ""
	for i := range r.Tuples {
		tuple := &r.Tuples[i]
		key := tuple.Key
		if key == "" {
			t.node.crashEmptyKey()
			return
		}
		e := t.entries[key]
		if !e.known && !isMetadata(key) {
			t.wait(key, pendingTuple{r.Kind, tuple.Lattice, tuple.Payload, r.ResponseAddress, r.ID})
			continue
		}
		owners := t.owners(key, &e, t.cfg.Tier)
		switch {
		case t.responsible(owners):
			answer := t.served(r.Kind, key, &e, tuple.Lattice, tuple.Payload)
			answer.Invalidate = tuple.AddressCacheSize > 0 && int(tuple.AddressCacheSize) != len(owners)
			if r.Kind == wire.Put {
				t.keep(key, e)
			}
			response.Tuples = append(response.Tuples, answer)
		case isMetadata(key):
			response.Tuples = append(response.Tuples, wire.Tuple{Key: key, Lattice: tuple.Lattice, Error: wire.WrongThread})
		default:
			// The factors may be out of date: they are asked for before the answer.
			t.wait(key, pendingTuple{r.Kind, tuple.Lattice, tuple.Payload, r.ResponseAddress, r.ID})
			continue
		}
		if client {
			t.counts.outstanding.Add(-1)
		}
	}
	if len(response.Tuples) > 0 && r.ResponseAddress != "" {
		t.answer(r.ResponseAddress, encode(&response))
	}
}

// keep stores what is known of a key. An entry of nothing is none.
func (t *kvs) keep(key string, e entry) {
	if _, ok := t.entries[key]; !ok && !e.known && !e.stored {
		return
	}
	t.entries[key] = e
	t.counts.keys.Store(int64(len(t.entries)))
}

func encode(r *wire.KeyResponse) []byte {
	size := 32 + len(r.ID)
	for i := range r.Tuples {
		size += 32 + len(r.Tuples[i].Key) + len(r.Tuples[i].Payload)
	}
	return r.Append(make([]byte, 0, size))
}

// again does something in this thread, later.
func (t *kvs) again(after time.Duration, call func()) {
	time.AfterFunc(after, func() { t.post(context.Background(), item{call: call}) })
}
