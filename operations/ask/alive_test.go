package ask

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	api "github.com/stategraft/stategraft/api/v1alpha1"
)

func lease(namespace string, renewed time.Duration) *coordinationv1.Lease {
	holder, seconds, at := "a", int32(15), metav1.NewMicroTime(time.Now().Add(-renewed))
	return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: leaseName},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: &seconds, RenewTime: &at}}
}

// noRight refuses to list Leases, and to get them if it is to.
func noRight(get bool) *interceptor.Funcs {
	no := apierrors.NewForbidden(schema.GroupResource{Resource: "leases"}, "", errors.New("no"))
	return &interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, o ...client.ListOption) error {
		if _, leases := list.(*coordinationv1.LeaseList); leases {
			return no
		}
		return c.List(ctx, list, o...)
	}, Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
		if _, one := o.(*coordinationv1.Lease); one && get {
			return no
		}
		return c.Get(ctx, key, o, opts...)
	}}
}

// Where nothing changes for long it is said, once, whether a controller is there; of
// one that runs nothing is said.
func TestStill(t *testing.T) {
	// The client of the tests cannot select by fields.
	all := &interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, _ ...client.ListOption) error {
		return c.List(ctx, list)
	}}
	const gone, untold = "no controller seems to act on it", "you have no right to see"
	for _, c := range []struct {
		what   string
		funcs  *interceptor.Funcs
		lease  *coordinationv1.Lease
		change func(*api.Restore)
		want   string
	}{
		{"it runs", all, lease("elsewhere", time.Second), nil, ""},
		{"it runs, seen in the usual namespace", noRight(false), lease(usualHome, time.Second), nil, ""},
		{"uninstalled", all, nil, nil, gone},
		{"it stands", all, lease("elsewhere", time.Hour), nil, gone},
		{"it stands, seen in the usual namespace", noRight(false), lease(usualHome, time.Hour), nil, gone},
		{"perhaps in another namespace", noRight(false), nil, nil, untold},
		{"no right", noRight(true), lease(usualHome, time.Second), nil, untold},
		{"no right, and a change is not seen", noRight(true), nil, func(r *api.Restore) { r.Generation = 2; r.Status.ObservedGeneration = 1 }, gone},
		{"no right, and suspended", noRight(true), nil, func(r *api.Restore) { r.Spec.Suspend = true }, ""},
	} {
		r := restoreR()
		r.Status.Phase = api.RestoreRestoring
		if c.change != nil {
			c.change(r)
		}
		objects := []client.Object{r}
		if c.lease != nil {
			objects = append(objects, c.lease)
		}
		var notes []string
		const pace = 0.002
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		// It is seen often after the time to look has come, thrice where nothing is to be said.
		began, late := time.Now(), 0
		f := Follower{Client: store(c.funcs, objects...), Namespace: "db", Name: "r", pace: pace, Note: func(text string) { notes = append(notes, text) }, Seen: func(*api.Restore) bool {
			if len(notes) > 0 || float64(time.Since(began)) > 3*pace*float64(still) {
				late++
			}
			if late == 20 {
				cancel()
			}
			return false
		}}
		err := f.Follow(ctx)
		cancel()
		said := strings.Join(notes, "\n")
		if !errors.Is(err, context.Canceled) || len(notes) > 1 || !strings.Contains(said, c.want) || c.want == "" && said != "" || f.Idle() != (c.want == gone) {
			t.Errorf("%s: %v, %q", c.what, err, notes)
		}
	}
}

// In a namespace that does not exist it is the namespace that is told of.
func TestNoNamespace(t *testing.T) {
	c := store(nil)
	const want = `there is no namespace "nowhere"`
	for what, try := range map[string]func(namespace string) error{
		"get":         func(n string) error { _, err := Get(t.Context(), c, n, "r"); return err },
		"list":        func(n string) error { _, err := List(t.Context(), c, n); return err },
		"pod":         func(n string) error { _, err := Resolve(t.Context(), c, n, []Target{{false, "a"}}, ""); return err },
		"statefulset": func(n string) error { _, err := Resolve(t.Context(), c, n, []Target{{true, "a"}}, ""); return err },
		"selector":    func(n string) error { _, err := Resolve(t.Context(), c, n, nil, "a=b"); return err },
		"follow":      func(n string) error { return (&Follower{Client: c, Namespace: n, Name: "r"}).Follow(t.Context()) },
	} {
		if err := try("nowhere"); err == nil || err.Error() != want {
			t.Errorf("%s: %v", what, err)
		}
		if err := try("db"); err != nil && err.Error() == want || (err == nil) != (what == "list") {
			t.Errorf("%s in one that is there: %v", what, err)
		}
	}
}

// A cancellation counts as acted on when the controller has seen it, changed anything,
// or let the object go.
func TestActed(t *testing.T) {
	for what, c := range map[string]struct {
		then  func(*api.Restore)
		gone  bool
		acted bool
	}{
		"nobody":         {func(*api.Restore) {}, false, false},
		"only the spec":  {func(r *api.Restore) { r.Spec.Suspend = true }, false, false},
		"its generation": {func(r *api.Restore) { r.Status.ObservedGeneration = 2 }, false, true},
		"its status":     {func(r *api.Restore) { r.Status.Message = "is being cancelled" }, false, true},
		"let go":         {nil, true, true},
	} {
		r := restoreR()
		r.Generation, r.Status.Phase, r.Status.ObservedGeneration = 2, api.RestoreRestoring, 1
		now := r.DeepCopy()
		cluster := store(nil)
		if !c.gone {
			c.then(now)
			cluster = store(nil, now)
		}
		if _, acted, err := Acted(t.Context(), cluster, r, time.Now().Add(300*time.Millisecond)); err != nil || acted != c.acted {
			t.Errorf("%s: %v, %v", what, acted, err)
		}
	}
	if text := NotActed(restoreR(), 10*time.Second).Error(); !strings.Contains(text, "kubectl stategraft check") || !strings.Contains(text, `kubectl patch restores.stategraft.io r -n db --type merge -p '{"metadata":{"finalizers":null}}'`) {
		t.Error(text)
	}
}
