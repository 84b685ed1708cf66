package lookup

import (
	"context"
	"errors"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/yaml"

	"github.com/stategraft/stategraft/api/node"
	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/patches"
	"github.com/stategraft/stategraft/test/golden"
)

func TestPod(t *testing.T) {
	pod, err := build(injected(t)["plain-official-41"], owner())
	if err != nil {
		t.Fatal(err)
	}
	text, err := yaml.Marshal(pod)
	if err != nil {
		t.Fatal(err)
	}
	const file = "testdata/pod.yaml"
	if *golden.Update {
		if err := os.WriteFile(file, text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if want, err := os.ReadFile(file); err != nil || string(want) != string(text) {
		t.Errorf("%v: the pod is\n%s", err, text)
	}
}

// TestVolumes has what a sidecar may come to mount by others' webhooks.
func TestVolumes(t *testing.T) {
	like := injected(t)["plain-official-41"]
	medusa := &like.Spec.Containers[slices.IndexFunc(like.Spec.Containers, func(c corev1.Container) bool { return c.Name == patches.ContainerMedusa })]
	for name, source := range map[string]corev1.VolumeSource{
		"token":  {Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token"}}}}},
		"plain":  {Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{{ConfigMap: &corev1.ConfigMapProjection{}}, {Secret: &corev1.SecretProjection{}}}}},
		"host":   {HostPath: &corev1.HostPathVolumeSource{Path: "/"}},
		"secret": {Secret: &corev1.SecretVolumeSource{SecretName: "s"}},
		"unused": {PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "c"}},
	} {
		like.Spec.Volumes = append(like.Spec.Volumes, corev1.Volume{Name: name, VolumeSource: source})
		if name != "unused" {
			medusa.VolumeMounts = append(medusa.VolumeMounts, corev1.VolumeMount{Name: name, MountPath: "/" + name})
		}
	}
	medusa.Env = append(medusa.Env, corev1.EnvVar{Name: "AWS_WEB_IDENTITY_TOKEN_FILE", Value: "/token/token"})
	like.Spec.ServiceAccountName = "backup"
	pod, err := build(like, owner())
	if err != nil {
		t.Fatal(err)
	}
	for _, problem := range problems(pod) {
		t.Error(problem)
	}
	volumes := map[string]corev1.Volume{}
	for _, v := range pod.Spec.Volumes {
		volumes[v.Name] = v
	}
	_, token := volumes["token"]
	_, unused := volumes["unused"]
	if token || unused || volumes["host"].EmptyDir == nil || !*volumes["plain"].Projected.Sources[1].Secret.Optional || !*volumes["secret"].Secret.Optional {
		t.Errorf("volumes %v", slices.Sorted(maps.Keys(volumes)))
	}
	if why := Identity(like); !strings.Contains(why, "service account backup") {
		t.Errorf("of the account it says %q", why)
	}
	if why := Identity(factless()); why != "" {
		t.Error(why)
	}
}

func factless() *corev1.Pod {
	return &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: patches.ContainerMedusa}}}}
}

type nodes struct{ err error }

func (n *nodes) Report(context.Context, *corev1.Pod) (node.Report, error) {
	return node.Report{}, n.err
}

// TestCourse has a pod made, waited for, used, ended, made anew and removed.
func TestCourse(t *testing.T) {
	c := fake.NewClientBuilder().WithStatusSubresource(&corev1.Pod{}).Build()
	n := &nodes{err: errors.New("connection refused")}
	l := New(c, c, n)
	like, r := injected(t)["plain-official-41"], owner()
	ctx := t.Context()
	starting := func(says string) {
		t.Helper()
		pod, err := l.Pod(ctx, like, r)
		if pod != nil || !errors.Is(err, ErrStarting) || !strings.Contains(err.Error(), says) {
			t.Fatalf("got %v, want it to say %q", err, says)
		}
	}
	get := func() *corev1.Pod {
		pod := &corev1.Pod{}
		if err := c.Get(ctx, types.NamespacedName{Namespace: "ns", Name: Name(r)}, pod); err != nil {
			return nil
		}
		return pod
	}
	status := func(s corev1.PodStatus) {
		t.Helper()
		pod := get()
		pod.Status = s
		if err := c.Status().Update(ctx, pod); err != nil {
			t.Fatal(err)
		}
	}
	container := func(name string, state corev1.ContainerState) corev1.ContainerStatus {
		return corev1.ContainerStatus{Name: name, State: state}
	}
	running := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}

	starting("created just now")
	starting("do not run yet")
	status(corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: "0/3 nodes"}}})
	starting("0/3 nodes")
	status(corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{container(patches.ContainerMedusa, corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: "no such image"}})}})
	starting("ImagePullBackOff no such image")
	up := corev1.PodStatus{Phase: corev1.PodRunning, PodIP: "10.0.0.1", ContainerStatuses: []corev1.ContainerStatus{container(patches.ContainerAgent, running), container(patches.ContainerMedusa, running)}}
	status(up)
	starting("connection refused")
	n.err = nil
	pod, err := l.Pod(ctx, like, r)
	if err != nil || pod.Status.PodIP != "10.0.0.1" {
		t.Fatal(pod, err)
	}

	// By its deadline, and by a container that ends.
	for _, s := range []corev1.PodStatus{{Phase: corev1.PodFailed, Reason: "DeadlineExceeded"},
		{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{container(patches.ContainerAgent, corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 3, Message: "why"}})}}} {
		status(s)
		starting("made anew")
		if get() != nil {
			t.Fatal("what has ended stays")
		}
		starting("created just now")
	}

	// Another Restore of the same name does not take it, nor remove it.
	again := r.DeepCopy()
	again.UID = "other"
	if Name(again) == Name(r) {
		t.Error("a Restore that is made anew gets the pod of the one before")
	}
	if err := l.Remove(ctx, again); err != nil || get() == nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := l.Remove(ctx, r); err != nil || get() != nil {
			t.Fatal(err)
		}
	}
}

func TestStrangersPod(t *testing.T) {
	r := owner()
	c := fake.NewClientBuilder().WithObjects(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: Name(r)}}).Build()
	l := New(c, c, nil)
	if _, err := l.Pod(t.Context(), factless(), r); err == nil || errors.Is(err, ErrStarting) || !strings.Contains(err.Error(), "somebody else's") {
		t.Error(err)
	}
	if err := l.Remove(t.Context(), r); err != nil {
		t.Error(err)
	}
	pod := &corev1.Pod{}
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: "ns", Name: Name(r)}, pod); err != nil {
		t.Error("it is removed:", err)
	}
}

func TestNotLike(t *testing.T) {
	c := fake.NewClientBuilder().Build()
	if _, err := New(c, c, nil).Pod(t.Context(), &corev1.Pod{}, owner()); !errors.Is(err, ErrNotLike) {
		t.Error(err)
	}
	if Name(owner()) == Name(&api.Restore{}) {
		t.Error("all have one name")
	}
}
