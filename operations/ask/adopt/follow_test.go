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
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	api "github.com/stategraft/stategraft/api/v1alpha1"
)

// film is a pod at each look at it; the last one stays. A nil is a pod that is gone.
type film []*corev1.Pod

// shown is a cluster in which a pod goes through a film.
func shown(f film, objects ...client.Object) client.WithWatch {
	at := -1
	return store(interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
		pod, ok := o.(*corev1.Pod)
		if !ok {
			return c.Get(ctx, key, o, opts...)
		}
		at = min(at+1, len(f)-1)
		if f[at] == nil {
			return apierrors.NewNotFound(corev1.Resource("pods"), key.Name)
		}
		f[at].DeepCopyInto(pod)
		return nil
	}}, objects...)
}

// TestFollow goes through what is said of a pod, each change once, and how it ends.
func TestFollow(t *testing.T) {
	agent, medusa := with("stategraft-agent-1", done()), with("stategraft-medusa-2", runs())
	plain, up := database("c-0"), database("c-0", labelled, agent, medusa)
	pulls := database("c-0", agent, with("stategraft-medusa-2", waits("ErrImagePull", "no such image")))
	anew := func(changes ...func(*corev1.Pod)) *corev1.Pod {
		return database("c-0", append(changes, func(p *corev1.Pod) { p.UID = "another" })...)
	}
	for _, c := range []struct {
		what   string
		film   film
		events []client.Object
		renew  string
		lines  string // between bars; the last one may be left open at its end
		ends   State  // empty where it does not end
	}{
		{"adopted", film{plain, plain, database("c-0", with("stategraft-agent-1", nil), with("stategraft-medusa-2", nil)),
			database("c-0", with("stategraft-agent-1", runs()), with("stategraft-medusa-2", waits("ContainerCreating", ""))), pulls, pulls, database("c-0", agent, medusa), up}, nil, "",
			"waits for the controller|" +
				"adopting: stategraft-agent-1 was added, stategraft-medusa-2 was added|" +
				"adopting: stategraft-agent-1 runs, stategraft-medusa-2 is being started|" +
				"adopting: stategraft-agent-1 is done, stategraft-medusa-2 waits (ErrImagePull: no such image)|" +
				"adopting: stategraft-agent-1 is done, stategraft-medusa-2 runs|" +
				"adopted: stategraft-agent-1, stategraft-medusa-2", StateAdopted},
		{"not ready at first", film{database("c-0", func(p *corev1.Pod) { p.Status.Conditions = nil }), plain, up}, nil, "",
			"waits (not-ready): it is not Ready|waits for the controller|adopted: ", StateAdopted},
		{"image is missing", film{pulls}, nil, "", "adopting: stategraft-agent-1 is done, stategraft-medusa-2 waits (ErrImagePull: no such image)", ""},
		{"killed", film{database("c-0", agent, with("stategraft-medusa-2", endedWith(137, "OOMKilled")))}, nil, "",
			"adopting: stategraft-agent-1 is done, stategraft-medusa-2 has ended with status 137 (OOMKilled)", ""},
		{"a label refused", film{database("c-0", agent, medusa)}, []client.Object{event(plain, "NotAdopted", "refused: no label", -time.Second), event(plain, "NotAdopted", "no-pair: before", 0)}, "",
			"adopting: stategraft-agent-1 is done, stategraft-medusa-2 runs; no label", ""},
		{"others are first", film{plain}, []client.Object{event(plain, "NotAdopted", "waits-for-others: c-1 of its workload is being adopted", -time.Second)}, "",
			"waits (waits-for-others): c-1 of its workload is being adopted", ""},
		{"a quota", film{plain}, []client.Object{event(plain, "NotAdopted", "waits-for-others: c-1 is", 0), event(plain, "NotAdopted", "quota-exceeded: it exceeds q", -time.Second)}, "",
			"cannot be adopted (quota-exceeded): it exceeds q", StateCannot},
		{"no reason in it", film{plain}, []client.Object{event(plain, "NotAdopted", "for some reason: x", 0)}, "", "waits: for some reason: x", ""},
		{"given up", film{plain}, []client.Object{event(plain, "AdoptionEnded", "exhausted: 60 containers have been added", 0)}, "", "cannot be adopted (exhausted): 60 containers", StateCannot},
		{"said long before", film{plain, up}, []client.Object{event(plain, "NotAdopted", "quota-exceeded: it exceeds q", time.Minute)}, "",
			"waits for the controller: it said before: it exceeds q|adopted: ", StateAdopted},
		{"said long before, and it holds", film{plain}, []client.Object{event(plain, "NotAdopted", "quota-exceeded: it exceeds q", time.Minute)}, "",
			"waits for the controller: it said before: it exceeds q|cannot be adopted (quota-exceeded): it exceeds q", StateCannot},
		{"asked again", film{plain}, []client.Object{event(plain, "AdoptionEnded", "not-asked: no longer", time.Minute)}, "", "waits for the controller", ""},
		{"of another pod", film{plain}, []client.Object{event(database("c-1"), "NotAdopted", "sub-path: x", 0)}, "", "waits for the controller", ""},
		{"opted out meanwhile", film{plain, database("c-0", func(p *corev1.Pod) { p.Annotations = map[string]string{api.AnnotationAdopt: api.AdoptNever} })}, nil, "",
			"waits for the controller|cannot be adopted: somebody has written stategraft.io/adopt=never on it meanwhile", StateCannot},
		{"created anew", film{plain, nil, anew(injected)}, nil, "", "waits for the controller|waits: it is gone; the pod that takes its place|has its sidecar: it was created anew, with it", StateInjected},
		{"created anew, without", film{anew()}, nil, "", "cannot be adopted: it was created anew meanwhile, without a sidecar: ask again", StateCannot},
		{"renewed", film{up, database("c-0", labelled, agent, medusa, with("stategraft-agent-3", runs(), renewed("v")), with("stategraft-medusa-4", nil, renewed("v"))),
			database("c-0", labelled, agent, with("stategraft-medusa-2", done()), with("stategraft-agent-3", done(), renewed("v")), with("stategraft-medusa-4", runs(), renewed("v")))}, nil, "v",
			"waits for the controller|adopting: stategraft-agent-3 runs, stategraft-medusa-4 was added|adopted: stategraft-agent-3, stategraft-medusa-4", StateAdopted},
	} {
		cluster := shown(c.film, append(c.events, node("n1", nil))...)
		var lines []string
		f := Follower{Client: cluster, Looker: looker(cluster), Namespace: "prod", Renew: c.renew, Every: time.Millisecond,
			Said: func(p Pod) { lines = append(lines, p.Line()) }, Note: func(string) {}}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		if c.ends == "" { // what is to be seen is seen at the first looks
			looks := 0
			f.Client = counting(cluster, func() {
				if looks++; looks == 10 {
					cancel()
				}
			})
		}
		after, err := f.Follow(ctx, []corev1.Pod{*plain})
		cancel()
		if c.ends == "" && !errors.Is(err, context.Canceled) || c.ends != "" && (err != nil || after[0].State != c.ends) {
			t.Errorf("%s: %+v, %v", c.what, after, err)
		}
		want := strings.Split(c.lines, "|")
		for i := range want {
			if len(lines) != len(want) || !strings.HasPrefix(lines[i], want[i]) {
				t.Errorf("%s:\n%s\nwant\n%s", c.what, strings.Join(lines, "\n"), strings.Join(want, "\n"))
				break
			}
		}
	}
}

