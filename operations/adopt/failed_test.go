package adopt

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/patches"
)

// deaf is a server that answers some requests with an error.
type deaf struct {
	*world
	toPod, toNode, toLabel error
	asked                  *int
}

func (d deaf) pod(ctx context.Context, key types.NamespacedName) (*corev1.Pod, error) {
	if d.toPod != nil {
		*d.asked++
		return nil, d.toPod
	}
	return d.world.pod(ctx, key)
}

func (d deaf) node(ctx context.Context, name string) (*corev1.Node, error) {
	if d.toNode != nil {
		*d.asked++
		return nil, d.toNode
	}
	return d.world.node(ctx, name)
}

func (d deaf) label(ctx context.Context, pod *corev1.Pod, kind string) error {
	if d.toLabel != nil {
		*d.asked++
		return d.toLabel
	}
	return d.world.label(ctx, pod, kind)
}

func forbidden(what string) error {
	return apierrors.NewForbidden(schema.GroupResource{Resource: what}, "x", errors.New("no such right"))
}

// A right that the controller lacks is told on the pod and counted, and not tried each second.
func TestRightsMissing(t *testing.T) {
	for name, c := range map[string]struct {
		server deaf
		says   string
		after  func(w *world) // until it is met
	}{
		"pods": {deaf{toPod: forbidden("pods")}, "refused: it cannot be read, for want of a right that the chart gives the controller: pods \"x\" is forbidden: no such right", nil},
		"pods, to compare": {deaf{toPod: forbidden("pods")}, "refused: it cannot be read, for want of a right",
			func(w *world) { w.look(); is(w.one("c-0"), patches.RoleMedusa, waits("ImagePullBackOff")) }},
		"nodes": {deaf{toNode: forbidden("nodes")}, "refused: its node n cannot be read, for want of a right", nil},
		"label": {deaf{toLabel: forbidden("pods")}, "refused: the API server does not take a change of its label stategraft.io/injected, by which it is found: pods \"x\" is forbidden",
			func(w *world) { w.look(); allUp(w.one("c-0")) }},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, aPod("c-0", "c", "n"))
			if c.after != nil {
				c.after(w)
				w.heard()
			}
			asked := 0
			c.server.world, c.server.asked = w, &asked
			w.server = c.server
			for range 60 * 6 {
				w.expect("no right", "")
				w.clock = w.clock.Add(10 * time.Second)
			}
			if asked < 3 || asked > 6 {
				t.Errorf("asked %d times in an hour", asked)
			}
			if heard := w.heard(); strings.Count(heard, "Warning NotAdopted "+c.says) != 1 || strings.Count(heard, "NotAdopted") != 1 {
				t.Errorf("heard %q", heard)
			}
			if got := gauge(t, "stategraft_adoption_refused_pods", string(ReasonRefused)); got != 1 {
				t.Errorf("counted %v times", got)
			}
			w.server = w
			w.clock = w.clock.Add(time.Hour)
			if c.after == nil {
				w.expect("the right is there", "c-0: agent-1 snapshot-2 medusa-3")
			}
			allUp(w.one("c-0"))
			w.look()
			if p := w.one("c-0"); len(p.Spec.EphemeralContainers) == 0 || c.after != nil && p.Labels[api.LabelInjected] == "" {
				t.Error("not adopted once the right is there")
			}
			w.look()
			if got := gauge(t, "stategraft_adoption_refused_pods", string(ReasonRefused)); got != 0 {
				t.Errorf("still counted %v times", got)
			}
		})
	}
}

// A Secret that cannot be read is not said not to be there, and is asked for once a look
// however many pods have its certificate.
func TestPairUnread(t *testing.T) {
	w := newWorld(t, aPod("c-0", "c", "n"), aPod("d-0", "d", "n"), aPod("e-0", "e", "m"))
	w.one("e-0").Annotations = map[string]string{api.AnnotationAdopt: api.AdoptRunning}
	for _, name := range []string{"c-0", "d-0"} {
		p := w.one(name)
		round(p, start, cassandra)
		allUp(p)
		label(p)
	}
	asked := 0
	w.Pair = func(context.Context, string) (string, error) { asked++; return "", forbidden("secrets") }
	w.expect("unread", "")
	if asked != 2 { // for those that have it, and for the one that is to have it
		t.Errorf("asked %d times", asked)
	}
	w.hears("unread", "Normal NotAdopted no-pair: Secret stategraft-grpc of its namespace cannot be read: secrets \"x\" is forbidden")
}

// A webhook that is against it is told in its own words, whatever status it says so with.
func TestDeniedAsNotFound(t *testing.T) {
	w := newWorld(t, aPod("c-0", "c", "n"))
	w.fails = &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: http.StatusNotFound, Message: `admission webhook "w" denied the request: no such team`}}
	w.expect("denied", "")
	if heard := w.heard(); !strings.Contains(heard, "no such team") || strings.Contains(heard, "upgrade") {
		t.Errorf("heard %q", heard)
	}
}

