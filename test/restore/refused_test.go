package restore

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/test/restore/simulated"
)

// What cannot be done is refused before anything is touched: the Restore is Failed,
// one condition says why and names the remedy, nobody is pending, and every pod is
// the one that it was.
func TestRefused(t *testing.T) {
	ctx, e := start(t, 20*time.Minute)
	const ns = "refused"
	r, err := e.newRing(ctx, ns, 3, appsv1.ParallelPodManagement)
	if err != nil {
		t.Fatal(err)
	}
	e.Node.Storage(ns).Add("partial", time.Now().Add(-3*time.Hour), r.pods()[1:], nil, r.pods()[:1])
	before, err := r.read(ctx)
	if err != nil {
		t.Fatal(err)
	}
	told := 0
	for name, c := range map[string]struct {
		restore   *api.Restore
		condition string
		says      []string
	}{
		"a misspelt backup":                {r.restore("misspelt", "nigthly"), api.ConditionPrechecked, []string{"nigthly", nightly}},
		"one node's backup missing":        {r.restore("missing", "partial"), api.ConditionPrechecked, []string{"partial", "ring-0"}},
		"one node's backup not complete":   {r.restore("unfinished", "broken"), api.ConditionPrechecked, []string{"broken", "ring-0"}},
		"a pod that does not exist":        {r.restore("nobody", nightly, "ring-7"), api.ConditionAccepted, []string{"ring-7"}},
		"no time before the oldest backup": {r.restore("early", "2001-01-01T00:00:00Z"), api.ConditionPrechecked, []string{"2001-01-01"}},
	} {
		if err := r.ask(ctx, c.restore); err != nil {
			t.Fatal(err)
		}
		if e.refused(ctx, t, r, name, c.restore.Name, c.condition, c.says) {
			told++
		}
	}
	after, err := r.read(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for name, pod := range before {
		if after[name] == nil || after[name].UID != pod.UID {
			t.Errorf("pod %s was touched", name)
		}
	}
	for _, pod := range r.pods() {
		if v := r.volume(pod); v.Data != "new" || len(v.Done) > 0 {
			t.Errorf("the volume of %s was touched: %+v", pod, v)
		}
	}
	if t.Failed() {
		explain(t, e, ns)
		return
	}
	figure(t, "%d refusals before anything was touched, each with one message that names the remedy", told)
	r.discard(ctx)
}

// refused waits for a Restore to be refused, and looks at what it says.
func (e *Env) refused(ctx context.Context, t *testing.T, r *ring, name, restore, condition string, says []string) bool {
	t.Helper()
	o, err := r.final(ctx, patience, restore)
	if err != nil {
		t.Errorf("%s: %v", name, err)
		return false
	}
	c := find(o, condition)
	if o.Status.Phase != api.RestoreFailed || len(o.Status.Pending) > 0 || c == nil || c.Status != metav1.ConditionFalse {
		t.Errorf("%s: %s, pending %v, condition %+v", name, o.Status.Phase, o.Status.Pending, c)
		return false
	}
	for _, part := range says {
		if !strings.Contains(c.Message, part) || !strings.Contains(o.Status.Message, part) {
			t.Errorf("%s: %q is not in %q", name, part, c.Message)
		}
	}
	figure(t, "%s: %s: %s", name, c.Reason, c.Message)
	return true
}

func find(o *api.Restore, kind string) *metav1.Condition {
	i := slices.IndexFunc(o.Status.Conditions, func(c metav1.Condition) bool { return c.Type == kind })
	if i < 0 {
		return nil
	}
	return &o.Status.Conditions[i]
}

// Pods that nothing of ours is in, by the label of the pod or the lack of one of the
// namespace, are refused by a condition of their own each.
func TestRefusedWithoutSidecar(t *testing.T) {
	ctx, e := start(t, 20*time.Minute)
	for ns, c := range map[string]struct {
		labels, pod map[string]string
		says        string
	}{
		"not-labelled": {nil, nil, api.LabelInject + "=" + api.InjectEnabled},
		"opted-out":    {map[string]string{api.LabelInject: api.InjectEnabled}, map[string]string{api.LabelInject: api.InjectDisabled}, api.LabelInject},
	} {
		if err := e.namespace(ctx, ns, c.labels); err != nil {
			t.Fatal(err)
		}
		set := statefulSet(ns, 1, appsv1.OrderedReadyPodManagement)
		for key, value := range c.pod {
			set.Spec.Template.Labels[key] = value
		}
		if err := e.Objects.Create(ctx, set); err != nil {
			t.Fatal(err)
		}
		r := &ring{Env: e, ns: ns, size: 1}
		if err := r.ready(ctx, false); err != nil {
			t.Fatal(err)
		}
		o := r.restore("bare", nightly)
		if err := r.ask(ctx, o); err != nil {
			t.Fatal(err)
		}
		if !e.refused(ctx, t, r, ns, o.Name, api.ConditionAccepted, []string{c.says}) {
			explain(t, e, ns)
		}
		r.discard(ctx)
	}
}

// A node of which the backup has nothing starts empty where that is asked for.
func TestMissingIsEmpty(t *testing.T) {
	ctx, e := start(t, 20*time.Minute)
	const ns = "missing-empty"
	r, err := e.newRing(ctx, ns, 3, appsv1.ParallelPodManagement)
	if err != nil {
		t.Fatal(err)
	}
	e.Node.Storage(ns).Add("partial", time.Now().Add(-3*time.Hour), r.pods()[1:], nil, r.pods()[:1])
	o := r.restore("partial", "partial")
	o.Spec.WhenNoBackup = api.NoBackupEmpty
	if err := r.ask(ctx, o); err != nil {
		t.Fatal(err)
	}
	data := all(r.pods(), func(pod string) string { return simulated.Restored("partial", pod) })
	data["ring-0"] = simulated.Emptied
	if faulty := r.judge(ctx, o.Name, data); len(faulty) > 0 {
		t.Error(strings.Join(faulty, "\n"))
		explain(t, e, ns)
		return
	}
	figure(t, "one node's backup missing, whenNoBackup Empty: that pod starts empty, 2 are restored")
	r.discard(ctx)
}

// Of two Restores for one pod the one that was made later waits, says for whom, and
// is done afterwards.
func TestTwoForOnePod(t *testing.T) {
	ctx, e := start(t, 20*time.Minute)
	const ns = "two"
	r, err := e.newRing(ctx, ns, 2, appsv1.ParallelPodManagement)
	if err != nil {
		t.Fatal(err)
	}
	e.Node.Storage(ns).Add("second", time.Now().Add(-3*time.Hour), r.pods(), nil, nil)
	e.Node.Linger(ns, true) // so that the first lasts
	defer e.Node.Linger(ns, false)
	first, second := r.restore("b-first", nightly), r.restore("a-second", "second", "ring-1")
	if err := r.ask(ctx, first); err != nil {
		t.Fatal(err)
	}
	if _, err := r.until(ctx, patience, first.Name, "begun", begun); err != nil {
		explain(t, e, ns)
		t.Fatal(err)
	}
	if err := r.ask(ctx, second); err != nil {
		t.Fatal(err)
	}
	waiting, err := r.until(ctx, patience, second.Name, "waiting", func(o *api.Restore) bool { return o.Status.Phase == api.RestoreWaiting })
	if err != nil {
		explain(t, e, ns)
		t.Fatal(err)
	}
	if !strings.Contains(waiting.Status.Message, first.Name) {
		t.Errorf("it does not say for whom it waits: %q", waiting.Status.Message)
	}
	e.Node.Linger(ns, false)
	faulty := []string{}
	for _, name := range []string{first.Name, second.Name} {
		o, err := r.final(ctx, settleLimit, name)
		if err != nil || o.Status.Phase != api.RestoreCompleted {
			faulty = append(faulty, name+" is not completed: "+o.Status.Message)
		}
	}
	if err := r.ready(ctx, false); err != nil {
		faulty = append(faulty, err.Error())
	}
	for pod, want := range map[string]string{"ring-0": restored("ring-0"), "ring-1": simulated.Restored("second", "ring-1")} {
		if v := r.volume(pod); v.Data != want {
			faulty = append(faulty, "the volume of "+pod+" holds "+v.Data)
		}
	}
	if faulty = append(faulty, e.Witness.Violations(ns)...); len(faulty) > 0 {
		t.Error(strings.Join(faulty, "\n"))
		explain(t, e, ns)
		return
	}
	figure(t, "the second of two: %s: %s", waiting.Status.Phase, waiting.Status.Message)
	r.discard(ctx)
}
