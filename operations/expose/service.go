package expose

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/netip"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/adopted"
	"github.com/stategraft/stategraft/patches"
	"github.com/stategraft/stategraft/workload"
)

// labelPodName stands on each pod of a StatefulSet (k8s.io/api/apps/v1,
// StatefulSetPodNameLabel).
const labelPodName = "statefulset.kubernetes.io/pod-name"

// managedBy is the value of app.kubernetes.io/managed-by on what is ours.
const managedBy = "stategraft"

// nameOf is the name of a pod's Service. It begins with a letter, as names of Services
// have to; one that gets too long, or has a dot, ends with a hash.
func nameOf(pod string) string {
	name := "expose-" + pod
	if len(validation.IsDNS1035Label(name)) == 0 {
		return name
	}
	sum := sha256.Sum256([]byte(pod))
	head := []byte(name[:min(len(name), validation.DNS1035LabelMaxLength-9)])
	for i, b := range head {
		if b == '.' {
			head[i] = '-'
		}
	}
	return string(head) + "-" + hex.EncodeToString(sum[:4])
}

// portsOf are the ports at which clients from outside reach a pod, as its containers
// declare them, or as its program binds them where they declare none (facts of upstream:
// hydro-project/common include/kvs_threads.hpp, cloudburst/shared/utils.py). The others
// are for the nodes among themselves. None is an answer, too: nobody calls a monitor.
func portsOf(pod *corev1.Pod) []int32 {
	kind, role := variable(pod, "STATEGRAFT_KIND"), workload.Role(variable(pod, "STATEGRAFT_ROLE"))
	switch {
	case kind == string(workload.KindCassandra):
		cql := int32(9042)
		if n, err := strconv.ParseInt(variable(pod, "STATEGRAFT_CQL_PORT"), 10, 32); err == nil && n > 0 {
			cql = int32(n)
		}
		ports := declared(pod, 9142, 9142) // CQL with TLS, on a port of its own
		return slices.Compact(slices.Sorted(slices.Values(append(ports, cql))))
	case role == workload.RoleMemory || role == workload.RoleDisk:
		return either(declared(pod, 6200, 6249), 6200, 6203)
	case role == workload.RoleRouting:
		return either(declared(pod, 6450, 6499), 6450, 6453)
	case role == workload.RoleScheduler:
		return either(declared(pod, 5000, 5006), 5000, 5006)
	}
	return nil
}

// either gives the ports that are declared, or else those from first to last.
func either(ports []int32, first, last int32) []int32 {
	if len(ports) > 0 {
		return ports
	}
	for port := first; port <= last; port++ {
		ports = append(ports, port)
	}
	return ports
}

func declared(pod *corev1.Pod, first, last int32) (ports []int32) {
	for i := range pod.Spec.Containers {
		if workload.Own(pod.Spec.Containers[i].Name) {
			continue
		}
		for _, p := range pod.Spec.Containers[i].Ports {
			if p.ContainerPort >= first && p.ContainerPort <= last && cmp.Or(p.Protocol, corev1.ProtocolTCP) == corev1.ProtocolTCP {
				ports = append(ports, p.ContainerPort)
			}
		}
	}
	slices.Sort(ports)
	return slices.Compact(ports)
}

// variable reads a variable of the pod's agent.
func variable(pod *corev1.Pod, name string) string {
	pod = adopted.View(pod)
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			if list[i].Name != patches.ContainerAgent {
				continue
			}
			for _, v := range list[i].Env {
				if v.Name == name {
					return v.Value
				}
			}
		}
	}
	return ""
}

// reason says why a pod cannot have a Service.
type reason struct{ event, text string }

// serviceOf is the Service that a pod is to have, or why it cannot have one. A pod that
// nobody calls has neither.
func serviceOf(pod *corev1.Pod) (*corev1.Service, *reason) {
	ports := portsOf(pod)
	owner, ok := ownerOf(pod)
	switch {
	case len(ports) == 0:
		return nil, nil
	case !ok || pod.Labels[labelPodName] != pod.Name:
		return nil, &reason{eventNotExposable, "only a pod of a StatefulSet has a name that comes back, and label " + labelPodName + " to be selected by"}
	case len(pod.Name) > validation.LabelValueMaxLength:
		return nil, &reason{eventNotExposable, fmt.Sprintf("its name is longer than the %d characters of a label", validation.LabelValueMaxLength)}
	}
	s := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: nameOf(pod.Name), OwnerReferences: []metav1.OwnerReference{owner},
			Labels: map[string]string{api.LabelExposed: pod.Name, "app.kubernetes.io/managed-by": managedBy}},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeLoadBalancer,
			// The one pod's node takes what is for it: no way over another node, and the
			// client's address stays.
			ExternalTrafficPolicy: corev1.ServiceExternalTrafficPolicyLocal,
			// Nodes call each other at this address, too, before they are Ready.
			PublishNotReadyAddresses: true,
			Selector:                 map[string]string{labelPodName: pod.Name},
		},
	}
	for _, port := range ports {
		s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Name: "port-" + strconv.Itoa(int(port)), Protocol: corev1.ProtocolTCP, Port: port, TargetPort: intstr.FromInt32(port)})
	}
	return s, nil
}

// stale tells whether what is ours of a Service is not as it should be. What others wrote,
// above all the annotations that a provider reads, stays.
func stale(have, want *corev1.Service) bool {
	same := func(a, b corev1.ServicePort) bool {
		return a.Port == b.Port && a.TargetPort == b.TargetPort && cmp.Or(a.Protocol, corev1.ProtocolTCP) == b.Protocol
	}
	owned := slices.ContainsFunc(have.OwnerReferences, func(o metav1.OwnerReference) bool { return o.UID == want.OwnerReferences[0].UID })
	return !owned || have.Spec.Type != want.Spec.Type || len(have.Spec.Selector) != 1 || have.Spec.Selector[labelPodName] != want.Spec.Selector[labelPodName] ||
		!slices.EqualFunc(have.Spec.Ports, want.Spec.Ports, same)
}

// addressOf is what a provider has given a Service: an IPv4 address, else a name, else an
// IPv6 address, which Anna cannot take as it splits at colons.
func addressOf(s *corev1.Service) (address string, v6 bool) {
	var name, six string
	for _, in := range s.Status.LoadBalancer.Ingress {
		ip, err := netip.ParseAddr(in.IP)
		switch {
		case err == nil && ip.Unmap().Is4():
			return ip.Unmap().String(), false
		case err == nil:
			six = cmp.Or(six, ip.String())
		}
		name = cmp.Or(name, in.Hostname)
	}
	if name != "" {
		return name, false
	}
	return six, six != ""
}
