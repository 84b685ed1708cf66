package certs

import (
	"bytes"
	"maps"
	"testing"
	"time"
)

// world is what the state machine acts on: two Secrets and the bundle of the
// webhook configuration, as the API server would keep them.
type world struct {
	policy    Policy
	authority map[string][]byte // nil: no such Secret
	serving   map[string][]byte
	bundle    []byte
	changes   []Change
	problems  []error
}

var testPolicy = Policy{CAValidity: 300 * time.Hour, Validity: 60 * time.Hour, Service: "stategraft-webhook", Namespace: "stategraft"}

// run takes a step as the controller does, with its writes in their order.
// It stops after the given number of writes, as a crash would; negative for none.
// It answers when to come back, and whether anything was written.
func (w *world) run(t testing.TB, now time.Time, writes int) (time.Time, bool) {
	t.Helper()
	state, problems := Parse(w.authority, w.serving)
	next, changes, at, err := Next(state, now, w.policy, Observed{Bundles: [][]byte{w.bundle}})
	if err != nil {
		t.Fatal(err)
	}
	w.changes, w.problems = append(w.changes, changes...), append(w.problems, problems...)
	authority, err := next.AuthorityData()
	if err != nil {
		t.Fatal(err)
	}
	wrote := false
	write := func(same bool, do func()) {
		if same || writes == 0 {
			return
		}
		writes--
		wrote = true
		do()
	}
	equal := func(a, b map[string][]byte) bool { return maps.EqualFunc(a, b, bytes.Equal) }
	write(equal(w.authority, authority), func() { w.authority = authority })
	write(bytes.Equal(w.bundle, next.CABundle()), func() { w.bundle = next.CABundle() })
	serving := next.ServingData()
	write(equal(w.serving, serving), func() { w.serving = serving })
	return at, wrote
}

// settle runs until nothing is written, and answers when to come back.
func (w *world) settle(t testing.TB, now time.Time) time.Time {
	t.Helper()
	for range 10 {
		if at, wrote := w.run(t, now, -1); !wrote {
			return at
		}
	}
	t.Fatalf("the state does not settle: %+v", w.changes)
	return now
}

// state reads what the Secrets hold.
func (w *world) state(t testing.TB) State {
	t.Helper()
	s, problems := Parse(w.authority, w.serving)
	for _, p := range problems {
		t.Errorf("a problem is left: %v", p)
	}
	return s
}

// healthy is a world after the first installation.
func healthy(t testing.TB, now time.Time) *world {
	t.Helper()
	w := &world{policy: testPolicy}
	w.settle(t, now)
	w.changes, w.problems = nil, nil
	return w
}

// trusts tells why whoever has the bundle would refuse the pair that is served.
func (w *world) trusts(bundle []byte, served Issued, now time.Time) error {
	trusted, err := parseBundle(bundle)
	if err != nil {
		return err
	}
	return served.Serves(w.policy.serving(), trusted, now)
}
