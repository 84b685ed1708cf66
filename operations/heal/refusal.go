package heal

import (
	"regexp"
	"time"

	api "github.com/stategraft/stategraft/api/v1alpha1"
)

const (
	// longestRetry is the longest time between two tries of the StatefulSet
	// controller to create a pod, which doubles from milliseconds
	// (k8s.io/client-go/util/workqueue, DefaultTypedControllerRateLimiter), with
	// some to spare.
	longestRetry = 20 * time.Minute
	// known is how long the webhook's replicas may take to know of an entry.
	known = 5 * time.Second
)

// creation is how it goes with the pods of a StatefulSet.
type creation struct {
	wanted, created int32
	missing         time.Time // since when it is known that pods are missing
	failures        history   // events FailedCreate
	successes       history   // events SuccessfulCreate
}

// ownRefusal is a refusal by us: of a pod that is to be restored and cannot be.
var ownRefusal = regexp.MustCompile(`(ValidatingAdmissionPolicy '|admission webhook ")[a-z0-9.-]*stategraft\.io['"]`)

// refused tells whether creation has failed for as long as after, and if not, when
// to look again.
//
// A StatefulSet with fewer pods than it wants mostly waits for one to be Ready. So
// its events count: the last try failed, it was lately, and failing is no news.
func (c creation) refused(now time.Time, after time.Duration) (yes bool, at time.Time) {
	f := c.failures
	failing := !f.last.IsZero() && f.last.After(c.successes.last) && now.Sub(f.last) < longestRetry
	if !failing || ownRefusal.MatchString(f.message) {
		return false, now.Add(after)
	}
	since := c.missing
	if f.first.After(since) {
		since = f.first
	}
	at = since.Add(after)
	return !now.Before(at), at
}

// outcome is what a trial shows.
type outcome string

const (
	openYet outcome = "open"
	itWasUs outcome = "confirmed"
	notUs   outcome = "refuted"
)

// judgeTrial tells whether pods come up since none of ours are in them. A trial
// that shows nothing for longer than between two tries shows that it was not us:
// the pods are not refused any more, or they are not wanted.
func judgeTrial(entry api.HeldBack, c creation, now time.Time) outcome {
	switch since := entry.Since; {
	case c.created > entry.Trial.Created || c.successes.last.After(since):
		return itWasUs
	case c.failures.last.After(since.Add(known)), now.Sub(since) > longestRetry:
		return notUs
	}
	return openYet
}
