package annanode

import (
	"context"
	"fmt"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stategraft/stategraft/agent/anna/wire"
	"github.com/stategraft/stategraft/test/annanode/zmtp"
)

// patience is how long is waited for what takes moments on an idle machine; soon is for
// what does not come.
const (
	patience = time.Minute
	soon     = 500 * time.Millisecond
)

// talker is a client of the tests: no more than what is on the wire.
type talker struct {
	t       *testing.T
	host    string
	keys    chan wire.KeyResponse
	lookups chan wire.AddressResponse
	pushes  map[string]*zmtp.Push
	ids     atomic.Int64
}

const (
	talkKeys    = 6460
	talkLookups = 6760
)

func newTalker(t *testing.T, host string) *talker {
	k := &talker{
		t: t, host: host, pushes: map[string]*zmtp.Push{},
		keys: make(chan wire.KeyResponse, 100000), lookups: make(chan wire.AddressResponse, 100000),
	}
	listen := func(port int, handle func([]byte)) {
		l, err := zmtp.Pull(address(host, port, 0), func(_ context.Context, m []byte) { handle(m) })
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(l.Close)
	}
	listen(talkKeys, func(m []byte) {
		r, err := wire.ParseKeyResponse(m)
		if err != nil {
			t.Error(err)
		}
		k.keys <- r
	})
	listen(talkLookups, func(m []byte) {
		r, err := wire.ParseAddressResponse(m)
		if err != nil {
			t.Error(err)
		}
		k.lookups <- r
	})
	t.Cleanup(func() {
		for _, p := range k.pushes {
			p.Close()
		}
	})
	return k
}

func (k *talker) send(to string, m []byte) {
	k.t.Helper()
	if k.pushes[to] == nil {
		k.pushes[to] = zmtp.NewPush(to)
	}
	if err := k.pushes[to].Send(k.t.Context(), m); err != nil {
		k.t.Fatal(err)
	}
}

func (k *talker) id() string { return "talk:" + strconv.FormatInt(k.ids.Add(1), 10) }

// request sends a request and tells the responses that answer all its tuples.
func (k *talker) request(at string, kind wire.Kind, tuples ...wire.Tuple) []wire.KeyResponse {
	k.t.Helper()
	r := wire.KeyRequest{Kind: kind, Tuples: tuples, ResponseAddress: address(k.host, talkKeys, 0), ID: k.id()}
	k.send(at, r.Append(nil))
	var all []wire.KeyResponse
	for n := 0; n < len(tuples); {
		select {
		case response := <-k.keys:
			if response.ID == r.ID {
				all = append(all, response)
				n += len(response.Tuples)
			}
		case <-time.After(patience):
			k.t.Fatalf("no answer from %s to %v of %v", at, kind, tuples)
		}
	}
	return all
}

// one is a request of one tuple.
func (k *talker) one(at string, kind wire.Kind, tuple wire.Tuple) wire.Tuple {
	k.t.Helper()
	return k.request(at, kind, tuple)[0].Tuples[0]
}

func (k *talker) lookup(routing string, keys ...string) wire.AddressResponse {
	k.t.Helper()
	r := wire.AddressRequest{ResponseAddress: address(k.host, talkLookups, 0), Keys: keys, ID: k.id()}
	k.send(address(routing, wire.PortAddress, 0), r.Append(nil))
	for {
		select {
		case response := <-k.lookups:
			if response.ID == r.ID {
				return response
			}
		case <-time.After(patience):
			k.t.Fatalf("no answer from %s to the lookup of %v", routing, keys)
		}
	}
}

// owner is the first owner of a key.
func (k *talker) owner(routing, key string) string {
	k.t.Helper()
	r := k.lookup(routing, key)
	if len(r.Addresses) != 1 || len(r.Addresses[0].IPs) == 0 {
		k.t.Fatalf("%s has no owner: %+v", key, r)
	}
	return r.Addresses[0].IPs[0]
}

func lww(stamp uint64, value string) []byte {
	return wire.AppendLWW(nil, wire.LWW{Timestamp: stamp, Value: []byte(value)})
}

func set(values ...string) []byte {
	var s wire.Set
	for _, v := range values {
		s.Values = append(s.Values, []byte(v))
	}
	return wire.AppendSet(nil, s)
}

func startCluster(t *testing.T, cfg ClusterConfig) *Cluster {
	t.Helper()
	if cfg.Report == 0 {
		cfg.Report = 50 * time.Millisecond
	}
	if cfg.Gossip == 0 {
		cfg.Gossip = 30 * time.Millisecond
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	c, err := StartCluster(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func freeHost(t *testing.T) string {
	t.Helper()
	hosts, err := FreeHosts(1)
	if err != nil {
		t.Fatal(err)
	}
	return hosts[0]
}

// eventually waits for something that has no signal.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if ok() {
			return
		}
	}
	t.Fatal("never: " + what)
}

func keyNumber(n int) string { return fmt.Sprintf("key-%06d", n) }
