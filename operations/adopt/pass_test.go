package adopt

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/adopted"
	"github.com/stategraft/stategraft/operations/coverage"
	"github.com/stategraft/stategraft/patches"
	"github.com/stategraft/stategraft/webhook"
)

// From a pod without anything to one that is found, and the next of its workload.
func TestAdopted(t *testing.T) {
	w := newWorld(t, aPod("c-0", "c", "n"), aPod("c-1", "c", "m"))
	w.expect("the first", "c-0: agent-1 snapshot-2 medusa-3")
	w.expect("once", "")
	allUp(w.one("c-0"))
	w.expect("the next", "c-1: agent-1 snapshot-2 medusa-3")
	if w.one("c-0").Labels[api.LabelInjected] != "cassandra" {
		t.Error("no label")
	}
	w.hears("adopted", "Normal Adopted its sidecars run, as ephemeral containers: it can be backed up as a pod that was injected can")
	allUp(w.one("c-1"))
	w.expect("all are up", "")
	w.heard()
	reads := w.reads
	for range 10 {
		w.clock = w.clock.Add(time.Minute)
		w.expect("later", "")
	}
	w.hears("later")
	if w.reads != reads {
		t.Errorf("%d pods are read although nothing happens", w.reads-reads)
	}
}

// Nobody asks.
func TestNotAsked(t *testing.T) {
	w := newWorld(t, aPod("c-0", "c", "n"))
	w.change("prod", func(ns *corev1.Namespace) { ns.Annotations = nil })
	w.expect("no annotation", "")
	if len(w.asked) > 0 || w.reads > 0 {
		t.Errorf("watched: %v, %d reads", w.asked, w.reads)
	}
	w.change("prod", func(ns *corev1.Namespace) {
		ns.Annotations, ns.Labels = map[string]string{api.AnnotationAdopt: api.AdoptRunning}, nil
	})
	w.expect("no label", "")
	w.one("c-0").Annotations = map[string]string{api.AnnotationAdopt: api.AdoptRunning}
	w.expect("no label, the pod asks", "")
	w.change("prod", func(ns *corev1.Namespace) {
		ns.Annotations, ns.Labels = nil, map[string]string{api.LabelInject: api.InjectEnabled}
	})
	w.expect("the pod asks", "c-0: agent-1 snapshot-2 medusa-3")
	allUp(w.one("c-0"))
	w.one("c-0").Annotations[api.AnnotationAdopt] = api.AdoptNever
	w.expect("no longer", "")
	w.hears("no longer", `AdoptionEnded not-asked: annotation stategraft.io/adopt of the pod is "never": its containers stay`)
	if w.one("c-0").Labels[api.LabelInjected] != "" {
		t.Error("labelled all the same")
	}
	is(w.one("c-0"), patches.RoleMedusa, ended(1, w.clock))
	w.clock = w.clock.Add(time.Hour)
	w.expect("no longer, and Medusa has ended", "")
}

// Stategraft's own namespace is left alone.
func TestLeftOut(t *testing.T) {
	w := newWorld(t, aPod("c-0", "c", "n"))
	w.Namespace = "prod"
	w.expect("our own", "")
}

// A node and the cluster take so many at a time.
func TestLimits(t *testing.T) {
	var pods []*corev1.Pod
	for i := range 30 {
		pods = append(pods, aPod(fmt.Sprintf("c%d-0", i), fmt.Sprintf("c%d", i), fmt.Sprintf("n%d", i%10)))
	}
	w := newWorld(t, pods...)
	for i := range 10 {
		w.nodes[fmt.Sprintf("n%d", i)] = aNode(fmt.Sprintf("n%d", i))
	}
	w.InAll = 8
	busy := func() (nodes map[string]int, all int) {
		nodes = map[string]int{}
		for _, p := range pods {
			if parts := adopted.Parts(p); len(parts) > 0 && p.Labels == nil {
				nodes[p.Spec.NodeName]++
				all++
			}
		}
		return nodes, all
	}
	for range 40 {
		w.look()
		nodes, all := busy()
		if all > 8 {
			t.Fatalf("%d at a time", all)
		}
		for node, n := range nodes {
			if n > 2 {
				t.Fatalf("%d at a time on %s", n, node)
			}
		}
		first := slices.IndexFunc(pods, func(p *corev1.Pod) bool { return p.Labels == nil && len(adopted.Parts(p)) > 0 })
		if first < 0 {
			break
		}
		pods[first].ResourceVersion += "1"
		allUp(pods[first])
	}
	if slices.ContainsFunc(pods, func(p *corev1.Pod) bool { return p.Labels == nil }) {
		t.Error("some are left")
	}
}

