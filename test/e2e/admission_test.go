package e2e

import (
	"testing"
	"time"
)

// An injected pod is Ready as soon as it would be without us, where the images
// are on the node.
func TestAdmissionToReady(t *testing.T) {
	e, ctx := scenario(t, 10*time.Minute)
	step := stepper(t)
	plain, injected, err := pair(ctx, e, "admission")
	step("ready", err)
	var without, with, database []time.Duration
	for range starts {
		ours, err := injected.Cycle(ctx)
		step("ready, injected", err)
		theirs, err := plain.Cycle(ctx)
		step("ready, plain", err)
		t.Logf("injected: database %s, pod %s; plain: pod %s", seconds(ours.Database), seconds(ours.Ready), seconds(theirs.Ready))
		with, without, database = append(with, ours.Ready), append(without, theirs.Ready), append(database, ours.Database)
	}
	longer := median(with) - median(without)
	figure(t, "%+.2f s: %s with (its database %s), %s without, medians of %d",
		longer.Seconds(), seconds(median(with)), seconds(median(database)), seconds(median(without)), starts)
	within(t, "an injected pod's way to Ready", longer, startLimit)
}
