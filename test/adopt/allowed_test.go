package adopt

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/adopted"
	"github.com/stategraft/stategraft/test/adopt/simulated"
)

// forbidden is what the controller's account might want to make of containers that it may
// add.
var forbidden = []struct {
	name string
	does func(*corev1.EphemeralContainer)
}{
	{"another name", func(c *corev1.EphemeralContainer) { c.Name = "debugger-9" }},
	{"privileged", func(c *corev1.EphemeralContainer) {
		c.SecurityContext.Privileged, c.SecurityContext.AllowPrivilegeEscalation = new(true), nil
	}},
	{"privilege escalation", func(c *corev1.EphemeralContainer) { c.SecurityContext.AllowPrivilegeEscalation = new(true) }},
	{"root", func(c *corev1.EphemeralContainer) {
		c.SecurityContext.RunAsNonRoot, c.SecurityContext.RunAsUser = nil, new(int64(0))
	}},
	{"not said to be no root", func(c *corev1.EphemeralContainer) { c.SecurityContext.RunAsNonRoot = nil }},
	{"no security context", func(c *corev1.EphemeralContainer) { c.SecurityContext = nil }},
	{"a capability", func(c *corev1.EphemeralContainer) {
		c.SecurityContext.Capabilities = &corev1.Capabilities{Add: []corev1.Capability{"SYS_PTRACE"}}
	}},
	{"no seccomp", func(c *corev1.EphemeralContainer) {
		c.SecurityContext.SeccompProfile = &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeUnconfined}
	}},
	{"the processes of the database", func(c *corev1.EphemeralContainer) { c.TargetContainerName = "cassandra" }},
	{"a terminal", func(c *corev1.EphemeralContainer) { c.Stdin, c.TTY = true, true }},
}

// With the rights and the policies of the chart the controller may add to pods of labelled
// namespaces what it adds, and nothing else; it may change and remove none, and write no
// label but its own.
func TestAllowedToController(t *testing.T) {
	t.Parallel()
	ctx, e := start(t, 15*time.Minute)
	const prefix = "allowed-"
	w, stop, err := e.Witness(ctx, prefix, usual(), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	var towns []*Town
	defer func() { look(ctx, t, w, stop, towns...) }()
	for _, name := range []string{"labelled", "bare"} {
		town, err := e.Settle(ctx, prefix+name, simulated.Played{Node: spread}, Cassandra("ring", 1))
		if err != nil {
			t.Fatal(err)
		}
		towns = append(towns, town)
	}
	if err := towns[0].Label(ctx, api.AdoptRunning); err != nil {
		t.Fatal(err)
	}
	if err := towns[0].adopted(ctx, "ring-0"); err != nil {
		t.Fatal(err)
	}
	config, err := e.AsController(ctx)
	if err != nil {
		t.Fatal(err)
	}
	controller, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	adoptee, err := towns[0].Pod(ctx, "ring-0")
	if err != nil {
		t.Fatal(err)
	}
	bare, err := towns[1].Pod(ctx, "ring-0")
	if err != nil {
		t.Fatal(err)
	}
	next := adopted.Parts(adoptee)[2].Container.DeepCopy()
	next.Name = strings.TrimSuffix(next.Name, "3") + "4"
	// What is refused below is so for what is changed about it, as it is taken itself.
	if err := tries(ctx, controller, adoptee, *next); err != nil {
		t.Fatalf("the controller may not add what it adds: %v", err)
	}
	refused := 0
	expect := func(what string, err error) {
		t.Helper()
		if !apierrors.IsForbidden(err) && !apierrors.IsInvalid(err) {
			t.Errorf("%s: not refused, but %v", what, err)
			return
		}
		refused++
	}
	for _, f := range forbidden {
		c := next.DeepCopy()
		f.does(c)
		expect(f.name, tries(ctx, controller, adoptee, *c))
		// Of the administrator it is taken: it is the policy that holds the controller back.
		if err := tries(ctx, e.Client, adoptee, *c); err != nil {
			t.Errorf("%s: not taken of anybody: %v", f.name, err)
		}
	}
	expect("a namespace that is not labelled", tries(ctx, controller, bare, *next))
	changed := adoptee.DeepCopy()
	changed.Spec.EphemeralContainers[0].Image = "other"
	expect("another image of one that is there", tries(ctx, controller, changed))
	removed := adoptee.DeepCopy()
	removed.Spec.EphemeralContainers = removed.Spec.EphemeralContainers[1:]
	expect("one removed", tries(ctx, controller, removed))
	c := next.DeepCopy()
	c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: token(adoptee), MountPath: "/token"})
	expect("the pod's token", tries(ctx, controller, adoptee, *c))
	patch := func(pod *corev1.Pod, text string) error {
		_, err := controller.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, []byte(text), metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	}
	expect("the image of the database", patch(adoptee, `{"spec": {"containers": [{"name": "cassandra", "image": "other"}]}}`))
	expect("the label of an adopted pod where nothing is to be injected", patch(bare, `{"metadata": {"labels": {"`+api.LabelInjected+`": "cassandra"}}}`))
	if !t.Failed() {
		figure(t, "the controller's account, with the chart's rights: what it adds is taken, %d other things are refused", refused)
	}
}

