package heal

import (
	corev1 "k8s.io/api/core/v1"
)

// place is a node with what is free on it.
type place struct {
	node *corev1.Node // name, labels, spec.taints and spec.unschedulable only
	free corev1.ResourceList
	pods int64 // more that it takes
}

// fits tells whether a pod with the requests goes onto the node.
func (p *place) fits(requests corev1.ResourceList) bool {
	if p.pods < 1 {
		return false
	}
	for name, q := range requests {
		free := p.free[name]
		if !q.IsZero() && free.Cmp(q) < 0 {
			return false
		}
	}
	return true
}

// take books the requests of a pod on the node.
func (p *place) take(requests corev1.ResourceList) {
	p.pods--
	for name, q := range requests {
		if free, ok := p.free[name]; ok {
			free.Sub(q)
			p.free[name] = free
		}
	}
}

// ourFault tells whether a Pending pod would be scheduled without our containers'
// requests, and names a node for which that is so.
//
// Only nodes that the pod may go to at all count, by their taints, their labels
// and its node affinity. On one of them at least it has to fit without us and not
// with us. And where it fits with us too, the scheduler must have found something
// else against the node (a volume's zone, its spread, …, which we do not look at):
// there may be no more of these than nodes that the scheduler does not call
// short. Otherwise what we see is not what the scheduler saw, and nothing is done.
//
// What remains: the one node with room may be out for a reason that the scheduler
// did not come to, as it stops at the first. Then the pod is Pending without us.
func ourFault(pod *corev1.Pod, said unschedulable, places []place) (node string, ok bool) {
	with, without := requestsOf(pod, true), requestsOf(pod, false)
	both := 0
	for i := range places {
		p := &places[i]
		switch {
		case !admits(p.node, pod):
		case p.fits(with):
			both++
		case p.fits(without) && node == "":
			node = p.node.Name
		}
	}
	return node, node != "" && both <= said.nodes-said.short
}

// requestsOf sums a pod's requests as the scheduler does: containers and sidecars
// add up, of the other init containers the largest counts on top of the sidecars
// before it, and requests of the pod as a whole stand for those of its containers
// (k8s.io/component-helpers/resource/helpers.go, PodRequests). A resize that is
// under way is not looked at. Our own containers can be left out.
func requestsOf(pod *corev1.Pod, own bool) corev1.ResourceList {
	total, sidecars, largest := corev1.ResourceList{}, corev1.ResourceList{}, corev1.ResourceList{}
	for _, p := range parts(pod) {
		if p.own && !own {
			continue
		}
		switch {
		case !p.init:
			add(total, p.Resources.Requests)
		case sidecar(p.Container, true):
			add(sidecars, p.Resources.Requests)
			raise(largest, sidecars)
		default:
			alone := corev1.ResourceList{}
			add(alone, sidecars)
			add(alone, p.Resources.Requests)
			raise(largest, alone)
		}
	}
	add(total, sidecars)
	raise(total, largest)
	if r := pod.Spec.Resources; r != nil {
		for name, q := range r.Requests {
			total[name] = q
		}
	}
	add(total, pod.Spec.Overhead)
	return total
}

func add(to, amounts corev1.ResourceList) {
	for name, q := range amounts {
		sum := to[name].DeepCopy()
		sum.Add(q)
		to[name] = sum
	}
}

func raise(to, amounts corev1.ResourceList) {
	for name, q := range amounts {
		if have, ok := to[name]; !ok || have.Cmp(q) < 0 {
			to[name] = q
		}
	}
}

// placeOf makes an empty place of a node.
func placeOf(n *corev1.Node) place {
	kept := &corev1.Node{}
	kept.Name, kept.Labels = n.Name, n.Labels
	kept.Spec.Taints, kept.Spec.Unschedulable = n.Spec.Taints, n.Spec.Unschedulable
	free := corev1.ResourceList{}
	add(free, n.Status.Allocatable)
	pods := free[corev1.ResourcePods]
	delete(free, corev1.ResourcePods)
	return place{node: kept, free: free, pods: pods.Value()}
}
