package patches

import (
	"cmp"
	"fmt"
	"strings"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/workload"
)

// The DNS policies of core/v1 that matter here.
const (
	clusterFirst            = "ClusterFirst"
	clusterFirstWithHostNet = "ClusterFirstWithHostNet"
)

// network puts the pod on its node's network where the annotation asks for it:
// with a DNS policy that still finds Services, and with the ports declared as
// host ports, so that the scheduler keeps two pods that want the same apart.
func (b *builder) network() {
	b.hostNetwork = b.pod.Spec.HostNetwork
	if !b.s.HostNetwork {
		return
	}
	if !b.pod.Spec.HostNetwork {
		if why, ok := b.hostNetworkPossible(); !ok {
			b.warn(fmt.Sprintf("no hostNetwork (annotation %s): %s", api.AnnotationHostNetwork, why))
			return
		}
		b.hostNetwork = true
		b.add("/spec/hostNetwork", true)
		if b.w.Kind == workload.KindCassandra {
			b.warn("with hostNetwork the backup is filed under the node's address; on another node name the source in " + api.AnnotationRestoreSource)
		}
	}
	switch b.pod.Spec.DNSPolicy {
	case "", clusterFirst:
		// ClusterFirst is what the API server writes where the user wrote
		// nothing, and means Default on a host network.
		b.add("/spec/dnsPolicy", clusterFirstWithHostNet)
	case clusterFirstWithHostNet:
	default:
		b.warn(fmt.Sprintf("dnsPolicy %s is left as it is: Services may not be found from the host network", workload.Short(b.pod.Spec.DNSPolicy)))
	}
	for i := range b.pod.Spec.Containers {
		b.hostPorts(i)
	}
}

// hostNetworkPossible looks for what would have the API server refuse the pod.
func (b *builder) hostNetworkPossible() (string, bool) {
	switch b.s.PodSecurity {
	case "baseline", "restricted":
		return fmt.Sprintf("the namespace enforces the %s Pod Security Standard, which forbids it", b.s.PodSecurity), false
	}
	switch {
	case b.pod.Spec.HostUsers != nil && !*b.pod.Spec.HostUsers:
		return "the pod has hostUsers: false, which goes only with a network of its own", false
	case b.pod.Spec.HostnameAs != "":
		return "the pod has a hostnameOverride, which goes only with a network of its own", false
	}
	for _, sysctl := range b.pod.Spec.Security.Sysctls {
		if strings.HasPrefix(sysctl.Name, "net.") || strings.HasPrefix(sysctl.Name, "net/") {
			return fmt.Sprintf("the pod sets %s, which goes only with a network of its own", workload.Short(sysctl.Name)), false
		}
	}
	return b.hostPortsPossible()
}

// hostPortsPossible looks for ports that the API server, which makes each a host
// port, would refuse. Init containers do not run together: each stands alone.
func (b *builder) hostPortsPossible() (string, bool) {
	for i := range b.pod.Spec.InitContainers {
		c := &b.pod.Spec.InitContainers[i]
		if text, ok := mappable(c, map[string]string{}); !ok && !workload.Own(c.Name) {
			return text, false
		}
	}
	seen := map[string]string{}
	for i := range b.pod.Spec.Containers {
		c := &b.pod.Spec.Containers[i]
		if text, ok := mappable(c, seen); !ok && !workload.Own(c.Name) {
			return text, false
		}
	}
	return "", true
}

// mappable tells whether the container's ports can be the node's, beside those
// that were seen before, by their containers.
func mappable(c *workload.Container, seen map[string]string) (string, bool) {
	for _, p := range c.Ports {
		if p.HostPort != 0 && p.HostPort != p.ContainerPort {
			return fmt.Sprintf("container %s maps port %d to host port %d, and they would have to be the same", c.Name, p.ContainerPort, p.HostPort), false
		}
		key := fmt.Sprintf("%d/%s", p.ContainerPort, cmp.Or(p.Protocol, "TCP"))
		if other, ok := seen[key]; ok {
			return fmt.Sprintf("port %s, which the node has once, is declared by %s and by %s", key, other, c.Name), false
		}
		seen[key] = c.Name
	}
	return "", true
}

// hostPorts declares the ports of a container on the host; for a process of
// Anna or Cloudburst that declares none, the ones it is known to bind.
func (b *builder) hostPorts(index int) {
	c := &b.pod.Spec.Containers[index]
	if workload.Own(c.Name) {
		return
	}
	for i, p := range c.Ports {
		if p.HostPort == 0 {
			b.add(fmt.Sprintf("/spec/containers/%d/ports/%d/hostPort", index, i), p.ContainerPort)
		}
	}
	if len(c.Ports) > 0 || index != b.w.Index {
		return
	}
	var ports []Port
	for _, port := range rolePorts[b.w.Role] {
		ports = append(ports, Port{ContainerPort: port, HostPort: port, Protocol: "TCP"})
	}
	if len(ports) > 0 {
		b.add(fmt.Sprintf("/spec/containers/%d/ports", index), ports)
	}
}
