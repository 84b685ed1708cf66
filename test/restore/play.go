package restore

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	api "github.com/stategraft/stategraft/api/v1alpha1"
)

// tally counts what was done.
type tally struct {
	mu          sync.Mutex
	wanted      int
	hits        map[string]int // interruptions, by name
	scenarios   map[string]int // by kind
	slipped     int
	touched     int // applied again, and pods were made anew
	phases      map[string]int
	interrupted int
}

func newTally(wanted int) *tally {
	return &tally{wanted: wanted, hits: map[string]int{}, scenarios: map[string]int{}, phases: map[string]int{}}
}

func (t *tally) hit(name, phase string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.hits[name]++
	t.phases[phase]++
	t.interrupted++
}

func (t *tally) enough() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.interrupted >= t.wanted
}

func (t *tally) played(kind string, slipped int, touched bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.scenarios[kind]++
	t.slipped += slipped
	if touched {
		t.touched++
	}
}

func counts(m map[string]int) string {
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		parts = append(parts, fmt.Sprintf("%s %d", k, m[k]))
	}
	return strings.Join(parts, ", ")
}

// play is a scenario that is being played.
type play struct {
	*ring
	random  *rand.Rand
	tally   *tally
	touched bool // by applying again
	err     error
	wait    sync.WaitGroup
}

// interrupt begins to interrupt while a Restore is not final, a few times. What goes
// wrong with that is in err once wait is over.
func (p *play) interrupt(ctx context.Context, name string) {
	random := rand.New(rand.NewPCG(p.random.Uint64(), p.random.Uint64())) // the scenario goes on with its own
	p.wait.Go(func() {
		for range 3 + random.IntN(4) {
			pause(ctx, time.Duration(random.IntN(1200))*time.Millisecond)
			o, err := p.get(ctx, name)
			if err != nil {
				continue // not made yet, or the API server is away
			}
			if o.Status.Phase.Final() {
				return
			}
			phase := string(o.Status.Phase)
			if phase == "" {
				phase = "new"
			}
			f := pick(random, !begun(o))
			hit, err := f.do(ctx, p.Env, p.ns, random)
			if err != nil {
				p.err = fmt.Errorf("%s: %w", f.name, err)
				return
			}
			if hit != "" {
				p.tally.hit(hit, phase)
			}
		}
	})
}

// begun tells whether a Restore has begun to delete pods.
func begun(o *api.Restore) bool {
	return o.Status.Phase == api.RestoreStopping || o.Status.Phase == api.RestoreRestoring
}

// run plays a kind in a namespace, and answers what does not hold.
func (e *Env) run(ctx context.Context, k kind, ns string, random *rand.Rand, t *tally) []string {
	r, err := e.newRing(ctx, ns, k.size, k.policy)
	if err != nil {
		return []string{"setting up: " + err.Error()}
	}
	p := &play{ring: r, random: random, tally: t}
	faulty := k.play(ctx, p)
	p.wait.Wait()
	if p.err != nil {
		faulty = append(faulty, p.err.Error())
	}
	t.played(k.name, e.Witness.Slipped(ns), p.touched)
	if len(faulty) == 0 {
		r.discard(ctx)
	}
	return faulty
}
