package restore

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	api "github.com/stategraft/stategraft/api/v1alpha1"
)

func scheme(t testing.TB) *runtime.Scheme {
	t.Helper()
	s := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(s), api.AddToScheme(s)); err != nil {
		t.Fatal(err)
	}
	return s
}

// liveOn is the cluster by way of a fake client, with the objects.
func liveOn(t testing.TB, funcs interceptor.Funcs, objects ...client.Object) (*live, client.Client) {
	t.Helper()
	c := fake.NewClientBuilder().WithScheme(scheme(t)).WithStatusSubresource(&api.Restore{}, &corev1.Pod{}).WithInterceptorFuncs(funcs).WithObjects(objects...).Build()
	return &live{reader: c, writer: c, namespace: "stategraft"}, c
}

func TestRemoveOnlyThatPod(t *testing.T) {
	var asked client.DeleteOptions
	l, _ := liveOn(t, interceptor.Funcs{Delete: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.DeleteOption) error {
		asked.ApplyOptions(options)
		return c.Delete(ctx, object, options...)
	}}, coursePod("a"))
	if err := l.remove(t.Context(), coursePod("a")); err != nil {
		t.Fatal(err)
	}
	if asked.Preconditions == nil || *asked.Preconditions.UID != "uid" || asked.GracePeriodSeconds != nil || asked.Preconditions.ResourceVersion != nil {
		t.Errorf("it is deleted with %+v", asked)
	}
	if err := l.remove(t.Context(), coursePod("a")); !outdated(err) {
		t.Errorf("deleting what is gone: %v", err)
	}
}

func TestLiftOnlyOurGate(t *testing.T) {
	l, c := liveOn(t, interceptor.Funcs{}, coursePod("a", with("r/1"), withGate))
	pod, err := l.pod(t.Context(), types.NamespacedName{Namespace: "ns", Name: "a"})
	if err != nil {
		t.Fatal(err)
	}
	stale := pod.DeepCopy()
	if err := l.lift(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	var after corev1.Pod
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(pod), &after); err != nil {
		t.Fatal(err)
	}
	if len(after.Spec.SchedulingGates) != 1 || after.Spec.SchedulingGates[0].Name != "others.io/gate" || len(after.Spec.InitContainers) != 2 {
		t.Errorf("it has gates %v and %d init containers", after.Spec.SchedulingGates, len(after.Spec.InitContainers))
	}
	if err := l.lift(t.Context(), stale); !apierrors.IsConflict(err) {
		t.Errorf("lifting of a pod that has changed: %v", err)
	}
}

