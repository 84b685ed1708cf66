package sidecar

import (
	"fmt"
	"net"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"github.com/stategraft/stategraft/api/node"
	"github.com/stategraft/stategraft/patches"
)

// address is where and how a pod is asked.
type address struct {
	container string
	host      string // with the port
	tls       bool
}

// find tells where a pod is asked: in the container that serves and runs. While a
// pod is restored that is the init container of the restore.
func find(pod *corev1.Pod) (address, error) {
	declared := ""
	for _, each := range []struct {
		name       string
		containers []corev1.Container
		statuses   []corev1.ContainerStatus
	}{
		{patches.ContainerMedusa, pod.Spec.Containers, pod.Status.ContainerStatuses},
		{patches.ContainerRestore, pod.Spec.InitContainers, pod.Status.InitContainerStatuses},
	} {
		container, port := serving(each.containers, each.name)
		if port == 0 {
			continue
		}
		declared = each.name
		if pod.Status.PodIP == "" || !runs(each.statuses, each.name) {
			continue
		}
		mutual := slices.ContainsFunc(container.VolumeMounts, func(m corev1.VolumeMount) bool { return m.MountPath == patches.DirGRPCTLS })
		return address{each.name, net.JoinHostPort(pod.Status.PodIP, strconv.Itoa(int(port))), mutual}, nil
	}
	if declared == "" {
		return address{}, fmt.Errorf("%w: neither %s nor %s has a port %s", ErrNoService, patches.ContainerMedusa, patches.ContainerRestore, node.PortName)
	}
	return address{}, fmt.Errorf("%w: container %s does not run", ErrUnreachable, declared)
}

// serving finds a container and its port for the controllers, or 0.
func serving(containers []corev1.Container, name string) (*corev1.Container, int32) {
	for i := range containers {
		if containers[i].Name != name {
			continue
		}
		for _, p := range containers[i].Ports {
			if p.Name == node.PortName {
				return &containers[i], p.ContainerPort
			}
		}
	}
	return nil, 0
}

func runs(statuses []corev1.ContainerStatus, name string) bool {
	return slices.ContainsFunc(statuses, func(s corev1.ContainerStatus) bool { return s.Name == name && s.State.Running != nil })
}
