package restore

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	api "github.com/stategraft/stategraft/api/v1alpha1"
)

const (
	progressEvery = 5 * time.Second // figures alone are written
	lookEvery     = time.Second     // many pods are looked at
)

// throttle keeps what is costly from being done each time a pod changes. A process
// that starts anew knows nothing of it, and does it once more.
type throttle struct {
	mu     sync.Mutex
	write  map[types.UID]time.Time              // when the status was written last
	checks map[types.NamespacedName]appointment // when to judge again
	looks  map[types.UID]time.Time              // when many pods were looked at last
	ends   map[types.UID]time.Time              // when it was first seen to be cancelled
}

// appointment is when a Restore that waits is judged again, unless its spec changes.
type appointment struct {
	uid        types.UID
	generation int64
	at         time.Time
}

func newThrottle() *throttle {
	return &throttle{write: map[types.UID]time.Time{}, checks: map[types.NamespacedName]appointment{}, looks: map[types.UID]time.Time{}, ends: map[types.UID]time.Time{}}
}

// due tells whether figures are to be written again.
func (t *throttle) due(uid types.UID, now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return now.Sub(t.write[uid]) >= progressEvery
}

func (t *throttle) written(uid types.UID, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.write[uid] = now
}

// wait is how long a Restore that waits is still to be left alone.
func (t *throttle) wait(r *api.Restore, now time.Time) time.Duration {
	if stage := stageOf(r); stage != stageAccept && stage != stageCheck {
		return 0
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	a, ok := t.checks[nameOf(r)]
	if !ok || a.uid != r.UID || a.generation != r.Generation {
		return 0
	}
	return a.at.Sub(now)
}

// look is how long pods are to be let change before they are looked at again, where
// they are so many that all of the namespace's are listed; 0 where it is done now.
func (t *throttle) look(r *api.Restore, now time.Time) time.Duration {
	if stageOf(r) != stageRun || len(r.Status.Pods) <= fewPods {
		return 0
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if wait := t.looks[r.UID].Add(lookEvery).Sub(now); wait > 0 && wait <= lookEvery {
		return wait
	}
	t.looks[r.UID] = now
	return 0
}

// askAgain tells whether containers of a Restore that is cancelled may be asked once
// more how far they are. A process that starts anew takes that time once more.
func (t *throttle) askAgain(uid types.UID, now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	first, ok := t.ends[uid]
	if !ok {
		t.ends[uid], first = now, now
	}
	return now.Sub(first) < askAgainFor
}

// set makes the appointment.
func (t *throttle) set(r *api.Restore, after time.Duration, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if stage := stageOf(r); stage != stageAccept && stage != stageCheck {
		delete(t.checks, nameOf(r))
		if stage == stageOver {
			delete(t.write, r.UID)
			delete(t.looks, r.UID)
			delete(t.ends, r.UID)
		}
		return
	}
	t.checks[nameOf(r)] = appointment{r.UID, r.Generation, now.Add(after)}
}

func (t *throttle) forget(at types.NamespacedName) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.write, t.checks[at].uid)
	delete(t.checks, at)
}

func nameOf(r *api.Restore) types.NamespacedName {
	return types.NamespacedName{Namespace: r.Namespace, Name: r.Name}
}
