package deploy_test

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/stategraft/stategraft/deploy"
)

func podsAreRestricted(t *testing.T, docs []document, _ string) {
	for _, d := range deployments(t, docs) {
		pod := d.Spec.Template.Spec
		for _, problem := range unrestricted(pod) {
			t.Errorf("%s: %s", d.Name, problem)
		}
		// More than the standard asks for.
		for _, c := range pod.Containers {
			if s := c.SecurityContext; s.ReadOnlyRootFilesystem == nil || !*s.ReadOnlyRootFilesystem {
				t.Errorf("%s: the root of %s can be written", d.Name, c.Name)
			}
			if c.Resources.Requests == nil {
				t.Errorf("%s: %s asks for nothing", d.Name, c.Name)
			}
		}
		if *pod.SecurityContext.RunAsUser != 65532 || *pod.EnableServiceLinks {
			t.Errorf("%s: user %d, service links %v", d.Name, *pod.SecurityContext.RunAsUser, *pod.EnableServiceLinks)
		}
	}
}

// unrestricted tells what in a pod the restricted Pod Security Standard does not
// allow (https://kubernetes.io/docs/concepts/security/pod-security-standards/).
// TestPodSecurityOfServer holds it against the API server's own judgement.
func unrestricted(pod corev1.PodSpec) []string {
	var problems []string
	add := func(wrong bool, format string, args ...any) {
		if wrong {
			problems = append(problems, fmt.Sprintf(format, args...))
		}
	}
	add(pod.HostNetwork || pod.HostPID || pod.HostIPC, "host namespaces")
	for _, v := range pod.Volumes {
		s := v.VolumeSource
		add(s.ConfigMap == nil && s.CSI == nil && s.DownwardAPI == nil && s.EmptyDir == nil && s.Ephemeral == nil &&
			s.PersistentVolumeClaim == nil && s.Projected == nil && s.Secret == nil, "volume %s is of a type that is not allowed", v.Name)
	}
	shared := pod.SecurityContext
	if shared == nil {
		shared = &corev1.PodSecurityContext{}
	}
	add(len(shared.Sysctls) > 0, "sysctls") // some are allowed, we want none
	add(shared.SELinuxOptions != nil || shared.WindowsOptions != nil, "SELinux or Windows options")
	add(shared.AppArmorProfile != nil && shared.AppArmorProfile.Type == corev1.AppArmorProfileTypeUnconfined, "AppArmor is unconfined")
	add(shared.RunAsUser != nil && *shared.RunAsUser == 0, "user 0")
	for _, c := range slices.Concat(pod.InitContainers, pod.Containers) {
		for _, problem := range containerUnrestricted(c, shared) {
			problems = append(problems, c.Name+": "+problem)
		}
	}
	return problems
}

func containerUnrestricted(c corev1.Container, shared *corev1.PodSecurityContext) []string {
	s := c.SecurityContext
	if s == nil {
		s = &corev1.SecurityContext{}
	}
	seccomp, nonRoot := s.SeccompProfile, s.RunAsNonRoot
	if seccomp == nil {
		seccomp = shared.SeccompProfile
	}
	if nonRoot == nil {
		nonRoot = shared.RunAsNonRoot
	}
	capabilities := s.Capabilities
	if capabilities == nil {
		capabilities = &corev1.Capabilities{}
	}
	var problems []string
	for _, rule := range []struct {
		wrong bool
		what  string
	}{
		{s.Privileged != nil && *s.Privileged, "privileged"},
		{s.AllowPrivilegeEscalation == nil || *s.AllowPrivilegeEscalation, "allowPrivilegeEscalation is not false"},
		{nonRoot == nil || !*nonRoot, "runAsNonRoot is not true"},
		{s.RunAsUser != nil && *s.RunAsUser == 0, "user 0"},
		{seccomp == nil || seccomp.Type == corev1.SeccompProfileTypeUnconfined, "no seccomp profile"},
		{!slices.Contains(capabilities.Drop, "ALL"), "does not drop ALL capabilities"},
		{slices.ContainsFunc(capabilities.Add, func(c corev1.Capability) bool { return c != "NET_BIND_SERVICE" }), "adds capabilities"},
		{s.SELinuxOptions != nil || s.WindowsOptions != nil, "SELinux or Windows options"},
		{s.AppArmorProfile != nil && s.AppArmorProfile.Type == corev1.AppArmorProfileTypeUnconfined, "AppArmor is unconfined"},
		{s.ProcMount != nil && *s.ProcMount != corev1.DefaultProcMount, "procMount"},
		{slices.ContainsFunc(c.Ports, func(p corev1.ContainerPort) bool { return p.HostPort != 0 }), "host port"},
		{probesAnotherHost(c), "probes another host"},
	} {
		if rule.wrong {
			problems = append(problems, rule.what)
		}
	}
	return problems
}

