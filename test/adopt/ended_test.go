package adopt

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/adopt"
	"github.com/stategraft/stategraft/test/adopt/simulated"
	"github.com/stategraft/stategraft/test/adopt/witness"
)

// soon is when a container ends that does not stay up.
const soon = 60 * time.Millisecond

// ends says how the containers of a workload go, by its name.
var ends = map[string]func(c string) simulated.Play{
	"killed":  func(c string) simulated.Play { return of(c, "medusa", simulated.Killed(soon)) },
	"oom":     func(c string) simulated.Play { return of(c, "medusa", simulated.OutOfMemory(soon)) },
	"exits":   func(c string) simulated.Play { return of(c, "snapshot", simulated.Play{Runs: soon}) },
	"agent":   func(c string) simulated.Play { return of(c, "agent", simulated.Play{Runs: time.Millisecond, Exit: 1}) },
	"all":     func(string) simulated.Play { return simulated.Killed(soon) },
	"once":    func(c string) simulated.Play { return of(c, "medusa-3", simulated.Killed(soon)) },
	"well":    func(string) simulated.Play { return simulated.Play{} },
	"waiting": func(c string) simulated.Play { return of(c, "medusa", simulated.Play{Waits: "ErrImagePull"}) },
}

// all is how many rounds each gets within a day.
var all = map[string]int{"killed": adopt.DefaultPerDay, "oom": adopt.DefaultPerDay, "exits": adopt.DefaultPerDay,
	"agent": adopt.DefaultPerDay, "all": adopt.DefaultPerDay, "once": 2, "well": 1, "waiting": 1}

// of is what becomes of the containers of a role; the others run.
func of(c, role string, play simulated.Play) simulated.Play {
	if strings.HasPrefix(c, "stategraft-"+role) {
		return play
	}
	return simulated.Play{}
}

func script(pod *corev1.Pod, c *corev1.EphemeralContainer) simulated.Play {
	name, _, _ := strings.Cut(pod.Name, "-")
	return ends[name](c.Name)
}

// Containers that do not stay up are followed by others with the backoff that is said, as
// many times a day as is said, and then by none; a day has some minutes here.
func TestKilledAgainAndAgain(t *testing.T) {
	ctx, e := start(t, 20*time.Minute)
	const namespace = "ended"
	times := 720
	if full() {
		times = 30
	}
	clock := simulated.Faster(time.Now(), times)
	limits := usual()
	limits.Off = time.Duration(times) * 30 * time.Second
	w, stop, err := e.Witness(ctx, namespace, limits, clock, nil)
	if err != nil {
		t.Fatal(err)
	}
	var town *Town
	defer func() { look(ctx, t, w, stop, compact(town)...) }()
	var sets []*appsv1.StatefulSet
	rounds := all
	if !full() {
		rounds = map[string]int{}
		for _, name := range []string{"killed", "agent", "once", "well", "waiting"} {
			rounds[name] = all[name]
		}
	}
	for name := range rounds {
		sets = append(sets, Cassandra(name, 1))
	}
	town, err = e.Settle(ctx, namespace, simulated.Played{Node: spread, Script: script, Clock: clock}, sets...)
	if err != nil {
		t.Fatal(err)
	}
	if err := town.paired(ctx); err != nil {
		t.Fatal(err)
	}
	end, err := e.Scaled(ctx, adopt.Options{Clock: clock.Now, Every: 100 * time.Millisecond, Pair: pair})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := end(); err != nil {
			t.Error(err)
		}
	}()
	if err := town.Label(ctx, api.AdoptRunning); err != nil {
		t.Fatal(err)
	}
	if err := await(ctx, 10*time.Minute, "the rounds of a day", func(context.Context) (bool, error) {
		for name, want := range rounds {
			if got := within(w.Rounds(namespace, name+"-0"), limits.Day); got < want {
				return false, fmt.Errorf("%s: %d of %d", name, got, want)
			}
		}
		return true, nil
	}); err != nil {
		t.Fatal(err)
	}
	// For longer than was ever waited nothing more comes.
	pause(ctx, 50*time.Minute/time.Duration(times))
	for name, want := range rounds {
		if got := within(w.Rounds(namespace, name+"-0"), limits.Day); got != want {
			t.Errorf("%s: %d rounds within a day, want %d", name, got, want)
		}
	}
	var waited []time.Duration
	at := w.Rounds(namespace, "killed-0")
	for i := 1; i < len(at); i++ {
		waited = append(waited, at[i].Sub(at[i-1]).Round(time.Second))
	}
	tally := w.Of(namespace)
	figure(t, "of %d pods whose containers end or wait each in another way none got more than %d rounds a day, with %d containers, one after %v", len(rounds), tally.MostRounds, tally.MostContainers, waited)
}

