package restore

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/stategraft/stategraft/api/node"
	api "github.com/stategraft/stategraft/api/v1alpha1"
)

// templated has the StatefulSet's template bear the labels of its pods.
func templated(set *appsv1.StatefulSet) { set.Spec.Template.Labels = map[string]string{"app": "cas"} }

func selectApp(s *api.RestoreSpec) {
	s.Pods = api.RestorePods{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "cas"}}}
}

// TestAwaited: which pods a StatefulSet is yet to make that a selector would match.
func TestAwaited(t *testing.T) {
	set := func(replicas int32, change ...func(*appsv1.StatefulSet)) []*appsv1.StatefulSet {
		return []*appsv1.StatefulSet{factSet(replicas, append([]func(*appsv1.StatefulSet){templated}, change...)...)}
	}
	rack := func(s *appsv1.StatefulSet) { s.Name, s.UID = "rack", "rack" }
	for _, c := range []struct {
		what     string
		sets     []*appsv1.StatefulSet
		there    []string
		selector string
		want     []string
	}{
		{"all are there", set(2), []string{"cas-0", "cas-1"}, "app=cas", nil},
		{"the last is not", set(3), []string{"cas-0", "cas-1"}, "app=cas", []string{"cas-2"}},
		{"nor the first", set(12), []string{"cas-1", "cas-2", "cas-3", "cas-4", "cas-5", "cas-6", "cas-7", "cas-8"}, "app=cas", []string{"cas-0", "cas-9", "cas-10", "cas-11"}},
		{"none is", set(2), nil, "app=cas", []string{"cas-0", "cas-1"}},
		{"it counts from five", set(2, func(s *appsv1.StatefulSet) { s.Spec.Ordinals = &appsv1.StatefulSetOrdinals{Start: 5} }), []string{"cas-5"}, "app=cas", []string{"cas-6"}},
		{"one, where no number is said", set(0, func(s *appsv1.StatefulSet) { s.Spec.Replicas = nil }), nil, "app=cas", []string{"cas-0"}},
		{"none wanted", set(0), nil, "app=cas", nil},
		{"beyond what is wanted", set(1), []string{"cas-0", "cas-1"}, "app=cas", nil},
		{"another's", set(2), nil, "app=other", nil},
		{"by pod's name", set(3), []string{"cas-0"}, "statefulset.kubernetes.io/pod-name in (cas-0, cas-1)", []string{"cas-1"}},
		{"by pod's number", set(3), []string{"cas-0"}, "apps.kubernetes.io/pod-index=2", []string{"cas-2"}},
		{"by what admission adds", set(2), []string{"cas-0"}, api.LabelInjected + "=cassandra", []string{"cas-1"}},
		{"it is being deleted", set(2, func(s *appsv1.StatefulSet) { s.DeletionTimestamp = new(metav1.NewTime(today)) }), []string{"cas-0"}, "app=cas", nil},
		{"a rack without a pod yet", append(set(1), set(2, rack)...), []string{"cas-0"}, "app=cas", []string{"rack-0", "rack-1"}},
		{"a rack that is another's", append(set(1), set(2, rack, func(s *appsv1.StatefulSet) { s.Spec.Template.Labels = nil })...), []string{"cas-0"}, "app=cas", nil},
	} {
		var pods []*corev1.Pod
		for _, name := range c.there {
			pods = append(pods, factPod(name))
		}
		selector, err := labels.Parse(c.selector)
		if err != nil {
			t.Fatal(err)
		}
		if got := awaited(c.sets, pods, selector); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.what, got, c.want)
		}
	}
}

// TestAcceptAwaits: a selector takes all or waits, names are taken as they are.
func TestAcceptAwaits(t *testing.T) {
	lacks := func(f *Facts) { f.Awaited = []string{"cas-2", "cas-3"} }
	gone := func(f *Facts) { f.Pods, f.Kin = nil, nil }
	for _, c := range []struct {
		what   string
		change []func(*Facts)
		reason string
		wait   bool
		says   []string
	}{
		{"all are there", []func(*Facts){spec(selectApp)}, "", false, nil},
		{"two are not", []func(*Facts){spec(selectApp), lacks}, ReasonPodNotFound, true, []string{"waits for cas-2, cas-3", "StatefulSet", "cancel", "spec.pods.names"}},
		{"none is", []func(*Facts){spec(selectApp), lacks, gone}, ReasonPodNotFound, true, []string{"cas-2, cas-3"}},
		{"what does not pass is told first", []func(*Facts){spec(selectApp), lacks, pod0(func(p *corev1.Pod) { p.OwnerReferences = nil })}, ReasonNoStableName, false, nil},
		{"another's turn is, too", []func(*Facts){spec(selectApp), lacks, other(time.Hour, nil)}, ReasonBusy, true, nil},
		{"a dry run tells in its plan", []func(*Facts){spec(selectApp), lacks, spec(func(s *api.RestoreSpec) { s.DryRun = true })}, "", false, nil},
	} {
		_, p := Accept(facts(2, 2, c.change...))
		if !problemIs(p, c.reason) || p != nil && p.Wait != c.wait {
			t.Errorf("%s: %+v", c.what, p)
			continue
		}
		for _, says := range c.says {
			if !strings.Contains(p.Message, says) {
				t.Errorf("%s: %q does not say %q", c.what, p.Message, says)
			}
		}
	}
	dry := facts(2, 2, spec(selectApp), lacks, spec(func(s *api.RestoreSpec) { s.DryRun = true }))
	if _, message, p := Plan(dry); p != nil || !strings.Contains(message, "For now it would wait: waits for cas-2, cas-3") {
		t.Errorf("a dry run: %+v %s", p, message)
	}
}

