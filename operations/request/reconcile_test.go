package request

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	api "github.com/stategraft/stategraft/api/v1alpha1"
)

func TestOneRestoreForPodsOfOneWorkload(t *testing.T) {
	w := newWorld(t, aSet(""), aPod("cas-0", "nightly"), aPod("cas-1", ""), aPod("cas-2", ""), aPod("cas-3", ""))
	after, err := w.reconcile()
	if err != nil || after != DefaultSettle {
		t.Fatal(after, err)
	}
	if said := w.said(); len(said) != 1 || !mention(said, "Normal", EventAsked, "nightly", "3s") {
		t.Fatalf("at once it says %q", said)
	}
	w.now = w.now.Add(2 * time.Second)
	w.annotate("cas-2", api.AnnotationRestore, "nightly")
	w.annotate("cas-2", api.AnnotationRestoreSource, "old-2")
	if after, err := w.reconcile(); err != nil || after != DefaultSettle {
		t.Fatal("the last one counts:", after, err)
	}
	w.now = w.now.Add(2 * time.Second) // 4 s after the first
	if after, err := w.reconcile(); err != nil || after != time.Second || len(w.restores()) > 0 {
		t.Fatal(after, err)
	}
	w.run()
	all := w.restores()
	if len(all) != 1 {
		t.Fatalf("%d restores", len(all))
	}
	r := all[0]
	if r.Spec.Backup != "nightly" || !slices.Equal(r.Spec.Pods.Names, []string{"cas-0", "cas-2"}) || !maps.Equal(r.Spec.Source.Nodes, map[string]string{"cas-2": "old-2"}) ||
		r.Spec.Mode != api.InPlace || !strings.HasPrefix(r.Name, "cas-") || r.Namespace != "ns" {
		t.Errorf("%+v", r)
	}
	for _, name := range []string{"cas-0", "cas-2"} {
		if got, want := w.answer(name), "nightly: restore "+r.Name; got != want {
			t.Errorf("%s is answered %q, want %q", name, got, want)
		}
	}
	if w.answer("cas-1") != "" {
		t.Error("a pod that has not asked is answered")
	}
	said := w.said()
	if len(said) != 3 || !mention(said, EventMade, r.Name, "show") {
		t.Errorf("it says %q", said)
	}
	// Nothing further, with memory and without.
	w.run()
	w.restart()
	w.run()
	if said := w.said(); len(w.restores()) != 1 || len(said) > 0 {
		t.Errorf("%d restores, and says %q", len(w.restores()), said)
	}
}

func TestTwoValuesAreTwoRestores(t *testing.T) {
	w := newWorld(t, aPod("cas-0", "a"), aPod("cas-1", "latest"))
	w.run()
	if all := w.restores(); len(all) != 2 || all[0].Spec.Backup == all[1].Spec.Backup {
		t.Error(all)
	}
}

// TestInterrupted ends the controller after each write to a pod in turn.
func TestInterrupted(t *testing.T) {
	for writes := range 4 {
		w := newWorld(t, aPod("cas-0", "nightly"), aPod("cas-1", "nightly"), aPod("cas-2", "nightly"))
		w.failAfter = writes
		for range 3 {
			_, err := w.reconcile()
			w.now = w.now.Add(DefaultSettle)
			if err != nil {
				break
			}
		}
		w.failAfter = -1
		if len(w.restores()) != 1 {
			t.Fatalf("after %d: %d restores", writes, len(w.restores()))
		}
		w.phase(api.RestoreFailed) // it may have got on in the meantime
		w.restart()
		w.run()
		all := w.restores()
		if len(all) != 1 {
			t.Errorf("after %d writes there are %d restores", writes, len(all))
		}
		for i := range 3 {
			if got := w.answer(fmt.Sprintf("cas-%d", i)); !strings.HasPrefix(got, "nightly: restore "+all[0].Name) {
				t.Errorf("after %d writes cas-%d is answered %q", writes, i, got)
			}
		}
	}
}

