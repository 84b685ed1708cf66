package ask

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	api "github.com/stategraft/stategraft/api/v1alpha1"
)

var resource = schema.GroupResource{Group: api.Group, Resource: "restores"}

// unserved is what an API server answers that has no such resource.
func unserved() error {
	return apierrors.NewGenericServerResponse(404, "get", resource, "r", "404 page not found", 0, true)
}

// phase writes the status as the controller does.
func phase(t *testing.T, c client.Client, to api.RestorePhase) {
	t.Helper()
	r := &api.Restore{}
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: "db", Name: "r"}, r); err != nil {
		t.Error(err)
		return
	}
	r.Status.Phase = to
	if err := c.Status().Update(t.Context(), r); err != nil {
		t.Error(err)
	}
}

func restoreR() *api.Restore {
	return &api.Restore{ObjectMeta: metav1.ObjectMeta{Namespace: "db", Name: "r", UID: "u1"}}
}

// However the API server behaves on the way, the end is seen.
func TestFollow(t *testing.T) {
	var watches, gets atomic.Int32
	for _, c := range []struct {
		what  string
		funcs interceptor.Funcs
	}{
		{"watched", interceptor.Funcs{}},
		{"no right to watch", interceptor.Funcs{Watch: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) (watch.Interface, error) {
			return nil, apierrors.NewForbidden(resource, "", errors.New("no"))
		}}},
		{"watches end at once", interceptor.Funcs{Watch: func(ctx context.Context, c client.WithWatch, list client.ObjectList, o ...client.ListOption) (watch.Interface, error) {
			watches.Add(1)
			w := watch.NewFake()
			w.Stop()
			return w, nil
		}}},
		{"watches are too old", interceptor.Funcs{Watch: func(ctx context.Context, c client.WithWatch, list client.ObjectList, o ...client.ListOption) (watch.Interface, error) {
			w := watch.NewFakeWithChanSize(1, false)
			w.Error(&metav1.Status{Reason: metav1.StatusReasonExpired})
			return w, nil
		}}},
		{"a watch that nobody serves", interceptor.Funcs{Watch: func(ctx context.Context, c client.WithWatch, list client.ObjectList, o ...client.ListOption) (watch.Interface, error) {
			return watch.NewFake(), nil
		}}},
		{"no answer for a while", interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if n := gets.Add(1); n > 1 && n < 6 {
				return errors.New("connection refused")
			}
			return c.Get(ctx, key, o, opts...)
		}, Watch: func(ctx context.Context, c client.WithWatch, list client.ObjectList, o ...client.ListOption) (watch.Interface, error) {
			w := watch.NewFake()
			w.Stop()
			return w, nil
		}}},
	} {
		plain := store(nil, restoreR(), lease(usualHome, 0))
		behind := interceptor.NewClient(plain, c.funcs)
		var seen []api.RestorePhase
		var notes []string
		// Each state is followed by the next once it was seen twice: where it is watched,
		// the second time is the clock's, and the watch has begun.
		next := map[api.RestorePhase]api.RestorePhase{"": api.RestoreChecking, api.RestoreChecking: api.RestoreCompleted}
		f := Follower{Client: behind, Namespace: "db", Name: "r", pace: 0.01, Note: func(text string) { notes = append(notes, text) },
			Seen: func(r *api.Restore) bool {
				is := r.Status.Phase
				if len(seen) == 0 || seen[len(seen)-1] != is {
					seen = append(seen, is)
				} else if to, ok := next[is]; ok {
					delete(next, is)
					phase(t, plain, to)
				}
				return is.Final()
			}}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		err := f.Follow(ctx)
		cancel()
		if err != nil || len(seen) != 3 || seen[1] != api.RestoreChecking || seen[2] != api.RestoreCompleted {
			t.Errorf("%s: %v, seen %q", c.what, err, seen)
		}
		// That nobody has taken it up yet, too, may be said: where the machine is busy.
		silent := slices.DeleteFunc(notes, func(note string) bool { return strings.HasPrefix(note, "nobody takes the Restore up") })
		if want := map[bool]int{true: 1}[c.what == "no answer for a while"]; len(silent) != want || want > 0 && !strings.Contains(silent[0], "connection refused") {
			t.Errorf("%s: notes %q", c.what, silent)
		}
	}
	if watches.Load() < 2 {
		t.Error("a watch that ends is not begun anew")
	}
}

// What can never end well ends at once.
func TestFollowEnds(t *testing.T) {
	always := func(err error) *interceptor.Funcs {
		return &interceptor.Funcs{Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return err
		}}
	}
	for _, c := range []struct {
		what   string
		client client.WithWatch
		then   func(client.Client)
		want   string
		is     error
	}{
		{"missing", store(nil), nil, "there is no Restore r in namespace db", nil},
		{"not served", store(always(unserved())), nil, "this cluster has no Restores", ErrNotServed},
		{"no right", store(always(apierrors.NewForbidden(resource, "r", errors.New(`User "u" cannot get resource`)))), nil, "you have no right to get restores.stategraft.io in namespace db (kubectl auth can-i get restores.stategraft.io -n db)", nil},
		{"deleted", store(nil, restoreR()), func(c client.Client) { _ = c.Delete(t.Context(), restoreR()) }, "the Restore r was deleted", ErrGone},
		{"made anew", store(nil, restoreR()), func(c client.Client) {
			_ = c.Delete(t.Context(), restoreR())
			other := restoreR()
			other.UID = "u2"
			_ = c.Create(t.Context(), other)
		}, "the Restore r was deleted, and another of its name made", ErrGone},
	} {
		times := 0 // that it was seen
		f := Follower{Client: c.client, Namespace: "db", Name: "r", pace: 0.01, Note: func(string) {}, Seen: func(*api.Restore) bool {
			if times++; times == 2 {
				c.then(c.client)
			}
			return false
		}}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		err := f.Follow(ctx)
		cancel()
		if err == nil || !strings.HasPrefix(err.Error(), c.want) || c.is != nil && !errors.Is(err, c.is) {
			t.Errorf("%s: %v, want %q", c.what, err, c.want)
		}
	}
}

