package replay

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stategraft/stategraft/agent/anna/client"
	"github.com/stategraft/stategraft/agent/anna/wire"
	"github.com/stategraft/stategraft/api/node"
)

// What goes wrong for a while is tried again for as long as that takes, and is told.
func TestTroubles(t *testing.T) {
	records, want := backup(500)
	for name, spoil := range map[string]func(c *cluster, bad func() bool){
		"routing": func(c *cluster, bad func() bool) {
			c.onLookup = func(string) error {
				if bad() {
					return client.ErrNoServers
				}
				return nil
			}
		},
		"a thread is silent": func(c *cluster, bad func() bool) {
			c.onPut = func(at string, t wire.Tuple) (client.PutResult, bool) {
				return client.PutResult{Key: t.Key, Code: wire.Timeout}, at == c.threads[1] && bad()
			}
		},
		"wrong thread": func(c *cluster, bad func() bool) {
			c.onPut = func(at string, t wire.Tuple) (client.PutResult, bool) {
				return client.PutResult{Key: t.Key, Code: wire.WrongThread}, bad()
			}
		},
		"refused without a reason": func(c *cluster, bad func() bool) {
			n := 0
			c.onPut = func(at string, t wire.Tuple) (client.PutResult, bool) {
				if n++; n > 1 {
					return client.PutResult{}, false
				}
				return client.PutResult{Key: t.Key, Refused: true}, bad()
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(2, 2)
			left := 300
			spoil(c, func() bool { left--; return left > 0 && left%5 != 0 })
			var told []string
			o := quick(c, staged(t, records, 90))
			o.Progress = func(r node.Replay) { told = append(told, r.Message) }
			if err := Run(t.Context(), o); err != nil {
				t.Fatal(err)
			}
			equal(t, c, want)
			if c.most > 400 {
				t.Errorf("%d were out", c.most)
			}
		})
	}
}

// One that does not answer is sent one tuple at a time, and does not keep the others
// from theirs.
func TestSilent(t *testing.T) {
	records, _ := backup(1000)
	c := newCluster(2, 1)
	silent := c.threads[1]
	others, most, silence := 0, 0, 0
	for _, r := range records {
		if c.owner(r.Key) != silent {
			others++
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var mutex sync.Mutex
	puts := &watched{cluster: c, onPut: func(at string, tuples []wire.Tuple) error {
		if at != silent {
			return nil
		}
		mutex.Lock()
		defer mutex.Unlock()
		if silence++; silence > 20 { // those that were out at first
			most = max(most, len(tuples))
		}
		if silence > 30 && len(c.data[c.threads[0]]) == others {
			stop()
		}
		return errAny
	}}
	o := quick(puts, staged(t, records, 1000))
	o.Budget = 200
	if err := Run(ctx, o); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if most != 1 || len(c.data[c.threads[0]]) != others {
		t.Errorf("%d at a time; %d of %d for the other", most, len(c.data[c.threads[0]]), others)
	}
}

// watched lets a test see PUTs without the cluster's lock.
type watched struct {
	*cluster
	onPut func(at string, tuples []wire.Tuple) error
}

func (w *watched) Put(ctx context.Context, at string, tuples []wire.Tuple) ([]client.PutResult, error) {
	if err := w.onPut(at, tuples); err != nil {
		return nil, err
	}
	return w.cluster.Put(ctx, at, tuples)
}

// Nothing is written before all nodes that are expected are there, and it is told who is
// not.
func TestWait(t *testing.T) {
	records, want := backup(50)
	c := newCluster(3, 1)
	servers := c.servers
	c.servers = nil
	var told []string
	o := quick(c, staged(t, records, 50))
	looks, written := 0, 0
	c.before = func() { written++ }
	o.Expect = func(context.Context) ([]Member, error) {
		c.mutex.Lock()
		defer c.mutex.Unlock()
		if written > 0 {
			t.Error("a key was looked up before all were there")
		}
		if looks++; looks == 1 {
			return nil, errAny
		}
		if looks == 3 {
			c.servers = append(slices.Clone(servers), wire.Server{Public: "10.0.0.7", Private: "10.0.0.7"})
		}
		return []Member{{Name: "memory-0"}, {Name: "memory-2"}, {Name: "ebs-0", Addresses: []string{"10.0.0.7"}}, {Name: servers[1].Private}}, nil
	}
	o.Progress = func(r node.Replay) {
		told = append(told, r.Phase+" "+r.Message)
		c.mutex.Lock()
		defer c.mutex.Unlock()
		if len(c.servers) == 0 {
			c.servers = servers[:1:1]
		}
	}
	if err := Run(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	equal(t, c, want)
	if !slices.ContainsFunc(told, func(s string) bool { return strings.HasPrefix(s, "waiting routing knows no KVS node") }) {
		t.Errorf("%q", told)
	}
	r := run{Options: o}
	c.servers, written = servers[:1], 0
	if _, missing := r.members(t.Context()); missing != "not in the cluster yet: memory-2, ebs-0, memory-1.memory.ns.svc.cluster.local" {
		t.Errorf("%q", missing)
	}
}
