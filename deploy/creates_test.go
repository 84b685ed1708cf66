package deploy_test

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/stategraft/stategraft/deploy"
	"github.com/stategraft/stategraft/test/cluster"
)

// boundsOnly applies what gives the controller its rights and bounds, and no
// webhook that pods would wait for.
func boundsOnly(t *testing.T) *cluster.ControlPlane {
	t.Helper()
	manifest, err := deploy.Pick(deploy.SelfSigned, "Namespace", "CustomResourceDefinition", "ServiceAccount", "ClusterRole", "ClusterRoleBinding",
		"ValidatingAdmissionPolicy/controller-creates.stategraft.io", "ValidatingAdmissionPolicyBinding/controller-creates.stategraft.io",
		"ValidatingAdmissionPolicy/controller-pods.stategraft.io", "ValidatingAdmissionPolicyBinding/controller-pods.stategraft.io")
	if err != nil {
		t.Fatal(err)
	}
	return applied(t, manifest)
}

// lookup is a pod as the controller makes it to look into a bucket.
func lookup() *corev1.Pod {
	no := false
	pod := asking("")
	pod.Name, pod.Annotations = "stategraft-lookup-r1", nil
	pod.Spec.AutomountServiceAccountToken = &no
	medusa := pod.Spec.Containers[0]
	medusa.Name, medusa.Image = "stategraft-medusa", "medusa:1"
	medusa.Env = []corev1.EnvVar{{Name: "KEY", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "cql"}, Key: "username", Optional: &no}}}}
	agent := *medusa.DeepCopy()
	agent.Name = "stategraft-agent"
	pod.Spec.Containers = []corev1.Container{agent, medusa}
	pod.Spec.Volumes = []corev1.Volume{
		{Name: "stategraft-shared", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
		{Name: "stategraft-medusa-config", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "medusa"}}}},
		{Name: "stategraft-storage", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "medusa-bucket-key"}}},
		{Name: "all", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
			{Secret: &corev1.SecretProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "stategraft-grpc"}}}}}}},
	}
	return pod
}

// createForGood has the controller create a pod, and takes it out of the way of the next.
func createForGood(t *testing.T, cp *cluster.ControlPlane, ns string, pod *corev1.Pod) error {
	created, err := client(t, cp, "stategraft-controller").CoreV1().Pods(ns).Create(t.Context(), pod, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	err = client(t, cp, "").CoreV1().Pods(ns).Delete(t.Context(), created.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)})
	if apierrors.IsNotFound(err) {
		return nil // the garbage collector was faster: its owner is not there
	}
	return err
}

// expectCreation looks at what became of a creation by the controller: it is refused by
// the policy for what want says, or not at all where that is empty.
func expectCreation(t *testing.T, name string, err error, want string) {
	t.Helper()
	switch {
	case want == "" && err != nil:
		t.Errorf("%s: %v", name, err)
	case want == "":
	case err == nil:
		t.Errorf("%s: created", name)
	case !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "'controller-creates.stategraft.io'"):
		t.Errorf("%s: %q is not in: %v", name, want, err)
	}
}

