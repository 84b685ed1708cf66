package check

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/stategraft/stategraft/workload"
)

// labelEnforce is the level of the Pod Security Standards that a namespace
// enforces.
const labelEnforce = "pod-security.kubernetes.io/enforce"

// The levels that forbid something.
const (
	levelBaseline   = "baseline"
	levelRestricted = "restricted"
)

func lookSecurity(ctx context.Context, c *Cluster) []Finding {
	s, err := c.sweep(ctx)
	if err != nil {
		return skipped(err)
	}
	return s.say(s.security, "%s", counted(s.injected(), "injected pod", "none in conflict with the level that its namespace enforces"))
}

// judgeSecurity tells that a pod would not be created again at the level that its
// namespace enforces now, because of our containers. A pod whose own containers
// break it already is not our doing.
func judgeSecurity(pod *corev1.Pod, level string) []Finding {
	if level != levelBaseline && level != levelRestricted {
		return nil
	}
	var ours []string
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		what := breaks(pod, &c, level)
		switch {
		case what == "":
		case !workload.Own(c.Name):
			return nil
		default:
			ours = append(ours, c.Name+": "+what)
		}
	}
	if len(ours) == 0 {
		return nil
	}
	return []Finding{finding(Fail, pod.Namespace+"/"+pod.Name, "would be refused if it were created again, as the namespace enforces the %s Pod Security Standard: %s", level, some(ours)).
		With("have the database not start as root (fsGroup instead), or lower the namespace's level")}
}

// baselineCapabilities may be added at the level baseline
// (k8s.io/pod-security-admission/policy/check_capabilities_baseline.go).
var baselineCapabilities = []corev1.Capability{"AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD",
	"NET_BIND_SERVICE", "SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT"}

// breaks says what of the level a container breaks, in the name of the field, or
// nothing. Only what containers can break is looked at: ours bring no volume of
// a forbidden type, and the pod's own settings are its owner's.
func breaks(pod *corev1.Pod, c *corev1.Container, level string) string {
	sc, of := c.SecurityContext, pod.Spec.SecurityContext
	if sc == nil {
		sc = &corev1.SecurityContext{}
	}
	if of == nil {
		of = &corev1.PodSecurityContext{}
	}
	if sc.Privileged != nil && *sc.Privileged {
		return "privileged"
	}
	for _, port := range c.Ports {
		if port.HostPort != 0 {
			return fmt.Sprintf("hostPort %d", port.HostPort)
		}
	}
	allowed := baselineCapabilities
	if level == levelRestricted {
		allowed = []corev1.Capability{"NET_BIND_SERVICE"}
	}
	profile := sc.SeccompProfile
	if profile == nil {
		profile = of.SeccompProfile
	}
	if profile != nil && profile.Type == corev1.SeccompProfileTypeUnconfined {
		return "seccompProfile Unconfined"
	}
	if sc.Capabilities != nil {
		for _, added := range sc.Capabilities.Add {
			if !slices.Contains(allowed, added) {
				return "capability " + string(added)
			}
		}
	}
	if level == levelBaseline {
		return ""
	}
	nonRoot, user := sc.RunAsNonRoot, sc.RunAsUser
	if nonRoot == nil {
		nonRoot = of.RunAsNonRoot
	}
	if user == nil {
		user = of.RunAsUser
	}
	switch {
	case nonRoot == nil || !*nonRoot:
		return "runAsNonRoot"
	case user != nil && *user == 0:
		return "runAsUser 0"
	case sc.AllowPrivilegeEscalation == nil || *sc.AllowPrivilegeEscalation:
		return "allowPrivilegeEscalation"
	case sc.Capabilities == nil || !slices.Contains(sc.Capabilities.Drop, "ALL"):
		return "capabilities not dropped"
	case profile == nil:
		return "no seccompProfile"
	}
	return ""
}
