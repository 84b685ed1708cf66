package adopt

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/patches"
)

// What a kubelet says of an image in turn is told once; another trouble is told too.
func TestToldOnceWhileItLasts(t *testing.T) {
	w := newWorld(t, aPod("c-0", "c", "n"))
	w.look()
	events := 0
	for i := range 200 {
		reason := []string{"ErrImagePull", "ImagePullBackOff", "ContainerCreating"}[i%3]
		is(w.one("c-0"), patches.RoleMedusa, corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: fmt.Sprintf("attempt %d", i)}})
		w.clock = w.clock.Add(time.Minute)
		w.expect("it waits", "")
		events += strings.Count(w.heard(), "AdoptionFailing")
	}
	if events != 1 {
		t.Errorf("%d events", events)
	}
	is(w.one("c-0"), patches.RoleMedusa, waits("CreateContainerConfigError"))
	w.expect("a Secret is missing", "")
	w.hears("a Secret is missing", "AdoptionFailing stategraft-medusa-3 waits: CreateContainerConfigError")
}

// What comes and goes is told now and then.
func TestToldNowAndThen(t *testing.T) {
	w := newWorld(t, aPod("c-0", "c", "n"))
	w.one("c-0").Annotations = map[string]string{api.AnnotationAdopt: api.AdoptRunning}
	events := 0
	for i := range 1200 { // twenty minutes
		w.nodes["n"] = aNode("n")
		if i%2 == 0 {
			w.one("c-0").Status.Conditions = nil
		} else {
			w.one("c-0").Status.Conditions = aPod("c-0", "c", "n").Status.Conditions
			w.nodes["n"].Status.Conditions = append(w.nodes["n"].Status.Conditions, corev1.NodeCondition{Type: corev1.NodeMemoryPressure, Status: corev1.ConditionTrue})
		}
		w.controller.nodes = nodes{}
		w.clock = w.clock.Add(time.Second)
		w.expect("not now", "")
		events += strings.Count(w.heard(), "NotAdopted")
	}
	if events < 2 || events > 6 {
		t.Errorf("%d events", events)
	}
}

// An answer that was lost leaves it open whether containers were added: no other pod of the
// workload is taken until that is known, nor is this one asked twice.
func TestAnswerLost(t *testing.T) {
	for name, c := range map[string]struct {
		err   error
		holds bool
	}{
		"lost":       {errors.New("unexpected EOF"), true},
		"timed out":  {apierrors.NewTimeoutError("request did not complete", 0), true},
		"a conflict": {apierrors.NewConflict(schema.GroupResource{Resource: "pods"}, "a-0", errors.New("x")), true},
		"refused":    {apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "a-0", errors.New("x")), false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, aPod("a-0", "a", "n"), aPod("a-1", "a", "m"), aPod("b-0", "b", "n"))
			was := w.one("a-0").DeepCopy()
			w.server = lossy{w, c.err}
			got := w.look()
			if asked := strings.Contains(got, "a-1"); asked == c.holds {
				t.Errorf("beside it: %q", got)
			}
			if !strings.Contains(got, "b-0") {
				t.Errorf("others wait: %q", got)
			}
			if !c.holds {
				return
			}
			// The watch is behind, and then has it.
			w.server = w
			w.held[client.ObjectKey{Namespace: "prod", Name: "a-0"}] = was
			w.all[client.ObjectKey{Namespace: "prod", Name: "a-0"}].Spec.EphemeralContainers = grafted(patches.Adoption{Next: 1, At: w.clock, Pair: "p"}, cassandra...)
			for range 3 {
				w.expect("the watch is behind", "")
			}
			delete(w.held, client.ObjectKey{Namespace: "prod", Name: "a-0"})
			w.clock = w.clock.Add(time.Minute)
			w.expect("it is seen", "")
			allUp(w.one("a-0"))
			w.expect("and then", "a-1: agent-1 snapshot-2 medusa-3")
		})
	}
}

// lossy is a server that answers so for a-0.
type lossy struct {
	*world
	err error
}

func (l lossy) add(ctx context.Context, pod *corev1.Pod, containers []corev1.EphemeralContainer) (*corev1.Pod, error) {
	if pod.Name == "a-0" {
		return nil, l.err
	}
	return l.world.add(ctx, pod, containers)
}

