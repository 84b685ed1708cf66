package client

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stategraft/stategraft/agent/anna/wire"
)

func TestGetAnswersInTheOrderOfTheKeys(t *testing.T) {
	f := newFake(t)
	keys := keysOf(250)
	for _, key := range keys {
		f.set(key, "value of "+key)
	}
	asked := append([]string{"missing", keys[3]}, keys...) // one twice
	got, err := f.client(nil).Get(t.Context(), f.kvs, asked)
	if err != nil {
		t.Fatal(err)
	}
	for i, tuple := range got {
		value, err := wire.ParseLWW(tuple.Payload)
		switch {
		case tuple.Key != asked[i]:
			t.Errorf("tuple %d is of key %q, want %q", i, tuple.Key, asked[i])
		case i == 0 && tuple.Error != wire.KeyDNE:
			t.Errorf("a missing key: %s", tuple.Error)
		case i > 0 && (err != nil || string(value.Value) != "value of "+asked[i]):
			t.Errorf("%s: %q, %v", asked[i], value.Value, err)
		}
	}
}

// Anna answers a key whose replication it had to ask for in a response of its own.
func TestTuplesAreCountedNotResponses(t *testing.T) {
	f := newFake(t)
	keys := keysOf(60)
	f.answer = func(r wire.KeyRequest) []wire.KeyResponse {
		var all []wire.KeyResponse
		for i := len(r.Tuples) - 1; i >= 0; i-- { // and in any order
			f.set(r.Tuples[i].Key, "x")
			one := r
			one.Tuples = r.Tuples[i : i+1]
			all = append(all, f.asAnna(one)...)
		}
		return all
	}
	got, err := f.client(nil).Get(t.Context(), f.kvs, keys)
	if err != nil {
		t.Fatal(err)
	}
	for i, tuple := range got {
		if tuple.Key != keys[i] || tuple.Error != wire.NoError || len(tuple.Payload) == 0 {
			t.Errorf("tuple %d: %+v", i, tuple)
		}
	}
	if len(f.requests) != 1 {
		t.Errorf("%d requests, want 1", len(f.requests))
	}
}

func TestPutIsDoneOnlyWithTheTypeThatWasSent(t *testing.T) {
	f := newFake(t)
	f.set("other", "x")
	set := wire.AppendSet(nil, wire.Set{Values: [][]byte{[]byte("a")}})
	results, err := f.client(nil).Put(t.Context(), f.kvs, []wire.Tuple{
		{Key: "new", Lattice: wire.TypeSet, Payload: set},
		{Key: "other", Lattice: wire.TypeSet, Payload: set},
		{Key: "none", Lattice: wire.None, Payload: set},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []PutResult{{Key: "new", Done: true}, {Key: "other", Refused: true}, {Key: "none", Refused: true}}
	for i, r := range results {
		if r != want[i] {
			t.Errorf("%+v, want %+v", r, want[i])
		}
	}
}

func TestWrongThreadIsNotRefused(t *testing.T) {
	f := newFake(t)
	f.answer = func(r wire.KeyRequest) []wire.KeyResponse {
		return []wire.KeyResponse{{ID: r.ID, Tuples: []wire.Tuple{{Key: r.Tuples[0].Key, Lattice: wire.TypeLWW, Error: wire.WrongThread}}}}
	}
	results, err := f.client(nil).Put(t.Context(), f.kvs, []wire.Tuple{{Key: "k", Lattice: wire.TypeLWW}})
	if err != nil || results[0] != (PutResult{Key: "k", Code: wire.WrongThread}) {
		t.Errorf("%+v, %v", results, err)
	}
}

func TestUnansweredKeysAreAskedAgainThenTimedOut(t *testing.T) {
	f := newFake(t)
	f.set("a", "x")
	asked := 0
	f.answer = func(r wire.KeyRequest) []wire.KeyResponse {
		asked++
		var known []wire.Tuple
		for _, tuple := range r.Tuples {
			if tuple.Key == "a" || tuple.Key == "late" && asked == 2 {
				known = append(known, tuple)
			}
		}
		r.Tuples = known
		return f.asAnna(r)
	}
	got, err := f.client(hurried(3*time.Second)).Get(t.Context(), f.kvs, []string{"a", "late", "never"})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []wire.Code{wire.NoError, wire.KeyDNE, wire.Timeout} {
		if got[i].Error != want {
			t.Errorf("%s: %s, want %s", got[i].Key, got[i].Error, want)
		}
	}
	sizes := []int{}
	for _, r := range f.requests {
		sizes = append(sizes, len(r.Tuples))
	}
	if fmt.Sprint(sizes) != "[3 2 1]" {
		t.Errorf("tuples asked for: %v", sizes)
	}
}

func hurried(deadline time.Duration) func(*Options) {
	return func(o *Options) { o.hurry = deadline }
}

func TestAnswersOfAnEarlierRunAreDropped(t *testing.T) {
	f := newFake(t)
	c := f.client(nil)
	f.set("a", "new")
	f.answer = func(r wire.KeyRequest) []wire.KeyResponse {
		old := wire.KeyResponse{ID: "0123456789ab-1", Tuples: []wire.Tuple{{Key: "a", Payload: []byte("old")}}}
		foreign := wire.KeyResponse{ID: r.ID, Tuples: []wire.Tuple{{Key: "never asked"}}}
		return append([]wire.KeyResponse{old, foreign}, f.asAnna(r)...)
	}
	got, err := c.Get(t.Context(), f.kvs, []string{"a"})
	value, _ := wire.ParseLWW(got[0].Payload)
	if err != nil || string(value.Value) != "new" {
		t.Errorf("%q, %v", value.Value, err)
	}
	f.push(c.keysAt, []byte("no protobuf"))
	waitFor(t, "the unknown and the malformed one are counted", func() bool {
		s := c.Stats()
		return s.Unknown == 2 && s.Malformed == 1
	})
}

func waitFor(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not in time: %s", what)
		}
	}
}

