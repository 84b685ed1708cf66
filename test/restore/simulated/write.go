package simulated

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/client-go/kubernetes"
)

// report answers what writes the pod's status, or removes the pod once its
// containers have ended; nil where there is nothing to do.
func (n *Node) report(p *pod, now time.Time) func(context.Context) {
	pods, name, uid, object := n.client.CoreV1().Pods(p.object.Namespace), p.object.Name, p.uid, p.object
	if !p.gone.IsZero() && !now.Before(p.gone) && !n.linger[object.Namespace] {
		return func(ctx context.Context) {
			_ = pods.Delete(ctx, name, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0)), Preconditions: &metav1.Preconditions{UID: &uid}})
		}
	}
	want := p.status(now, &object.Status)
	text, err := json.Marshal(want)
	if err != nil {
		panic(err) // plain values
	}
	if n.written[uid] == string(text) {
		return nil
	}
	if ready := p.isReady(now); ready != p.saidReady {
		if p.saidReady = ready; ready {
			n.Timeline.Add(object.Namespace, "node: pod %s %s is ready", name, short(uid))
			n.Witness.Ready(object, p.volume.Remembers)
		}
	}
	return func(ctx context.Context) {
		if err := patch(ctx, n.client, object, want); err == nil {
			n.mu.Lock()
			n.written[uid] = string(text)
			n.mu.Unlock()
		}
	}
}

// patch writes a status, on top of what others have written meanwhile.
func patch(ctx context.Context, client kubernetes.Interface, object *corev1.Pod, want corev1.PodStatus) error {
	pods := client.CoreV1().Pods(object.Namespace)
	now, err := pods.Get(ctx, object.Name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if now.UID != object.UID {
		return nil // another of its name
	}
	wanted := now.DeepCopy()
	wanted.Status = want
	for _, c := range now.Status.Conditions { // those of others
		if !strings.Contains("Initialized ContainersReady Ready", string(c.Type)) {
			set(&wanted.Status, c)
		}
	}
	before, err := json.Marshal(corev1.Pod{Status: now.Status})
	if err != nil {
		return err
	}
	after, err := json.Marshal(corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: object.UID}, Status: wanted.Status})
	if err != nil {
		return err
	}
	diff, err := strategicpatch.CreateTwoWayMergePatch(before, after, corev1.Pod{})
	if err != nil {
		return err
	}
	_, err = pods.Patch(ctx, object.Name, types.StrategicMergePatchType, diff, metav1.PatchOptions{}, "status")
	return err
}

func set(s *corev1.PodStatus, c corev1.PodCondition) {
	for i := range s.Conditions {
		if s.Conditions[i].Type == c.Type {
			s.Conditions[i] = c
			return
		}
	}
	s.Conditions = append(s.Conditions, c)
}
