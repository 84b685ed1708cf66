package annanode

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/stategraft/stategraft/agent/anna/wire"
	"github.com/stategraft/stategraft/test/annanode/zmtp"
)

// router is a thread of a routing node.
type router struct {
	*actor
	node *Node
	cfg  *Config
	view *view

	known   map[uint64]struct{} // hashes of the keys whose factors are known
	special map[string]factors
	pending map[string][]pendingLookup
	ask     map[string]struct{}
}

type pendingLookup struct{ to, id string }

func newRouter(n *Node, tid int) *router {
	return &router{
		actor: newActor(n.ctx, tid, n.cfg.Log), node: n, cfg: &n.cfg, view: newView(&n.cfg),
		known: map[uint64]struct{}{}, special: map[string]factors{},
		pending: map[string][]pendingLookup{}, ask: map[string]struct{}{},
	}
}

func (t *router) bindAll() error {
	for _, port := range []int{wire.PortNotify, wire.PortRoutingResponse, wire.PortRoutingChange, wire.PortAddress} {
		var read func(*item)
		if port == wire.PortAddress {
			read = func(*item) { raise(&t.counts.maxOutstanding, t.counts.outstanding.Add(1)) }
		}
		if err := t.bind(t.cfg.Bind, port, read); err != nil {
			return err
		}
	}
	l, err := zmtp.Reply(address(t.cfg.Bind, wire.PortSeed, t.tid), func(ctx context.Context, _ []byte) []byte {
		answer := make(chan []byte, 1)
		t.post(ctx, item{port: wire.PortSeed, answer: answer})
		select {
		case b := <-answer:
			return b
		case <-ctx.Done():
			return nil
		}
	})
	if err != nil {
		return fmt.Errorf("binding a port of Anna: %w", err)
	}
	t.sockets = append(t.sockets, l)
	return nil
}

func (t *router) loop() { t.run(t.handle, t.idle) }

func (t *router) handle(it item) {
	switch {
	case it.call != nil:
		it.call()
	case it.port == wire.PortAddress:
		t.lookup(it.message)
	case it.port == wire.PortRoutingResponse:
		t.factorsCame(it.message)
	case it.port == wire.PortRoutingChange:
		t.factorsChange(it.message)
	case it.port == wire.PortNotify:
		t.notice(string(it.message))
	case it.port == wire.PortSeed:
		m := t.view.membership()
		it.answer <- m.Append(nil)
	}
}

func (t *router) factorsOf(key string) (factors, bool) {
	if f, ok := t.special[key]; ok {
		return f, true
	}
	_, ok := t.known[hash(key)]
	return t.view.defaults, ok
}

// owners are those of the first tier that has any.
func (t *router) owners(key string, f factors) []owner {
	for _, tier := range dataTiers {
		owners, ok := t.view.owners(key, f, tier)
		if !ok {
			t.hang("a key is to have more replicas than there are nodes or threads", "key", key, "factors", f)
		}
		if len(owners) > 0 {
			return owners
		}
	}
	return nil
}

func found(key string, owners []owner) wire.Addresses {
	a := wire.Addresses{Key: key}
	for _, o := range owners {
		a.IPs = append(a.IPs, o.requests())
	}
	return a
}

// lookup answers with the owners of keys. The first key that is new here makes it
// forget the others: once its factors are there, the answer is that key alone.
func (t *router) lookup(message []byte) {
	r, err := wire.ParseAddressRequest(message)
	if err != nil {
		t.log.Warn("a lookup that cannot be read", "err", err)
		return
	}
	t.counts.lookups.Add(1)
	response := wire.AddressResponse{ID: r.ID}
	if len(t.view.peers()) == 0 {
		response.Error = wire.NoServers
		for _, key := range r.Keys {
			response.Addresses = append(response.Addresses, wire.Addresses{Key: key})
		}
	} else {
		for _, key := range r.Keys {
			var owners []owner
			switch {
			case key == "":
			case isMetadata(key):
				owners = t.view.metadataOwners(key)
			default:
				f, ok := t.factorsOf(key)
				if !ok {
					t.pending[key] = append(t.pending[key], pendingLookup{r.ResponseAddress, r.ID})
					t.ask[key] = struct{}{}
					raise(&t.counts.maxPending, t.counts.pending.Add(1))
					return
				}
				owners = t.owners(key, f)
			}
			response.Addresses = append(response.Addresses, found(key, owners))
		}
	}
	t.counts.outstanding.Add(-1)
	if len(response.Addresses) > 0 {
		t.answer(r.ResponseAddress, response.Append(nil))
	}
}

