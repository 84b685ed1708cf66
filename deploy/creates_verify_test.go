package deploy_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
)

// verifies is a pod as the controller makes it to restore a backup into on trial.
func verifies() *corev1.Pod {
	pod := lookup()
	pod.Name = "stategraft-verify-0a1b2c3d"
	like := pod.Spec.Containers[0]
	like.Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("2Gi")}
	named := func(name string) corev1.Container {
		c := *like.DeepCopy()
		c.Name = name
		return c
	}
	pod.Spec.InitContainers = []corev1.Container{named("stategraft-setup"), named("stategraft-restore")}
	pod.Spec.Containers = []corev1.Container{named("stategraft-verify")}
	pod.Spec.Containers[0].Command = []string{"/stategraft/bin/stategraft-agent", "verify"}
	pod.Spec.RestartPolicy, pod.Spec.ActiveDeadlineSeconds = corev1.RestartPolicyNever, new(int64(3600))
	return pod
}

// claimFor is a volume with a claim that is made for the pod.
func claimFor(edit func(*corev1.PersistentVolumeClaimSpec)) func(*corev1.Pod) {
	spec := corev1.PersistentVolumeClaimSpec{AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}}}
	edit(&spec)
	return func(p *corev1.Pod) {
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: "data", VolumeSource: corev1.VolumeSource{
			Ephemeral: &corev1.EphemeralVolumeSource{VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{Spec: spec}}}})
	}
}

// TestControllerCreatesVerifyingPods is TestControllerCreatesOnlyLookups for the pods
// that backups are restored into on trial.
func TestControllerCreatesVerifyingPods(t *testing.T) {
	cp := boundsOnly(t)
	const db, bare = "verify-db", "verify-bare"
	namespace(t, cp, db, map[string]string{"stategraft.io/inject": "enabled"})
	namespace(t, cp, bare, nil)
	try := func(ns string, edit func(*corev1.Pod)) error {
		pod := verifies()
		edit(pod)
		return createForGood(t, cp, ns, pod)
	}
	as := func(*corev1.Pod) {}
	awaitTrue(t, "the policy to be in force", func() bool { return apierrors.IsForbidden(try(bare, as)) })
	yes, snapshot := true, "volumesnapshots"
	const where, containers, volumes, account, ends, command = "in namespaces labelled", "with the containers", "with nothing of the node", "of the account default only", "that end by themselves", "run stategraft-agent verify only"
	for name, c := range map[string]struct {
		ns   string
		edit func(*corev1.Pod)
		want string // in the refusal; empty for none
	}{
		"verifies":        {db, as, ""},
		"no setup":        {db, func(p *corev1.Pod) { p.Spec.InitContainers = nil }, ""},
		"not labelled":    {bare, as, where},
		"a lookup's name": {db, func(p *corev1.Pod) { p.Name = "stategraft-lookup-r1" }, containers},
		"their container": {db, func(p *corev1.Pod) { p.Spec.Containers[0].Name = "cassandra" }, containers},
		"a lookup's":      {db, func(p *corev1.Pod) { p.Spec.Containers[0].Name = "stategraft-medusa" }, containers},
		"another before":  {db, func(p *corev1.Pod) { p.Spec.InitContainers[0].Name = "stategraft-verify-too" }, containers},
		"privileged": {db, func(p *corev1.Pod) {
			c := p.Spec.InitContainers[1].SecurityContext
			c.Privileged, c.AllowPrivilegeEscalation = &yes, nil
		}, containers},
		"token":        {db, func(p *corev1.Pod) { p.Spec.AutomountServiceAccountToken = &yes }, account},
		"host network": {db, func(p *corev1.Pod) { p.Spec.HostNetwork = true }, volumes},
		"their claim": {db, func(p *corev1.Pod) {
			p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: "data", VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data-db-0"}}})
		}, volumes},
		"a new claim": {db, claimFor(func(*corev1.PersistentVolumeClaimSpec) {}), ""},
		"a volume":    {db, claimFor(func(c *corev1.PersistentVolumeClaimSpec) { c.VolumeName = "pvc-1" }), volumes},
		"a copy": {db, claimFor(func(c *corev1.PersistentVolumeClaimSpec) {
			c.DataSource = &corev1.TypedLocalObjectReference{Kind: "PersistentVolumeClaim", Name: "data-db-0"}
		}), volumes},
		"a copy, other": {db, claimFor(func(c *corev1.PersistentVolumeClaimSpec) {
			c.DataSourceRef = &corev1.TypedObjectReference{APIGroup: &snapshot, Kind: "VolumeSnapshot", Name: "s"}
		}), volumes},
		"host path":        {db, func(p *corev1.Pod) { p.Spec.Volumes = append(p.Spec.Volumes, hostPath) }, volumes},
		"another command":  {db, func(p *corev1.Pod) { p.Spec.Containers[0].Command = []string{"sh"} }, command},
		"the image's own":  {db, func(p *corev1.Pod) { p.Spec.Containers[0].Command = nil }, command},
		"with arguments":   {db, func(p *corev1.Pod) { p.Spec.Containers[0].Args = []string{"--help"} }, command},
		"no deadline":      {db, func(p *corev1.Pod) { p.Spec.ActiveDeadlineSeconds = nil }, ends},
		"again and again":  {db, func(p *corev1.Pod) { p.Spec.RestartPolicy = corev1.RestartPolicyAlways }, ends},
		"no limit":         {db, func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Limits = nil }, ends},
		"no limit, before": {db, func(p *corev1.Pod) { p.Spec.InitContainers[1].Resources.Limits = nil }, ends},
	} {
		expectCreation(t, name, try(c.ns, c.edit), c.want)
	}
	// What the label was taken off from is still ours to tidy up.
	controller, admin := client(t, cp, "stategraft-controller"), client(t, cp, "")
	createPod(t, admin, bare, "stategraft-verify-1", nil)
	createPod(t, admin, bare, "db-0", nil)
	awaitTrue(t, "the policy on pods to be in force", func() bool {
		policy, _ := forbidden(deletePod(controller, bare, "db-0")(t.Context()))
		return policy
	})
	if err := deletePod(controller, bare, "stategraft-verify-1")(t.Context()); err != nil {
		t.Errorf("deleting its own: %v", err)
	}
}