func probesAnotherHost(c corev1.Container) bool {
	return slices.ContainsFunc([]*corev1.Probe{c.LivenessProbe, c.ReadinessProbe, c.StartupProbe}, func(p *corev1.Probe) bool {
		return p != nil && (p.HTTPGet != nil && p.HTTPGet.Host != "" || p.TCPSocket != nil && p.TCPSocket.Host != "")
	})
}

// spoilt are pods that break the standard, each in one way, made of one that
// keeps to it.
func spoilt(good corev1.PodSpec) map[string]corev1.PodSpec {
	yes, no, root, unmasked := true, false, int64(0), corev1.UnmaskedProcMount
	all := map[string]corev1.PodSpec{}
	for name, spoil := range map[string]func(p *corev1.PodSpec, c *corev1.Container){
		"host network": func(p *corev1.PodSpec, _ *corev1.Container) { p.HostNetwork = true },
		"host path":    func(p *corev1.PodSpec, _ *corev1.Container) { p.Volumes = append(p.Volumes, hostPath) },
		"sysctl": func(p *corev1.PodSpec, _ *corev1.Container) {
			p.SecurityContext.Sysctls = []corev1.Sysctl{{Name: "kernel.msgmax", Value: "1"}}
		},
		"SELinux": func(p *corev1.PodSpec, _ *corev1.Container) {
			p.SecurityContext.SELinuxOptions = &corev1.SELinuxOptions{Type: "spc_t"}
		},
		"pod as root": func(p *corev1.PodSpec, _ *corev1.Container) { p.SecurityContext.RunAsUser = &root },
		"maybe root":  func(p *corev1.PodSpec, _ *corev1.Container) { p.SecurityContext.RunAsNonRoot = nil },
		"no seccomp":  func(p *corev1.PodSpec, _ *corev1.Container) { p.SecurityContext.SeccompProfile = nil },
		"privileged": func(_ *corev1.PodSpec, c *corev1.Container) {
			c.SecurityContext.Privileged, c.SecurityContext.AllowPrivilegeEscalation = &yes, nil
		},
		"escalation":     func(_ *corev1.PodSpec, c *corev1.Container) { c.SecurityContext.AllowPrivilegeEscalation = nil },
		"container root": func(_ *corev1.PodSpec, c *corev1.Container) { c.SecurityContext.RunAsUser = &root },
		"not non-root":   func(_ *corev1.PodSpec, c *corev1.Container) { c.SecurityContext.RunAsNonRoot = &no },
		"unconfined": func(_ *corev1.PodSpec, c *corev1.Container) {
			c.SecurityContext.SeccompProfile = &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeUnconfined}
		},
		"AppArmor": func(_ *corev1.PodSpec, c *corev1.Container) {
			c.SecurityContext.AppArmorProfile = &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeUnconfined}
		},
		"capabilities": func(_ *corev1.PodSpec, c *corev1.Container) { c.SecurityContext.Capabilities = nil },
		"one too many": func(_ *corev1.PodSpec, c *corev1.Container) {
			c.SecurityContext.Capabilities.Add = []corev1.Capability{"CHOWN"}
		},
		"proc": func(p *corev1.PodSpec, c *corev1.Container) {
			p.HostUsers, c.SecurityContext.ProcMount = &no, &unmasked
		},
		"host port":       func(_ *corev1.PodSpec, c *corev1.Container) { c.Ports[0].HostPort = c.Ports[0].ContainerPort },
		"another's probe": func(_ *corev1.PodSpec, c *corev1.Container) { c.LivenessProbe.HTTPGet.Host = "192.0.2.1" },
		"nothing":         func(_ *corev1.PodSpec, c *corev1.Container) { c.SecurityContext = nil },
		"init container": func(p *corev1.PodSpec, _ *corev1.Container) {
			p.InitContainers = []corev1.Container{{Name: "init", Image: "example.com/init"}}
		},
	} {
		p := good.DeepCopy()
		spoil(p, &p.Containers[0])
		all[name] = *p
	}
	return all
}

var hostPath = corev1.Volume{Name: "host", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}}

// The check can fail.
func TestUnrestricted(t *testing.T) {
	for name, pod := range spoilt(manifestPod(t)) {
		if len(unrestricted(pod)) == 0 {
			t.Errorf("%s: let through", name)
		}
	}
}

// manifestPod is the pod of the webhook.
func manifestPod(t *testing.T) corev1.PodSpec {
	return deployments(t, parse(t, "stategraft.yaml", deploy.CertManager))[0].Spec.Template.Spec
}
