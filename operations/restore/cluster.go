package restore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/scope"
)

// policyName is that of the ValidatingAdmissionPolicy.
const policyName = "restore-pending.stategraft.io"

// refusal is in the policy's message where it refuses a pod for the sake of a Restore.
// It also refuses, in other words, while it knows no Restores at all.
const refusal = "is to be restored by Restore %s "

// Finalizer stands on a Restore while pods may be waiting for it: a deletion opens
// the way for them first.
const Finalizer = api.Group + "/restore"

// cluster is what the controller reads and writes of the API server. Every read is
// live: an informer may lag by any time, and what is decided here deletes pods.
type cluster interface {
	restore(ctx context.Context, at types.NamespacedName) (*api.Restore, error)
	restores(ctx context.Context, namespace string) ([]api.Restore, error)
	labelled(ctx context.Context, namespace string) (bool, error)
	// marked are the namespaces that bear the label LabelRestoring, with their
	// resourceVersions: all, or the one that is named if it does.
	marked(ctx context.Context, namespace string) (map[string]string, error)
	pod(ctx context.Context, at types.NamespacedName) (*corev1.Pod, error)
	// pods reads those of the names that there are; all of the namespace for none.
	pods(ctx context.Context, namespace string, names []string) ([]*corev1.Pod, error)
	budgets(ctx context.Context, namespace string) ([]policyv1.PodDisruptionBudget, error)
	// set reads a StatefulSet; nil where there is none.
	set(ctx context.Context, at types.NamespacedName) (*appsv1.StatefulSet, error)
	sets(ctx context.Context, namespace string) ([]*appsv1.StatefulSet, error)

	writeStatus(ctx context.Context, r *api.Restore) error
	writeFinalizer(ctx context.Context, r *api.Restore, on bool) error
	mark(ctx context.Context, namespace string) error
	// unmark does so if nobody has written the namespace since that version.
	unmark(ctx context.Context, namespace, version string) error
	probe(ctx context.Context, r *api.Restore) (probe, error)
	remove(ctx context.Context, pod *corev1.Pod) error
	lift(ctx context.Context, pod *corev1.Pod) error
}

// live is the cluster by way of clients.
type live struct {
	reader    client.Reader // not cached
	writer    client.Client
	namespace string // Stategraft's own
}

func (l *live) restore(ctx context.Context, at types.NamespacedName) (*api.Restore, error) {
	r := &api.Restore{}
	err := l.reader.Get(ctx, at, r)
	if apierrors.IsNotFound(err) && apierrors.IsUnexpectedServerError(err) {
		// The kind is not served, and nothing is known of its objects.
		return nil, errors.New("the kind Restore is not served: " + err.Error())
	}
	return r, err
}

func (l *live) restores(ctx context.Context, namespace string) ([]api.Restore, error) {
	var list api.RestoreList
	if err := l.reader.List(ctx, &list, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("listing Restores: %w", err)
	}
	return list.Items, nil
}

func (l *live) labelled(ctx context.Context, namespace string) (bool, error) {
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	if err := l.reader.Get(ctx, types.NamespacedName{Name: namespace}, object); err != nil {
		return false, fmt.Errorf("reading namespace %s: %w", namespace, err)
	}
	return scope.Asks(object, l.namespace), nil
}

func (l *live) pod(ctx context.Context, at types.NamespacedName) (*corev1.Pod, error) {
	pod := &corev1.Pod{}
	return pod, l.reader.Get(ctx, at, pod)
}

// fewPods are read one by one; for more, a list of the namespace's is cheaper.
const fewPods = 5

func (l *live) pods(ctx context.Context, namespace string, names []string) (found []*corev1.Pod, err error) {
	if len(names) > 0 && len(names) <= fewPods {
		for _, name := range names {
			pod, err := l.pod(ctx, types.NamespacedName{Namespace: namespace, Name: name})
			if apierrors.IsNotFound(err) {
				continue
			} else if err != nil {
				return nil, fmt.Errorf("reading pod %s/%s: %w", namespace, name, err)
			}
			found = append(found, pod)
		}
		return found, nil
	}
	var list corev1.PodList
	if err := l.reader.List(ctx, &list, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("listing the pods of %s: %w", namespace, err)
	}
	for i := range list.Items {
		if len(names) == 0 || slices.Contains(names, list.Items[i].Name) {
			found = append(found, &list.Items[i])
		}
	}
	return found, nil
}

func (l *live) budgets(ctx context.Context, namespace string) ([]policyv1.PodDisruptionBudget, error) {
	var list policyv1.PodDisruptionBudgetList
	if err := l.reader.List(ctx, &list, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("listing the disruption budgets of %s: %w", namespace, err)
	}
	return list.Items, nil
}

