package annanode

import (
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/stategraft/stategraft/agent/anna/wire"
)

// chunk is how large a message to a peer may become before another is begun. The
// real one has no such limit.
const chunk = 32 << 20

// gossip sends what has changed to the other owners.
func (t *kvs) gossip() {
	to := map[string][]string{}
	for key := range t.changed {
		e := t.entries[key]
		if !e.known && !isMetadata(key) {
			continue
		}
		for _, o := range t.owners(key, &e, dataTiers...) {
			if o.Private != t.cfg.Private || o.tid != t.tid {
				to[o.gossip()] = append(to[o.gossip()], key)
			}
		}
	}
	clear(t.changed)
	t.sendKeys(to)
}

// sendKeys sends the values of keys to gossip ports. A key without a value, such as
// an empty one, is not sent.
func (t *kvs) sendKeys(to map[string][]string) {
	for at, keys := range to {
		r := wire.KeyRequest{Kind: wire.Put}
		size := 0
		flush := func() {
			if len(r.Tuples) > 0 {
				t.send(at, r.Append(make([]byte, 0, r.Size())))
			}
			r.Tuples, size = nil, 0
		}
		for _, key := range keys {
			e := t.entries[key]
			if !e.stored {
				continue
			}
			payload, code := t.keys.get(key, &e)
			if code != wire.NoError {
				continue
			}
			r.Tuples = append(r.Tuples, wire.Tuple{Key: key, Lattice: e.kind(), Payload: payload})
			if size += len(key) + len(payload); size > chunk {
				flush()
			}
		}
		flush()
	}
}

// gossiped merges what a peer sent.
func (t *kvs) gossiped(message []byte) {
	r, err := wire.ParseKeyRequest(message)
	if err != nil {
		t.log.Warn("gossip that cannot be read", "err", err)
		return
	}
	on := map[string]*wire.KeyRequest{}
	for i := range r.Tuples {
		tuple := &r.Tuples[i]
		e := t.entries[tuple.Key]
		meta := isMetadata(tuple.Key)
		if !e.known && !meta {
			t.waitGossip(tuple)
			continue
		}
		owners := t.owners(tuple.Key, &e, t.cfg.Tier)
		switch {
		case t.responsible(owners):
			t.take(tuple.Key, &e, tuple)
			t.keep(tuple.Key, e)
		case meta:
			for _, o := range owners {
				if on[o.gossip()] == nil {
					on[o.gossip()] = &wire.KeyRequest{Kind: wire.Put}
				}
				on[o.gossip()].Tuples = append(on[o.gossip()].Tuples, *tuple)
			}
		default:
			t.waitGossip(tuple)
		}
	}
	for to, r := range on {
		t.send(to, r.Append(make([]byte, 0, r.Size())))
	}
}

func (t *kvs) waitGossip(tuple *wire.Tuple) {
	t.pendingGossip[tuple.Key] = append(t.pendingGossip[tuple.Key], *tuple)
	t.ask[tuple.Key] = struct{}{}
}

// report writes the keys that this thread is the first owner of, and its
// statistics, to the owners of those metadata.
func (t *kvs) report() {
	t.epoch++
	self := wire.Server{Public: t.cfg.Public, Private: t.cfg.Private}
	stamp := timestamp(t.tid)
	sizes := make([]byte, 0, t.reportSize+t.reportSize/8)
	var stored uint64
	for key, e := range t.entries {
		if !e.stored {
			continue
		}
		stored += uint64(e.size)
		// Metadata have no factors, and so are never listed.
		if f, ok := t.factorsOf(key, &e); ok && t.view.first(key, f, t.cfg.Tier, t.cfg.Private, t.tid) {
			sizes = wire.AppendKeySize(sizes, wire.KeySize{Key: key, Size: e.size})
		}
	}
	t.reportSize = len(sizes)
	for _, kind := range []struct {
		key   string
		value []byte
	}{
		{metadataKey("stats", self, t.tid, t.cfg.Tier), statistics(stored/1000, t.epoch)},
		{metadataKey("access", self, t.tid, t.cfg.Tier), nil},
		{wire.SizeKey(self, t.tid, t.cfg.Tier), sizes},
	} {
		owners := t.view.metadataOwners(kind.key)
		if len(owners) == 0 {
			continue
		}
		payload := wire.AppendLWW(make([]byte, 0, len(kind.value)+20), wire.LWW{Timestamp: stamp, Value: kind.value})
		r := &wire.KeyRequest{Kind: wire.Put, Tuples: []wire.Tuple{{Key: kind.key, Lattice: wire.TypeLWW, Payload: payload}}}
		if to := owners[0].requests(); t.own[to] == wire.PortRequest {
			t.later = append(t.later, item{port: wire.PortRequest, request: r})
		} else {
			t.send(to, r.Append(make([]byte, 0, r.Size())))
		}
	}
	if t.cfg.Management != "" {
		t.send(address(t.cfg.Management, managementNodes, 0), []byte(address(t.cfg.Private, wire.PortManagement, t.tid)))
	}
}

// Ports of the management server.
const (
	managementRestarts = 7000
	managementNodes    = 7002
)

func metadataKey(kind string, s wire.Server, tid int, tier wire.Tier) string {
	key := wire.SizeKey(s, tid, tier)
	const head, size = "ANNA_METADATA|", "size"
	return head + kind + key[len(head)+len(size):]
}

// statistics is a ServerThreadStatistics.
func statistics(kilobytes uint64, epoch uint32) []byte {
	b := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), kilobytes)
	return protowire.AppendVarint(protowire.AppendTag(b, 3, protowire.VarintType), uint64(epoch))
}

// timestamp is Anna's: milliseconds, then the thread in as many digits as it needs.
func timestamp(tid int) uint64 {
	power := 10
	for tid >= power {
		power *= 10
	}
	return uint64(time.Now().UnixMilli())*uint64(power) + uint64(tid)
}