// idle asks for the factors of the keys that came since.
func (t *router) idle() {
	if len(t.ask) == 0 {
		return
	}
	requests := map[string]*wire.KeyRequest{}
	for key := range t.ask {
		name := wire.ReplicationKey(key)
		owners := t.view.metadataOwners(name)
		if len(owners) == 0 {
			t.node.die("no memory node is known, and so no owner of metadata")
			return
		}
		to := owners[0].requests()
		r := requests[to]
		if r == nil {
			r = &wire.KeyRequest{Kind: wire.Get, ResponseAddress: address(t.cfg.Private, wire.PortRoutingResponse, t.tid)}
			requests[to] = r
		}
		r.Tuples = append(r.Tuples, wire.Tuple{Key: name, Lattice: wire.TypeLWW})
	}
	clear(t.ask)
	for to, r := range requests {
		t.send(to, r.Append(make([]byte, 0, r.Size())))
	}
}

func (t *router) factorsCame(message []byte) {
	response, err := wire.ParseKeyResponse(message)
	if err != nil {
		t.log.Warn("factors that cannot be read", "err", err)
		return
	}
	for i := range response.Tuples {
		tuple := &response.Tuples[i]
		key, ok := strings.CutPrefix(tuple.Key, wire.ReplicationKey(""))
		if !ok {
			continue
		}
		switch tuple.Error {
		case wire.NoError:
			value, _ := wire.ParseLWW(tuple.Payload)
			k := parseFactors(value.Value)
			f, known := t.factorsOf(key)
			if !known {
				f = factors{}
			}
			t.special[key] = k.over(f)
		case wire.KeyDNE:
			t.known[hash(key)] = struct{}{}
		case wire.WrongThread:
			// The rings differ for now. The real one asks again at once.
			time.AfterFunc(20*time.Millisecond, func() {
				t.post(t.ctx, item{call: func() { t.ask[key] = struct{}{} }})
			})
			continue
		default:
			continue
		}
		t.serveWaiting(key)
	}
}

func (t *router) serveWaiting(key string) {
	waiting := t.pending[key]
	delete(t.pending, key)
	if len(waiting) == 0 {
		return
	}
	f, _ := t.factorsOf(key)
	a := found(key, t.owners(key, f))
	for _, p := range waiting {
		t.counts.pending.Add(-1)
		t.counts.outstanding.Add(-1)
		response := wire.AddressResponse{ID: p.id, Addresses: []wire.Addresses{a}}
		t.answer(p.to, response.Append(nil))
	}
}

func (t *router) factorsChange(message []byte) {
	t.tellThreads(wire.PortRoutingChange, string(message))
	for _, k := range parseUpdate(message) {
		f, known := t.factorsOf(k.key)
		if !known {
			f = factors{}
		}
		t.special[k.key] = k.over(f)
	}
}

// tellThreads passes a message on, from thread 0 to the others.
func (t *router) tellThreads(port int, message string) {
	for tid := 1; t.tid == 0 && tid < t.cfg.Threads.Routing; tid++ {
		t.send(address(t.cfg.Private, port, tid), []byte(message))
	}
}

// notice is the news of a node that joins or departs.
func (t *router) notice(message string) {
	n, err := wire.ParseNotice(message)
	if err != nil || n.Tier == wire.Routing {
		t.log.Warn("a notice that cannot be read", "message", message, "err", err)
		return
	}
	if !n.Join {
		t.log.Info("a node departed", "tier", n.Tier, "node", n.Server.Private)
		t.view.nodes[n.Tier].depart(n.Server)
		t.tellThreads(wire.PortNotify, message)
		return
	}
	if !t.view.nodes[n.Tier].join(n.Server, n.Count) {
		return
	}
	t.log.Info("a node joined", "tier", n.Tier, "node", n.Server.Private, "count", n.Count)
	if t.tid != 0 {
		return
	}
	for _, s := range t.view.peers() {
		if s.Private != n.Server.Private {
			t.send(address(s.Private, wire.PortJoin, 0), []byte(wire.PeerMessage(message)))
		}
	}
	t.tellThreads(wire.PortNotify, message)
}