func TestFinalizer(t *testing.T) {
	r := begun(func(r *api.Restore) { r.Finalizers = []string{"others.io/x"} })
	l, c := liveOn(t, interceptor.Funcs{}, r)
	read := func() *api.Restore {
		got, err := l.restore(t.Context(), nameOf(r))
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	got := read()
	stale := got.DeepCopy()
	if err := l.writeFinalizer(t.Context(), got, true); err != nil {
		t.Fatal(err)
	}
	if now := read(); len(now.Finalizers) != 2 || now.ResourceVersion != got.ResourceVersion || len(now.Status.Pods) != 3 {
		t.Errorf("it is %+v", now)
	}
	if err := l.writeFinalizer(t.Context(), stale, true); !apierrors.IsConflict(err) {
		t.Errorf("writing to an object that has changed: %v", err)
	}
	got.Status.Message = "new"
	if err := l.writeStatus(t.Context(), got); err != nil {
		t.Fatal(err)
	}
	if err := l.writeStatus(t.Context(), stale); !apierrors.IsConflict(err) {
		t.Errorf("writing the status of an object that has changed: %v", err)
	}
	got = read()
	if err := l.writeFinalizer(t.Context(), got, false); err != nil {
		t.Fatal(err)
	}
	if now := read(); len(now.Finalizers) != 1 || now.Finalizers[0] != "others.io/x" || now.Status.Message != "new" {
		t.Errorf("it is %+v", now)
	}
	if err := c.Delete(t.Context(), read()); err != nil {
		t.Fatal(err)
	}
}

func TestProbe(t *testing.T) {
	forbidden := func(text string) error {
		return apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "stategraft-probe-1", errors.New(text))
	}
	for name, c := range map[string]struct {
		answer error
		want   probe
		fails  bool
	}{
		"admitted":                {nil, probe{}, false},
		"refused by the policy":   {forbidden("ValidatingAdmissionPolicy 'restore-pending.stategraft.io' with binding 'restore-pending.stategraft.io' denied request: pod ns/stategraft-probe-1 is to be restored by Restore r and has no init container …"), probe{refused: true}, false},
		"refused for another":     {forbidden("ValidatingAdmissionPolicy 'restore-pending.stategraft.io' with binding 'restore-pending.stategraft.io' denied request: pod ns/stategraft-probe-1 is to be restored by Restore r2 and has …"), probe{}, false},
		"no Restores are known":   {forbidden("ValidatingAdmissionPolicy 'restore-pending.stategraft.io' with binding 'restore-pending.stategraft.io' denied request: failed to configure policy: …"), probe{}, false},
		"refused by another":      {forbidden("exceeded quota: q"), probe{other: `pods "stategraft-probe-1" is forbidden: exceeded quota: q`}, false},
		"the API server is down":  {errors.New("connection refused"), probe{}, true},
		"the API server is busy":  {apierrors.NewTooManyRequests("later", 1), probe{}, true},
		"the API server fails":    {apierrors.NewInternalError(errors.New("no")), probe{}, true},
		"the API server is older": {apierrors.NewServiceUnavailable("no"), probe{}, true},
	} {
		created := 0
		l, _ := liveOn(t, interceptor.Funcs{Create: func(_ context.Context, _ client.WithWatch, object client.Object, options ...client.CreateOption) error {
			created++
			var o client.CreateOptions
			o.ApplyOptions(options)
			if len(o.DryRun) != 1 || o.DryRun[0] != metav1.DryRunAll || object.GetName() != "stategraft-probe-1" || object.GetNamespace() != "ns" {
				t.Errorf("%s: creates %s with %+v", name, object.GetName(), o)
			}
			return c.answer
		}})
		got, err := l.probe(t.Context(), &api.Restore{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "r"}, Status: api.RestoreStatus{Probe: "stategraft-probe-1"}})
		if got != c.want || (err != nil) != c.fails || created != 1 {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

func TestPodsAreFound(t *testing.T) {
	var objects []client.Object
	for _, name := range []string{"a", "b", "c", "d", "e", "f", "g"} {
		objects = append(objects, coursePod(name))
	}
	other := coursePod("a")
	other.Namespace = "others"
	l, _ := liveOn(t, interceptor.Funcs{}, append(objects, other)...)
	for _, c := range []struct {
		names []string
		want  int
	}{{nil, 7}, {[]string{"a"}, 1}, {[]string{"a", "z"}, 1}, {[]string{"a", "b", "c", "d", "e", "f", "z"}, 6}, {[]string{"z"}, 0}} {
		pods, err := l.pods(t.Context(), "ns", c.names)
		if err != nil || len(pods) != c.want {
			t.Errorf("of %v there are %d: %v", c.names, len(pods), err)
		}
	}
}

func TestLabelled(t *testing.T) {
	ns := func(name, value string) *corev1.Namespace {
		return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{api.LabelInject: value}}}
	}
	l, _ := liveOn(t, interceptor.Funcs{}, ns("yes", api.InjectEnabled), ns("no", api.InjectDisabled), ns("stategraft", api.InjectEnabled))
	for name, want := range map[string]bool{"yes": true, "no": false, "stategraft": false} {
		if got, err := l.labelled(t.Context(), name); got != want || err != nil {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	if _, err := l.labelled(t.Context(), "none"); err == nil {
		t.Error("a namespace that is not there is found")
	}
}
