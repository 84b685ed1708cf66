package backup

import (
	"context"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/sidecar/sidecartest"
)

// setName is the StatefulSet's of each cluster.
const setName = "ring"

// Ring is a cluster in a namespace of its own.
type Ring struct {
	*Env
	Namespace string
	Size      int
	Storage   *sidecartest.Storage
	// Work says how a backup of a node goes.
	Work func(pod string) func(name string, full bool) sidecartest.Work
}

// NewRing makes a cluster and waits until its pods run, but those whose names are in
// absent.
func (e *Env) NewRing(ctx context.Context, namespace string, size int, work func(pod string) func(string, bool) sidecartest.Work, absent ...string) (*Ring, error) {
	r := &Ring{Env: e, Namespace: namespace, Size: size, Work: work}
	r.Storage = sidecartest.NewStorage(r.Pods()...)
	if err := e.CreateNamespace(ctx, namespace, map[string]string{api.LabelInject: api.InjectEnabled}, nil); err != nil {
		return nil, err
	}
	if err := e.Objects.Create(ctx, r.set()); err != nil {
		return nil, fmt.Errorf("making a StatefulSet: %w", err)
	}
	for _, name := range r.Pods() {
		if slices.Contains(absent, name) {
			continue
		}
		if err := r.Run(ctx, name); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// Pods are the names of all pods.
func (r *Ring) Pods() (names []string) {
	for i := range r.Size {
		names = append(names, fmt.Sprintf("%s-%d", setName, i))
	}
	return names
}

// Run waits for a pod and runs it.
func (r *Ring) Run(ctx context.Context, name string) error {
	var pod corev1.Pod
	return await(ctx, 5*time.Minute, "pod "+r.Namespace+"/"+name, func(ctx context.Context) (bool, error) {
		if err := r.Objects.Get(ctx, client.ObjectKey{Namespace: r.Namespace, Name: name}, &pod); err != nil {
			return false, err
		}
		if pod.DeletionTimestamp != nil || pod.Status.PodIP != "" {
			return false, nil
		}
		of := sidecartest.Node{Name: name, Storage: r.Storage, Alone: true}
		if r.Work != nil {
			of.Work = r.Work(name)
		}
		err := r.Node.Run(ctx, &pod, r.Namespace, of)
		return err == nil, err
	})
}

// Ask makes a Backup of the StatefulSet.
func (r *Ring) Ask(ctx context.Context, name string, spec api.BackupSpec) error {
	spec.Pods = &api.BackupPods{Workload: &api.BackupWorkload{Kind: "StatefulSet", Name: setName}}
	return r.Objects.Create(ctx, &api.Backup{ObjectMeta: metav1.ObjectMeta{Namespace: r.Namespace, Name: name}, Spec: spec})
}

// Until waits until a Backup is as wanted. Errors are those of an API server that is
// away.
func (r *Ring) Until(ctx context.Context, name string, limit time.Duration, what string, holds func(*api.Backup) bool) (*api.Backup, error) {
	var b api.Backup
	err := await(ctx, limit, "Backup "+r.Namespace+"/"+name+" to be "+what, func(ctx context.Context) (bool, error) {
		b = api.Backup{}
		err := r.Objects.Get(ctx, client.ObjectKey{Namespace: r.Namespace, Name: name}, &b)
		return err == nil && holds(&b), err
	})
	if err != nil {
		return &b, fmt.Errorf("%w; it is %s: %s %+v", err, b.Status.Phase, b.Status.Message, b.Status.Pods)
	}
	return &b, nil
}

// Ends waits until a Backup is final.
func (r *Ring) Ends(ctx context.Context, name string, limit time.Duration) (*api.Backup, error) {
	return r.Until(ctx, name, limit, "final", func(b *api.Backup) bool { return b.Status.Phase.Final() })
}

func (r *Ring) set() *appsv1.StatefulSet {
	labels := map[string]string{"app": setName}
	return &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: r.Namespace, Name: setName},
		Spec: appsv1.StatefulSetSpec{
			Replicas: new(int32(r.Size)), ServiceName: setName, PodManagementPolicy: appsv1.ParallelPodManagement,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
				Containers: []corev1.Container{{Name: "cassandra", Image: "cassandra:5.0",
					Ports:        []corev1.ContainerPort{{Name: "cql", ContainerPort: 9042}, {Name: "intra-node", ContainerPort: 7000}},
					VolumeMounts: []corev1.VolumeMount{{Name: "data", MountPath: "/var/lib/cassandra"}}}},
			}},
			VolumeClaimTemplates: []corev1.PersistentVolumeClaim{{ObjectMeta: metav1.ObjectMeta{Name: "data"},
				Spec: corev1.PersistentVolumeClaimSpec{AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
					Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}}}}},
		},
	}
}
