package deploy_test

import (
	"context"
	"encoding/json"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/deploy"
)

// TestAdoptRightsOnServer asks the API server what the two accounts may add to pods that run.
func TestAdoptRightsOnServer(t *testing.T) {
	cp := applied(t, deploy.SelfSigned)
	const db, bare, system = "adopt-db", "adopt-bare", "kube-public"
	admin, controller, hook := as(t, cp, ""), as(t, cp, "stategraft-controller"), as(t, cp, "stategraft-webhook")
	tokens := map[string]string{}
	for _, ns := range []string{db, bare} {
		namespace(t, cp, ns, nil)
		tokens[ns] = tokenVolume(t, createPod(t, admin.kube, ns, "c-0", nil))
	}
	kubectl(t, cp, "", "label", "namespace", db, system, "stategraft.io/inject=enabled")
	t.Cleanup(func() { unlabel(t, cp, system) })
	createPod(t, admin.kube, system, "c-0", nil)
	t.Cleanup(func() { kubectlAfter(t, cp, "delete", "pod", "c-0", "-n", system, "--now") })
	awaitTrue(t, "the policy to be in force", func() bool {
		policy, _ := forbidden(controller.graft(bare, grafted(func(*corev1.EphemeralContainer) {}))(t.Context()))
		return policy
	})
	add := func(edit func(*corev1.EphemeralContainer)) func(context.Context) error {
		return controller.graft(db, grafted(edit))
	}
	secured := func(edit func(*corev1.SecurityContext)) func(context.Context) error {
		return add(func(c *corev1.EphemeralContainer) { edit(c.SecurityContext) })
	}
	token := corev1.VolumeMount{Name: tokens[db], MountPath: "/data"}
	for name, c := range map[string]asked{
		"ours":                    {add(func(*corev1.EphemeralContainer) {}), granted},
		"ours, not labelled":      {controller.graft(bare, grafted(func(*corev1.EphemeralContainer) {})), byPolicy},
		"ours, system, labelled":  {controller.graft(system, grafted(func(*corev1.EphemeralContainer) {})), byPolicy},
		"a snapshot server":       {add(func(c *corev1.EphemeralContainer) { c.Name = "stategraft-snapshot-12" }), granted},
		"of another name":         {add(func(c *corev1.EphemeralContainer) { c.Name = "debugger" }), byPolicy},
		"of a name that ends on":  {add(func(c *corev1.EphemeralContainer) { c.Name = "stategraft-medusa-1x" }), byPolicy},
		"without a number":        {add(func(c *corev1.EphemeralContainer) { c.Name = "stategraft-medusa" }), byPolicy},
		"that sees the database":  {add(func(c *corev1.EphemeralContainer) { c.TargetContainerName = "database" }), byPolicy},
		"that is typed into":      {add(func(c *corev1.EphemeralContainer) { c.Stdin = true }), byPolicy},
		"without a context":       {add(func(c *corev1.EphemeralContainer) { c.SecurityContext = nil }), byPolicy},
		"as root":                 {secured(func(s *corev1.SecurityContext) { s.RunAsNonRoot = nil }), byPolicy},
		"privileged":              {secured(func(s *corev1.SecurityContext) { s.Privileged, s.AllowPrivilegeEscalation = new(true), nil }), byPolicy},
		"that may escalate":       {secured(func(s *corev1.SecurityContext) { s.AllowPrivilegeEscalation = new(true) }), byPolicy},
		"with a capability":       {secured(func(s *corev1.SecurityContext) { s.Capabilities.Add = []corev1.Capability{"SYS_PTRACE"} }), byPolicy},
		"without seccomp":         {secured(func(s *corev1.SecurityContext) { s.SeccompProfile.Type = corev1.SeccompProfileTypeUnconfined }), byPolicy},
		"with other capabilities": {secured(func(s *corev1.SecurityContext) { s.Capabilities.Drop = []corev1.Capability{"NET_RAW"} }), byPolicy},
		"without AppArmor": {secured(func(s *corev1.SecurityContext) {
			s.AppArmorProfile = &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeUnconfined}
		}), byPolicy},
		"the database's SELinux": {secured(func(s *corev1.SecurityContext) { s.SELinuxOptions = &corev1.SELinuxOptions{Level: "s0:c1,c2"} }), granted},
		"SELinux of its own": {secured(func(s *corev1.SecurityContext) {
			s.SELinuxOptions = &corev1.SELinuxOptions{Level: "s0:c1,c2", Type: "spc_t"}
		}), byPolicy},
		"with the token":           {add(func(c *corev1.EphemeralContainer) { c.VolumeMounts = []corev1.VolumeMount{token} }), byPolicy},
		"two, one as root":         {controller.graft(db, grafted(func(*corev1.EphemeralContainer) {}), grafted(func(c *corev1.EphemeralContainer) { c.Name, c.SecurityContext = "stategraft-medusa-2", nil })), byPolicy},
		"a label":                  {controller.patchPod(db, "c-0", `{"metadata":{"labels":{"stategraft.io/injected":"cassandra"}}}`), granted},
		"a label, not labelled":    {controller.patchPod(bare, "c-0", `{"metadata":{"labels":{"stategraft.io/injected":"cassandra"}}}`), byPolicy},
		"webhook: ours":            {hook.graft(db, grafted(func(*corev1.EphemeralContainer) {})), byRole},
		"administrator: something": {admin.graft(db, grafted(func(c *corev1.EphemeralContainer) { c.Name, c.SecurityContext = "debugger", nil })), granted},
	} {
		expect(t, name, c.request, c.want)
	}
}

