package heal

import (
	"context"
	"slices"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/stategraft/stategraft/api/v1alpha1"
)

// databaseSpec is a Cassandra that asks for some CPUs.
func databaseSpec(cpu string) corev1.PodSpec {
	return corev1.PodSpec{
		Containers: []corev1.Container{{Name: "cassandra", Image: "cassandra:4.1", Ports: []corev1.ContainerPort{{ContainerPort: 9042}, {ContainerPort: 7000}},
			Resources:    corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}},
			VolumeMounts: []corev1.VolumeMount{{Name: "data", MountPath: "/var/lib/cassandra"}}}},
		Volumes:       []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}},
		NodeSelector:  map[string]string{corev1.LabelHostname: "large"},
		RestartPolicy: corev1.RestartPolicyAlways,
	}
}

// createSet makes a StatefulSet of databases.
func createSet(ctx context.Context, t *testing.T, namespace, name string, replicas int32, change func(*corev1.PodTemplateSpec)) *appsv1.StatefulSet {
	t.Helper()
	labels := map[string]string{"app": name}
	set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: appsv1.StatefulSetSpec{
		Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels}, ServiceName: name,
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: databaseSpec("500m")}}}
	if change != nil {
		change(&set.Spec.Template)
	}
	if err := rig.client.Create(ctx, set); err != nil {
		t.Fatal(err)
	}
	return set
}

func get(ctx context.Context, namespace, name string) (*corev1.Pod, error) {
	pod := &corev1.Pod{}
	err := rig.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, pod)
	return pod, err
}

// awaitPod waits for a pod to be as is wanted, even if only for a moment.
func awaitPod(ctx context.Context, t *testing.T, namespace, name, what string, good func(*corev1.Pod) bool) (found *corev1.Pod) {
	t.Helper()
	awaitSeen(ctx, t, "pod "+name+" to be "+what, &corev1.PodList{}, namespace, name, func(object runtime.Object) bool {
		pod, ok := object.(*corev1.Pod)
		if ok && good(pod) {
			found = pod
		}
		return found != nil
	})
	return found
}

// awaitSeen watches an object until one of its states is good: who looks now and then
// misses what does not last.
func awaitSeen(ctx context.Context, t *testing.T, what string, list client.ObjectList, namespace, name string, good func(runtime.Object) bool) {
	t.Helper()
	for ctx.Err() == nil {
		watching, err := rig.client.Watch(ctx, list, client.InNamespace(namespace), client.MatchingFields{metav1.ObjectNameField: name})
		if err != nil && ctx.Err() == nil {
			t.Fatalf("waiting for %s: %v", what, err)
		}
		for err == nil {
			event, open := <-watching.ResultChan()
			if open && event.Type != watch.Deleted && good(event.Object) {
				watching.Stop()
				return
			}
			if !open || event.Type == watch.Error {
				watching.Stop()
				break
			}
		}
	}
	t.Fatalf("waiting for %s: %v", what, context.Cause(ctx))
}

func injected(pod *corev1.Pod) bool {
	return slices.ContainsFunc(parts(pod), func(p part) bool { return p.own })
}

func healthy(pod *corev1.Pod) bool { return isReady(pod) && pod.DeletionTimestamp == nil }

func degradedAs(reason string) func(*corev1.Pod) bool {
	return func(pod *corev1.Pod) bool {
		c := degraded(pod)
		return c != nil && c.Reason == reason
	}
}

// entry reads what the ConfigMap holds of a StatefulSet.
func entry(ctx context.Context, t *testing.T, namespace, name string) (api.HeldBack, bool) {
	t.Helper()
	var config corev1.ConfigMap
	err := rig.client.Get(ctx, client.ObjectKey{Namespace: home, Name: api.HeldBackConfigMap}, &config)
	if apierrors.IsNotFound(err) {
		return api.HeldBack{}, false
	}
	if err != nil {
		t.Fatal(err)
	}
	return entryIn(t, &config, namespace, name)
}