// Whoever takes the label off is not answered without end.
func TestLabelTakenOff(t *testing.T) {
	w := newWorld(t, aPod("c-0", "c", "n"))
	w.look()
	allUp(w.one("c-0"))
	written := 0
	for range 600 { // ten minutes
		w.look()
		if w.one("c-0").Labels[api.LabelInjected] != "" {
			written++
			w.one("c-0").Labels = nil
		}
		w.clock = w.clock.Add(time.Second)
	}
	if written < 5 || written > 11 {
		t.Errorf("written %d times", written)
	}
}

// New containers that were asked for, or for another pair, are no failures: one that ends
// then is followed as soon as ever. They count towards those of a day.
func TestRenewalsAreNoFailures(t *testing.T) {
	pod := aPod("c-0", "c", "n")
	up(pod)
	at := start
	for i := range 3 {
		at = at.Add(time.Hour)
		pod.Spec.EphemeralContainers = append(pod.Spec.EphemeralContainers, grafted(patches.Adoption{Next: Of(pod).Taken + 1, At: at, Pair: fmt.Sprint(i), Renew: fmt.Sprint(i)}, cassandra...)...)
	}
	allUp(pod)
	at = at.Add(time.Hour)
	is(pod, patches.RoleMedusa, ended(1, at))
	p := Of(pod)
	p.Asked, p.Now, p.Pair, p.Renew = true, at, "2", "2"
	if step := Plan(p); step.Reason != ReasonBackingOff || step.Until.Sub(at) != DefaultBackoff[0] {
		t.Errorf("%+v", step)
	}
	p.PerDay = 4
	if step := Plan(p); step.Reason != ReasonExhausted {
		t.Errorf("of four a day: %+v", step)
	}
}

// A clock that was ahead when containers were added holds up nobody until then.
func TestAddedByAClockAhead(t *testing.T) {
	pod := aPod("c-0", "c", "n")
	round(pod, start.Add(1000*time.Hour), cassandra)
	allUp(pod)
	is(pod, patches.RoleMedusa, ended(1, start))
	p := Of(pod)
	p.Asked, p.Now = true, start.Add(time.Minute)
	if step := Plan(p); step.Do != DoAdd {
		t.Errorf("%+v", step)
	}
	w := newWorld(t, pod, aPod("b-0", "b", "n"))
	w.PerNode, w.InAll = 1, 1
	is(w.one("c-0"), patches.RoleMedusa, waits("ImagePullBackOff"))
	w.expect("another", "b-0: agent-1 snapshot-2 medusa-3")
}

// What serves and cannot be renewed now is found all the same.
func TestLabelledThoughStale(t *testing.T) {
	pod := aPod("c-0", "c", "n")
	round(pod, start, cassandra)
	allUp(pod)
	p := Of(pod)
	p.Asked, p.Now, p.Pair, p.PerDay = true, start.Add(time.Minute), "q", 1
	if step := Plan(p); step.Do != DoLabel || step.Reason != ReasonExhausted {
		t.Errorf("%+v", step)
	}
}

// Restores that cannot be read hold up all pods of their namespace, and are asked for once
// in a look.
func TestRestoresUnread(t *testing.T) {
	w := newWorld(t, aPod("a-0", "a", "n"), aPod("b-0", "b", "m"))
	restoring(w, nil)
	asked := 0
	w.server = unread{w, &asked}
	w.expect("not known", "")
	if asked != 1 {
		t.Errorf("asked %d times", asked)
	}
}

type unread struct {
	*world
	asked *int
}

func (u unread) restoring(context.Context, string) (map[string]string, error) {
	*u.asked++
	return nil, errors.New("no answer")
}

// A restore that is asked for while a pod is being adopted waits for that, and that not for
// the restore.
func TestRestoreAskedMeanwhile(t *testing.T) {
	w := newWorld(t, aPod("c-0", "c", "n"))
	w.look()
	allUp(w.one("c-0"))
	is(w.one("c-0"), patches.RoleMedusa, ended(1, w.clock))
	w.one("c-0").Annotations = map[string]string{api.AnnotationRestore: "monday"}
	w.clock = w.clock.Add(time.Hour)
	w.expect("the one that ended", "c-0: agent-4 medusa-5")
	allUp(w.one("c-0"))
	w.look()
	if w.one("c-0").Labels[api.LabelInjected] == "" {
		t.Error("no label, without which no Restore is made")
	}
	is(w.one("c-0"), patches.RoleMedusa, ended(1, w.clock))
	w.clock = w.clock.Add(time.Hour)
	w.expect("adopted, and to be created anew", "")
	w.hears("so", "Warning AdoptionFailing")
}