// One that does not come up holds up its workload for ever, others for ten minutes.
func TestBrokenWorkload(t *testing.T) {
	w := newWorld(t, aPod("a-0", "a", "n"), aPod("a-1", "a", "m"), aPod("b-0", "b", "n"))
	w.PerNode = 1
	w.expect("the first", "a-0: agent-1 snapshot-2 medusa-3")
	is(w.one("a-0"), patches.RoleMedusa, waits("ImagePullBackOff"))
	w.expect("it waits", "")
	w.hears("it waits", "Warning AdoptionFailing stategraft-medusa-3 waits: ImagePullBackOff: because")
	w.clock = w.clock.Add(10 * time.Minute)
	w.expect("ten minutes later", "b-0: agent-1 snapshot-2 medusa-3")
	w.clock = w.clock.Add(100 * time.Hour)
	w.expect("for ever", "")
	w.hears("for ever")
	allUp(w.one("a-0"))
	w.expect("and then", "a-1: agent-1 snapshot-2 medusa-3")
}

// A container that ended is followed by another, by what the next process knows too.
func TestEnded(t *testing.T) {
	w := newWorld(t, aPod("c-0", "c", "n"))
	w.look()
	allUp(w.one("c-0"))
	w.look()
	w.heard()
	for i, wait := range DefaultBackoff {
		is(w.one("c-0"), patches.RoleMedusa, ended(137, w.clock))
		w.expect("at once", "")
		w.hears("ended", "Warning AdoptionFailing", "ended with status 137 (Error)")
		w.restart()
		w.clock = w.clock.Add(wait - time.Second)
		w.expect("too early", "")
		w.heard()
		w.clock = w.clock.Add(time.Second)
		w.expect("then", fmt.Sprintf("c-0: agent-%d medusa-%d", 4+2*i, 5+2*i))
		allUp(w.one("c-0"))
		w.look()
	}
	is(w.one("c-0"), patches.RoleMedusa, ended(1, w.clock))
	w.clock = w.clock.Add(2 * time.Hour)
	w.expect("given up", "")
	w.hears("given up", "Warning AdoptionEnded exhausted: ", "5 times within a day")
	if w.one("c-0").Labels[api.LabelInjected] != "" {
		t.Error("still labelled")
	}
	w.clock = start.Add(day)
	w.expect("the next day", "c-0: agent-12 medusa-13")
}

// A patch that is refused is tried again later each time, and another pod meanwhile.
func TestRefused(t *testing.T) {
	w := newWorld(t, aPod("a-0", "a", "n"))
	refused(w, nil)
	tries := 0
	w.Pair = func(context.Context, string) (string, error) { tries++; return "p", nil }
	for range 60 * 60 {
		w.look()
		w.clock = w.clock.Add(time.Second)
	}
	if tries < 3 || tries > 6 {
		t.Errorf("tried %d times in an hour", tries)
	}
	w.fails = nil
	w.clock = w.clock.Add(time.Hour)
	w.expect("allowed", "a-0: agent-1 snapshot-2 medusa-3")
}

// Neither a watch that is behind nor one who is quicker has containers added twice.
func TestTwiceIsOnce(t *testing.T) {
	w := newWorld(t, aPod("c-0", "c", "n"))
	key := types.NamespacedName{Namespace: "prod", Name: "c-0"}
	w.held[key] = w.all[key].DeepCopy()
	w.expect("the first", "c-0: agent-1 snapshot-2 medusa-3")
	w.clock = w.clock.Add(time.Hour)
	w.expect("the watch is behind", "")
	w.restart()
	w.expect("the watch of another process is behind", "")
	w.held = map[types.NamespacedName]*corev1.Pod{}

	again := newWorld(t, aPod("c-0", "c", "n"))
	again.fails = apierrors.NewConflict(schema.GroupResource{Resource: "pods"}, "c-0", errors.New("x"))
	again.expect("a conflict", "")
	again.hears("a conflict")
	again.fails = nil
	again.expect("and then", "c-0: agent-1 snapshot-2 medusa-3")
}

