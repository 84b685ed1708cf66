package sidecar

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/stategraft/stategraft/api/node"
	"github.com/stategraft/stategraft/operations/adopted"
	"github.com/stategraft/stategraft/patches"
)

// address is where and how a pod is asked.
type address struct {
	container string
	called    string // the container, as the pod has it
	host      string // with the port
	tls       bool
}

// service is what pods are asked for. A container that may serve it is told by its
// name, whether it stands among the init containers, and the name of its port.
type service []struct {
	container string
	init      bool
	port      string
}

// nodeService is api/node. While a pod is restored it is the init container of the restore
// that answers; of Anna it is the agent in Medusa's place.
var nodeService = service{
	{patches.ContainerMedusa, false, node.PortName},
	{patches.ContainerAgent, true, node.PortName}, {patches.ContainerAgent, false, node.PortName},
	{patches.ContainerRestore, true, node.PortName},
}

// medusaService is api/medusa. Anna's agent serves it in Medusa's place, as a native sidecar
// where the cluster has those.
var medusaService = service{
	{patches.ContainerMedusa, false, patches.PortMedusa},
	{patches.ContainerAgent, true, patches.PortAgent}, {patches.ContainerAgent, false, patches.PortAgent},
}

// none says who could have served it.
func (s service) none() error {
	var names []string
	for _, each := range s {
		if !slices.Contains(names, each.container) {
			names = append(names, each.container)
		}
	}
	return fmt.Errorf("%w: neither %s has a port %s", ErrNoService, strings.Join(names, " nor "), s[0].port)
}

// find tells where a pod is asked: in the container that serves and runs. One that was
// adopted is asked like one that was injected.
func find(pod *corev1.Pod, s service) (address, error) {
	pod = adopted.View(pod)
	declared := ""
	for _, each := range s {
		containers, statuses := pod.Spec.Containers, pod.Status.ContainerStatuses
		if each.init {
			containers, statuses = pod.Spec.InitContainers, pod.Status.InitContainerStatuses
		}
		container, port := serving(containers, each.container, each.port)
		if port == 0 {
			continue
		}
		declared = each.container
		if pod.Status.PodIP == "" || !runs(statuses, each.container) {
			continue
		}
		mutual := slices.ContainsFunc(container.VolumeMounts, func(m corev1.VolumeMount) bool { return m.MountPath == patches.DirGRPCTLS })
		return address{each.container, adopted.Name(pod, each.container), net.JoinHostPort(pod.Status.PodIP, strconv.Itoa(int(port))), mutual}, nil
	}
	if declared == "" {
		return address{}, s.none()
	}
	return address{}, fmt.Errorf("%w: container %s does not run", ErrUnreachable, adopted.Name(pod, declared))
}

// serving finds a container and its port of a name, or 0.
func serving(containers []corev1.Container, name, port string) (*corev1.Container, int32) {
	for i := range containers {
		if containers[i].Name != name {
			continue
		}
		for _, p := range containers[i].Ports {
			if p.Name == port {
				return &containers[i], p.ContainerPort
			}
		}
	}
	return nil, 0
}

func runs(statuses []corev1.ContainerStatus, name string) bool {
	return slices.ContainsFunc(statuses, func(s corev1.ContainerStatus) bool { return s.Name == name && s.State.Running != nil })
}
