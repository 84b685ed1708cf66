package annanode

import (
	"slices"
	"strings"
	"time"

	"github.com/stategraft/stategraft/agent/anna/wire"
)

// factorsCame handles the answers of the owners of metadata.
func (t *kvs) factorsCame(message []byte) {
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
		e := t.entries[key]
		switch tuple.Error {
		case wire.NoError:
			value, _ := wire.ParseLWW(tuple.Payload)
			k := parseFactors(value.Value)
			f, _ := t.factorsOf(key, &e)
			t.setFactors(key, &e, k.over(f))
		case wire.KeyDNE:
			t.setFactors(key, &e, t.view.defaults)
		case wire.WrongThread:
			// The rings differ for now. The real one asks again at once.
			t.again(20*time.Millisecond, func() { t.ask[key] = struct{}{} })
			continue
		default:
			continue
		}
		t.serveWaiting(key, &e)
		t.takeWaiting(key, &e)
		t.keep(key, e)
	}
}

func (t *kvs) setFactors(key string, e *entry, f factors) {
	e.known, e.special = true, f != t.view.defaults
	if e.special {
		t.special[key] = f
	} else {
		delete(t.special, key)
	}
}

// serveWaiting answers the tuples that waited, each in a response of its own.
func (t *kvs) serveWaiting(key string, e *entry) {
	waiting, ok := t.pending[key]
	if !ok {
		return
	}
	delete(t.pending, key)
	t.counts.pending.Add(-int64(len(waiting)))
	responsible := t.responsible(t.owners(key, e, t.cfg.Tier))
	for i := range waiting {
		p := &waiting[i]
		tuple := wire.Tuple{Key: key, Error: wire.WrongThread}
		if responsible {
			tuple = t.served(p.kind, key, e, p.lattice, p.payload)
		}
		if p.to == "" {
			continue
		}
		if p.kind == wire.Put {
			t.counts.outstanding.Add(-1)
		}
		t.answer(p.to, encode(&wire.KeyResponse{Kind: p.kind, ID: p.id, Tuples: []wire.Tuple{tuple}}))
	}
}

// takeWaiting merges the gossip that waited, or sends it on.
func (t *kvs) takeWaiting(key string, e *entry) {
	waiting, ok := t.pendingGossip[key]
	if !ok {
		return
	}
	delete(t.pendingGossip, key)
	owners := t.owners(key, e, t.cfg.Tier)
	if t.responsible(owners) {
		for i := range waiting {
			t.take(key, e, &waiting[i])
		}
		return
	}
	for _, o := range owners {
		r := wire.KeyRequest{Kind: wire.Put, Tuples: waiting}
		t.send(o.gossip(), r.Append(make([]byte, 0, r.Size())))
	}
}

// take merges a value from a peer.
func (t *kvs) take(key string, e *entry, tuple *wire.Tuple) {
	if !tuple.Lattice.Known() || e.stored && e.kind() != tuple.Lattice {
		t.log.Warn("gossip is refused", "key", key, "type", tuple.Lattice, "has", e.kind())
		return
	}
	t.keys.put(key, e, tuple.Lattice, tuple.Payload)
}

// factorsChange is the monitor's order to keep keys in more or fewer places.
func (t *kvs) factorsChange(message []byte) {
	if t.tid == 0 {
		for tid := 1; tid < t.cfg.threads(); tid++ {
			t.send(address(t.cfg.Private, wire.PortReplicationChange, tid), message)
		}
	}
	to := map[string][]string{}
	var gone []string
	for _, k := range parseUpdate(message) {
		e := t.entries[k.key]
		before, known := t.factorsOf(k.key, &e)
		var had []owner
		if e.stored && known {
			had = t.owners(k.key, &e, dataTiers...)
		}
		after := k.over(before)
		t.setFactors(k.key, &e, after)
		t.keep(k.key, e)
		if !e.stored || !known {
			continue
		}
		has := t.owners(k.key, &e, dataTiers...)
		switch {
		case !t.responsible(has):
			gone = append(gone, k.key)
			for _, o := range has {
				to[o.gossip()] = append(to[o.gossip()], k.key)
			}
		case !fewer(before, after) && len(had) > 0 && had[0].Private == t.cfg.Private && had[0].tid == t.tid:
			for _, o := range has {
				if !slices.Contains(had, o) {
					to[o.gossip()] = append(to[o.gossip()], k.key)
				}
			}
		}
	}
	t.sendKeys(to)
	t.forget(gone)
}

func fewer(before, after factors) bool {
	for _, tier := range dataTiers {
		if after.global[tier] < before.global[tier] || after.local[tier] < before.local[tier] {
			return true
		}
	}
	return false
}

// forget removes keys that have moved away; what is known of their factors stays.
func (t *kvs) forget(keys []string) {
	for _, key := range keys {
		e := t.entries[key]
		if !e.stored {
			continue
		}
		t.keys.remove(key, &e)
		delete(t.changed, key)
		t.entries[key] = entry{known: e.known, special: e.special}
	}
}