func TestRefused(t *testing.T) {
	for _, c := range []struct {
		what string
		pod  *corev1.Pod
		set  string
		why  string
	}{
		{"slash", aPod("cas-0", "a/b"), "", "no slash"},
		{"long", aPod("cas-0", strings.Repeat("x", 300)), "", "at most 253"},
		{"source", aPod("cas-0", "b", func(p *corev1.Pod) { p.Annotations[api.AnnotationRestoreSource] = "a/b" }), "", api.AnnotationRestoreSource},
		{"older sidecar", aPod("cas-0", "b", func(p *corev1.Pod) { p.Spec.Containers[1].Ports = nil }), "", "older Stategraft"},
		{"no stable name", aPod("cas-x7f", "b"), "", "does not count its pods"},
		{"template", aPod("cas-0", "b"), "other", "backup other"},
		{"template done", aPod("cas-0", "b", templateRestores("other")), "other", "template"},
	} {
		w := newWorld(t, c.pod, aSet(c.set))
		w.run()
		w.run()
		value := c.pod.Annotations[api.AnnotationRestore]
		got := w.answer(c.pod.Name)
		if !strings.HasPrefix(got, key(value)+": refused: ") || !strings.Contains(got, c.why) || len(w.restores()) > 0 {
			t.Errorf("%s: answered %q", c.what, got)
		}
		if said := w.said(); len(said) != 1 || !mention(said, "Warning", EventRefused, c.why) {
			t.Errorf("%s: says %q", c.what, said)
		}
		w.restart()
		w.run()
		if said := w.said(); len(said) > 0 {
			t.Errorf("%s: says again %q", c.what, said)
		}
	}
}

func TestTemplateDoneIsNoRequest(t *testing.T) {
	w := newWorld(t, aPod("cas-0", "nightly", templateRestores("nightly")), aSet("nightly"))
	w.run()
	w.run()
	if said := w.said(); len(w.restores()) > 0 || len(said) > 0 || w.answer("cas-0") != "" {
		t.Error(w.restores(), said, w.answer("cas-0"))
	}
}

// TestNamespaceDone has a pod that restored what its namespace asks for, and is
// annotated itself now: the namespace's annotation yields.
func TestNamespaceDone(t *testing.T) {
	w := newWorld(t, aPod("cas-0", "newer", templateRestores("nightly")), aSet(""))
	w.run()
	if len(w.restores()) != 1 {
		t.Error(w.said(), w.answer("cas-0"))
	}
}

func TestAskedAgain(t *testing.T) {
	w := newWorld(t, aPod("cas-0", "nightly"))
	w.run()
	first := w.restores()[0].Name

	// Another value is another request.
	w.annotate("cas-0", api.AnnotationRestore, "newer")
	w.run()
	if len(w.restores()) != 2 || !strings.HasPrefix(w.answer("cas-0"), "newer: restore ") {
		t.Fatal(w.restores(), w.answer("cas-0"))
	}
	w.annotate("cas-0", api.AnnotationRestore, "nightly")
	w.run()
	if got := w.answer("cas-0"); got != "nightly: restore "+first || len(w.restores()) != 2 {
		t.Errorf("of the same pod and value it answers %q", got)
	}

	// Taken off and put on while the first is at it: that one is the answer still.
	again := func() {
		w.annotate("cas-0", api.AnnotationRestore, "")
		w.run()
		if got := w.answer("cas-0"); got != "" {
			t.Fatalf("the answer stays: %q", got)
		}
		w.annotate("cas-0", api.AnnotationRestore, "nightly")
		w.run()
	}
	again()
	if got := w.answer("cas-0"); got != "nightly: restore "+first || len(w.restores()) != 2 {
		t.Fatalf("answers %q, %d restores", got, len(w.restores()))
	}

	// After it has failed that is a new request, and so it is each time.
	names := map[string]bool{first: true}
	for i := range 3 {
		w.phase(api.RestoreFailed)
		again()
		name, _ := strings.CutPrefix(w.answer("cas-0"), "nightly: restore ")
		if names[name] || len(w.restores()) != 3+i {
			t.Fatalf("answers %q, %d restores", name, len(w.restores()))
		}
		names[name] = true
	}
}

// TestGone has pods that are not there any more when it comes to it.
func TestGone(t *testing.T) {
	w := newWorld(t, aPod("cas-0", "nightly"), aPod("cas-1", "nightly"))
	if _, err := w.reconcile(); err != nil {
		t.Fatal(err)
	}
	if err := w.c.Delete(t.Context(), w.pod("cas-0")); err != nil {
		t.Fatal(err)
	}
	w.annotate("cas-1", api.AnnotationRestore, "")
	w.now = w.now.Add(time.Minute)
	w.run()
	if len(w.restores()) > 0 || len(w.r.groups) > 0 {
		t.Error(w.restores(), w.r.groups)
	}
}
