package cycle

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/patches"
)

var now = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// pod makes a running pod of StatefulSet kvs with ConfigMap conf.
func pod(name string, isReady bool) *corev1.Pod {
	status := corev1.ConditionFalse
	if isReady {
		status = corev1.ConditionTrue
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: name, UID: types.UID("u-" + name), CreationTimestamp: metav1.Time{Time: now.Add(-time.Hour)},
			Labels:          map[string]string{api.LabelInjected: "anna"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "kvs", UID: "s", Controller: new(true)}}},
		Spec: corev1.PodSpec{Volumes: []corev1.Volume{{Name: patches.VolumeConfig, VolumeSource: corev1.VolumeSource{
			ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "conf"}}}}}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: status}},
			ContainerStatuses: []corev1.ContainerStatus{{Name: "kvs", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Time{Time: now.Add(-time.Hour + time.Minute)}}}}}},
	}
}

// workloadOf makes a workload of pods: a letter for each, small where it is not Ready;
// O was started with the old configuration, N with the new one, U is not known.
func workloadOf(letters string) *group {
	g := &group{owner: owner{"StatefulSet", "kvs", "s", "apps/v1"}, wanted: len(letters)}
	for i, letter := range letters {
		m := member{pod: pod(fmt.Sprintf("kvs-%d", i), letter < 'a'), current: "new"}
		switch letter {
		case 'O', 'o':
			m.started = "old"
		case 'N', 'n':
			m.started = "new"
		}
		g.members = append(g.members, m)
	}
	return g
}

func TestNext(t *testing.T) {
	for _, c := range []struct {
		what, pods string
		edit       func(*group, *situation)
		evict      string
		wait       string
		outdated   int
	}{
		{what: "all are as they should be", pods: "NNN"},
		{what: "nothing is known", pods: "UUu"},
		{what: "the last goes first", pods: "OOO", evict: "kvs-2", outdated: 3},
		{what: "then the next", pods: "OON", evict: "kvs-1", outdated: 2},
		{what: "by number", pods: "OOOOOOOOOOO", evict: "kvs-10", outdated: 11},
		{what: "the one that came back is not Ready", pods: "OOn", wait: waitReady, outdated: 2},
		{what: "nor known", pods: "OOu", wait: waitReady, outdated: 2},
		{what: "one that is outdated and not Ready goes first", pods: "oOO", evict: "kvs-0", outdated: 3},
		{what: "one of several", pods: "ooO", evict: "kvs-1", outdated: 3},
		{what: "but not beside another that is not Ready", pods: "onO", wait: waitReady, outdated: 2},
		{what: "not asked for", pods: "OO", edit: func(_ *group, s *situation) { s.restart = func(*corev1.Pod) bool { return false } }, wait: waitNotAsked, outdated: 2},
		{what: "not asked for, not Ready", pods: "On", edit: func(_ *group, s *situation) { s.restart = func(*corev1.Pod) bool { return false } }, wait: waitNotAsked, outdated: 1},
		{what: "a Restore", pods: "OO", edit: func(_ *group, s *situation) { s.restoring = true }, wait: waitRestore, outdated: 2},
		{what: "not for long enough", pods: "OO", edit: func(_ *group, s *situation) { s.calm = 29 * time.Second }, wait: waitSettle, outdated: 2},
		{what: "not Ready, at once", pods: "Oo", edit: func(_ *group, s *situation) { s.calm = 0 }, evict: "kvs-1", outdated: 2},
		{what: "one is missing", pods: "OO", edit: func(g *group, _ *situation) { g.wanted = 3 }, wait: waitNext, outdated: 2},
		{what: "one goes", pods: "OO", edit: func(g *group, _ *situation) { g.members[1].pod.DeletionTimestamp = &metav1.Time{Time: now} }, wait: waitNext, outdated: 2},
		{what: "the cache has not seen it go", pods: "OO", edit: func(_ *group, s *situation) { s.evicted = &evicted{uid: "u-kvs-1", count: 2} }, wait: waitNext, outdated: 2},
		{what: "not of a StatefulSet, gone", pods: "O", edit: func(g *group, s *situation) { g.wanted, s.evicted = 0, &evicted{uid: "x", count: 2} }, wait: waitNext, outdated: 1},
		{what: "not of a StatefulSet, back", pods: "ON", edit: func(g *group, s *situation) { g.wanted, s.evicted = 0, &evicted{uid: "x", count: 2} }, evict: "kvs-0", outdated: 1},
		{what: "nobody's", pods: "O", edit: func(g *group, _ *situation) { g.owner = owner{} }, wait: waitNobody, outdated: 1},
		{what: "a ConfigMap that is gone", pods: "O", edit: func(g *group, _ *situation) { g.members[0].current = "" }},
	} {
		g := workloadOf(c.pods)
		s := situation{restart: func(*corev1.Pod) bool { return true }, calm: time.Minute, settle: 30 * time.Second}
		if c.edit != nil {
			c.edit(g, &s)
		}
		out, evict := g.next(s), ""
		if out.evict != nil {
			evict = out.evict.pod.Name
		}
		if evict != c.evict || out.wait != c.wait || len(out.outdated) != c.outdated {
			t.Errorf("%s: evicts %q, waits %q, %d outdated; want %q, %q, %d", c.what, evict, out.wait, len(out.outdated), c.evict, c.wait, c.outdated)
		}
	}
}

