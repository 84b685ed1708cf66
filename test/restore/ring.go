package restore

import (
	"context"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stategraft/stategraft/api/node"
	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/test/restore/simulated"
)

// ring is a StatefulSet of Cassandra in a namespace of its own.
type ring struct {
	*Env
	ns   string
	size int
}

const (
	setName = "ring"
	nightly = "nightly" // the backup that is there of every node
)

// readyLimit is how long a ring may take to be ready, interrupted by others' tests.
const readyLimit = 5 * time.Minute

// newRing makes a ring, with backups, and waits until it is ready and injected.
func (e *Env) newRing(ctx context.Context, ns string, size int, policy appsv1.PodManagementPolicyType) (*ring, error) {
	r := &ring{Env: e, ns: ns, size: size}
	if err := e.namespace(ctx, ns, map[string]string{api.LabelInject: api.InjectEnabled}); err != nil {
		return nil, err
	}
	storage := e.Node.Storage(ns)
	storage.Add(nightly, time.Now().Add(-2*time.Hour), r.pods(), nil, nil)
	storage.Add("broken", time.Now().Add(-time.Hour), r.pods()[1:], r.pods()[:1], nil)
	set := statefulSet(ns, size, policy)
	if err := e.try(ctx, "the StatefulSet to be made", func(ctx context.Context) error {
		return client.IgnoreAlreadyExists(e.Objects.Create(ctx, set.DeepCopy()))
	}); err != nil {
		return nil, err
	}
	return r, r.ready(ctx, true)
}

// namespace makes a namespace and waits for its ServiceAccount.
func (e *Env) namespace(ctx context.Context, name string, labels map[string]string) error {
	if err := e.try(ctx, "the namespace to be made", func(ctx context.Context) error {
		return client.IgnoreAlreadyExists(e.Objects.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}))
	}); err != nil {
		return err
	}
	return e.try(ctx, "the ServiceAccount of the namespace", func(ctx context.Context) error {
		return e.Objects.Get(ctx, client.ObjectKey{Namespace: name, Name: "default"}, &corev1.ServiceAccount{})
	})
}

func statefulSet(ns string, size int, policy appsv1.PodManagementPolicyType) *appsv1.StatefulSet {
	labels := map[string]string{"app": setName}
	return &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: setName},
		Spec: appsv1.StatefulSetSpec{
			Replicas: new(int32(size)), ServiceName: setName, PodManagementPolicy: policy,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
				TerminationGracePeriodSeconds: new(int64(30)),
				Containers: []corev1.Container{{Name: "cassandra", Image: "cassandra:5.0",
					Ports:        []corev1.ContainerPort{{Name: "cql", ContainerPort: 9042}, {Name: "intra-node", ContainerPort: 7000}},
					VolumeMounts: []corev1.VolumeMount{{Name: "data", MountPath: "/var/lib/cassandra"}}}},
			}},
			VolumeClaimTemplates: []corev1.PersistentVolumeClaim{{ObjectMeta: metav1.ObjectMeta{Name: "data"},
				Spec: corev1.PersistentVolumeClaimSpec{AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, StorageClassName: new(""),
					Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("100Gi")}}}}},
		},
	}
}

// pods are the names of its pods.
func (r *ring) pods() []string {
	var names []string
	for i := range r.size {
		names = append(names, fmt.Sprintf("%s-%d", setName, i))
	}
	return names
}

// volume is what is on a pod's volume.
func (r *ring) volume(pod string) *simulated.Volume {
	if v := r.Node.Volume(r.ns, "data-"+pod); v != nil {
		return v
	}
	return simulated.NewVolume("no volume")
}

// ready waits until all pods are ready and none is gated or being deleted. Those that
// came while the webhook was away are made anew where they are to be injected.
func (r *ring) ready(ctx context.Context, injected bool) error {
	return r.await(ctx, readyLimit, "the ring to be ready", func(ctx context.Context) (bool, error) {
		pods, err := r.read(ctx)
		if err != nil {
			return false, err
		}
		ready := 0
		for _, name := range r.pods() {
			pod := pods[name]
			switch {
			case pod == nil || pod.DeletionTimestamp != nil:
			case injected && !serves(pod):
				_ = r.Objects.Delete(ctx, pod, client.Preconditions{UID: &pod.UID})
			case len(pod.Spec.SchedulingGates) == 0 && isReady(pod):
				ready++
			}
		}
		return ready == r.size, nil
	})
}

