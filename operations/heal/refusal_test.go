package heal

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/stategraft/stategraft/api/v1alpha1"
)

// seen is a history between two times after start; none where both are 0.
func seen(first, last time.Duration, message string) history {
	return history{first: start.Add(first), last: start.Add(last), message: message}
}

func TestRefused(t *testing.T) {
	const minute = time.Minute
	const other = `create Pod db-0 in StatefulSet db failed error: pods "db-0" is forbidden: ValidatingAdmissionPolicy 'registries' with binding 'registries' denied request: container stategraft-medusa has an image of docker.io`
	for _, c := range []struct {
		name    string
		now     time.Duration
		missing time.Duration
		failed  history
		created history
		want    bool
		again   time.Duration
	}{
		{"no event", 10 * minute, 0, history{}, history{}, false, 13 * minute},
		{"not for long", 2 * minute, 0, seen(minute, 2*minute, other), history{}, false, 4 * minute},
		{"for long", 4 * minute, 0, seen(minute, 4*minute, other), history{}, true, 4 * minute},
		{"missing was seen later", 4 * minute, 3 * minute, seen(minute, 4*minute, other), history{}, false, 6 * minute},
		{"created since", 10 * minute, 0, seen(minute, 4*minute, other), seen(0, 5*minute, ""), false, 13 * minute},
		{"created before", 10 * minute, 0, seen(minute, 6*minute, other), seen(0, 5*minute, ""), true, 4 * minute},
		{"not lately", time.Hour, 0, seen(minute, 30*minute, other), history{}, false, 63 * minute},
		{"by our policy", 10 * minute, 0, seen(minute, 9*minute, `create Pod db-0 in StatefulSet db failed error: pods "db-0" is forbidden: ValidatingAdmissionPolicy 'restore.stategraft.io' with binding 'restore.stategraft.io' denied request: pod db/db-0 asks for backup "x"`), history{}, false, 13 * minute},
		{"by our policy of Restores", 10 * minute, 0, seen(minute, 9*minute, `create Pod db-0 in StatefulSet db failed error: pods "db-0" is forbidden: ValidatingAdmissionPolicy 'restore-pending.stategraft.io' with binding 'restore-pending.stategraft.io' denied request: pod db/db-0 is to be restored by Restore r`), history{}, false, 13 * minute},
		{"by our webhook", 10 * minute, 0, seen(minute, 9*minute, `create Pod db-0 in StatefulSet db failed error: admission webhook "pods.stategraft.io" denied the request: stategraft: backup "x" cannot be restored`), history{}, false, 13 * minute},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, again := creation{missing: start.Add(c.missing), failures: c.failed, successes: c.created}.refused(start.Add(c.now), deadline)
			if got != c.want || again.Sub(start) != c.again {
				t.Errorf("%v, again after %s, want %v after %s", got, again.Sub(start), c.want, c.again)
			}
		})
	}
}

