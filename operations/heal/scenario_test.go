package heal

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/stategraft/stategraft/api/v1alpha1"
)

// An image that cannot be pulled is healed in place, the next pod is admitted
// without us, and once the image is another, pods are injected and the workload is
// released.
func TestRigImageMissing(t *testing.T) {
	ctx, namespace := scenario(t, map[string]string{api.AnnotationMedusaImage: missingImage})
	set := createSet(ctx, t, namespace, "db", 1, nil)
	before := awaitPod(ctx, t, namespace, "db-0", "told that an image is missing", degradedAs(api.DegradedImagePull))
	if healthy(before) {
		t.Error("the pod is Ready: there is nothing to heal")
	}
	after := awaitPod(ctx, t, namespace, "db-0", "healed", func(pod *corev1.Pod) bool { return healthy(pod) && degradedAs(api.DegradedHealed)(pod) })
	untouched(t, before, after, "cassandra")
	untouched(t, before, after, agent)
	if image := containerOf(t, after, medusa).Image; image != "cassandra:4.1" {
		t.Errorf("%s idles in %s", medusa, image)
	}
	if took := time.Since(after.CreationTimestamp.Time); took < rigAfter-time.Second {
		t.Errorf("healed after %s, before the deadline", took)
	}
	held, ok := entry(ctx, t, namespace, "db")
	if !ok || held.Cause != api.CauseImagePull || len(held.Containers) != 1 || held.Containers[0] != (api.HeldContainer{Name: medusa, Image: missingImage}) {
		t.Errorf("held back as %+v (%v)", held, ok)
	}
	awaitEvent(ctx, t, namespace, "Pod", "db-0", eventHealed)
	awaitEvent(ctx, t, namespace, "StatefulSet", "db", eventHeldBack)

	recreate(ctx, t, after)
	bare := awaitPod(ctx, t, namespace, "db-0", "Ready without us", healthy)
	if injected(bare) {
		t.Error("the next pod is injected")
	}
	// A person is told why, and may have it injected all the same.
	probe := func(annotations map[string]string) bool {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "db-1", Annotations: annotations, OwnerReferences: bare.OwnerReferences}, Spec: databaseSpec("1")}
		if err := rig.client.Create(ctx, pod, client.DryRunAll); err != nil {
			t.Fatal(err)
		}
		return injected(pod)
	}
	if probe(nil) || !probe(map[string]string{api.AnnotationHeldBack: api.HeldBackIgnore}) {
		t.Errorf("the annotation says nothing")
	}

	await(ctx, t, "the next second", func() (bool, error) { return time.Now().Truncate(time.Second).After(held.Since), nil })
	annotateNamespace(ctx, t, namespace, map[string]any{api.AnnotationMedusaImage: "mended:1"})
	recreate(ctx, t, bare)
	mended := awaitPod(ctx, t, namespace, "db-0", "Ready with us", healthy)
	if !injected(mended) || degraded(mended) != nil {
		t.Error("the image is another, and the pod is not injected")
	}
	await(ctx, t, "the workload to be released", func() (bool, error) {
		held, ok := entry(ctx, t, namespace, "db")
		return ok && !held.Active(time.Now()), nil
	})
	awaitEvent(ctx, t, namespace, "StatefulSet", "db", eventReleased)
	unwritten(ctx, t, set)
}

