package client

import (
	"net"
	"testing"
	"time"

	"github.com/stategraft/stategraft/agent/anna/wire"
)

func TestMembers(t *testing.T) {
	f := newFake(t)
	f.members = wire.Membership{Tiers: []wire.TierServers{{Tier: wire.Memory, Servers: []wire.Server{{Public: "a", Private: "b"}}}}}
	m, err := f.client(nil).Members(t.Context())
	if err != nil || len(m.Of(wire.Memory)) != 1 || m.Of(wire.Memory)[0].Private != "b" {
		t.Errorf("%+v, %v", m, err)
	}
}

// A routing node without enough servers for the replication never answers.
func TestMembersWithoutAnswer(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	f := newFake(t)
	f.routing.seed = silent.Addr().(*net.TCPAddr).Port
	if _, err := f.client(hurried(50 * time.Millisecond)).Members(t.Context()); err == nil {
		t.Error("an answer of nobody")
	}
}

func TestReport(t *testing.T) {
	f := newFake(t)
	c := f.client(nil)
	server := wire.Server{Public: "pub", Private: "priv"}
	r, err := c.Report(t.Context(), server, wire.Memory, 0)
	if err != nil || !r.Never {
		t.Errorf("never reported: %+v, %v", r, err)
	}
	list := wire.AppendKeySize(nil, wire.KeySize{Key: "k", Size: 3})
	for _, test := range []struct {
		name  string
		value []byte
		code  wire.Code
	}{{"keys", list, wire.NoError}, {"no keys", nil, wire.KeyDNE}} {
		key := wire.SizeKey(server, 0, wire.Memory)
		f.mu.Lock()
		f.values[key] = wire.Tuple{
			Key: key, Lattice: wire.TypeLWW, Error: test.code,
			Payload: wire.AppendLWW(nil, wire.LWW{Timestamp: 70, Value: test.value}),
		}
		f.mu.Unlock()
		r, err := c.Report(t.Context(), server, wire.Memory, 0)
		if err != nil || r.Never || r.Stamp != 70 || string(r.Sizes) != string(test.value) {
			t.Errorf("%s: %+v, %v", test.name, r, err)
		}
	}
}

func TestNotify(t *testing.T) {
	f := newFake(t)
	s := f.pull()
	defer s.Close()
	if err := f.client(nil).Notify(t.Context(), "tcp://"+s.Addr().String(), "join:MEMORY:a:b:1"); err != nil {
		t.Fatal(err)
	}
	message, err := s.Recv()
	if err != nil || string(message.Frames[0]) != "join:MEMORY:a:b:1" {
		t.Errorf("%q, %v", message.Frames, err)
	}
}