// counting tells of each look at a pod.
func counting(c client.WithWatch, looked func()) client.WithWatch {
	return interceptor.NewClient(c, interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
		if _, pod := o.(*corev1.Pod); pod {
			looked()
		}
		return c.Get(ctx, key, o, opts...)
	}})
}

// Of several pods each is followed to its end, as they are listed; who may not list them
// reads each.
func TestFollowMany(t *testing.T) {
	var pods []corev1.Pod
	var objects []client.Object
	for i := range 5 {
		name := fmt.Sprint("c-", i)
		pods = append(pods, *database(name))
		switch i {
		case 0:
			objects = append(objects, database(name, func(p *corev1.Pod) { p.Spec.Containers[0].VolumeMounts[0].SubPath = "x" }))
		case 1: // gone
			pods[i].OwnerReferences = nil
		default:
			objects = append(objects, database(name, labelled, with("stategraft-agent-1", done()), with("stategraft-medusa-2", runs())))
		}
	}
	for what, funcs := range map[string]interceptor.Funcs{
		"listed": {Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if _, pod := o.(*corev1.Pod); pod {
				return errors.New("read one by one")
			}
			return c.Get(ctx, key, o, opts...)
		}},
		"not to be listed": {List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
			return forbidden("pods")
		}},
	} {
		cluster := store(funcs, objects...)
		f := Follower{Client: cluster, Looker: looker(nil), Namespace: "prod", Every: time.Millisecond, Said: func(Pod) {}, Note: func(string) {}}
		after, err := f.Follow(t.Context(), pods)
		if err != nil || len(Cannot(after)) != 2 || after[0].Reason != "sub-path" || after[1].Message != "it was deleted meanwhile" || !after[2].Has() || !after[4].Has() {
			t.Errorf("%s: %+v, %v", what, after, err)
		}
	}
}