// read reads its pods.
func (r *ring) read(ctx context.Context) (map[string]*corev1.Pod, error) {
	var list corev1.PodList
	// Another scenario may restart the API server.
	for tries := 600; ; tries-- {
		err := r.Objects.List(ctx, &list, client.InNamespace(r.ns))
		if err == nil {
			break
		}
		if tries == 0 || ctx.Err() != nil {
			return nil, err
		}
		pause(ctx, 300*time.Millisecond)
	}
	pods := map[string]*corev1.Pod{}
	for i := range list.Items {
		pods[list.Items[i].Name] = &list.Items[i]
	}
	return pods, nil
}

func serves(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.Containers, func(c corev1.Container) bool {
		return slices.ContainsFunc(c.Ports, func(p corev1.ContainerPort) bool { return p.Name == node.PortName })
	})
}

func isReady(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// restore is a Restore of the ring: by selector where no pods are named.
func (r *ring) restore(name, backup string, pods ...string) *api.Restore {
	o := &api.Restore{ObjectMeta: metav1.ObjectMeta{Namespace: r.ns, Name: name}, Spec: api.RestoreSpec{Backup: backup}}
	if o.Spec.Pods.Names = pods; len(pods) == 0 {
		o.Spec.Pods.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": setName}}
	}
	return o
}

// ask makes a Restore.
func (r *ring) ask(ctx context.Context, o *api.Restore) error {
	return r.try(ctx, "Restore "+o.Name+" to be made", func(ctx context.Context) error {
		return client.IgnoreAlreadyExists(r.Objects.Create(ctx, o.DeepCopy()))
	})
}

// get reads a Restore.
func (r *ring) get(ctx context.Context, name string) (*api.Restore, error) {
	var o api.Restore
	err := r.Objects.Get(ctx, client.ObjectKey{Namespace: r.ns, Name: name}, &o)
	return &o, err
}

// until waits until a Restore is as wanted.
func (r *ring) until(ctx context.Context, limit time.Duration, name, what string, done func(*api.Restore) bool) (o *api.Restore, err error) {
	err = r.await(ctx, limit, "Restore "+name+" to be "+what, func(ctx context.Context) (bool, error) {
		if o, err = r.get(ctx, name); err != nil {
			return false, err
		}
		return done(o), nil
	})
	if err != nil && o != nil {
		err = fmt.Errorf("%w; it is %s: %s", err, o.Status.Phase, o.Status.Message)
	}
	return o, err
}

// final waits until nothing further happens.
func (r *ring) final(ctx context.Context, limit time.Duration, name string) (*api.Restore, error) {
	return r.until(ctx, limit, name, "final", func(o *api.Restore) bool { return o.Status.Phase.Final() })
}

// remove deletes a Restore and waits until it is gone.
func (r *ring) remove(ctx context.Context, name string) error {
	return r.await(ctx, patience, "Restore "+name+" to be gone", func(ctx context.Context) (bool, error) {
		o, err := r.get(ctx, name)
		if apierrors.IsNotFound(err) {
			return true, nil
		}
		if err == nil && o.DeletionTimestamp == nil {
			err = r.Objects.Delete(ctx, o)
		}
		return false, err
	})
}

// patch changes the spec or the metadata of an object.
func (r *ring) patch(ctx context.Context, o client.Object, text string) error {
	return r.try(ctx, "a change of "+o.GetName(), func(ctx context.Context) error {
		return r.Objects.Patch(ctx, o, client.RawPatch(types.MergePatchType, []byte(text)))
	})
}

// discard removes the ring, with all that is in its namespace. It does not wait.
func (r *ring) discard(ctx context.Context) {
	_ = r.try(ctx, "the ring to be removed", func(ctx context.Context) error {
		return client.IgnoreNotFound(r.Objects.Delete(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: r.ns}}))
	})
}