// An API server without the subresource is told of, and a pod or a namespace that has gone
// meanwhile is not.
func TestNotFound(t *testing.T) {
	pods := schema.GroupResource{Resource: "pods"}
	for name, c := range map[string]struct {
		err  error
		told bool
	}{
		"the pod":       {apierrors.NewNotFound(pods, "c-0"), false},
		"the namespace": {apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "prod"), false},
		// As client-go makes it of an answer of a server that has no such path.
		"no such path": {apierrors.NewGenericServerResponse(http.StatusNotFound, "patch", pods, "c-0", "404 page not found", 0, true), true},
		"turned off":   {apierrors.NewNotFound(schema.GroupResource{}, ""), true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, aPod("c-0", "c", "n"))
			w.fails = c.err
			for range 3 {
				w.expect("not found", "")
			}
			if heard := w.heard(); strings.Contains(heard, "NotAdopted refused: the API server has no subresource pods/ephemeralcontainers") != c.told || !c.told && heard != "" {
				t.Errorf("heard %q", heard)
			}
			if tried := w.memories.of(w.one("c-0")).refused; (tried == 1) != c.told {
				t.Errorf("put off %d times", tried)
			}
		})
	}
}

// A webhook or a limit of the API server's that answers with an internal error each time, holds
// up others of the pod's workload for a minute or so, and not until the next try.
func TestUnansweredEachTime(t *testing.T) {
	w := newWorld(t, aPod("a-0", "a", "n"), aPod("a-1", "a", "m"))
	w.server = lossy{w, apierrors.NewInternalError(errors.New("failed calling webhook"))}
	first, added := time.Duration(0), ""
	for added == "" && first < time.Hour {
		added = w.look()
		w.clock = w.clock.Add(time.Second)
		first += time.Second
	}
	if added != "a-1: agent-1 snapshot-2 medusa-3" || first > 5*time.Minute || first < time.Minute {
		t.Errorf("after %s: %q", first, added)
	}
}

// A pod whose label was in what it was made of, and that has no container of ours, is adopted;
// one that was created with them is left alone.
func TestLabelledWithoutContainers(t *testing.T) {
	copied, injected := aPod("c-0", "c", "n"), aPod("d-0", "d", "n")
	label(copied)
	label(injected)
	injected.Spec.Containers = append(injected.Spec.Containers, corev1.Container{Name: patches.ContainerMedusa})
	w := newWorld(t, copied, injected)
	w.expect("the copy", "c-0: agent-1 snapshot-2 medusa-3")
	allUp(w.one("c-0"))
	w.expect("both are found", "")
	if w.one("c-0").Labels[api.LabelInjected] == "" || len(w.one("d-0").Spec.EphemeralContainers) > 0 {
		t.Error("the label is gone, or the other has containers")
	}
}

// A namespace that asks for adoption and does not have the label is told so, once.
func TestUnlabelledNamespace(t *testing.T) {
	w := newWorld(t, aPod("c-0", "c", "n"))
	w.change("prod", func(ns *corev1.Namespace) { ns.Labels = nil })
	for range 3 {
		w.expect("no label", "")
	}
	if heard, want := w.heard(), "Warning AdoptBadAnnotation annotation stategraft.io/adopt asks for adoption, and nothing is adopted without label "+
		"stategraft.io/inject=enabled: kubectl label namespace prod stategraft.io/inject=enabled"; heard != want {
		t.Errorf("heard %q", heard)
	}
	w.change("prod", func(ns *corev1.Namespace) { ns.Annotations = nil })
	w.expect("nobody asks", "")
	w.hears("nobody asks")
}

// An agent that cannot write to the volume is told of once, with where it says why, and what
// it does once it can is no trouble any more.
func TestBringsNothing(t *testing.T) {
	w := newWorld(t, aPod("c-0", "c", "n"), aPod("c-1", "c", "m"))
	w.look()
	for _, role := range cassandra {
		is(w.one("c-0"), role, runsSince(w.clock))
	}
	w.clock = w.clock.Add(brought - time.Second)
	w.expect("it may take so long", "")
	w.hears("it may take so long")
	for range 3 {
		w.clock = w.clock.Add(time.Minute)
		w.expect("too long", "")
	}
	if heard := w.heard(); strings.Count(heard, "Warning AdoptionFailing stategraft-agent-1 runs since ") != 1 || !strings.Contains(heard, "(kubectl logs -c stategraft-agent-1) says why") {
		t.Errorf("heard %q", heard)
	}
	if got := gauge(t, "stategraft_adopted_pods", string(StateWaiting)); got != 2 {
		t.Errorf("%v wait, want it and the one that comes after it", got)
	}
	allUp(w.one("c-0"))
	w.expect("it can write", "c-1: agent-1 snapshot-2 medusa-3")
}