// TestControllerCreatesOnlyLookups has the controller create pods for good: a dry
// run would be let through.
func TestControllerCreatesOnlyLookups(t *testing.T) {
	cp := boundsOnly(t)
	const db, bare = "creates-db", "creates-bare"
	namespace(t, cp, db, map[string]string{"stategraft.io/inject": "enabled"})
	namespace(t, cp, bare, nil)
	kubectl(t, cp, "", "create", "serviceaccount", "deployer", "-n", db)
	kubectl(t, cp, "", "label", "namespace", "kube-public", "stategraft.io/inject=enabled")
	t.Cleanup(func() { unlabel(t, cp, "kube-public") })
	controller := client(t, cp, "stategraft-controller")
	try := func(ns string, edit func(*corev1.Pod)) error {
		pod := lookup()
		edit(pod)
		return createForGood(t, cp, ns, pod)
	}
	as := func(*corev1.Pod) {}
	awaitTrue(t, "the policy to be in force", func() bool { return apierrors.IsForbidden(try(bare, as)) })
	yes := true
	first := func(how func(*corev1.Container)) func(*corev1.Pod) {
		return func(p *corev1.Pod) { how(&p.Spec.Containers[0]) }
	}
	volume := func(source corev1.VolumeSource) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: "more", VolumeSource: source})
		}
	}
	secure := func(how func(*corev1.SecurityContext)) func(*corev1.Pod) {
		return first(func(c *corev1.Container) { how(c.SecurityContext) })
	}
	const where, containers, host, account = "in namespaces labelled", "with the containers stategraft-agent", "with nothing of the node", "of the account default only"
	for name, c := range map[string]struct {
		ns   string
		edit func(*corev1.Pod)
		want string // in the refusal; empty for none
	}{
		"lookup":            {db, as, ""},
		"no volumes":        {db, func(p *corev1.Pod) { p.Spec.Volumes = nil }, ""},
		"default by name":   {db, func(p *corev1.Pod) { p.Spec.ServiceAccountName = "default" }, ""},
		"not labelled":      {bare, as, where},
		"system":            {"kube-system", as, where},
		"system, labelled":  {"kube-public", as, where},
		"ours":              {home, as, where},
		"another name":      {db, func(p *corev1.Pod) { p.Name = "db-0" }, where},
		"another's name":    {db, func(p *corev1.Pod) { p.Name = "x-stategraft-lookup-r1" }, where},
		"name made up":      {db, func(p *corev1.Pod) { p.Name, p.GenerateName = "", "stategraft-lookup-" }, ""},
		"another container": {db, first(func(c *corev1.Container) { c.Name = "cassandra" }), containers},
		"another of ours":   {db, first(func(c *corev1.Container) { c.Name = "stategraft-restore" }), containers},
		"init container":    {db, func(p *corev1.Pod) { restores(p) }, containers},
		"host port":         {db, first(func(c *corev1.Container) { c.Ports = []corev1.ContainerPort{{ContainerPort: 8080, HostPort: 8080}} }), containers},
		"port":              {db, first(func(c *corev1.Container) { c.Ports = []corev1.ContainerPort{{ContainerPort: 8080}} }), ""},
		"privileged":        {db, secure(func(s *corev1.SecurityContext) { s.Privileged, s.AllowPrivilegeEscalation = &yes, nil }), containers},
		"capabilities":      {db, secure(func(s *corev1.SecurityContext) { s.Capabilities.Add = []corev1.Capability{"SYS_ADMIN"} }), containers},
		"host network":      {db, func(p *corev1.Pod) { p.Spec.HostNetwork = true }, host},
		"host PID":          {db, func(p *corev1.Pod) { p.Spec.HostPID = true }, host},
		"host IPC":          {db, func(p *corev1.Pod) { p.Spec.HostIPC = true }, host},
		"sysctl": {db, func(p *corev1.Pod) {
			p.Spec.SecurityContext.Sysctls = []corev1.Sysctl{{Name: "kernel.shm_rmid_forced", Value: "1"}}
		}, host},
		"host path":        {db, volume(hostPath.VolumeSource), host},
		"their volume":     {db, volume(corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data-db-0"}}), host},
		"projected token":  {db, volume(projected(corev1.VolumeProjection{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token"}})), host},
		"downward API":     {db, volume(projected(corev1.VolumeProjection{DownwardAPI: &corev1.DownwardAPIProjection{}})), ""},
		"token mounted":    {db, func(p *corev1.Pod) { p.Spec.AutomountServiceAccountToken = &yes }, account},
		"token by default": {db, func(p *corev1.Pod) { p.Spec.AutomountServiceAccountToken = nil }, account},
		"another account":  {db, func(p *corev1.Pod) { p.Spec.ServiceAccountName = "deployer" }, account},
	} {
		expectCreation(t, name, try(c.ns, c.edit), c.want)
	}
	// Others are not bound, and nor is a dry run.
	createPod(t, client(t, cp, ""), bare, "db-0", nil)
	if _, err := controller.CoreV1().Pods(bare).Create(t.Context(), lookup(), metav1.CreateOptions{DryRun: dryRun}); err != nil {
		t.Errorf("a dry run: %v", err)
	}
}

func projected(source corev1.VolumeProjection) corev1.VolumeSource {
	return corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{source}}}
}

// TestControllerLiftsOnlyItsGate has the controller change a pod that waits behind
// two gates.
func TestControllerLiftsOnlyItsGate(t *testing.T) {
	cp := boundsOnly(t)
	const db = "gates-db"
	namespace(t, cp, db, map[string]string{"stategraft.io/inject": "enabled"})
	admin, controller := client(t, cp, ""), client(t, cp, "stategraft-controller")
	pod := asking("")
	pod.Annotations = nil
	pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/theirs"}, {Name: "stategraft.io/restore"}}
	if _, err := admin.CoreV1().Pods(db).Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	const theirs, ours = `[{"op":"remove","path":"/spec/schedulingGates/0"}]`, `[{"op":"remove","path":"/spec/schedulingGates/1"}]`
	awaitTrue(t, "the policy to be in force", func() bool {
		policy, _ := forbidden(patchJSON(controller, db, theirs)(t.Context()))
		return policy
	})
	for name, c := range map[string]struct {
		request func(context.Context) error
		want    bool
	}{
		"ours":            {patchJSON(controller, db, ours), true},
		"both":            {patchJSON(controller, db, `[{"op":"remove","path":"/spec/schedulingGates"}]`), false},
		"a deadline":      {patchJSON(controller, db, `[{"op":"add","path":"/spec/activeDeadlineSeconds","value":1}]`), false},
		"an annotation":   {patchJSON(controller, db, `[{"op":"add","path":"/metadata/annotations","value":{"stategraft.io/restore-answer":"b1"}}]`), true},
		"administrator's": {patchJSON(admin, db, theirs), true},
	} {
		err := c.request(t.Context())
		policy, _ := forbidden(err)
		if (err == nil) != c.want || err != nil && !policy {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func patchJSON(c kubernetes.Interface, ns, patch string) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := c.CoreV1().Pods(ns).Patch(ctx, "ring-0", types.JSONPatchType, []byte(patch), metav1.PatchOptions{DryRun: dryRun})
		return err
	}
}
