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

// ErrGone says that the Restore was deleted while it was followed.
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
type Follower struct {
	Client    client.WithWatch
	Namespace string
	Name      string

	// Seen is told of each state, and each second of the last one. That it answers
	// true ends the following.
	Seen func(*api.Restore) bool
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

// Idle tells that nobody seems to act on the Restore.
func (f *Follower) Idle() bool { return f.idle }

func (f *Follower) wait(d time.Duration) time.Duration {
	if f.pace > 0 {
		return time.Duration(float64(d) * f.pace)
	}
	return d
}

// Follow ends when Seen says so, when the Restore is gone, when it can never be
// read, or with the context.
func (f *Follower) Follow(ctx context.Context) error {
	f.since, f.noted = time.Now(), map[string]bool{}
	for {
		restore := &api.Restore{}
		err := f.Client.Get(ctx, client.ObjectKey{Namespace: f.Namespace, Name: f.Name}, restore)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err == nil:
			delete(f.noted, "silent")
			done, err := f.seen(ctx, restore)
			if done || err != nil {
				return err
			}
			if done, err := f.watch(ctx, restore); done || err != nil {
				return err
			}
		case notServed(err), apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
			return Explain(err, "get", restores, f.Namespace, f.Name)
		case apierrors.IsNotFound(err) && f.uid == "":
			return within(ctx, f.Client, f.Namespace, Explain(err, "get", restores, f.Namespace, f.Name))
		case apierrors.IsNotFound(err):
			return fmt.Errorf("the Restore %s %w", f.Name, ErrGone)
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
func (f *Follower) seen(ctx context.Context, restore *api.Restore) (done bool, err error) {
	if f.uid == "" {
		f.uid = restore.UID
	}
	if restore.UID != f.uid {
		return true, fmt.Errorf("the Restore %s %w, and another of its name made", f.Name, ErrGone)
	}
	if restore.Status.Phase == "" && time.Since(f.since) > f.wait(takenUp) {
		f.note("nobody", fmt.Sprintf("nobody takes the Restore up since %s: see kubectl stategraft check (does the controller run, and is it of a version that knows Restores?)", takenUp))
	}
	f.alive(ctx, restore)
	return f.Seen(restore), nil
}

// alive looks, where nothing changes for long, whether a controller is there to
// change anything: a pod that takes minutes to stop is no reason to worry.
func (f *Follower) alive(ctx context.Context, r *api.Restore) {
	if r.ResourceVersion != f.version || f.changed.IsZero() {
		f.version, f.changed, f.idle = r.ResourceVersion, time.Now(), false
		return
	}
	if r.Status.Phase == "" || r.Status.Phase.Final() || f.noted["idle"] || time.Since(f.changed) < f.wait(still) {
		return
	}
	limited, cancel := context.WithTimeout(ctx, takenUp)
	defer cancel()
	unseen := r.Generation > 0 && r.Status.ObservedGeneration < r.Generation
	switch is := controller(limited, f.Client, time.Now()); {
	case limited.Err() != nil:
	case is == dead || is == unknown && unseen:
		f.idle = true
		f.note("idle", fmt.Sprintf("nothing has changed for %s, and no controller seems to act on it: see kubectl stategraft check. Pods that it holds are held until one does, or the way is opened (docs/restore.md)", still))
	case is == unknown && !r.Spec.Suspend:
		f.note("idle", fmt.Sprintf("nothing has changed for %s; whether a controller runs you have no right to see: kubectl stategraft check tells who may", still))
	default:
		f.changed = time.Now() // looked at again in a while
	}
}

func (f *Follower) note(key, text string) {
	if !f.noted[key] {
		f.noted[key] = true
		f.Note(text)
	}
}

// watch hands over changes until the watch ends, or is not to be trusted any more.
func (f *Follower) watch(ctx context.Context, last *api.Restore) (done bool, err error) {
	watching, err := f.Client.Watch(ctx, &api.RestoreList{}, &client.ListOptions{
		Namespace: f.Namespace, FieldSelector: fields.OneTermEqualSelector("metadata.name", f.Name),
		Raw: resourceVersion(last.ResourceVersion)})
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
			changed, ok := event.Object.(*api.Restore)
			if !ok || changed.Name != f.Name {
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
