package replay

import (
	"fmt"
	"time"
)

// trouble is a peer that does not answer.
type trouble struct {
	since time.Time // zero while all is well
	tries int
	until time.Time // it is left in peace
	why   string
}

// failed notes that a peer has not answered.
func (t *trouble) failed(r *run, who string, err error) {
	now := time.Now()
	if t.since.IsZero() {
		t.since = now
		r.Log.Warn("the replay waits for an answer", "of", who, "error", err.Error())
	}
	if t.calm() { // of many answers at once the first counts
		t.until = now.Add(backoff(r.Pause, t.tries, r.LongestPause))
		t.tries++
	}
	t.why = fmt.Sprintf("no answer of %s since %s: %v", who, t.since.UTC().Format(time.TimeOnly), err)
}

// calm tells that the peer may be asked.
func (t *trouble) calm() bool { return !time.Now().Before(t.until) }

func (t *trouble) text() string {
	if t.since.IsZero() {
		return ""
	}
	return t.why
}

func backoff(first time.Duration, tries int, longest time.Duration) time.Duration {
	return min(first<<min(tries, 20), longest)
}
