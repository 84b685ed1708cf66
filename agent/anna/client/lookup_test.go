package client

import (
	"errors"
	"testing"
	"time"

	"github.com/stategraft/stategraft/agent/anna/wire"
)

func TestOneResponseAddressOneKeyALookup(t *testing.T) {
	f := newFake(t)
	keys := keysOf(30)
	for _, key := range keys {
		f.set(key, "x")
	}
	c := f.client(nil)
	got, err := c.Find(t.Context(), keys)
	if err != nil {
		t.Fatal(err)
	}
	for i, tuple := range got {
		if tuple.Key != keys[i] || tuple.Error != wire.NoError {
			t.Errorf("%+v", tuple)
		}
	}
	if len(f.lookups) != len(keys) {
		t.Errorf("%d lookups for %d keys", len(f.lookups), len(keys))
	}
	for _, l := range f.lookups {
		if len(l.Keys) != 1 || l.ResponseAddress != c.ownersAt {
			t.Errorf("lookup %+v", l)
		}
	}
	for _, r := range f.requests {
		if r.ResponseAddress != c.keysAt {
			t.Errorf("response address %s, want %s", r.ResponseAddress, c.keysAt)
		}
	}
}

// Keys that have moved, and keys one of whose owners is dead.
func TestFindAsksAgain(t *testing.T) {
	f := newFake(t)
	f.set("moved", "x")
	f.set("replica", "x")
	asked := 0
	f.owners = func(r wire.AddressRequest) []wire.AddressResponse {
		ips := []string{f.kvs}
		if r.Keys[0] == "replica" {
			ips = []string{"tcp://127.0.0.1:1", f.kvs}
		}
		return []wire.AddressResponse{{ID: r.ID, Addresses: []wire.Addresses{{Key: r.Keys[0], IPs: ips}}}}
	}
	f.answer = func(r wire.KeyRequest) []wire.KeyResponse {
		if asked++; asked == 1 {
			return []wire.KeyResponse{{ID: r.ID, Tuples: []wire.Tuple{{Key: "moved", Error: wire.WrongThread}}}}
		}
		return f.asAnna(r)
	}
	got, err := f.client(hurried(3*time.Second)).Find(t.Context(), []string{"moved", "replica", ""})
	if err != nil || got[0].Error != wire.NoError || got[1].Error != wire.NoError || got[2].Error != wire.KeyDNE {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestOwners(t *testing.T) {
	f := newFake(t)
	c := f.client(nil)
	owners, err := c.Owners(t.Context(), "k")
	if err != nil || len(owners) != 1 || owners[0] != f.kvs {
		t.Errorf("%v, %v", owners, err)
	}
	f.mu.Lock()
	f.owners = func(r wire.AddressRequest) []wire.AddressResponse {
		return []wire.AddressResponse{{ID: r.ID, Error: wire.NoServers, Addresses: []wire.Addresses{{Key: "k"}}}}
	}
	f.mu.Unlock()
	if _, err := c.Owners(t.Context(), "k"); !errors.Is(err, ErrNoServers) {
		t.Errorf("no servers: %v", err)
	}
	f.mu.Lock()
	f.owners = func(r wire.AddressRequest) []wire.AddressResponse { return nil }
	f.mu.Unlock()
	if _, err := f.client(hurried(50*time.Millisecond)).Owners(t.Context(), "k"); !errors.Is(err, ErrTimeout) {
		t.Errorf("no answer: %v", err)
	}
	if _, err := c.Owners(t.Context(), ""); err == nil {
		t.Error("the empty key has owners")
	}
	c.SetRouting(nil)
	if _, err := c.Owners(t.Context(), "k"); !errors.Is(err, ErrNoRouting) {
		t.Errorf("no routing: %v", err)
	}
}
