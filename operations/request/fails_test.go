package request

import (
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	api "github.com/stategraft/stategraft/api/v1alpha1"
)

// TestFails has a Restore that comes to nothing while its pods are there.
func TestFails(t *testing.T) {
	for _, phase := range []api.RestorePhase{api.RestoreFailed, api.RestoreCancelled} {
		w := newWorld(t, aPod("cas-0", "nigthly"), aPod("cas-1", "nigthly"))
		w.run()
		if after, err := w.reconcile(); err != nil || after != followEvery {
			t.Fatal("it is not followed:", after, err)
		}
		w.said()
		r := w.restores()[0]
		r.Status.Phase, r.Status.Message = phase, "did you mean nightly?"
		if err := w.c.Status().Update(t.Context(), &r); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			w.run()
			w.restart()
		}
		for _, name := range []string{"cas-0", "cas-1"} {
			if got, want := w.answer(name), fmt.Sprintf("nigthly: restore %s: %s: did you mean nightly?", r.Name, strings.ToLower(string(phase))); got != want {
				t.Errorf("%s is answered %q, want %q", name, got, want)
			}
		}
		if len(w.restores()) != 1 {
			t.Error("it is asked for again")
		}
		if after, err := w.reconcile(); err != nil || after != 0 {
			t.Error("it is followed still:", after, err)
		}
	}
}

// TestFailureIsSaidOnce looks at the events of such a pod, and that success is none.
func TestFailureIsSaidOnce(t *testing.T) {
	for phase, want := range map[api.RestorePhase]int{api.RestoreFailed: 1, api.RestoreCompleted: 0, api.RestoreChecking: 0} {
		w := newWorld(t, aPod("cas-0", "b"))
		w.run()
		w.said()
		w.phase(phase)
		for range 3 {
			if _, err := w.reconcile(); err != nil {
				t.Fatal(err)
			}
		}
		if said := w.said(); len(said) != want || want > 0 && !mention(said, "Warning", EventFailed, "ask again") {
			t.Errorf("%s: says %q", phase, said)
		}
	}
}

func TestNotInstalled(t *testing.T) {
	w := newWorld(t, aPod("cas-0", "nightly"))
	w.create = func() error {
		return apierrors.NewNotFound(schema.GroupResource{Group: api.Group, Resource: "restores"}, "")
	}
	for range 4 {
		after, err := w.reconcile()
		if err != nil || after == 0 {
			t.Fatal(after, err)
		}
		w.now = w.now.Add(after)
	}
	if said := w.said(); len(said) != 2 || !mention(said, "Warning", "tried again") {
		t.Errorf("says %q", said)
	}
	w.create = nil
	w.run()
	if len(w.restores()) != 1 || w.answer("cas-0") == "" {
		t.Error("not made when it can be")
	}
}
