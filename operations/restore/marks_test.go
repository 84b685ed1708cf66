package restore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/stategraft/stategraft/api/node"
	api "github.com/stategraft/stategraft/api/v1alpha1"
)

// space is a namespace, with the label that Restores are under way or without.
func space(name string, marked bool) *corev1.Namespace {
	ns := labelledNamespace()
	ns.Name, ns.Annotations = name, map[string]string{"theirs": "x"}
	if marked {
		ns.Labels[api.LabelRestoring] = api.RestoringTrue
	}
	return ns
}

func isMarked(t *testing.T, c client.Client, name string) bool {
	t.Helper()
	ns := &corev1.Namespace{}
	if err := c.Get(t.Context(), types.NamespacedName{Name: name}, ns); err != nil {
		t.Fatal(err)
	}
	if ns.Labels[api.LabelInject] != api.InjectEnabled || ns.Annotations["theirs"] != "x" {
		t.Errorf("namespace %s lost what is others': %v, %v", name, ns.Labels, ns.Annotations)
	}
	return ns.Labels[api.LabelRestoring] == api.RestoringTrue
}

func heldIn(namespace, name string) *api.Restore {
	return &api.Restore{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(namespace + name), Finalizers: []string{Finalizer}}}
}

// TestSweepMarks sets the labels right, whatever crashes and people have left.
func TestSweepMarks(t *testing.T) {
	pending := heldIn("pending", "r") // its finalizer taken off by hand
	pending.Finalizers, pending.Status.Pending = nil, []string{"a"}
	over := heldIn("over", "r")
	over.Finalizers = []string{"others.io/x"}
	objects := []client.Object{space("held", false), heldIn("held", "r"), heldIn("held", "r2"), space("right", true), heldIn("right", "r"), space("pending", false), pending,
		space("over", true), over, space("empty", true), space("none", false), heldIn("gone", "r")}
	l, c := liveOn(t, interceptor.Funcs{}, objects...)
	r := reconcilerOn(l, &sidecars{}, nil)
	for range 2 {
		if err := r.sweepMarks(t.Context()); err != nil {
			t.Fatal(err)
		}
		for name, want := range map[string]bool{"held": true, "right": true, "pending": true, "over": false, "empty": false, "none": false} {
			if got := isMarked(t, c, name); got != want {
				t.Errorf("%s is labelled: %v", name, got)
			}
		}
	}
}

// TestUnmarkLosesToAnother has another process begin with a Restore while the label is
// being taken off, at each instant.
func TestUnmarkLosesToAnother(t *testing.T) {
	for _, c := range []struct {
		what    string
		touches bool // it writes the namespace, too
		late    bool // after the label went off
	}{{"before it goes off, and the namespace is written", true, false}, {"after it went off", false, true}} {
		begins := func(cl client.Client) {
			if err := cl.Create(context.Background(), heldIn("ns", "new")); err != nil {
				t.Error(err)
			}
			if ns := space("ns", true); c.touches {
				ns.Annotations["more"] = "y"
				if err := cl.Update(context.Background(), ns); err != nil {
					t.Error(err)
				}
			}
		}
		patches := 0
		l, cl := liveOn(t, interceptor.Funcs{Patch: func(ctx context.Context, inner client.WithWatch, object client.Object, patch client.Patch, options ...client.PatchOption) error {
			if patches++; patches > 1 {
				return inner.Patch(ctx, object, patch, options...)
			}
			if !c.late {
				begins(inner)
			}
			err := inner.Patch(ctx, object, patch, options...)
			if c.late {
				begins(inner)
			}
			return err
		}}, space("ns", true))
		err := reconcilerOn(l, &sidecars{}, nil).unmark(t.Context(), "ns")
		if c.late && err != nil || !c.late && !apierrors.IsConflict(err) {
			t.Errorf("%s: %v", c.what, err)
		}
		if !isMarked(t, cl, "ns") {
			t.Errorf("%s: the label is off", c.what)
		}
	}
}