// A Restore that nobody takes up is said to be so, once.
func TestNobodyTakesItUp(t *testing.T) {
	var notes []string
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	after := 0 // times that it was seen since
	f := Follower{Client: store(nil, restoreR()), Namespace: "db", Name: "r", pace: 0.01, Note: func(text string) { notes = append(notes, text) }, Seen: func(*api.Restore) bool {
		if len(notes) > 0 {
			after++
		}
		if after == 20 {
			cancel()
		}
		return false
	}}
	if err := f.Follow(ctx); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if len(notes) != 1 || !strings.Contains(notes[0], "nobody takes the Restore up since 10s: see kubectl stategraft check") {
		t.Errorf("%q", notes)
	}
}

// A plan's object goes, whatever happens, and no other.
func TestPlanLeavesNothing(t *testing.T) {
	request := Request{Namespace: "db", Backup: "b", Pods: Pods{Names: []string{"db-0"}, Workload: "db"}}
	restore, err := request.Restore(noon)
	if err != nil {
		t.Fatal(err)
	}
	other := &api.Restore{ObjectMeta: metav1.ObjectMeta{Namespace: "db", Name: dryName(restore.Name)}}
	plan := func(ctx context.Context, c client.WithWatch, to api.RestorePhase) (*api.Restore, error) {
		made := make(chan struct{})
		go func() {
			defer close(made)
			for ctx.Err() == nil && to != "" {
				list, err := List(t.Context(), c, "db")
				for i := range list.Items {
					if r := &list.Items[i]; err == nil && r.Spec.DryRun {
						r.Status.Phase = to
						_ = c.Status().Update(t.Context(), r)
						return
					}
				}
				time.Sleep(5 * time.Millisecond)
			}
		}()
		planned, err := Plan(ctx, c, restore, func(string) {})
		<-made
		return planned, err
	}
	check := func(what string, c client.Client) {
		t.Helper()
		list, err := List(t.Context(), c, "db")
		if err != nil || len(list.Items) != 1 || list.Items[0].Name != other.Name || list.Items[0].Spec.DryRun {
			t.Errorf("%s: left %+v, %v", what, list, err)
		}
	}
	for _, to := range []api.RestorePhase{api.RestorePlanned, api.RestoreFailed} {
		c := store(nil, other.DeepCopy())
		planned, err := plan(t.Context(), c, to)
		if err != nil || planned == nil || planned.Status.Phase != to || !planned.Spec.DryRun {
			t.Errorf("%s: %+v, %v", to, planned, err)
		}
		check(string(to), c)
	}

	c := store(nil, other.DeepCopy())
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := plan(ctx, c, ""); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("nobody plans it: %v", err)
	}
	check("time is up", c)

	// Made, and the answer lost.
	ctx, interrupt := context.WithCancel(t.Context())
	c = store(&interceptor.Funcs{Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
		if err := c.Create(ctx, o.DeepCopyObject().(client.Object), opts...); err != nil {
			return err
		}
		interrupt()
		return ctx.Err()
	}}, other.DeepCopy())
	if _, err := plan(ctx, c, ""); !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted: %v", err)
	}
	check("interrupted", c)

	// Interrupted before anything was made: what has the name is not ours.
	gone, stop := context.WithCancel(t.Context())
	stop()
	c = store(&interceptor.Funcs{Create: func(ctx context.Context, _ client.WithWatch, _ client.Object, _ ...client.CreateOption) error {
		return ctx.Err()
	}}, other.DeepCopy())
	if _, err := plan(gone, c, ""); !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted before: %v", err)
	}
	check("interrupted before", c)
}

func TestChange(t *testing.T) {
	for _, c := range []struct {
		change   Change
		phase    api.RestorePhase
		pending  []string
		possible bool
	}{
		{Cancel, api.RestoreRestoring, []string{"db-0"}, true},
		{Cancel, "", nil, true},
		{Cancel, api.RestoreFailed, []string{"db-0"}, true},
		{Cancel, api.RestoreFailed, nil, false},
		{Cancel, api.RestoreCompleted, nil, false},
		{Suspend, api.RestoreFailed, []string{"db-0"}, false},
		{Suspend, api.RestoreWaiting, nil, true},
		{Resume, api.RestoreWaiting, nil, true},
	} {
		r := restoreR()
		r.Spec.Backup, r.Spec.Suspend = "b", c.change == Resume
		r.Status.Phase, r.Status.Pending = c.phase, c.pending
		if err := c.change.Possible(r); (err == nil) != c.possible || err != nil && !errors.Is(err, ErrFinal) {
			t.Errorf("%+v: %v", c, err)
		}
		store := store(nil, r)
		if err := c.change.Apply(t.Context(), store, r.DeepCopy()); err != nil {
			t.Fatal(err)
		}
		got, err := Get(t.Context(), store, "db", "r")
		if err != nil || got.Spec.Cancel != (c.change == Cancel) || got.Spec.Suspend != (c.change == Suspend) || got.Spec.Backup != "b" {
			t.Errorf("%+v: %+v, %v", c, got, err)
		}
	}
}
