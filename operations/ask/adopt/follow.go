package adopt

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/adopt"
	"github.com/stategraft/stategraft/operations/adopted"
	"github.com/stategraft/stategraft/operations/ask"
	"github.com/stategraft/stategraft/patches"
)

// How pods are followed, in looks at them.
const (
	few     = 3  // so many pods are read one by one, of more the namespace's are listed
	listens = 5  // events are read with each fifth look
	quiet   = 15 // after so many looks without anything it is looked whether a controller runs
	silent  = 45 // and after so many, said that adoption may be off
	holds   = 30 // after so many what the controller said before it was asked still holds: it says a thing once
)

// Follower follows pods that are asked on until they have their sidecars.
type Follower struct {
	Client    client.Client
	Looker    *Looker
	Namespace string
	Renew     string            // value of api.AnnotationAdoptRenew that was asked with
	Every     time.Duration     // between looks; 0 for two seconds
	Said      func(Pod)         // is told each time that what is to be said of a pod changes
	Note      func(text string) // is told what else a person should know

	asked  map[types.UID]bool // the pods as they were asked on
	owned  map[string]bool    // pods that are created anew when they go, by name
	since  time.Time
	lines  map[string]string
	noted  map[string]bool
	events map[types.UID]said
	moved  bool // something was seen to happen
	looks  int
}

// Follow ends when each pod has its sidecar or cannot get one, or with the context. It gives
// them as they were seen last.
func (f *Follower) Follow(ctx context.Context, pods []corev1.Pod) ([]Pod, error) {
	f.begin(pods)
	names := make([]string, len(pods))
	out := make([]Pod, len(pods))
	for i := range pods {
		names[i], out[i] = pods[i].Name, Pod{Name: pods[i].Name, State: StatePossible}
	}
	for f.looks = 0; ; f.looks++ {
		now, err := f.read(ctx, names)
		switch {
		case ctx.Err() != nil:
			return out, ctx.Err()
		case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
			return out, ask.Explain(err, "get", "pods", f.Namespace, "")
		case err != nil:
			f.note("silent", fmt.Sprintf("the API server does not answer (%v); trying again", err))
		default:
			delete(f.noted, "silent")
			if f.looks%listens == 0 {
				f.events = heard(ctx, f.Client, f.Namespace)
				f.Looker.forget()
			}
			if f.seen(ctx, names, now, out) {
				return out, nil
			}
		}
		f.alive(ctx)
		select {
		case <-ctx.Done():
			return out, ctx.Err()
		case <-time.After(f.every()):
		}
	}
}

func (f *Follower) begin(pods []corev1.Pod) {
	f.asked, f.owned, f.lines, f.noted, f.since = map[types.UID]bool{}, map[string]bool{}, map[string]string{}, map[string]bool{}, f.Looker.Now()
	for i := range pods {
		f.asked[pods[i].UID] = true
		f.owned[pods[i].Name] = metav1.GetControllerOf(&pods[i]) != nil
	}
}

func (f *Follower) every() time.Duration {
	if f.Every == 0 {
		return 2 * time.Second
	}
	return f.Every
}

// read reads the pods that are there, by name.
func (f *Follower) read(ctx context.Context, names []string) (map[string]*corev1.Pod, error) {
	now := map[string]*corev1.Pod{}
	if len(names) > few {
		var list corev1.PodList
		err := f.Client.List(ctx, &list, client.InNamespace(f.Namespace))
		if !apierrors.IsForbidden(err) {
			for i := range list.Items {
				now[list.Items[i].Name] = &list.Items[i]
			}
			return now, err
		}
	}
	for _, name := range names {
		pod := &corev1.Pod{}
		switch err := f.Client.Get(ctx, client.ObjectKey{Namespace: f.Namespace, Name: name}, pod); {
		case err == nil:
			now[name] = pod
		case !apierrors.IsNotFound(err):
			return nil, err
		}
	}
	return now, nil
}

