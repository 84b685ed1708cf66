// Package kvs tells of a pod whether it is a node of the Anna KVS that holds data, and of
// which cluster. It is pure. The controllers treat such pods as they do Cassandra's, but
// that a cluster of Anna is backed up and restored as a whole: a node's keys are where the
// ring of the moment puts them, so a part of it belongs to no pod in particular.
package kvs

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/stategraft/stategraft/api/node"
	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/adopted"
	"github.com/stategraft/stategraft/patches"
	"github.com/stategraft/stategraft/workload"
)

// AnnotationRole stands on pods in our cache alone (operations/heal), which keeps no
// containers: the role that the agent's variables tell of there. Nobody writes it to the
// API server, and on a pod that has its containers it means nothing.
const AnnotationRole = api.Group + "/role"

// The agent's variables that tell what a pod is, as patches/ writes them (a test compares).
const (
	EnvRole    = "STATEGRAFT_ROLE"
	EnvCluster = "STATEGRAFT_CLUSTER"
)

// Of tells whether a pod was injected, or adopted, as one of Anna, whatever its role.
func Of(pod *corev1.Pod) bool { return pod.Labels[api.LabelInjected] == string(workload.KindAnna) }

// Agent is the container that serves the controllers in a pod of Anna: a native sidecar, or
// an ordinary container where the cluster has none of those, or of one that was adopted the
// view of it; nil for none.
func Agent(pod *corev1.Pod) *corev1.Container {
	pod = adopted.View(pod)
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			if list[i].Name == patches.ContainerAgent {
				return &list[i]
			}
		}
	}
	return nil
}

// Role is what a pod of Anna does; empty where nothing tells.
func Role(pod *corev1.Pod) workload.Role {
	if c := Agent(pod); c != nil {
		if role := variable(c, EnvRole); role != "" {
			return workload.Role(role)
		}
	}
	return workload.Role(pod.Annotations[AnnotationRole])
}

// HoldsData tells whether a pod is a node of Anna whose keys are backed up: of the memory
// or the disk tier.
func HoldsData(pod *corev1.Pod) bool {
	role := Role(pod)
	return Of(pod) && (role == workload.RoleMemory || role == workload.RoleDisk)
}

// Idle tells whether a pod is of Anna and surely holds no data: routing, monitoring and the
// like.
func Idle(pod *corev1.Pod) bool { return Of(pod) && Role(pod) != "" && !HoldsData(pod) }

// Cluster is what the pods of one cluster of a namespace have in common, and those of
// another have not, as far as their labels tell it (app.kubernetes.io/part-of).
func Cluster(pod *corev1.Pod) string {
	if c := Agent(pod); c != nil {
		return variable(c, EnvCluster)
	}
	return ""
}

// Together tells whether two pods of a namespace are nodes of one cluster.
func Together(a, b *corev1.Pod) bool {
	return HoldsData(a) && HoldsData(b) && a.Namespace == b.Namespace && Cluster(a) == Cluster(b)
}

// Others are those of some pods of a namespace that are nodes of the clusters of these, and
// not among these; those that have ended are left out.
func Others(these, all []*corev1.Pod) (others []*corev1.Pod) {
	for _, pod := range all {
		ended := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
		if ended || slices.ContainsFunc(these, func(p *corev1.Pod) bool { return p.Name == pod.Name }) {
			continue
		}
		if slices.ContainsFunc(these, func(p *corev1.Pod) bool { return Together(p, pod) }) {
			others = append(others, pod)
		}
	}
	return others
}

// Serves tells whether a container has the port at which the controllers ask it.
func Serves(c *corev1.Container) bool {
	return slices.ContainsFunc(c.Ports, func(p corev1.ContainerPort) bool { return p.Name == node.PortName })
}

// Sidecar is the container by which the controllers know a pod: Medusa's, or in a pod of
// Anna the agent's; nil for none.
func Sidecar(pod *corev1.Pod) *corev1.Container {
	if Of(pod) {
		return Agent(pod)
	}
	pod = adopted.View(pod)
	for i := range pod.Spec.Containers {
		if pod.Spec.Containers[i].Name == patches.ContainerMedusa {
			return &pod.Spec.Containers[i]
		}
	}
	return nil
}

// variable is a container's; of entries of a name the last one counts.
func variable(c *corev1.Container, name string) (value string) {
	for i := range c.Env {
		if c.Env[i].Name == name {
			value = c.Env[i].Value
		}
	}
	return value
}
