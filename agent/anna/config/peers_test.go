package config

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/stategraft/stategraft/agent/anna/config/fakedns"
	"github.com/stategraft/stategraft/agent/anna/wire"
)

func TestPeers(t *testing.T) {
	const host = "anna-memory.prod.svc.cluster.local"
	pod := func(name string) string { return name + "." + host }
	for name, c := range map[string]struct {
		zone func(*fakedns.Zone)
		want []Peer
		err  error
	}{
		"by SRV, a record for each port, in the order of ordinals": {
			zone: func(z *fakedns.Zone) {
				z.SRV(host, pod("anna-memory-10")+".", pod("Anna-Memory-2")+".", pod("anna-memory-0")+".", pod("anna-memory-0")+".")
				z.Host(pod("anna-memory-0"), "fd00::1", "10.0.0.1")
				z.Host(pod("anna-memory-10"), "10.0.0.3")
			},
			want: []Peer{{pod("anna-memory-0"), "10.0.0.1"}, {pod("anna-memory-2"), ""}, {pod("anna-memory-10"), "10.0.0.3"}},
		},
		"a Service without ports: what the addresses are called": {
			zone: func(z *fakedns.Zone) {
				z.Host(host, "10.0.0.2", "10.0.0.1", "10.0.0.9")
				z.Host(pod("anna-memory-0"), "10.0.0.1")
				z.Host(pod("anna-memory-1"), "10.0.0.2")
				z.Called("10.0.0.1", pod("anna-memory-0")+".")
				z.Called("10.0.0.2", pod("anna-memory-1")+".")
				z.Called("10.0.0.9", "ip-10-0-0-9.ec2.internal.")
			},
			want: []Peer{{"10.0.0.9", "10.0.0.9"}, {pod("anna-memory-0"), "10.0.0.1"}, {pod("anna-memory-1"), "10.0.0.2"}},
		},
		"no such Service": {zone: func(*fakedns.Zone) {}, err: ErrNoPeers},
	} {
		var z fakedns.Zone
		c.zone(&z)
		got, err := Peers(t.Context(), &z, host)
		if !errors.Is(err, c.err) || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	var z fakedns.Zone
	z.Fail(true)
	if _, err := Peers(t.Context(), &z, host); err == nil || errors.Is(err, ErrNoPeers) {
		t.Errorf("a DNS that does not answer says nothing about peers: %v", err)
	}
}

func TestSelf(t *testing.T) {
	dir := t.TempDir()
	if _, err := Self(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	for text, want := range map[string]string{
		"": "", "server: {public_ip: a}\n": "", "server:\n": "", "server: [a]\n": "",
		"server: {public_ip: a, private_ip: b}\n":                                             "b",
		"server: {private_ip: b, private_ip: c, public_ip: a}\nserver: {private_ip: d}\n":     "b",
		"# as start-anna.sh leaves it\nserver:\n    public_ip: 10.0.0.1\n    private_ip: b\n": "b",
	} {
		if err := os.WriteFile(filepath.Join(dir, File), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := Self(dir)
		if got.Private != want || errors.Is(err, ErrNoServer) != (want == "") {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
}

func TestMember(t *testing.T) {
	members := wire.Membership{Tiers: []wire.TierServers{{Tier: wire.Memory, Servers: []wire.Server{{Public: "a", Private: "a.x"}, {Public: "b", Private: "10.0.0.2"}}}}}
	var z fakedns.Zone
	z.Host("a.x", "10.0.0.1")
	for address, want := range map[string]string{"10.0.0.1": "a", "10.0.0.2": "b", "10.0.0.3": ""} {
		got, ok, err := Member(t.Context(), &z, members, wire.Memory, address)
		if err != nil || ok != (want != "") || got.Public != want {
			t.Errorf("%s: %v, %v, %v", address, got, ok, err)
		}
	}
	z.Fail(true)
	if _, ok, err := Member(t.Context(), &z, members, wire.Memory, "10.0.0.1"); ok || err == nil {
		t.Errorf("a DNS that does not answer: %v, %v", ok, err)
	}
}