func entryIn(t *testing.T, config *corev1.ConfigMap, namespace, name string) (api.HeldBack, bool) {
	t.Helper()
	text, ok := config.Data[api.HeldBackKey(namespace, "StatefulSet", name)]
	if !ok {
		return api.HeldBack{}, false
	}
	h, err := api.ParseHeldBack(text)
	if err != nil {
		t.Fatal(err)
	}
	return h, true
}

// awaitEvent waits for an event, which is written some time after what it is about.
func awaitEvent(ctx context.Context, t *testing.T, namespace, kind, name, reason string) {
	t.Helper()
	await(ctx, t, "event "+reason+" of "+kind+" "+name, func() (bool, error) {
		var list eventsv1.EventList
		err := rig.client.List(ctx, &list, client.InNamespace(namespace))
		return slices.ContainsFunc(list.Items, func(e eventsv1.Event) bool {
			return e.Reason == reason && e.Regarding.Kind == kind && e.Regarding.Name == name
		}), err
	})
}

func recreate(ctx context.Context, t *testing.T, pod *corev1.Pod) {
	t.Helper()
	if err := rig.client.Delete(ctx, pod); err != nil {
		t.Fatal(err)
	}
	await(ctx, t, "pod "+pod.Name+" to be another", func() (bool, error) {
		now, err := get(ctx, pod.Namespace, pod.Name)
		return err == nil && now.UID != pod.UID, client.IgnoreNotFound(err)
	})
}

// untouched tells whether a container is the one that it was.
func untouched(t *testing.T, before, after *corev1.Pod, name string) {
	t.Helper()
	was, is := statusOf(t, before, name), statusOf(t, after, name)
	if before.UID != after.UID || is.RestartCount != was.RestartCount || is.ContainerID != was.ContainerID || was.ContainerID == "" ||
		containerOf(t, before, name).Image != containerOf(t, after, name).Image {
		t.Errorf("container %s was touched: %+v, before %+v", name, is, was)
	}
}

// annotateNamespace changes annotations and waits until the webhook knows.
func annotateNamespace(ctx context.Context, t *testing.T, name string, annotations map[string]any) {
	t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if err := rig.client.Patch(ctx, ns, strategic(map[string]any{"metadata": map[string]any{"annotations": annotations}})); err != nil {
		t.Fatal(err)
	}
	await(ctx, t, "the webhook to know of the annotations", func() (bool, error) {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: "probe"}, Spec: databaseSpec("1")}
		err := rig.client.Create(ctx, pod, client.DryRunAll)
		return err == nil && containerOf(t, pod, medusa).Image == annotations[api.AnnotationMedusaImage], err
	})
}

func unwritten(ctx context.Context, t *testing.T, set *appsv1.StatefulSet) {
	t.Helper()
	var now appsv1.StatefulSet
	if err := rig.client.Get(ctx, client.ObjectKeyFromObject(set), &now); err != nil {
		t.Fatal(err)
	}
	if now.Generation != 1 || len(now.Annotations)+len(now.Labels) > 0 {
		t.Errorf("the StatefulSet was written to: %+v", now.ObjectMeta)
	}
}

// refuse makes a policy for a namespace and waits until it is in force.
func refuse(ctx context.Context, t *testing.T, namespace, expression string) {
	t.Helper()
	policy := &admissionv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: namespace}, Spec: admissionv1.ValidatingAdmissionPolicySpec{
		MatchConstraints: &admissionv1.MatchResources{
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: namespace}},
			ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: admissionv1.RuleWithOperations{Operations: []admissionv1.OperationType{admissionv1.Create},
				Rule: admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}}}}}},
		Validations: []admissionv1.Validation{{Expression: expression, Message: "not allowed here"}}}}
	binding := &admissionv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: namespace}, Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
		PolicyName: namespace, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny}}}
	for _, object := range []client.Object{policy, binding} {
		if err := rig.client.Create(ctx, object); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = rig.client.Delete(context.Background(), object) })
	}
	await(ctx, t, "the policy to be in force", func() (bool, error) {
		err := rig.client.Create(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "probe"}, Spec: databaseSpec("1")}, client.DryRunAll)
		if apierrors.IsInvalid(err) || apierrors.IsForbidden(err) {
			return true, nil
		}
		return false, err
	})
}