// Where nothing happens at all it is said once that nobody acts, or that it may be turned
// off; an API server that does not answer is asked again; a lacking right ends it.
func TestFollowAlone(t *testing.T) {
	plain := database("c-0")
	for what, c := range map[string]struct {
		err  error
		want string
		ends string
	}{
		"nobody acts": {nil, "nothing has happened: is adoption turned off", ""}, // the client of the tests cannot tell of Leases
		"silent":      {errors.New("connection refused"), "the API server does not answer (connection refused); trying again", ""},
		"no right":    {forbidden("pods"), "", "you have no right to get pods in namespace prod"},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		looks := 0
		cluster := store(interceptor.Funcs{Get: func(ctx context.Context, _ client.WithWatch, key client.ObjectKey, o client.Object, _ ...client.GetOption) error {
			pod, ok := o.(*corev1.Pod)
			if !ok {
				return forbidden("leases")
			}
			if looks++; looks == silent+5 {
				cancel()
			}
			plain.DeepCopyInto(pod)
			return c.err
		}})
		var notes []string
		f := Follower{Client: cluster, Looker: looker(nil), Namespace: "prod", Every: time.Millisecond, Said: func(Pod) {}, Note: func(text string) { notes = append(notes, text) }}
		_, err := f.Follow(ctx, []corev1.Pod{*plain})
		cancel()
		if c.ends != "" && (err == nil || !strings.HasPrefix(err.Error(), c.ends)) || c.ends == "" && !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", what, err)
		}
		found := 0
		for _, note := range notes {
			if strings.HasPrefix(note, c.want) {
				found++
			}
		}
		if c.want != "" && found != 1 || c.want == "" && len(notes) > 0 {
			t.Errorf("%s: %q", what, notes)
		}
	}
}

// An event is of the time that it was seen last, in either API.
func TestHeard(t *testing.T) {
	pod := database("c-0")
	old, newer, other := event(pod, eventNot, "not-ready: x", time.Hour), event(pod, eventNot, "sub-path: y\x1b", time.Minute), event(pod, "Adopted", "z", 0)
	old.LastTimestamp.Time = noon.Add(-2 * time.Minute)
	repeated := event(pod, eventEnded, "node n1: short of memory", time.Hour)
	repeated.Series = &corev1.EventSeries{LastObservedTime: newer.EventTime}
	repeated.Series.LastObservedTime.Time = noon.Add(-30 * time.Second)
	got := heard(t.Context(), store(interceptor.Funcs{}, old, newer, other), "prod")
	if s := got[pod.UID]; len(got) != 1 || s.Reason != "sub-path" || s.Text != "y?" || !s.At.Equal(noon.Add(-time.Minute)) {
		t.Errorf("%+v", got)
	}
	got = heard(t.Context(), store(interceptor.Funcs{}, old, newer, repeated), "prod")
	if s := got[pod.UID]; s.Reason != "" || s.Text != "node n1: short of memory" || !s.At.Equal(noon.Add(-30*time.Second)) {
		t.Errorf("%+v", got)
	}
	none := heard(t.Context(), store(interceptor.Funcs{List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
		return forbidden("events")
	}}), "prod")
	if len(none) != 0 {
		t.Errorf("%+v", none)
	}
}
