package simulated

import (
	"context"
	"encoding/json"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// bind answers what binds a pod to its node, as a scheduler does; nil where it has none.
func (k *Kubelet) bind(object *corev1.Pod, played Played) func(context.Context) {
	if played.Node == nil || object.DeletionTimestamp != nil {
		return nil
	}
	node := played.Node(object)
	if node == "" {
		return nil
	}
	binding := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Namespace: object.Namespace, Name: object.Name, UID: object.UID},
		Target: corev1.ObjectReference{Kind: "Node", Name: node}}
	return func(ctx context.Context) {
		// What fails is tried again, as long as the pod is not bound.
		_ = k.client.CoreV1().Pods(binding.Namespace).Bind(ctx, binding, metav1.CreateOptions{})
	}
}

// report answers what writes a pod's status, or removes one that is to go; nil where
// there is nothing to do.
func (k *Kubelet) report(p *pod, clock Clock) func(context.Context) {
	pods, name, uid := k.client.CoreV1().Pods(p.object.Namespace), p.object.Name, p.object.UID
	if p.object.DeletionTimestamp != nil {
		return func(ctx context.Context) {
			_ = pods.Delete(ctx, name, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0)), Preconditions: &metav1.Preconditions{UID: &uid}})
		}
	}
	text := merge(uid, p.status(clock))
	if p.said == text {
		return nil
	}
	return func(ctx context.Context) {
		if _, err := pods.Patch(ctx, name, types.MergePatchType, []byte(text), metav1.PatchOptions{}, "status"); err == nil {
			k.mutex.Lock()
			defer k.mutex.Unlock()
			p.said = text
		}
	}
}

// merge is a patch that writes a status and nothing else, to a pod of that UID only: the
// kubelet alone writes what is in it.
func merge(uid types.UID, status corev1.PodStatus) string {
	text, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": uid}, "status": status})
	if err != nil {
		panic(err) // plain values
	}
	return string(text)
}