func TestIPv6IsRefused(t *testing.T) {
	_, err := New(t.Context(), Options{Listen: "127.0.0.1:0", Advertise: "fd00::1"})
	if !errors.Is(err, wire.ErrIPv6) {
		t.Errorf("advertised: %v", err)
	}
	f := newFake(t)
	c := f.client(func(o *Options) { o.Routing = []string{"fd00::1"} })
	if _, err := c.Owners(t.Context(), "k"); !errors.Is(err, ErrNoRouting) {
		t.Errorf("routing: %v", err)
	}
	if _, err := c.Get(t.Context(), "tcp://[fd00::1]:6200", []string{"k"}); !errors.Is(err, wire.ErrIPv6) {
		t.Errorf("get: %v", err)
	}
}

func TestDeadlineIsNeverBelowTenSeconds(t *testing.T) {
	o := Options{Advertise: "a", Deadline: time.Second, Outstanding: 5000}
	if err := o.complete(); err != nil || o.Deadline != MinDeadline || o.Outstanding != MaxOutstanding {
		t.Errorf("%+v, %v", o, err)
	}
}

func TestCloseEndsWhatIsWaiting(t *testing.T) {
	f := newFake(t)
	f.answer = func(wire.KeyRequest) []wire.KeyResponse { return nil }
	c := f.client(func(o *Options) { o.hurry = time.Minute })
	g, err := c.GetAsync(t.Context(), f.kvs, []string{"k"})
	if err != nil {
		t.Fatal(err)
	}
	waitFor(t, "it is sent", func() bool { return c.Stats().Sent == 1 })
	c.Close()
	if _, err := g.Wait(context.Background()); !errors.Is(err, ErrClosed) {
		t.Errorf("waiting: %v", err)
	}
	if _, err := c.Get(context.Background(), f.kvs, []string{"k"}); !errors.Is(err, ErrClosed) {
		t.Errorf("after it: %v", err)
	}
}

func TestErrorsNameWhatWasAsked(t *testing.T) {
	f := newFake(t)
	c := f.client(nil)
	c.SetRouting(nil)
	_, err := c.Report(t.Context(), wire.Server{Public: "a", Private: "node-1"}, wire.Disk, 3)
	if err == nil || !strings.Contains(err.Error(), "thread 3 of DISK node node-1") {
		t.Error(err)
	}
}