// A pod of the same name is another.
func TestAnotherPod(t *testing.T) {
	w := newWorld(t, aPod("c-0", "c", "n"))
	key := types.NamespacedName{Namespace: "prod", Name: "c-0"}
	w.held[key] = w.all[key].DeepCopy()
	w.all[key].UID = "other"
	w.expect("the watch is behind", "")
	w.held = map[types.NamespacedName]*corev1.Pod{}
	w.expect("and then", "c-0: agent-1 snapshot-2 medusa-3")
	w.all[key].DeletionTimestamp = new(metav1.NewTime(w.clock))
	is(w.one("c-0"), patches.RoleMedusa, ended(1, w.clock))
	w.clock = w.clock.Add(time.Hour)
	w.expect("it is deleted", "")
}

// Nothing is added before all pods are known.
func TestReadsAllFirst(t *testing.T) {
	w := newWorld(t, aPod("c-0", "c", "n"))
	w.behind = true
	w.expect("not known yet", "")
	w.behind = false
	w.expect("known", "c-0: agent-1 snapshot-2 medusa-3")

	// A pod that asks by itself is found although coverage has told nobody yet.
	single := aPod("s-0", "c", "n")
	single.Namespace, single.Annotations = "other", map[string]string{api.AnnotationAdopt: api.AdoptRunning}
	w = newWorld(t, single)
	w.Uncovered = func() []coverage.Uncovered { return nil }
	w.expect("known", "s-0: agent-1 snapshot-2 medusa-3")
}

// A pod that waits for its image gets another round when another image is asked for, once.
func TestWaitsForAnother(t *testing.T) {
	w := newWorld(t, aPod("c-0", "c", "n"))
	w.look()
	is(w.one("c-0"), patches.RoleMedusa, waits("ImagePullBackOff"))
	w.clock = w.clock.Add(time.Hour)
	for range 3 {
		w.expect("the same", "")
	}
	reads := w.reads
	w.expect("the same", "")
	if w.reads != reads {
		t.Error("it is read each time")
	}
	decides := w.decide
	w.decide = func(in webhook.Input, a patches.Adoption) (webhook.Outcome, []corev1.EphemeralContainer) {
		out, all := decides(in, a)
		for i := range all {
			for j := range all[i].Env {
				if all[i].Env[j].Name == patches.EnvAdoptedDigest {
					all[i].Env[j].Value = "other"
				}
			}
		}
		return out, all
	}
	w.change("prod", func(ns *corev1.Namespace) { ns.Annotations[api.AnnotationMedusaImage] = "better" })
	w.look()
	w.expect("another", "c-0: agent-4 snapshot-5 medusa-6")
	is(w.one("c-0"), patches.RoleMedusa, waits("ImagePullBackOff"))
	w.clock = w.clock.Add(time.Hour)
	for range 3 {
		w.expect("once", "")
	}
}

// Another pair, and another value of the annotation, have new containers take over.
func TestTakeOver(t *testing.T) {
	w := newWorld(t, aPod("c-0", "c", "n"))
	w.look()
	allUp(w.one("c-0"))
	w.look()
	w.clock = w.clock.Add(time.Hour)
	w.digest = "q"
	w.expect("the pair", "c-0: agent-4 snapshot-5 medusa-6")
	allUp(w.one("c-0"))
	w.expect("once", "")
	w.clock = w.clock.Add(time.Hour)
	w.one("c-0").Annotations = map[string]string{api.AnnotationAdoptRenew: "1"}
	w.expect("asked for", "c-0: agent-7 snapshot-8 medusa-9")
	if w.one("c-0").Labels[api.LabelInjected] == "" {
		t.Error("the label is gone")
	}
}
