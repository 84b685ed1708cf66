package heal

import (
	"context"
	"fmt"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// What the kubelet of the tests makes of images by a part of their names. Every
// other image runs.
const (
	missingImage = "stategraft.invalid/missing:1"
	crashImage   = "stategraft.invalid/crash:1"
)

// kubelet plays the kubelets of a few nodes on a control plane that has none: it
// writes what a kubelet would write about the pods that are scheduled to them.
type kubelet struct {
	client client.Client
	nodes  []string
}

// addNode makes a node that the scheduler uses.
func (k *kubelet) addNode(ctx context.Context, name, cpu, memory string) error {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name}}}
	if err := k.client.Create(ctx, node); err != nil {
		return err
	}
	before := node.DeepCopy()
	node.Status.Capacity = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory),
		corev1.ResourcePods: resource.MustParse("100")}
	node.Status.Allocatable = node.Status.Capacity
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastHeartbeatTime: metav1.Now(), LastTransitionTime: metav1.Now()}}
	if err := k.client.Status().Patch(ctx, node, client.MergeFrom(before)); err != nil {
		return err
	}
	k.nodes = append(k.nodes, name)
	return k.renew(ctx, name)
}

// renew keeps a node from being taken for dead.
func (k *kubelet) renew(ctx context.Context, name string) error {
	now := metav1.NowMicro()
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceNodeLease, Name: name}}
	err := k.client.Get(ctx, client.ObjectKeyFromObject(lease), lease)
	lease.Spec.RenewTime, lease.Spec.HolderIdentity = &now, &name
	if apierrors.IsNotFound(err) {
		return k.client.Create(ctx, lease)
	}
	if err != nil {
		return err
	}
	return k.client.Update(ctx, lease)
}

// run syncs the pods until the context ends.
func (k *kubelet) run(ctx context.Context, log func(string, ...any)) {
	renewed := time.Now()
	for ctx.Err() == nil {
		var pods corev1.PodList
		if err := k.client.List(ctx, &pods); err != nil {
			if ctx.Err() == nil {
				log("kubelet: %v", err)
			}
			continue
		}
		for i := range pods.Items {
			if err := k.sync(ctx, &pods.Items[i]); err != nil && ctx.Err() == nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
				log("kubelet: pod %s/%s: %v", pods.Items[i].Namespace, pods.Items[i].Name, err)
			}
		}
		if time.Since(renewed) > 5*time.Second {
			renewed = time.Now()
			for _, name := range k.nodes {
				if err := k.renew(ctx, name); err != nil && ctx.Err() == nil {
					log("kubelet: node %s: %v", name, err)
				}
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// sync writes the status of a pod, leaving conditions that are others' as they
// are, or ends it.
func (k *kubelet) sync(ctx context.Context, pod *corev1.Pod) error {
	if pod.Spec.NodeName == "" {
		return nil
	}
	if pod.DeletionTimestamp != nil {
		return k.client.Delete(ctx, pod, client.GracePeriodSeconds(0))
	}
	before := pod.DeepCopy()
	k.report(pod)
	if sameJSON(before.Status, pod.Status) {
		return nil
	}
	return k.client.Status().Patch(ctx, pod, client.StrategicMergeFrom(before))
}

// report fills in the status as a kubelet would.
func (k *kubelet) report(pod *corev1.Pod) {
	statuses := map[string]corev1.ContainerStatus{}
	blocked := false
	for _, p := range parts(pod) {
		if !blocked {
			statuses[p.Name] = state(pod, p)
		} else {
			statuses[p.Name] = corev1.ContainerStatus{Name: p.Name, Image: p.Image, Started: new(false),
				State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "PodInitializing"}}}
		}
		s := statuses[p.Name]
		if p.init && (!sidecar(p.Container, true) && s.State.Terminated == nil || sidecar(p.Container, true) && s.State.Running == nil && s.RestartCount == 0) {
			blocked = true
		}
	}
	pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses = nil, nil
	for _, p := range parts(pod) {
		if p.init {
			pod.Status.InitContainerStatuses = append(pod.Status.InitContainerStatuses, statuses[p.Name])
		} else {
			pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, statuses[p.Name])
		}
	}
	pod.Status.Phase = corev1.PodRunning
	if blocked {
		pod.Status.Phase = corev1.PodPending
	}
	was := conditionOf(pod, corev1.PodReady).DeepCopy()
	readiness(pod)
	now := conditionOf(pod, corev1.PodReady)
	now.LastTransitionTime = metav1.NewTime(time.Now().Truncate(time.Second))
	if was != nil && was.Status == now.Status {
		now.LastTransitionTime = was.LastTransitionTime
	}
}

// state is what becomes of a container whose turn it is.
func state(pod *corev1.Pod, p part) corev1.ContainerStatus {
	s := *p.status.DeepCopy()
	if s.Name != "" && s.Image != p.Image { // the image was changed
		s.RestartCount++
		s.State = corev1.ContainerState{}
	}
	s.Name, s.Image, s.Ready, s.Started = p.Name, p.Image, false, new(false)
	switch {
	case strings.Contains(p.Image, "missing"):
		s.State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: `Back-off pulling image "` + p.Image + `"`}}
	case strings.Contains(p.Image, "crash") && sidecar(p.Container, p.init):
		if s.RestartCount < 5 {
			s.RestartCount++
		}
		s.State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff", Message: "back-off 10s restarting failed container"}}
		s.LastTerminationState = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "Error", ExitCode: 1}}
	case !sidecar(p.Container, p.init):
		s.Ready = true
		s.State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "Completed"}}
	default:
		s.Ready, s.Started = true, new(true)
		if s.State.Running == nil {
			s.State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(time.Now().Truncate(time.Second))}}
			s.ContainerID = fmt.Sprintf("fake://%s/%s/%d", pod.UID, p.Name, s.RestartCount)
		}
	}
	return s
}