// A native sidecar that ends again and again is healed as well.
func TestRigAnnaCrashes(t *testing.T) {
	ctx, namespace := scenario(t, nil)
	createSet(ctx, t, namespace, "anna", 1, func(template *corev1.PodTemplateSpec) {
		spec := admitted(t, anna, nil).Spec
		template.Labels[api.LabelWorkload] = "anna"
		template.Annotations = map[string]string{api.AnnotationAgentImage: crashImage}
		for _, c := range spec.Containers {
			c.Resources = corev1.ResourceRequirements{}
			c.VolumeMounts = slices.DeleteFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return strings.HasPrefix(m.Name, "stategraft-") })
			template.Spec.Containers = []corev1.Container{c}
		}
		template.Spec.Volumes = nil
		for _, m := range template.Spec.Containers[0].VolumeMounts {
			template.Spec.Volumes = append(template.Spec.Volumes, corev1.Volume{Name: m.Name})
		}
	})
	before := awaitPod(ctx, t, namespace, "anna-0", "told that it ends again and again", degradedAs(api.DegradedCrashLoop))
	after := awaitPod(ctx, t, namespace, "anna-0", "healed", func(pod *corev1.Pod) bool { return healthy(pod) && degradedAs(api.DegradedHealed)(pod) })
	untouched(t, before, after, "ebs-container")
	if image := containerOf(t, after, agent).Image; image != containerOf(t, after, "ebs-container").Image {
		t.Errorf("%s idles in %s", agent, image)
	}
	if held, ok := entry(ctx, t, namespace, "anna"); !ok || held.Cause != api.CauseCrashLoop {
		t.Errorf("held back as %+v (%v)", held, ok)
	}
}

// A pod for which there is room without us only is replaced by one without us; one
// that nobody would create again stays.
func TestRigNoRoom(t *testing.T) {
	ctx, namespace := scenario(t, nil)
	small := func(spec *corev1.PodSpec) {
		spec.NodeSelector = map[string]string{corev1.LabelHostname: "small"}
		spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("950m")
	}
	alone := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "alone"}, Spec: databaseSpec("1")}
	small(&alone.Spec)
	if err := rig.client.Create(ctx, alone); err != nil {
		t.Fatal(err)
	}
	awaitEvent(ctx, t, namespace, "Pod", "alone", eventHeldBack)
	if pod, err := get(ctx, namespace, "alone"); err != nil || pod.UID != alone.UID || pod.DeletionTimestamp != nil || !injected(pod) {
		t.Errorf("the pod without owner was deleted (%v)", err)
	}
	if err := rig.client.Delete(ctx, alone); err != nil {
		t.Fatal(err)
	}

	createSet(ctx, t, namespace, "db", 1, func(template *corev1.PodTemplateSpec) { small(&template.Spec) })
	pending := awaitPod(ctx, t, namespace, "db-0", "Pending with us", injected)
	placed := awaitPod(ctx, t, namespace, "db-0", "Ready without us", healthy)
	if placed.UID == pending.UID || injected(placed) || placed.Spec.NodeName != "small" {
		t.Errorf("on node %s, injected %v", placed.Spec.NodeName, injected(placed))
	}
	if held, ok := entry(ctx, t, namespace, "db"); !ok || held.Cause != api.CauseUnschedulable {
		t.Errorf("held back as %+v (%v)", held, ok)
	}
	awaitEvent(ctx, t, namespace, "StatefulSet", "db", eventHeldBack)
	awaitEvent(ctx, t, namespace, "Pod", "db-0", eventReplaced)
}

// Pods that a policy refuses because of us come up without us.
func TestRigRefused(t *testing.T) {
	ctx, namespace := scenario(t, nil)
	refuse(ctx, t, namespace, `object.spec.containers.all(c, c.image.startsWith('cassandra:'))`)
	set := createSet(ctx, t, namespace, "db", 2, nil)
	for _, name := range []string{"db-0", "db-1"} {
		if pod := awaitPod(ctx, t, namespace, name, "Ready", healthy); injected(pod) {
			t.Errorf("%s is injected in spite of the policy", name)
		}
	}
	await(ctx, t, "the trial to end", func() (bool, error) {
		held, ok := entry(ctx, t, namespace, "db")
		if !ok || held.Cause != api.CauseRefused {
			t.Fatalf("held back as %+v (%v)", held, ok)
		}
		return held.Trial == nil, nil
	})
	awaitEvent(ctx, t, namespace, "StatefulSet", "db", eventHeldBack)
	unwritten(ctx, t, set)
}