// within counts those of the rounds that came within so long of the first: on a busy machine
// the day may be over before the test is.
func within(rounds []time.Time, day time.Duration) (n int) {
	for _, at := range rounds {
		if at.Sub(rounds[0]) < day {
			n++
		}
	}
	return n
}

// pair is what is known of the sidecars' Secret: the controller, which asks the API server
// but ten times a second, has no time for more where its clock goes so much faster.
func pair(context.Context, string) (string, error) { return "the same", nil }

// paired waits until the namespace has what the sidecars identify themselves by. It has to
// be labelled for that; nobody is asked to adopt.
func (t *Town) paired(ctx context.Context) error {
	if err := t.Label(ctx, ""); err != nil {
		return err
	}
	return await(ctx, 3*time.Minute, "the Secret of the sidecars", func(ctx context.Context) (bool, error) {
		_, err := t.Client.CoreV1().Secrets(t.Namespace).Get(ctx, api.SecretGRPC, metav1.GetOptions{})
		return err == nil, err
	})
}

// However often they end, a pod gets 60 containers in its life and no more.
func TestWholeLife(t *testing.T) {
	if !full() {
		t.Skipf("takes a while: set %s=full", ScaleEnv)
	}
	ctx, e := start(t, 5*time.Minute)
	const namespace = "life"
	w, stop, err := e.Witness(ctx, namespace, witness.Limits{PerWorkload: 1}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	var town *Town
	defer func() { look(ctx, t, w, stop, compact(town)...) }()
	town, err = e.Settle(ctx, namespace, simulated.Played{Node: spread, Script: script}, Cassandra("killed", 1), Cassandra("all", 1))
	if err != nil {
		t.Fatal(err)
	}
	if err := town.paired(ctx); err != nil {
		t.Fatal(err)
	}
	end, err := e.Scaled(ctx, adopt.Options{PerDay: 1000, Backoff: []time.Duration{time.Millisecond}, Every: 100 * time.Millisecond, Pair: pair})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := end(); err != nil {
			t.Error(err)
		}
	}()
	if err := town.Label(ctx, api.AdoptRunning); err != nil {
		t.Fatal(err)
	}
	// A round of two is the least, of three the most.
	enough := witness.ContainersPerPod - 2
	if err := await(ctx, 2*time.Minute, "the containers of a life", func(ctx context.Context) (bool, error) {
		pods, err := town.Pods(ctx)
		for i := range pods {
			if n := len(pods[i].Spec.EphemeralContainers); n < enough {
				return false, fmt.Errorf("pod %s has %d", pods[i].Name, n)
			}
		}
		return err == nil, err
	}); err != nil {
		t.Fatal(err)
	}
	before := settled(ctx, t, w, namespace)
	pause(ctx, 3*time.Second)
	after := w.Of(namespace)
	if before != after {
		t.Errorf("%+v, and 3 s later %+v", before, after)
	}
	figure(t, "containers that end at once: %d and no more in a pod's life, in %d rounds", after.MostContainers, after.MostRounds)
}