// However the pods are, never is one taken while another is not there and Ready.
func TestOneAtATime(t *testing.T) {
	letters := []rune("OoNnUu")
	for n := range 6 * 6 * 6 * 6 {
		text := ""
		for rest, i := n, 0; i < 4; i++ {
			text += string(letters[rest%6])
			rest /= 6
		}
		g := workloadOf(text)
		out := g.next(situation{restart: func(*corev1.Pod) bool { return true }, calm: time.Hour})
		if out.evict == nil {
			continue
		}
		if !out.evict.outdated() {
			t.Errorf("%s: %s is as it should be", text, out.evict.pod.Name)
		}
		for i := range g.members {
			if m := &g.members[i]; !ready(m.pod) && !m.outdated() {
				t.Errorf("%s: %s goes while %s is not Ready", text, out.evict.pod.Name, m.pod.Name)
			}
			if ready(out.evict.pod) && !ready(g.members[i].pod) {
				t.Errorf("%s: two would not be Ready", text)
			}
		}
	}
}

func TestHeld(t *testing.T) {
	for what, c := range map[string]struct {
		edit func(*corev1.Pod)
		want bool
	}{
		"nothing": {func(*corev1.Pod) {}, false},
		"a gate":  {func(p *corev1.Pod) { p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: api.GateRestore}} }, true},
		"keys are written": {func(p *corev1.Pod) {
			p.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: api.ConditionReplayed}}
		}, true},
		"they were": {func(p *corev1.Pod) {
			p.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: api.ConditionReplayed}}
			p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: api.ConditionReplayed, Status: corev1.ConditionTrue})
		}, false},
	} {
		p := pod("kvs-0", false)
		c.edit(p)
		if got := held(p) != ""; got != c.want {
			t.Errorf("%s: %v", what, got)
		}
	}
}

func TestDigest(t *testing.T) {
	digests := map[string]string{}
	for what, m := range map[string]*corev1.ConfigMap{
		"empty": {}, "a": {Data: map[string]string{"a": "b"}}, "another key": {Data: map[string]string{"ab": ""}}, "binary": {BinaryData: map[string][]byte{"a": []byte("b")}},
		"two": {Data: map[string]string{"a": "b", "c": "d"}}, "one with both": {Data: map[string]string{"a": "b\n1 c 1 d"}},
	} {
		first := digestOf(m)
		for range 10 { // the order of Go's maps changes each time
			if digestOf(m) != first {
				t.Errorf("%s: two digests", what)
			}
		}
		if other, ok := digests[digestOf(m)]; ok {
			t.Errorf("%s and %s have one digest", what, other)
		}
		digests[digestOf(m)] = what
	}
	p := pod("kvs-0", true)
	for text, want := range map[string]string{"abc u-kvs-0": "abc", "abc u-kvs-1": "", "abc": "", "": "", " u-kvs-0": ""} {
		p.Annotations = map[string]string{patches.AnnotationConfigStarted: text}
		if got := startedWith(p); got != want {
			t.Errorf("%q: %q", text, got)
		}
	}
}

func TestFirstSight(t *testing.T) {
	created, started := now.Add(-time.Hour), now.Add(-59*time.Minute)
	managed := func(at time.Time, fields string) metav1.ManagedFieldsEntry {
		f := &metav1.FieldsV1{}
		if err := f.UnmarshalJSON([]byte(fields)); err != nil {
			t.Fatal(err)
		}
		return metav1.ManagedFieldsEntry{Time: &metav1.Time{Time: at}, FieldsV1: f}
	}
	for _, c := range []struct {
		what   string
		change time.Time
		fields string
		known  bool
	}{
		{"long before", created.Add(-time.Hour), `{"f:data":{}}`, true},
		{"just before the pod", created.Add(-time.Second), `{"f:data":{}}`, true},
		{"while it started", created.Add(30 * time.Second), `{"f:data":{}}`, false},
		{"since", started.Add(time.Minute), `{"f:data":{"f:x":{}}}`, false},
		{"since, binary", started.Add(time.Minute), `{"f:binaryData":{}}`, false},
		{"since, but only a label", started.Add(time.Minute), `{"f:metadata":{"f:labels":{}}}`, true},
	} {
		m := &corev1.ConfigMap{Data: map[string]string{"a": "b"}}
		m.CreationTimestamp = metav1.Time{Time: created.Add(-2 * time.Hour)}
		m.ManagedFields = []metav1.ManagedFieldsEntry{managed(c.change, c.fields)}
		p := pod("kvs-0", true)
		digest, ok := firstSight(p, m)
		if !ok || (digest == digestOf(m)) != c.known || (digest == unknown) == c.known {
			t.Errorf("%s: %s, %v", c.what, digest, ok)
		}
		p.Status.ContainerStatuses[0].State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{}}
		if _, ok := firstSight(p, m); ok {
			t.Errorf("%s: known before it was started", c.what)
		}
		p.Status.ContainerStatuses[0].LastTerminationState.Terminated = &corev1.ContainerStateTerminated{StartedAt: metav1.Time{Time: started}}
		if _, ok := firstSight(p, m); !ok {
			t.Errorf("%s: not known though it was started", c.what)
		}
	}
	late := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.Time{Time: now}}}
	if digest, ok := firstSight(pod("kvs-0", true), late); !ok || digest != unknown {
		t.Errorf("made after the pod: %s %v", digest, ok)
	}
}