func (l *live) set(ctx context.Context, at types.NamespacedName) (*appsv1.StatefulSet, error) {
	set := &appsv1.StatefulSet{}
	if err := l.reader.Get(ctx, at, set); apierrors.IsNotFound(err) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("reading StatefulSet %s: %w", at, err)
	}
	return set, nil
}

func (l *live) sets(ctx context.Context, namespace string) (found []*appsv1.StatefulSet, err error) {
	var list appsv1.StatefulSetList
	if err := l.reader.List(ctx, &list, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("listing the StatefulSets of %s: %w", namespace, err)
	}
	for i := range list.Items {
		found = append(found, &list.Items[i])
	}
	return found, nil
}

// writeStatus writes the status if nobody has written the object since it was read.
func (l *live) writeStatus(ctx context.Context, r *api.Restore) error {
	if err := l.writer.Status().Update(ctx, r); err != nil {
		return fmt.Errorf("writing the status of Restore %s/%s: %w", r.Namespace, r.Name, err)
	}
	return nil
}

// writeFinalizer touches nothing but the finalizers, if nobody has written the object
// since it was read; r gets the new resourceVersion.
func (l *live) writeFinalizer(ctx context.Context, r *api.Restore, on bool) error {
	changed := r.DeepCopy()
	if on {
		controllerutil.AddFinalizer(changed, Finalizer)
	} else {
		controllerutil.RemoveFinalizer(changed, Finalizer)
	}
	patch := client.MergeFromWithOptions(r.DeepCopy(), client.MergeFromWithOptimisticLock{})
	if err := l.writer.Patch(ctx, changed, patch); err != nil {
		return fmt.Errorf("writing the finalizers of Restore %s/%s: %w", r.Namespace, r.Name, err)
	}
	r.ObjectMeta = changed.ObjectMeta
	return nil
}

// remove deletes a pod if it is still that pod, with the grace period that it has.
func (l *live) remove(ctx context.Context, pod *corev1.Pod) error {
	target := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}}
	if err := l.writer.Delete(ctx, target, client.Preconditions{UID: &pod.UID}); err != nil {
		return fmt.Errorf("deleting pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return nil
}

// lift takes our scheduling gate off a pod that is as it was read, and no other.
func (l *live) lift(ctx context.Context, pod *corev1.Pod) error {
	body := map[string]any{
		"metadata": map[string]any{"uid": pod.UID, "resourceVersion": pod.ResourceVersion},
		"spec":     map[string]any{"schedulingGates": []any{map[string]any{"$patch": "delete", "name": api.GateRestore}}},
	}
	text, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("encoding a patch: %w", err)
	}
	target := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}}
	if err := l.writer.Patch(ctx, target, client.RawPatch(types.StrategicMergePatchType, text)); err != nil {
		return fmt.Errorf("lifting the gate of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return nil
}

// probe asks the API server, in a dry run, to create the pod of the Restore's probe
// name. What it answers from another admission plugin is told as such.
func (l *live) probe(ctx context.Context, r *api.Restore) (probe, error) {
	err := l.writer.Create(ctx, probePod(r), client.DryRunAll)
	var status apierrors.APIStatus
	switch {
	case err == nil:
		return probe{}, nil
	case strings.Contains(err.Error(), policyName) && strings.Contains(err.Error(), fmt.Sprintf(refusal, r.Name)):
		return probe{refused: true}, nil
	case strings.Contains(err.Error(), policyName):
		// It knows no Restores at the moment, or goes by another one.
		return probe{}, nil
	case asStatus(err, &status) && status.Status().Code >= 400 && status.Status().Code < 500 && !apierrors.IsTooManyRequests(err):
		return probe{other: err.Error()}, nil
	}
	return probe{}, fmt.Errorf("asking whether the pending list is known: %w", err)
}

// probePod is allowed wherever a pod is: by the restricted Pod Security Standard, and
// by quotas that ask for requests and limits.
func probePod(r *api.Restore) *corev1.Pod {
	little := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1m"), corev1.ResourceMemory: resource.MustParse("4Mi"), corev1.ResourceEphemeralStorage: resource.MustParse("1Mi")}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: r.Namespace, Name: r.Status.Probe},
		Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever, AutomountServiceAccountToken: new(false),
			SecurityContext: &corev1.PodSecurityContext{RunAsNonRoot: new(true), RunAsUser: new(int64(65532)), SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}},
			Containers: []corev1.Container{{Name: "probe", Image: "stategraft.io/probe:never", Resources: corev1.ResourceRequirements{Requests: little, Limits: little},
				SecurityContext: &corev1.SecurityContext{AllowPrivilegeEscalation: new(false), Privileged: new(false), ReadOnlyRootFilesystem: new(true), Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}}}},
		},
	}
}
