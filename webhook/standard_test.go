package webhook

import (
	"fmt"
	"regexp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/stategraft/stategraft/workload"
)

// qosClass is the formula of k8s.io/kubernetes/pkg/apis/core/v1/helper/qos,
// after the API server's defaulting (a request left out is the limit).
func qosClass(pod *corev1.Pod) corev1.PodQOSClass {
	lists := []corev1.ResourceRequirements{}
	if pod.Spec.Resources != nil {
		lists = append(lists, *pod.Spec.Resources)
	} else {
		for _, c := range slices.Concat(pod.Spec.Containers, pod.Spec.InitContainers) {
			lists = append(lists, c.Resources)
		}
	}
	requests, limits, guaranteed := corev1.ResourceList{}, corev1.ResourceList{}, true
	for _, r := range lists {
		found := 0
		for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
			limit, limited := r.Limits[name]
			request, asked := r.Requests[name]
			if !asked && limited {
				request = limit
			}
			if limit.Sign() > 0 {
				found++
			}
			sum(limits, name, limit)
			sum(requests, name, request)
		}
		guaranteed = guaranteed && found == 2
	}
	if len(requests) == 0 && len(limits) == 0 {
		return corev1.PodQOSBestEffort
	}
	for name, request := range requests {
		limit, ok := limits[name]
		guaranteed = guaranteed && ok && limit.Cmp(request) == 0
	}
	if guaranteed && len(requests) == len(limits) {
		return corev1.PodQOSGuaranteed
	}
	return corev1.PodQOSBurstable
}

func sum(list corev1.ResourceList, name corev1.ResourceName, q resource.Quantity) {
	if q.Sign() <= 0 {
		return
	}
	total := list[name]
	total.Add(q)
	list[name] = total
}

// restricted tells why a pod breaks the restricted Pod Security Standard
// (k8s.io/pod-security-admission/policy), as far as containers can.
func restricted(pod *corev1.Pod, only func(name string) bool) error {
	pods := pod.Spec.SecurityContext
	if pods == nil {
		pods = &corev1.PodSecurityContext{}
	}
	if pod.Spec.HostNetwork || pod.Spec.HostPID || pod.Spec.HostIPC {
		return fmt.Errorf("host namespaces")
	}
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		if !only(c.Name) {
			continue
		}
		sc := c.SecurityContext
		if sc == nil {
			sc = &corev1.SecurityContext{}
		}
		nonRoot, user, profile := sc.RunAsNonRoot, sc.RunAsUser, sc.SeccompProfile
		if nonRoot == nil {
			nonRoot = pods.RunAsNonRoot
		}
		if user == nil {
			user = pods.RunAsUser
		}
		if profile == nil {
			profile = pods.SeccompProfile
		}
		switch {
		case nonRoot == nil || !*nonRoot:
			return fmt.Errorf("%s: runAsNonRoot", c.Name)
		case user != nil && *user == 0:
			return fmt.Errorf("%s: runs as root", c.Name)
		case profile == nil || profile.Type == corev1.SeccompProfileTypeUnconfined:
			return fmt.Errorf("%s: seccompProfile", c.Name)
		case sc.AllowPrivilegeEscalation == nil || *sc.AllowPrivilegeEscalation:
			return fmt.Errorf("%s: allowPrivilegeEscalation", c.Name)
		case sc.Privileged != nil && *sc.Privileged:
			return fmt.Errorf("%s: privileged", c.Name)
		case sc.Capabilities == nil || !slices.Contains(sc.Capabilities.Drop, "ALL"):
			return fmt.Errorf("%s: capabilities not dropped", c.Name)
		}
		for _, added := range sc.Capabilities.Add {
			if added != "NET_BIND_SERVICE" {
				return fmt.Errorf("%s: capability %s", c.Name, added)
			}
		}
		for _, p := range c.Ports {
			if p.HostPort != 0 {
				return fmt.Errorf("%s: host port", c.Name)
			}
		}
	}
	for _, v := range pod.Spec.Volumes {
		if v.HostPath != nil {
			return fmt.Errorf("volume %s: hostPath", v.Name)
		}
	}
	return nil
}

func anyContainer(string) bool { return true }

// wellFormed checks what the API server checks of the containers that are
// added: a pod that it refuses would be refused because of us.
func wellFormed(pod *corev1.Pod) error {
	volumes, names := map[string]bool{}, map[string]bool{}
	for _, v := range pod.Spec.Volumes {
		if volumes[v.Name] {
			return fmt.Errorf("volume %s twice", v.Name)
		}
		volumes[v.Name] = true
		if !workload.Own(v.Name) {
			continue
		}
		if v.ConfigMap != nil && !optional(v.ConfigMap.Optional) || v.Secret != nil && !optional(v.Secret.Optional) {
			return fmt.Errorf("volume %s is not optional", v.Name)
		}
	}
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		if names[c.Name] {
			return fmt.Errorf("container %s twice", c.Name)
		}
		names[c.Name] = true
		if !workload.Own(c.Name) {
			continue
		}
		if err := ownContainer(&c, volumes); err != nil {
			return fmt.Errorf("container %s: %w", c.Name, err)
		}
	}
	return nil
}

func optional(flag *bool) bool { return flag != nil && *flag }

var variable = regexp.MustCompile(`\$\(([A-Za-z_]+)\)`)

func ownContainer(c *corev1.Container, volumes map[string]bool) error {
	if c.ReadinessProbe != nil || c.LivenessProbe != nil || c.StartupProbe != nil || c.Lifecycle != nil {
		return fmt.Errorf("it has a probe or a hook")
	}
	env, paths := map[string]bool{}, map[string]bool{}
	for _, v := range c.Env {
		if env[v.Name] {
			return fmt.Errorf("variable %s twice", v.Name)
		}
		env[v.Name] = true
		if from := v.ValueFrom; from != nil {
			if v.Value != "" {
				return fmt.Errorf("variable %s has a value and a source", v.Name)
			}
			if r := from.ConfigMapKeyRef; r != nil && !optional(r.Optional) {
				return fmt.Errorf("variable %s: ConfigMap not optional", v.Name)
			}
			if r := from.SecretKeyRef; r != nil && !optional(r.Optional) {
				return fmt.Errorf("variable %s: Secret not optional", v.Name)
			}
		}
	}
	if len(c.EnvFrom) > 0 {
		return fmt.Errorf("it has envFrom")
	}
	for _, m := range c.VolumeMounts {
		if !volumes[m.Name] {
			return fmt.Errorf("it mounts %s, which the pod has not", m.Name)
		}
		if paths[m.MountPath] {
			return fmt.Errorf("%s mounted twice", m.MountPath)
		}
		paths[m.MountPath] = true
		for _, used := range variable.FindAllStringSubmatch(m.SubPathExpr, -1) {
			if !env[used[1]] { // the kubelet would not start the container
				return fmt.Errorf("mount %s needs variable %s, which is not set", m.MountPath, used[1])
			}
		}
	}
	return nil
}