// TestAdoptedOnServer asks what may become of containers that were added.
func TestAdoptedOnServer(t *testing.T) {
	cp := applied(t, deploy.SelfSigned)
	const db = "adopted-db"
	admin, controller := as(t, cp, ""), as(t, cp, "stategraft-controller")
	namespace(t, cp, db, nil)
	createPod(t, admin.kube, db, "c-0", nil)
	bad := grafted(func(c *corev1.EphemeralContainer) { c.Name = "debugger" })
	awaitTrue(t, "the policy to be in force", func() bool {
		policy, _ := forbidden(controller.graft(db, bad)(t.Context()))
		return policy
	})
	kubectl(t, cp, "", "label", "namespace", db, "stategraft.io/inject=enabled")
	// Somebody's own is there, which the policy has nothing to say about.
	pod, err := admin.kube.CoreV1().Pods(db).Get(t.Context(), "c-0", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	theirs := grafted(func(c *corev1.EphemeralContainer) {
		c.Name, c.SecurityContext, c.TargetContainerName = "debugger", nil, "database"
	})
	pod.Spec.EphemeralContainers = []corev1.EphemeralContainer{theirs, grafted(func(*corev1.EphemeralContainer) {})}
	if pod, err = admin.kube.CoreV1().Pods(db).UpdateEphemeralContainers(t.Context(), "c-0", pod, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	there := pod.Spec.EphemeralContainers // with the server's defaults
	next := grafted(func(c *corev1.EphemeralContainer) { c.Name = "stategraft-medusa-2" })
	changed := there[1]
	changed.Image = "example.com/other:1"
	awaitTrue(t, "the label to be seen", func() bool { return controller.graft(db, there[0], there[1], next)(t.Context()) == nil })
	for name, containers := range map[string][]corev1.EphemeralContainer{
		"one changed":         {there[0], changed},
		"one changed, by one": {there[0], changed, next},
		"ours taken out":      {there[0]},
		"theirs taken out":    {there[1], next},
		"all taken out":       {},
	} {
		// The API server refuses these itself, whoever asks.
		if err := controller.graft(db, containers...)(t.Context()); !apierrors.IsInvalid(err) {
			if policy, _ := forbidden(err); !policy {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	other := grafted(func(c *corev1.EphemeralContainer) { c.Name = "debugger-2" })
	expect(t, "of another name, beside them", controller.graft(db, there[0], there[1], other), byPolicy)
}

// tokenVolume is the volume by which Kubernetes gives a pod its token.
func tokenVolume(t *testing.T, pod *corev1.Pod) string {
	t.Helper()
	for _, v := range pod.Spec.Volumes {
		if v.Projected != nil {
			return v.Name
		}
	}
	t.Fatalf("pod %s has no token: %v", pod.Name, pod.Spec.Volumes)
	return ""
}

// grafted is a container as patches.Adopt makes it.
func grafted(edit func(*corev1.EphemeralContainer)) corev1.EphemeralContainer {
	c := corev1.EphemeralContainer{EphemeralContainerCommon: corev1.EphemeralContainerCommon{
		Name: "stategraft-agent-1", Image: "example.com/agent:1", ImagePullPolicy: corev1.PullIfNotPresent, TerminationMessagePolicy: corev1.TerminationMessageReadFile,
		Env: []corev1.EnvVar{{Name: "STATEGRAFT_FILE_TLS_KEY", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
			LocalObjectReference: corev1.LocalObjectReference{Name: api.SecretGRPC}, Key: "tls.key"}}}},
		SecurityContext: &corev1.SecurityContext{RunAsUser: new(int64(999)), RunAsNonRoot: new(true), AllowPrivilegeEscalation: new(false),
			Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}, SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}},
	}}
	edit(&c)
	return c
}

// graft adds containers to pod c-0 of a namespace.
func (a account) graft(ns string, containers ...corev1.EphemeralContainer) func(context.Context) error {
	return func(ctx context.Context) error {
		body, err := json.Marshal([]map[string]any{{"op": "add", "path": "/spec/ephemeralContainers", "value": containers}})
		if err != nil {
			return err
		}
		_, err = a.kube.CoreV1().Pods(ns).Patch(ctx, "c-0", types.JSONPatchType, body, metav1.PatchOptions{DryRun: dryRun}, "ephemeralcontainers")
		return err
	}
}

func (a account) patchPod(ns, name, patch string) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := a.kube.CoreV1().Pods(ns).Patch(ctx, name, types.MergePatchType, []byte(patch), metav1.PatchOptions{DryRun: dryRun})
		return err
	}
}
