package certs

import (
	"bytes"
	"testing"
	"time"
)

// TestLost loses both Secrets while the replicas serve the pair that was in one of
// them, with crashes between the writes. Who calls goes on trusting it, as well as
// the new one, until the replicas must have that. A Secret never holds what was
// found.
func TestLost(t *testing.T) {
	for writes := -1; writes < 3; writes++ {
		w := healthy(t, noon)
		before := w.state(t)
		w.authority, w.serving = nil, nil
		w.run(t, noon, writes)
		w.settle(t, noon.Add(time.Second))
		keep := w.policy.keep()
		for now := noon.Add(time.Second); now.Before(noon.Add(keep)); now = now.Add(keep / 10) {
			at := w.settle(t, now)
			for name, served := range map[string]Issued{"lost": before.Serving, "new": w.state(t).Serving} {
				if err := w.trusts(w.bundle, served, now); err != nil {
					t.Errorf("%d writes, %s later: the %s pair is refused: %v", writes, now.Sub(noon), name, err)
				}
			}
			if at.After(noon.Add(keep + time.Second)) {
				t.Errorf("to come back after %s, later than what was found is dropped", at.Sub(noon))
			}
		}
		for where, text := range map[string][]byte{"authority": w.authority[KeyCA], "serving pair": w.serving[KeyCA]} {
			if bundle, _ := parseBundle(text); contains(bundle, before.Current.Certificate) {
				t.Errorf("what was found is trusted in the bundle of the %s", where)
			}
		}
		w.settle(t, noon.Add(keep+time.Second))
		if got := w.state(t); !bytes.Equal(w.bundle, got.Bundle()) || !got.Lost.IsZero() || !got.Serving.SignedBy(got.Current.Certificate) {
			t.Errorf("%d writes: what was found is still trusted after %s", writes, keep)
		}
	}
}

// TestLostOfOthers has nobody kept who cannot have signed, or has expired, and nothing
// noted where a Secret is there.
func TestLostOfOthers(t *testing.T) {
	w := healthy(t, noon)
	stranger, expired := newCA(t, 300*time.Hour, noon), newCA(t, time.Hour, noon.Add(-2*time.Hour))
	w.bundle = bytes.Join([][]byte{w.bundle, stranger.certPEM, expired.certPEM, w.serving[KeyCert]}, nil)
	w.authority, w.serving = nil, nil
	w.run(t, noon, -1)
	bundle, err := parseBundle(w.bundle)
	if err != nil || len(bundle) != 3 || contains(bundle, expired.Certificate) || !contains(bundle, stranger.Certificate) {
		t.Errorf("%d authorities are trusted (%v), want the new one and two that were found", len(bundle), err)
	}
	w = healthy(t, noon)
	w.bundle = append(w.bundle, stranger.certPEM...)
	w.serving = nil
	w.settle(t, noon)
	if bundle, _ := parseBundle(w.bundle); len(bundle) != 1 {
		t.Errorf("%d authorities are trusted, though the authority's Secret is there", len(bundle))
	}
}

// TestClockAhead has the clock be ahead for one look, by more than the authority's
// life. Who calls by the right clock goes on trusting what the replicas serve.
func TestClockAhead(t *testing.T) {
	w := healthy(t, noon)
	served := w.state(t).Serving
	w.run(t, noon.Add(1000*time.Hour), -1)
	if err := w.trusts(w.bundle, served, noon.Add(time.Minute)); err != nil {
		t.Errorf("the pair that is served is refused: %v", err)
	}
}