// TestAwaitsUntilDeadline: a pod that never comes ends it, in words that name the pod.
func TestAwaitsUntilDeadline(t *testing.T) {
	r := fresh(func(r *api.Restore) { selectApp(&r.Spec) })
	f := facts(1, 1, spec(selectApp), func(f *Facts) { f.Awaited = []string{"cas-1"} })
	_, p := Accept(f)
	v := &verdict{problem: p}
	s := accept(r, v, today.Add(time.Minute))
	if is, _ := condition(&s.status, api.ConditionAccepted); is || s.status.Phase != api.RestoreWaiting || s.after <= 0 || s.after > 30*time.Second {
		t.Fatalf("%+v, looked at again after %s", s.status, s.after)
	}
	r.Status = s.status
	s = accept(r, v, today.Add(26*time.Hour))
	if s.status.Phase != api.RestoreFailed || !strings.Contains(s.status.Message, "deadline") || !strings.Contains(s.status.Message, "cas-1") || len(s.status.Pods) > 0 {
		t.Errorf("%+v", s.status)
	}
}

// TestFactsOfSelector reads StatefulSets and pods as the API server has them.
func TestFactsOfSelector(t *testing.T) {
	rack := factSet(1, templated, func(s *appsv1.StatefulSet) { s.Name, s.UID = "rack", "rack" })
	strange := factPod("rack-0", func(p *corev1.Pod) { p.Labels = nil }) // there, and not meant
	for _, c := range []struct {
		what    string
		change  func(*api.Restore)
		objects []client.Object
		want    []string
	}{
		{"by selector", func(*api.Restore) {}, nil, []string{"cas-1", "rack-0"}},
		{"there with other labels", func(*api.Restore) {}, []client.Object{strange}, []string{"cas-1"}},
		{"by name", func(r *api.Restore) { r.Spec.Pods = api.RestorePods{Names: []string{"cas-0"}} }, nil, nil},
		{"once it is settled", func(r *api.Restore) {
			r.Status = accept(r, &verdict{names: []string{"cas-0"}}, today).status
		}, nil, nil},
		{"a dry run that is settled", func(r *api.Restore) {
			r.Spec.DryRun = true
			r.Status = accept(r, &verdict{names: []string{"cas-0"}}, today).status
		}, nil, []string{"cas-1", "rack-0"}},
	} {
		r := fresh(func(r *api.Restore) { selectApp(&r.Spec); c.change(r) })
		l, _ := liveOn(t, interceptor.Funcs{}, append([]client.Object{labelledNamespace(), r, factPod("cas-0"), factSet(2, templated), rack}, c.objects...)...)
		f, err := reconcilerOn(l, &sidecars{reports: map[string]node.Report{}}, nil).facts(t.Context(), r)
		if err != nil || !slices.Equal(f.Awaited, c.want) || f.Sets["cas"] == nil {
			t.Errorf("%s: awaited %q, want %q; sets %v, %v", c.what, f.Awaited, c.want, f.Sets, err)
		}
	}
}

// TestCrashesAfterLoss asks for all pods by selector while some or all are yet to be
// made, as right after the workload was applied anew, and wants each restored, and all
// of them or none at any time.
func TestCrashesAfterLoss(t *testing.T) {
	waited := 0
	for _, seed := range seeds(300) {
		s := newSim(seed)
		s.ask()
		s.restore_.Spec.Mode, s.restore_.Spec.Source = api.InPlace, nil
		selectApp(&s.restore_.Spec)
		for i := s.rand.IntN(s.replicas + 1); i < s.replicas; i++ {
			delete(s.pods_, fmt.Sprintf("cas-%d", i))
		}
		s.crashes, s.flakes = 0.1*s.rand.Float64(), 0.05*s.rand.Float64()
		missing := len(s.pods_) < s.replicas
		s.play(20000, func(i int) {
			if i == 200 {
				s.crashes, s.flakes = 0, 0
			}
			if n := len(s.restore_.Status.Pods); n > 0 && n < s.replicas {
				s.wrong("%d of %d pods are settled", n, s.replicas)
			}
		})
		if s.restore_.Status.Phase != api.RestoreCompleted || held(s.restore_) {
			s.wrong("it ended as %s, held %v: %s", s.restore_.Status.Phase, held(s.restore_), s.restore_.Status.Message)
		}
		for name, d := range s.disks {
			if d.runs != 1 || d.half {
				s.wrong("%s was restored %d times, half %v", name, d.runs, d.half)
			}
		}
		if missing && strings.Contains(strings.Join(s.log, "\n"), ReasonPodNotFound+": waits for") {
			waited++
		}
		if len(s.problems) > 0 {
			s.report(t, seed)
		}
	}
	if *seedFlag == 0 && waited < 100 {
		t.Errorf("only %d have waited for a pod: too little happens for this to show anything", waited)
	}
}
