package adopt

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	api "github.com/stategraft/stategraft/api/v1alpha1"
)

// A value that nobody can follow is told once, on a pod and on a namespace, also where nobody
// else asks.
func TestBadAnnotation(t *testing.T) {
	w := newWorld(t, aPod("c-0", "c", "n"), aPod("d-0", "d", "n"))
	w.change("prod", func(ns *corev1.Namespace) { ns.Annotations = nil })
	said := func(value string) string {
		return `Warning AdoptBadAnnotation annotation stategraft.io/adopt is "` + value + `", and takes running or never: nothing is adopted by it until it is corrected`
	}
	write := func(value string) { w.one("c-0").Annotations = map[string]string{api.AnnotationAdopt: value} }
	tells := func(what, want string) {
		t.Helper()
		for range 3 {
			w.expect(what, "")
		}
		if heard := w.heard(); heard != want {
			t.Errorf("%s: heard %q, want %q", what, heard, want)
		}
	}
	tells("nobody asks", "")
	write("runing")
	tells("a typo", said("runing"))
	write("true")
	tells("another", said("true"))
	write(api.AdoptNever)
	tells("one that is read", "")
	write("true")
	tells("the other again, after it was corrected", said("true"))
	w.change("prod", func(ns *corev1.Namespace) { ns.Annotations = map[string]string{api.AnnotationAdopt: "Running"} })
	tells("on the namespace", said("Running"))
	w.change("prod", func(ns *corev1.Namespace) { ns.Labels = nil })
	tells("on one without the label", "")
	if len(w.asked) > 0 {
		t.Errorf("watched: %v", w.asked)
	}
}

// Whoever is told that an adoption has ended is told by what.
func TestUnasked(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(w *world)
		want string
	}{
		"pod": {func(w *world) { w.one("c-0").Annotations = map[string]string{api.AnnotationAdopt: "no"} }, `annotation stategraft.io/adopt of the pod is "no"`},
		"namespace": {func(w *world) {
			w.change("prod", func(ns *corev1.Namespace) { ns.Annotations[api.AnnotationAdopt] = api.AdoptNever })
		}, `annotation stategraft.io/adopt of namespace prod is "never"`},
		"neither":  {func(w *world) { w.change("prod", func(ns *corev1.Namespace) { ns.Annotations = nil }) }, "neither the pod nor namespace prod has annotation stategraft.io/adopt any more"},
		"no label": {func(w *world) { w.change("prod", func(ns *corev1.Namespace) { ns.Labels = nil }) }, "namespace prod has no label stategraft.io/inject=enabled any more"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, aPod("c-0", "c", "n"))
			w.look()
			allUp(w.one("c-0"))
			w.single.add("prod") // as the informer of injected pods does
			w.look()
			w.heard()
			c.edit(w)
			w.look()
			if heard := w.heard(); strings.Count(heard, "AdoptionEnded") != 1 || !strings.Contains(heard, "AdoptionEnded not-asked: "+c.want) {
				t.Errorf("heard %q", heard)
			}
		})
	}
}