// token is the volume that has the token of a pod.
func token(pod *corev1.Pod) string {
	for _, v := range pod.Spec.Volumes {
		if strings.HasPrefix(v.Name, "kube-api-access-") {
			return v.Name
		}
	}
	return ""
}

// tries asks for containers to be added to a pod, on a dry run.
func tries(ctx context.Context, as kubernetes.Interface, pod *corev1.Pod, more ...corev1.EphemeralContainer) error {
	all := append(pod.Spec.EphemeralContainers[:len(pod.Spec.EphemeralContainers):len(pod.Spec.EphemeralContainers)], more...)
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"ephemeralContainers": all}})
	if err != nil {
		return err
	}
	_, err = as.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.MergePatchType, patch, metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}}, "ephemeralcontainers")
	return err
}

// Pods of the restricted Pod Security Standard are adopted in namespaces that enforce it.
func TestRestricted(t *testing.T) {
	t.Parallel()
	ctx, e := start(t, 15*time.Minute)
	const namespace = "restricted"
	w, stop, err := e.Witness(ctx, namespace, usual(), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	var town *Town
	defer func() { look(ctx, t, w, stop, compact(town)...) }()
	enforced := map[string]string{"pod-security.kubernetes.io/enforce": "restricted"}
	if town, err = e.Found(ctx, namespace, enforced, simulated.Played{Node: spread}); err != nil {
		t.Fatal(err)
	}
	if err := town.Configure(ctx); err != nil {
		t.Fatal(err)
	}
	if err := town.Run(ctx, Cassandra("plain", 1), Cassandra("managed", 1, Managed)); err != nil {
		t.Fatal(err)
	}
	if err := town.Label(ctx, api.AdoptRunning); err != nil {
		t.Fatal(err)
	}
	if err := town.adopted(ctx, "plain-0", "managed-0"); err != nil {
		t.Fatal(err)
	}
	// It is enforced: the administrator's container is not.
	pod, err := town.Pod(ctx, "plain-0")
	if err != nil {
		t.Fatal(err)
	}
	pod.Spec.EphemeralContainers = append(pod.Spec.EphemeralContainers, corev1.EphemeralContainer{EphemeralContainerCommon: corev1.EphemeralContainerCommon{
		Name: "debug", Image: "busybox", SecurityContext: &corev1.SecurityContext{Privileged: new(true)}}})
	_, err = e.Client.CoreV1().Pods(namespace).UpdateEphemeralContainers(ctx, pod.Name, pod, metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}})
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "PodSecurity") {
		t.Errorf("a privileged container is answered with %v, so nothing is enforced here", err)
	}
	figure(t, "a namespace that enforces restricted takes the containers of %d pods", w.Of(namespace).Up)
}
