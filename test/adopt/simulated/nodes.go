package simulated

import (
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Node is what matters of a node.
type Node struct {
	Name    string
	Kubelet string                   // its version; v1.37.0 where it is empty
	OS      string                   // linux where it is empty
	Has     corev1.NodeConditionType // a condition that holds beside Ready; may be empty
}

// renewal is how often a node says that it is alive. The control plane takes it for dead
// after 50 seconds.
const renewal = 5 * time.Second

// object is the Node object. The scheduler leaves it alone: what is bound to it was bound
// by the test.
func (n Node) object() *corev1.Node {
	if n.Kubelet == "" {
		n.Kubelet = "v1.37.0"
	}
	if n.OS == "" {
		n.OS = "linux"
	}
	now := metav1.Now()
	room := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1000"), corev1.ResourceMemory: resource.MustParse("10Ti"),
		corev1.ResourcePods: resource.MustParse("1000"), corev1.ResourceEphemeralStorage: resource.MustParse("100Ti")}
	conditions := []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastHeartbeatTime: now, LastTransitionTime: now}}
	for _, kind := range []corev1.NodeConditionType{corev1.NodeMemoryPressure, corev1.NodeDiskPressure, corev1.NodePIDPressure} {
		c := corev1.NodeCondition{Type: kind, Status: corev1.ConditionFalse, LastHeartbeatTime: now, LastTransitionTime: now}
		if kind == n.Has {
			c.Status = corev1.ConditionTrue
		}
		conditions = append(conditions, c)
	}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: n.Name, Labels: map[string]string{corev1.LabelHostname: n.Name, corev1.LabelOSStable: n.OS}},
		Spec:       corev1.NodeSpec{Unschedulable: true},
		Status: corev1.NodeStatus{Capacity: room, Allocatable: room, Conditions: conditions,
			NodeInfo: corev1.NodeSystemInfo{KubeletVersion: n.Kubelet, OperatingSystem: n.OS, Architecture: "amd64"}},
	}
}

// AddNode makes a node.
func (k *Kubelet) AddNode(ctx context.Context, n Node) error {
	nodes := k.client.CoreV1().Nodes()
	object := n.object()
	made, err := nodes.Create(ctx, object.DeepCopy(), metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("creating node %s: %w", n.Name, err)
	}
	if err := k.renew(ctx, n.Name); err != nil {
		return fmt.Errorf("creating the lease of node %s: %w", n.Name, err)
	}
	if err := k.say(ctx, made, object.Status); err != nil {
		return err
	}
	k.mutex.Lock()
	defer k.mutex.Unlock()
	k.nodes = append(k.nodes, n.Name)
	return nil
}

// Change makes a node another than it was.
func (k *Kubelet) Change(ctx context.Context, n Node) error {
	now, err := k.client.CoreV1().Nodes().Get(ctx, n.Name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("reading node %s: %w", n.Name, err)
	}
	return k.say(ctx, now, n.object().Status)
}

// say writes a node's status. The control plane writes to the node, too.
func (k *Kubelet) say(ctx context.Context, node *corev1.Node, status corev1.NodeStatus) error {
	nodes := k.client.CoreV1().Nodes()
	for {
		node.Status = status
		_, err := nodes.UpdateStatus(ctx, node, metav1.UpdateOptions{})
		if err == nil {
			return nil
		}
		if !apierrors.IsConflict(err) {
			return fmt.Errorf("writing the status of node %s: %w", node.Name, err)
		}
		if node, err = nodes.Get(ctx, node.Name, metav1.GetOptions{}); err != nil {
			return fmt.Errorf("reading a node: %w", err)
		}
	}
}

func (k *Kubelet) renew(ctx context.Context, name string) error {
	leases := k.client.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	now := metav1.NowMicro()
	lease, err := leases.Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		_, err = leases.Create(ctx, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: coordinationv1.LeaseSpec{HolderIdentity: &name, LeaseDurationSeconds: new(int32(40)), RenewTime: &now}}, metav1.CreateOptions{})
		return err
	}
	if err != nil {
		return err
	}
	lease.Spec.RenewTime = &now
	_, err = leases.Update(ctx, lease, metav1.UpdateOptions{})
	return err
}

// live keeps the nodes alive.
func (k *Kubelet) live(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(renewal):
		}
		k.mutex.Lock()
		names := k.nodes[:len(k.nodes):len(k.nodes)]
		k.mutex.Unlock()
		for _, name := range names {
			_ = k.renew(ctx, name) // again soon
		}
	}
}