// TestMarkOfARestore follows the label through a Restore, and what is written when.
func TestMarkOfARestore(t *testing.T) {
	var order []string
	knows := false
	funcs := interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch, options ...client.PatchOption) error {
			order = append(order, fmt.Sprintf("%T", object))
			return c.Patch(ctx, object, patch, options...)
		},
		SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, object client.Object, options ...client.SubResourceUpdateOption) error {
			order = append(order, "status "+strconv.Itoa(len(object.(*api.Restore).Status.Pending)))
			return c.SubResource(sub).Update(ctx, object, options...)
		},
		Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error {
			if !knows {
				return nil
			}
			return apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "x", fmt.Errorf("ValidatingAdmissionPolicy '%s': pod x "+refusal, policyName, "r"))
		},
	}
	restore := &api.Restore{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "r", UID: "r", CreationTimestamp: metav1.NewTime(today)},
		Spec: api.RestoreSpec{Backup: "nightly", Mode: api.InPlace, Pods: api.RestorePods{Names: []string{"cas-0"}}}}
	l, c := liveOn(t, funcs, space("ns", false), restore, factPod("cas-0"))
	nodes := &sidecars{backup: factBackup("nightly", "cas-0"), reports: map[string]node.Report{"cas-0": {Node: "cas-0", Size: 100 << 30, Free: 50 << 30}}}
	r := reconcilerOn(l, nodes, nil)
	turn := func() *api.Restore {
		t.Helper()
		r.throttle = newThrottle()
		if _, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: nameOf(restore)}); err != nil {
			t.Fatal(err)
		}
		now, err := l.restore(t.Context(), nameOf(restore))
		if err != nil {
			t.Fatal(err)
		}
		return now
	}
	turn()
	if now := turn(); len(now.Status.Pending) != 1 || !isMarked(t, c, "ns") {
		t.Fatalf("pending %v, labelled %v", now.Status.Pending, isMarked(t, c, "ns"))
	}
	if want := []string{"*v1alpha1.Restore", "*v1.Namespace", "status 0", "*v1.Namespace", "status 1"}; !slices.Equal(order, want) {
		t.Errorf("written in the order %q, want %q", order, want)
	}
	// Somebody takes the label off: it is put on again, and no pod is deleted meanwhile.
	if err := c.Update(t.Context(), space("ns", false)); err != nil {
		t.Fatal(err)
	}
	turn()
	if pod, err := l.pod(t.Context(), types.NamespacedName{Namespace: "ns", Name: "cas-0"}); err != nil || !isMarked(t, c, "ns") {
		t.Fatalf("pod %v, %v; labelled %v", pod, err, isMarked(t, c, "ns"))
	}
	knows = true
	turn()
	if _, err := l.pod(t.Context(), types.NamespacedName{Namespace: "ns", Name: "cas-0"}); !apierrors.IsNotFound(err) {
		t.Fatalf("the pod is not deleted: %v", err)
	}
	now := turn()
	now.Spec.Cancel = true
	if err := c.Update(t.Context(), now); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		now = turn()
	}
	if now.Status.Phase != api.RestoreCancelled || held(now) || isMarked(t, c, "ns") {
		t.Errorf("it is %s, held %v, labelled %v", now.Status.Phase, held(now), isMarked(t, c, "ns"))
	}
}

// TestNoMarkNoDeletion: where the label cannot be written no pod is deleted, also where
// something else refuses the probe, and the Restore says why.
func TestNoMarkNoDeletion(t *testing.T) {
	restore := begun(phaseOf("a", api.PodPlanned))
	deleted := 0
	l, c := liveOn(t, interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch, options ...client.PatchOption) error {
			if _, is := object.(*corev1.Namespace); is {
				return apierrors.NewForbidden(schema.GroupResource{Resource: "namespaces"}, "ns", errors.New("no"))
			}
			return c.Patch(ctx, object, patch, options...)
		},
		Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error {
			return apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "x", errors.New("exceeded quota"))
		},
		Delete: func(context.Context, client.WithWatch, client.Object, ...client.DeleteOption) error {
			deleted++
			return nil
		},
	}, space("ns", false), restore, coursePod("a"), coursePod("b"), coursePod("c"))
	r := reconcilerOn(l, &sidecars{}, nil)
	r.clock = func() time.Time { return today.Add(10 * time.Minute) } // longer than a probe may take
	if _, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: nameOf(restore)}); err != nil || deleted > 0 {
		t.Errorf("%v, %d pods deleted", err, deleted)
	}
	after := &api.Restore{}
	if err := c.Get(t.Context(), nameOf(restore), after); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(after.Status.Message, "none is stopped") || !strings.Contains(after.Status.Message, api.LabelRestoring) {
		t.Errorf("it says %q", after.Status.Message)
	}
}

// TestCrashesWithoutLabel has somebody take the label off again and again, besides all
// that TestCrashes does.
func TestCrashesWithoutLabel(t *testing.T) {
	off := 0
	for _, seed := range seeds(400) {
		s := newSim(seed)
		s.ask()
		s.crashes, s.flakes, s.leaky, s.meddled = 0.1*s.rand.Float64(), 0.05*s.rand.Float64(), true, true
		asked := slices.Clone(s.restore_.Spec.Pods.Names)
		trouble := 50 + s.rand.IntN(300)
		s.play(20000, func(i int) {
			if i < trouble && s.chance(0.05) {
				s.byHand()
			}
			if i < trouble && s.marked_ && s.chance(0.05) {
				s.logf("by hand: the label goes off")
				s.marked_, s.space, off = false, s.bump(), off+1
			}
			if i == trouble {
				s.webhookDown, s.crashes, s.flakes = false, 0, 0
			}
		})
		if s.restore_.Status.Phase != api.RestoreCompleted || held(s.restore_) || s.marked_ {
			s.wrong("it ended as %s, held %v, labelled %v: %s", s.restore_.Status.Phase, held(s.restore_), s.marked_, s.restore_.Status.Message)
		}
		for name, d := range s.disks {
			if want := slices.Contains(asked, name); (d.runs == 1) != want || d.runs > 1 || d.half {
				s.wrong("%s was restored %d times, half %v", name, d.runs, d.half)
			}
		}
		if len(s.problems) > 0 {
			s.report(t, seed)
		}
	}
	if *seedFlag == 0 && off < 400 {
		t.Errorf("the label was taken off only %d times: too little happens for this to show anything", off)
	}
}