func TestJudgeTrial(t *testing.T) {
	const minute, second = time.Minute, time.Second
	for _, c := range []struct {
		name    string
		now     time.Duration
		created int32
		failed  history
		success history
		want    outcome
	}{
		{"just begun", second, 1, seen(-minute, 0, ""), history{}, openYet},
		{"refused before all webhooks knew", 5 * second, 1, seen(-minute, 5*second, ""), history{}, openYet},
		{"refused again", 7 * second, 1, seen(-minute, 6*second, ""), history{}, notUs},
		{"a pod came up", 7 * second, 2, seen(-minute, 3*second, ""), history{}, itWasUs},
		{"a pod came up and went", 7 * second, 1, seen(-minute, 3*second, ""), seen(4*second, 4*second, ""), itWasUs},
		{"one that came up before", 7 * second, 1, seen(-minute, 3*second, ""), seen(-minute, -minute, ""), openYet},
		{"nothing happens for long", 20 * minute, 1, seen(-minute, 0, ""), history{}, openYet},
		{"nothing happens for too long", 21 * minute, 1, seen(-minute, 0, ""), history{}, notUs},
	} {
		t.Run(c.name, func(t *testing.T) {
			entry := api.HeldBack{Since: start, Trial: &api.Trial{Created: 1}}
			if got := judgeTrial(entry, creation{wanted: 3, created: c.created, failures: c.failed, successes: c.success}, start.Add(c.now)); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
}

func TestTimesOf(t *testing.T) {
	micro := func(after time.Duration) metav1.MicroTime { return metav1.NewMicroTime(start.Add(after)) }
	for name, c := range map[string]struct {
		event       corev1.Event
		first, last time.Duration
	}{
		"old":    {corev1.Event{FirstTimestamp: at(1), LastTimestamp: at(5)}, 1, 5},
		"new":    {corev1.Event{EventTime: micro(2)}, 2, 2},
		"series": {corev1.Event{EventTime: micro(2), Series: &corev1.EventSeries{LastObservedTime: micro(9)}}, 2, 9},
	} {
		if first, last := timesOf(&c.event); first.Sub(start) != c.first || last.Sub(start) != c.last {
			t.Errorf("%s: %s to %s", name, first.Sub(start), last.Sub(start))
		}
	}
}

func TestWouldInject(t *testing.T) {
	template := func(change func(*appsv1.StatefulSet)) *appsv1.StatefulSet {
		pod := admitted(t, cassandra, nil)
		set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "cassandra", Name: "cassandra"}}
		nothingOfOurs(t, pod)
		pod.Spec.Volumes = pod.Spec.Volumes[1:2] // the token's; the data's comes from the claims
		set.Spec.Template.Labels = map[string]string{"app": "cassandra"}
		set.Spec.Template.Spec = pod.Spec
		set.Spec.VolumeClaimTemplates = []corev1.PersistentVolumeClaim{{ObjectMeta: metav1.ObjectMeta{Name: "cassandra-data"}}}
		if change != nil {
			change(set)
		}
		return set
	}
	annotate := func(key, value string) func(*appsv1.StatefulSet) {
		return func(set *appsv1.StatefulSet) {
			metav1.SetMetaDataAnnotation(&set.Spec.Template.ObjectMeta, key, value)
		}
	}
	for _, c := range []struct {
		name      string
		set       *appsv1.StatefulSet
		namespace map[string]string
		want      bool
	}{
		{"cassandra", template(nil), nil, true},
		{"no data", template(func(set *appsv1.StatefulSet) { set.Spec.VolumeClaimTemplates = nil }), nil, false},
		{"something else", template(func(set *appsv1.StatefulSet) {
			set.Spec.Template.Spec.Containers = []corev1.Container{{Name: "nginx", Image: "nginx"}}
		}), nil, false},
		{"opted out", template(func(set *appsv1.StatefulSet) {
			set.Spec.Template.Labels = map[string]string{api.LabelInject: api.InjectDisabled}
		}), nil, false},
		{"a restore", template(annotate(api.AnnotationRestore, "x")), nil, false},
		{"a restore of the namespace", template(nil), map[string]string{api.AnnotationRestore: "x"}, false},
		{"injected all the same", template(annotate(api.AnnotationHeldBack, api.HeldBackIgnore)), nil, false},
		{"injected all the same, by the namespace", template(nil), map[string]string{api.AnnotationHeldBack: api.HeldBackIgnore}, false},
		{"configured by us", template(annotate(api.AnnotationConfigMap, "x")), nil, false},
		{"on the node's network by us", template(nil), map[string]string{api.AnnotationHostNetwork: "true"}, false},
	} {
		before := c.set.DeepCopy()
		if got, err := wouldInject(c.set, c.namespace); got != c.want || err != nil {
			t.Errorf("%s: %v (%v), want %v", c.name, got, err, c.want)
		}
		if !sameJSON(before, c.set) {
			t.Errorf("%s: the StatefulSet was changed", c.name)
		}
	}
}
