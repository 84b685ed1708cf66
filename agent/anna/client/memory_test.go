package client

import (
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/stategraft/stategraft/agent/anna/client/zmtp"
	"github.com/stategraft/stategraft/agent/anna/wire"
)

// A list of a million keys has 23 MB. It is in memory once, from the socket to whoever
// goes through it.
func TestListOfAMillionKeysIsHeldOnce(t *testing.T) {
	const keys = 1_000_000
	list := make([]byte, 0, 24_000_000)
	for range keys {
		list = wire.AppendKeySize(list, wire.KeySize{Key: "key-0000000000001", Size: 100})
	}
	payload := wire.AppendLWW(nil, wire.LWW{Timestamp: 1, Value: list})
	f := newFake(t)
	var before atomic.Uint64
	f.answer = func(r wire.KeyRequest) []wire.KeyResponse {
		tuple := wire.Tuple{Key: r.Tuples[0].Key, Lattice: wire.TypeLWW, Payload: payload}
		response := wire.KeyResponse{Kind: wire.Get, ID: r.ID, Tuples: []wire.Tuple{tuple}}
		message := response.Append(make([]byte, 0, len(payload)+1000))
		conn, err := zmtp.Dial(t.Context(), r.ResponseAddress[len("tcp://"):], zmtp.Push)
		if err != nil {
			t.Error(err)
			return nil
		}
		before.Store(allocated())
		if err := conn.Send(message); err != nil {
			t.Error(err)
		}
		return nil
	}
	c := f.client(nil)
	// Whatever else goes on in this process, such as the end of an earlier test, is measured
	// too, but not each time.
	least := ^uint64(0)
	for range 5 {
		r, err := c.Report(t.Context(), wire.Server{Public: "a", Private: "b"}, wire.Memory, 0)
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for size, err := range wire.KeySizes(r.Sizes) {
			if err != nil || size.Key != "key-0000000000001" {
				t.Fatal(size, err)
			}
			n++
		}
		if n != keys {
			t.Fatalf("%d keys", n)
		}
		if least = min(least, allocated()-before.Load()); least <= uint64(len(payload))*5/4 {
			return
		}
	}
	t.Errorf("%d bytes took %d bytes of memory", len(payload), least)
}

// allocated is how many bytes were allocated since the start, freed or not.
func allocated() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.TotalAlloc
}
