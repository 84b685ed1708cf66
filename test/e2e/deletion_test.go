package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/stategraft/stategraft/patches"
)

const (
	// How often a pod is deleted or started, with injection and without.
	deletions, starts = 3, 3
	// deletionLimit and startLimit are what an injected pod may take longer, by
	// the median.
	deletionLimit = 3 * time.Second
	startLimit    = 2 * time.Second
)

// pair makes the same Cassandra twice, without injection and with it.
func pair(ctx context.Context, e *Env, name string) (plain, injected *Cassandra, err error) {
	// What the two of them and the injected containers ask for has to fit the node.
	ask := func(set *appsv1.StatefulSet) {
		set.Spec.Template.Spec.Containers[0].Resources.Requests["cpu"] = resource.MustParse("500m")
	}
	if plain, err = e.Cassandra(ctx, name+"-plain", Setup{Plain: true, Change: ask}); err != nil {
		return nil, nil, err
	}
	injected, err = e.Cassandra(ctx, name, Setup{Change: ask})
	return plain, injected, err
}

// Deleting a pod that has made backups takes no longer with us than without.
func TestDeletion(t *testing.T) {
	e, ctx := scenario(t, 10*time.Minute)
	step := stepper(t)
	plain, injected, err := pair(ctx, e, "deletion")
	step("ready", err)
	step("written", injected.Write(ctx, "e2e", 1, 0, 200))
	step("written", plain.Write(ctx, "e2e", 1, 0, 200))

	var without, with, sidecars []time.Duration
	for i := range deletions {
		backup, err := injected.Backup(ctx, 0, fmt.Sprintf("e2e-%06d", i+1))
		if err != nil || backup.Status != "SUCCESS" {
			t.Fatalf("the backup: %+v, %v", backup, err)
		}
		stopped := stopTime(ctx, injected)
		began := time.Now()
		ours, err := injected.Cycle(ctx)
		step("deleted, injected", err)
		theirs, err := plain.Cycle(ctx)
		step("deleted, plain", err)
		sidecar := stopped().Sub(began)
		t.Logf("injected %s (its sidecar stopped after %s), plain %s", seconds(ours.Deleted), seconds(sidecar), seconds(theirs.Deleted))
		with, without, sidecars = append(with, ours.Deleted), append(without, theirs.Deleted), append(sidecars, sidecar)
	}
	longer := median(with) - median(without)
	figure(t, "%+.2f s: %s with (its sidecar stopped after %s), %s without, medians of %d",
		longer.Seconds(), seconds(median(with)), seconds(median(sidecars)), seconds(median(without)), deletions)
	within(t, "deleting an injected pod", longer, deletionLimit)
}

// stopTime follows the sidecar's log to its end. The function that it answers
// tells when the sidecar says that it stopped.
func stopTime(ctx context.Context, c *Cassandra) func() time.Time {
	log := make(chan string, 1)
	go func() {
		out, _ := c.e.Kubectl(ctx, nil, "-n", c.Namespace, "logs", pod(0), "-c", patches.ContainerMedusa, "-f", "--tail=1")
		log <- out
	}()
	return func() (at time.Time) {
		for line := range strings.Lines(<-log) {
			var entry struct {
				Time time.Time `json:"time"`
				Text string    `json:"msg"`
			}
			if json.Unmarshal([]byte(line), &entry) == nil && entry.Text == "stopped" {
				at = entry.Time
			}
		}
		return at
	}
}
