package backup

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stategraft/stategraft/api/node"
	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/sidecar/sidecartest"
	"github.com/stategraft/stategraft/patches"
)

// Node is what runs pods: it gives each an address, starts its sidecars there, and
// writes its status as a kubelet would.
type Node struct {
	objects client.Client

	mutex sync.Mutex
	next  int
	pods  map[client.ObjectKey]*Pod
	pairs map[string]sidecartest.Pair
}

// Pod is a pod that runs.
type Pod struct {
	Medusa *sidecartest.Medusa
	Agent  *sidecartest.Server
}

// NewNode makes a Node without pods.
func NewNode(objects client.Client) *Node {
	return &Node{objects: objects, pods: map[client.ObjectKey]*Pod{}, pairs: map[string]sidecartest.Pair{}}
}

// Stop ends all sidecars.
func (n *Node) Stop() {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	for key, p := range n.pods {
		p.close()
		delete(n.pods, key)
	}
}

func (p *Pod) close() {
	p.Medusa.Close()
	p.Agent.Close()
}

// Pod answers a pod that runs, or nil.
func (n *Node) Pod(namespace, name string) *Pod {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	return n.pods[client.ObjectKey{Namespace: namespace, Name: name}]
}

// pair is what the sidecars of a namespace identify themselves by. The controller makes
// it.
func (n *Node) pair(ctx context.Context, namespace string) (sidecartest.Pair, error) {
	n.mutex.Lock()
	known, ok := n.pairs[namespace]
	n.mutex.Unlock()
	if ok {
		return known, nil
	}
	var secret corev1.Secret
	if err := n.objects.Get(ctx, client.ObjectKey{Namespace: namespace, Name: api.SecretGRPC}, &secret); err != nil {
		return sidecartest.Pair{}, fmt.Errorf("reading the pair of the sidecars: %w", err)
	}
	pair := sidecartest.Pair{Cert: secret.Data["tls.crt"], Key: secret.Data["tls.key"], CA: secret.Data["ca.crt"]}
	n.mutex.Lock()
	defer n.mutex.Unlock()
	n.pairs[namespace] = pair
	return pair, nil
}

// Run starts what a pod runs and writes that it does. The pod has to be injected.
func (n *Node) Run(ctx context.Context, pod *corev1.Pod, prefix string, of sidecartest.Node) error {
	grpc, own := ports(pod)
	if grpc == 0 || own == 0 {
		return fmt.Errorf("pod %s/%s is not injected", pod.Namespace, pod.Name)
	}
	pair, err := n.pair(ctx, pod.Namespace)
	if err != nil {
		return err
	}
	n.mutex.Lock()
	n.next++
	ip := sidecartest.Address(n.next)
	n.mutex.Unlock()
	backend := of.Backend()
	told := backend.Report
	backend.Report = func(ctx context.Context) (node.Report, error) {
		r, err := told(ctx)
		r.Prefix = prefix
		return r, err
	}
	m, err := sidecartest.StartMedusa(ip, grpc, pair, of)
	if err != nil {
		return err
	}
	agent, err := sidecartest.Start(ip, own, pair, backend)
	if err != nil {
		m.Close()
		return err
	}
	n.mutex.Lock()
	n.pods[client.ObjectKeyFromObject(pod)] = &Pod{m, agent}
	n.mutex.Unlock()
	return n.say(ctx, pod, ip)
}

// End ends what a pod ran, and the pod.
func (n *Node) End(ctx context.Context, namespace, name string) error {
	key := client.ObjectKey{Namespace: namespace, Name: name}
	n.mutex.Lock()
	p := n.pods[key]
	delete(n.pods, key)
	n.mutex.Unlock()
	if p != nil {
		p.close()
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	err := n.objects.Delete(ctx, pod, client.GracePeriodSeconds(0))
	return client.IgnoreNotFound(err)
}

// ports are those of the sidecars of a pod.
func ports(pod *corev1.Pod) (grpc, own int) {
	for _, c := range pod.Spec.Containers {
		for _, p := range c.Ports {
			switch {
			case c.Name == patches.ContainerMedusa && p.Name == patches.PortMedusa:
				grpc = int(p.ContainerPort)
			case c.Name == patches.ContainerMedusa && p.Name == node.PortName:
				own = int(p.ContainerPort)
			}
		}
	}
	return grpc, own
}

// say writes that all containers run and are ready.
func (n *Node) say(ctx context.Context, pod *corev1.Pod, ip string) error {
	for {
		now := metav1.Now()
		status := corev1.PodStatus{Phase: corev1.PodRunning, PodIP: ip, PodIPs: []corev1.PodIP{{IP: ip}}, StartTime: &now}
		for _, c := range pod.Spec.Containers {
			status.ContainerStatuses = append(status.ContainerStatuses, corev1.ContainerStatus{
				Name: c.Name, Image: c.Image, Ready: true, Started: new(true), State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}}})
		}
		for _, kind := range []corev1.PodConditionType{corev1.PodScheduled, corev1.PodInitialized, corev1.ContainersReady, corev1.PodReady} {
			status.Conditions = append(status.Conditions, corev1.PodCondition{Type: kind, Status: corev1.ConditionTrue, LastTransitionTime: now})
		}
		pod.Status = status
		err := n.objects.Status().Update(ctx, pod)
		if !apierrors.IsConflict(err) {
			return err
		}
		if err := n.objects.Get(ctx, client.ObjectKeyFromObject(pod), pod); err != nil {
			return err
		}
	}
}