// seen takes over how each pod stands, and tells whether nothing is to be waited for.
func (f *Follower) seen(ctx context.Context, names []string, now map[string]*corev1.Pod, out []Pod) (done bool) {
	done = true
	for i, name := range names {
		out[i] = f.stands(ctx, name, now[name])
		f.moved = f.moved || out[i].State != StatePossible || out[i].Message != ""
		if line := out[i].Line(); f.lines[name] != line {
			f.lines[name] = line
			f.Said(out[i])
		}
		done = done && out[i].Over()
	}
	return done
}

// stands says how a pod stands; nil for one that is not there.
func (f *Follower) stands(ctx context.Context, name string, pod *corev1.Pod) Pod {
	switch {
	case pod == nil && f.owned[name]:
		return Pod{Name: name, State: StateLater, Message: "it is gone; the pod that takes its place is created with its sidecar"}
	case pod == nil:
		return Pod{Name: name, State: StateCannot, Message: "it was deleted meanwhile"}
	case Injected(pod):
		return Pod{Name: name, State: StateInjected, Message: "it was created anew, with it"}
	case !f.asked[pod.UID]:
		return Pod{Name: name, State: StateCannot, Message: "it was created anew meanwhile, without a sidecar: ask again; kubectl stategraft check says why it has none"}
	case pod.Annotations[api.AnnotationAdopt] == api.AdoptNever:
		return Pod{Name: name, State: StateCannot, Message: "somebody has written " + api.AnnotationAdopt + "=" + api.AdoptNever + " on it meanwhile"}
	case f.Renew != "":
		return f.renewal(pod)
	}
	p := f.Looker.one(ctx, pod)
	if p.State == StatePossible || p.State == StateLater {
		p.Containers = nil // which are not there yet
		f.listen(pod, &p)
	}
	if s, ok := f.events[pod.UID]; ok && p.State == StateAdopting && s.Reason == adopt.ReasonRefused && !s.At.Before(f.since.Truncate(time.Second)) {
		p.Message += "; " + s.Text
	}
	return p
}

// renewal says how far the new containers of a pod are.
func (f *Follower) renewal(pod *corev1.Pod) Pod {
	parts := adopted.Parts(pod)
	p := Pod{Name: pod.Name, State: StateAdopting, Containers: newest(parts), Message: doing(parts)}
	switch renewing := len(parts) > 0 && parts[len(parts)-1].Env(patches.EnvAdoptedRenew) == f.Renew; {
	case Adopted(pod, f.Renew):
		p.State, p.Message = StateAdopted, "it has new containers"
	case !renewing:
		p = Pod{Name: pod.Name, State: StatePossible}
		f.listen(pod, &p)
	}
	return p
}

// listen has the controller's word go before ours: it knows its configuration, the other
// pods and the quotas. What it has said before it was asked may hold no longer, and ends
// nothing at once.
func (f *Follower) listen(pod *corev1.Pod, p *Pod) {
	s, ok := f.events[pod.UID]
	switch {
	case !ok || s.Reason == adopt.ReasonNotAsked:
	case s.At.Before(f.since.Truncate(time.Second)) && f.looks < holds:
		if p.State == StatePossible {
			p.Message = "it said before: " + s.Text
		}
	case s.Reason == "":
		p.State, p.Reason, p.Message = StateLater, "", s.Text
	default:
		p.stop(s.Reason, s.Text)
		if Passes(s.Reason) {
			p.State = StateLater
		}
	}
}

// alive says that nobody seems to act, where nothing at all has happened.
func (f *Follower) alive(ctx context.Context) {
	switch {
	case f.moved:
	case f.looks == quiet && ask.Idle(ctx, f.Client):
		f.note("idle", "no controller seems to act on it: see kubectl stategraft check")
	case f.looks == silent && !f.noted["idle"]:
		f.note("off", "nothing has happened: is adoption turned off (value adopt.enabled of the chart), or the controller older than it? kubectl stategraft check tells")
	}
}

func (f *Follower) note(key, text string) {
	if !f.noted[key] {
		f.noted[key] = true
		f.Note(text)
	}
}
