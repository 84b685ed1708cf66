package ask

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/stategraft/stategraft/api/v1alpha1"
)

// ErrGone says that what was followed was deleted meanwhile.
var ErrGone = errors.New("was deleted")

// How a Restore is followed.
const (
	tick = time.Second // between looks at the clock
	// again is how long to wait before the API server is asked anew, and so the
	// interval of the asking where it may not be watched.
	again = 2 * time.Second
	// surely is when it is asked even though it is watched: a watch that says nothing
	// may be one that nobody serves any more.
	surely = 30 * time.Second
	// takenUp is when a controller must have seen it.
	takenUp = 10 * time.Second
	// still is after how long without a change it is looked whether a controller runs.
	still = time.Minute
)

// Follower follows a Restore.
type Follower = Following[api.Restore, *api.Restore]

// Following follows a Restore or a Backup.
type Following[O any, P object[O]] struct {
	Client    client.WithWatch
	Namespace string
	Name      string
	Of        types.UID // of the object that is meant; that of the first that is seen for none

	// Seen is told of each state, and each second of the last one. That it answers
	// true ends the following.
	Seen func(P) bool
	// Note is told what a person should know: that nobody takes it up, that the API
	// server does not answer.
	Note func(string)

	pace  float64 // of the clock, for the tests; 0 for 1
	since time.Time
	noted map[string]bool
	uid   types.UID

	version string // of the last change
	changed time.Time
	idle    bool
}

// Idle tells that nobody seems to act on it.
func (f *Following[O, P]) Idle() bool { return f.idle }

func (f *Following[O, P]) wait(d time.Duration) time.Duration {
	if f.pace > 0 {
		return time.Duration(float64(d) * f.pace)
	}
	return d
}

// Follow ends when Seen says so, when the Restore is gone, when it can never be
// read, or with the context.
func (f *Following[O, P]) Follow(ctx context.Context) error {
	f.since, f.noted, f.uid = time.Now(), map[string]bool{}, f.Of
	is := lookAt(P(new(O)))
	for {
		now := P(new(O))
		err := f.Client.Get(ctx, client.ObjectKey{Namespace: f.Namespace, Name: f.Name}, now)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err == nil:
			delete(f.noted, "silent")
			done, err := f.seen(ctx, now)
			if done || err != nil {
				return err
			}
			if done, err := f.watch(ctx, now); done || err != nil {
				return err
			}
		case notServed(err), apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
			return Explain(err, "get", is.resource, f.Namespace, f.Name)
		case apierrors.IsNotFound(err) && f.uid == "":
			return Within(ctx, f.Client, f.Namespace, Explain(err, "get", is.resource, f.Namespace, f.Name))
		case apierrors.IsNotFound(err):
			return fmt.Errorf("the %s %s %w", is.kind, f.Name, ErrGone)
		default:
			f.note("silent", fmt.Sprintf("the API server does not answer (%v); trying again", err))
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(f.wait(again)):
		}
	}
}

// seen hands a state over. One of another object of the name is not what is
// followed.
func (f *Following[O, P]) seen(ctx context.Context, now P) (done bool, err error) {
	is := lookAt(now)
	if f.uid == "" {
		f.uid = now.GetUID()
	}
	if now.GetUID() != f.uid {
		return true, fmt.Errorf("the %s %s %w, and another of its name made", is.kind, f.Name, ErrGone)
	}
	if is.phase == "" && time.Since(f.since) > f.wait(takenUp) {
		f.note("nobody", fmt.Sprintf("nobody takes the %s up since %s: see kubectl stategraft check (does the controller run, and is it of a version that knows %ss?)", is.kind, takenUp, is.kind))
	}
	f.alive(ctx, now, is)
	return f.Seen(now), nil
}

// alive looks, where nothing changes for long, whether a controller is there to
// change anything: a pod that takes minutes to stop is no reason to worry.
func (f *Following[O, P]) alive(ctx context.Context, now P, at look) {
	if now.GetResourceVersion() != f.version || f.changed.IsZero() {
		f.version, f.changed, f.idle = now.GetResourceVersion(), time.Now(), false
		return
	}
	if at.phase == "" || at.final || f.noted["idle"] || time.Since(f.changed) < f.wait(still) {
		return
	}
	limited, cancel := context.WithTimeout(ctx, takenUp)
	defer cancel()
	unseen := now.GetGeneration() > 0 && at.observed < now.GetGeneration()
	switch is := controller(limited, f.Client, time.Now()); {
	case limited.Err() != nil:
	case is == dead || is == unknown && unseen:
		f.idle = true
		f.note("idle", fmt.Sprintf("nothing has changed for %s, and no controller seems to act on it: see kubectl stategraft check.%s", still, at.whileIdle))
	case is == unknown && !at.suspended:
		f.note("idle", fmt.Sprintf("nothing has changed for %s; whether a controller runs you have no right to see: kubectl stategraft check tells who may", still))
	default:
		f.changed = time.Now() // looked at again in a while
	}
}

func (f *Following[O, P]) note(key, text string) {
	if !f.noted[key] {
		f.noted[key] = true
		f.Note(text)
	}
}

// watch hands over changes until the watch ends, or is not to be trusted any more.
func (f *Following[O, P]) watch(ctx context.Context, last P) (done bool, err error) {
	watching, err := f.Client.Watch(ctx, lookAt(last).list, &client.ListOptions{
		Namespace: f.Namespace, FieldSelector: fields.OneTermEqualSelector("metadata.name", f.Name),
		Raw: resourceVersion(last.GetResourceVersion())})
	if err != nil {
		if ctx.Err() != nil {
			return true, ctx.Err()
		}
		// Without the right to watch, or whatever else: asked again in a while.
		return f.seen(ctx, last)
	}
	defer watching.Stop()
	clock := time.NewTicker(f.wait(tick))
	defer clock.Stop()
	trust := time.NewTimer(f.wait(surely))
	defer trust.Stop()
	for {
		select {
		case <-ctx.Done():
			return true, ctx.Err()
		case <-trust.C:
			return false, nil
		case <-clock.C:
		case event, open := <-watching.ResultChan():
			if !open || event.Type == watch.Error || event.Type == watch.Deleted {
				return false, nil // what it is now, Follow sees
			}
			changed, ok := event.Object.(P)
			if !ok || changed.GetName() != f.Name {
				continue
			}
			last = changed
		}
		if done, err := f.seen(ctx, last); done || err != nil {
			return true, err
		}
	}
}

func resourceVersion(version string) *metav1.ListOptions {
	return &metav1.ListOptions{ResourceVersion: version}
}
