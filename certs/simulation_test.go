package certs

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// viewer sees what was written, some time after it was. It never goes back.
type viewer struct{ at int }

// written are all versions of something, with their times.
type written struct {
	texts []string
	times []time.Time
}

func (w *written) write(text []byte, now time.Time) {
	if len(w.texts) == 0 || w.texts[len(w.texts)-1] != string(text) {
		w.texts, w.times = append(w.texts, string(text)), append(w.times, now)
	}
}

// see moves on to a version that may be known by now: at the latest after limit,
// and with some luck before.
func (v *viewer) see(w *written, now time.Time, limit time.Duration, luck *rand.Rand) []byte {
	for v.at+1 < len(w.texts) && (!now.Before(w.times[v.at+1].Add(limit)) || luck.IntN(20) == 0) {
		v.at++
	}
	return []byte(w.texts[v.at])
}

// TestSimulation runs years of rotations, with a controller that crashes between
// its writes and is away for days, API servers that hear late of a new bundle, and
// replicas that hear late of a new pair. Whatever the order, every API server
// trusts every replica at all times.
func TestSimulation(t *testing.T) {
	for _, validity := range []time.Duration{4 * time.Hour, 12 * time.Hour, 60 * time.Hour} {
		for seed := range uint64(2) {
			t.Run(fmt.Sprintf("%s/%d", validity, seed), func(t *testing.T) { simulate(t, validity, seed) })
		}
	}
}

func simulate(t *testing.T, validity time.Duration, seed uint64) {
	luck := rand.New(rand.NewPCG(seed, 1))
	w := &world{policy: testPolicy}
	w.policy.CAValidity, w.policy.Validity = 60*time.Hour, validity
	w.policy.Margin, w.policy.Keep = 24*time.Minute, 48*time.Minute
	const lives = 3 // of authorities
	// Deliveries within the margin, and a controller that is back in time.
	const bundleLimit, pairLimit, tick = 6 * time.Minute, 12 * time.Minute, 2 * time.Minute
	away := (validity/3 - pairLimit) / 4

	now := noon
	at := w.settle(t, now)
	var bundles, pairs written
	// What is seen now may be older than what was written last, for each of them.
	var apiServers, replicas [3]viewer
	pair := func() []byte { return append(append([]byte{}, w.serving[KeyCert]...), w.serving[KeyKey]...) }
	bundles.write(w.bundle, now)
	pairs.write(pair(), now)
	trusted := map[[2]int]time.Time{}
	gone := now
	wrote := true
	for now.Before(noon.Add(lives * w.policy.CAValidity)) {
		now = now.Add(tick)
		if luck.IntN(200) == 0 && now.After(gone.Add(away)) {
			gone = now.Add(time.Duration(luck.Int64N(int64(away))))
		}
		if !now.Before(gone) && (wrote || !now.Before(at) || luck.IntN(30) == 0) {
			limit := -1
			if luck.IntN(3) == 0 {
				limit = luck.IntN(3) // crashes after so many writes
			}
			at, wrote = w.run(t, now, limit)
			wrote = wrote || limit >= 0
			bundles.write(w.bundle, now)
			pairs.write(pair(), now)
		}
		for a := range apiServers {
			bundle := apiServers[a].see(&bundles, now, bundleLimit, luck)
			for r := range replicas {
				text := replicas[r].see(&pairs, now, pairLimit, luck)
				// A pair does not outlive its authority, so one look is enough.
				meeting := [2]int{apiServers[a].at, replicas[r].at}
				if until, met := trusted[meeting]; met && !now.After(until) {
					continue
				}
				served, err := ParseIssued(text, text)
				if err == nil {
					err = w.trusts(bundle, served, now)
				}
				if err != nil {
					t.Fatalf("%s after the start API server %d refuses replica %d: %v", now.Sub(noon), a, r, err)
				}
				trusted[meeting] = served.Certificate.NotAfter
			}
		}
	}
	made := map[string]int{}
	for _, c := range w.changes {
		if c.Rotation {
			made[c.Certificate]++
		}
	}
	if made[CertificateCA] <= lives || made[CertificateWebhook] <= lives {
		t.Errorf("only %v made: the test shows nothing", made)
	}
	t.Logf("made %v, bundles %d, pairs %d", made, len(bundles.texts), len(pairs.texts))
}
