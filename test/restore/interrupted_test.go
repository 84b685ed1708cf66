package restore

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// few interruptions are enough for `make test`.
const few = 10

// together is how many scenarios are played at once.
const together = 3

// Whatever is killed, deleted, restarted or held back in the middle of a restore, it
// is done in the end, once, by itself, and no database starts without it.
func TestInterrupted(t *testing.T) {
	ctx, e := start(t, time.Hour)
	wanted, all := few, false
	if text := os.Getenv(InterruptionsEnv); text != "" {
		var err error
		if wanted, err = strconv.Atoi(text); err != nil {
			t.Fatalf("%s: %v", InterruptionsEnv, err)
		}
		all = true // of the kinds, too
	}
	t.Logf("seed %d", seed)
	tally := newTally(wanted)
	var next, failed atomic.Int32
	var workers sync.WaitGroup
	for range together {
		workers.Go(func() {
			for failed.Load() < 3 && ctx.Err() == nil {
				number := int(next.Add(1)) - 1
				if tally.enough() && (!all || number >= len(kinds)) {
					return
				}
				if !e.one(ctx, t, number, tally) {
					failed.Add(1)
				}
			}
		})
	}
	workers.Wait()
	figure(t, "%d interruptions in %d scenarios, seed %d: %s", tally.interrupted, int(next.Load())-together, seed, counts(tally.hits))
	figure(t, "they came while the Restore was: %s", counts(tally.phases))
	figure(t, "scenarios: %s", counts(tally.scenarios))
	if !tally.enough() {
		t.Errorf("%d interruptions, want %d", tally.interrupted, wanted)
	}
	if t.Failed() {
		return
	}
	figure(t, "each pod restored exactly once; %d databases began before the list was in force, none became ready", tally.slipped)
	figure(t, "applied again after each: nothing restored, pods made anew in %d scenarios", tally.touched)
}

// one plays a scenario. All chance in it is that of the seed and its number.
func (e *Env) one(ctx context.Context, t *testing.T, number int, tally *tally) bool {
	random := rand.New(rand.NewPCG(seed, uint64(number)+100))
	// Every kind before one comes again, in an order of chance.
	order := rand.New(rand.NewPCG(seed, uint64(number/len(kinds))+1)).Perm(len(kinds))
	k := kinds[order[number%len(kinds)]]
	ns := fmt.Sprintf("interrupted-%d", number)
	began := time.Now()
	faulty := e.run(ctx, k, ns, random, tally)
	if len(faulty) == 0 {
		t.Logf("%s: %s, %s", ns, k.name, time.Since(began).Round(100*time.Millisecond))
		return true
	}
	t.Errorf("%s: %s, seed %d:\n  %s", ns, k.name, seed, strings.Join(faulty, "\n  "))
	explain(t, e, ns)
	return false
}