// Pods that are refused without us too are not held back for that.
func TestRigRefusedForAnotherReason(t *testing.T) {
	ctx, namespace := scenario(t, nil)
	refuse(ctx, t, namespace, `false`)
	createSet(ctx, t, namespace, "db", 1, nil)
	awaitSeen(ctx, t, "the trial to begin", &corev1.ConfigMapList{}, home, api.HeldBackConfigMap, func(object runtime.Object) bool {
		config, ok := object.(*corev1.ConfigMap)
		if !ok {
			return false
		}
		held, ok := entryIn(t, config, namespace, "db")
		return ok && held.Trial != nil
	})
	await(ctx, t, "the trial to end", func() (bool, error) {
		held, ok := entry(ctx, t, namespace, "db")
		if ok && held.Trial == nil {
			t.Fatalf("held back as %+v", held)
		}
		return !ok, nil
	})
}

// A pod that is to be restored is not touched, while its neighbour is healed.
func TestRigRestorePending(t *testing.T) {
	ctx, namespace := scenario(t, map[string]string{api.AnnotationAgentImage: missingImage})
	createSet(ctx, t, namespace, "restored", 1, func(template *corev1.PodTemplateSpec) {
		template.Annotations = map[string]string{api.AnnotationRestore: "nightly"}
	})
	before := awaitPod(ctx, t, namespace, "restored-0", "waiting for its restore", func(pod *corev1.Pod) bool { return len(pod.Status.InitContainerStatuses) == 2 })
	// One that was restored and is asked to be once more.
	createSet(ctx, t, namespace, "live", 1, func(template *corev1.PodTemplateSpec) {
		template.Annotations = map[string]string{api.AnnotationAgentImage: "fine:1"}
	})
	live := awaitPod(ctx, t, namespace, "live-0", "Ready", healthy)
	patch := map[string]any{"metadata": map[string]any{"annotations": map[string]any{api.AnnotationRestore: "nightly"}},
		"spec": map[string]any{"containers": []any{map[string]any{"name": agent, "image": missingImage}}}}
	if err := rig.client.Patch(ctx, target(live), strategic(patch)); err != nil {
		t.Fatal(err)
	}
	awaitPod(ctx, t, namespace, "live-0", "failing", func(pod *corev1.Pod) bool { return !isReady(pod) })

	createSet(ctx, t, namespace, "neighbour", 1, nil)
	awaitPod(ctx, t, namespace, "neighbour-0", "healed", func(pod *corev1.Pod) bool { return healthy(pod) && degradedAs(api.DegradedHealed)(pod) })
	after, err := get(ctx, namespace, "restored-0")
	if err != nil {
		t.Fatal(err)
	}
	if after.UID != before.UID || conditionOf(after, api.ConditionDegraded) != nil || !sameJSON(after.Spec, before.Spec) {
		t.Errorf("the pod was touched: %+v", after.Status.Conditions)
	}
	if live, err = get(ctx, namespace, "live-0"); err != nil {
		t.Fatal(err)
	}
	if conditionOf(live, api.ConditionDegraded) != nil || containerOf(t, live, agent).Image != missingImage {
		t.Errorf("the pod was touched: %+v", live.Status.Conditions)
	}
	for _, name := range []string{"restored", "live"} {
		if held, ok := entry(ctx, t, namespace, name); ok {
			t.Errorf("held back as %+v", held)
		}
	}
}

// Where a leader goes while it counts, the next goes on counting.
func TestRigNextLeader(t *testing.T) {
	ctx, namespace := scenario(t, map[string]string{api.AnnotationMedusaImage: missingImage})
	createSet(ctx, t, namespace, "db", 1, nil)
	marked := awaitPod(ctx, t, namespace, "db-0", "told that an image is missing", degradedAs(api.DegradedImagePull))
	if err := rig.startController(context.WithoutCancel(ctx)); err != nil {
		t.Fatal(err)
	}
	healed := awaitPod(ctx, t, namespace, "db-0", "healed", func(pod *corev1.Pod) bool { return healthy(pod) && degradedAs(api.DegradedHealed)(pod) })
	if was, is := degraded(marked), degraded(healed); !is.LastTransitionTime.Equal(&was.LastTransitionTime) {
		t.Errorf("degraded since %s, before since %s", is.LastTransitionTime, was.LastTransitionTime)
	}
	untouched(t, marked, healed, "cassandra")
}
