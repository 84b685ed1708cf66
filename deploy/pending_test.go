package deploy_test

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/deploy"
	"github.com/stategraft/stategraft/test/cluster"
)

// say writes the status of a Restore.
func say(t *testing.T, restores dynamic.ResourceInterface, name, status string) {
	t.Helper()
	if _, err := restores.Patch(t.Context(), name, types.MergePatchType, []byte(`{"status":`+status+`}`), metav1.PatchOptions{}, "status"); err != nil {
		t.Fatal(err)
	}
}

// tryPod asks for a pod, on a dry run.
func tryPod(t *testing.T, cp *cluster.ControlPlane, ns string, edit func(*corev1.Pod)) error {
	t.Helper()
	pod := asking("")
	pod.Annotations = nil
	edit(pod)
	_, err := client(t, cp, "").CoreV1().Pods(ns).Create(t.Context(), pod, metav1.CreateOptions{DryRun: dryRun})
	return err
}

func named(name string, edits ...func(*corev1.Pod)) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Name = name
		for _, edit := range edits {
			edit(p)
		}
	}
}

// forID gives the pod the container that restores for the ids, one variable each.
func forID(ids ...string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		restores(p)
		for _, id := range ids {
			p.Spec.InitContainers[0].Env = append(p.Spec.InitContainers[0].Env, corev1.EnvVar{Name: "STATEGRAFT_RESTORE_ID", Value: id})
		}
	}
}

// spoil changes the container that restores.
func spoil(how func(*corev1.Container)) func(*corev1.Pod) {
	return func(p *corev1.Pod) { how(&p.Spec.InitContainers[0]) }
}

// TestPendingPodsAreHeld asks a real API server for pods that Restores are about,
// with nobody there to add the container.
func TestPendingPodsAreHeld(t *testing.T) {
	manifest, err := deploy.Pick(deploy.SelfSigned, "Namespace", "CustomResourceDefinition",
		"ValidatingAdmissionPolicy/"+pendingPolicy, "ValidatingAdmissionPolicyBinding/"+pendingPolicy)
	if err != nil {
		t.Fatal(err)
	}
	cp := applied(t, manifest)
	const db, none, bare, off, calm = "pending-db", "pending-none", "pending-bare", "pending-off", "pending-calm"
	namespace(t, cp, db, underWay)
	namespace(t, cp, none, underWay)
	namespace(t, cp, bare, map[string]string{api.LabelRestoring: api.RestoringTrue})
	namespace(t, cp, off, map[string]string{api.LabelInject: api.InjectDisabled, api.LabelRestoring: api.RestoringTrue})
	namespace(t, cp, calm, map[string]string{api.LabelInject: api.InjectEnabled})
	const spec = "backup: b1, pods: {names: [db-0]}"
	for _, ns := range []string{db, bare, off, calm} {
		in := restoresIn(t, cp, ns)
		makeRestore(t, in, "r1", spec)
		say(t, in, "r1", `{"id":"r1/1","pending":["db-0","both-0"],"probe":"r1-probe"}`)
		makeRestore(t, in, "r2", spec)
		say(t, in, "r2", `{"id":"r2/2","pending":["db-1","both-0"]}`)
		makeRestore(t, in, "silent", spec) // has no status
		makeRestore(t, in, "begun", spec)
		say(t, in, "begun", `{"phase":"Waiting"}`)
		makeRestore(t, in, "done", spec)
		say(t, in, "done", `{"id":"done/4","phase":"Completed","pods":[{"name":"db-2","phase":"Restored"}]}`)
	}
	awaitTrue(t, "the list to be in force", func() bool {
		return apierrors.IsForbidden(tryPod(t, cp, db, named("db-0"))) && apierrors.IsForbidden(tryPod(t, cp, db, named("db-1")))
	})
	const r1, webhook = "is to be restored by Restore r1 and has no init container stategraft-restore for it", "see that the Stategraft webhook is running"
	always := corev1.ContainerRestartPolicyAlways
	for name, c := range map[string]struct {
		ns   string
		edit func(*corev1.Pod)
		want []string // in the refusal; none where it is created
	}{
		"bare pod":                 {db, named("db-0"), []string{"pod " + db + "/db-0 " + r1, webhook, "kubectl stategraft restore cancel r1 -n " + db}},
		"the other's":              {db, named("db-1"), []string{"Restore r2 "}},
		"restores":                 {db, named("db-0", forID("r1/1")), nil},
		"restores, the other's":    {db, named("db-1", forID("r2/2")), nil},
		"for another":              {db, named("db-0", forID("r2/2")), []string{r1}},
		"of the template":          {db, named("db-0", restores), []string{r1}},
		"empty id":                 {db, named("db-0", forID("")), []string{r1}},
		"two entries, one wrong":   {db, named("db-0", forID("r2/2", "r1/1")), []string{r1}},
		"two entries, last wrong":  {db, named("db-0", forID("r1/1", "r2/2")), []string{r1}},
		"two entries, both right":  {db, named("db-0", forID("r1/1", "r1/1")), nil},
		"from elsewhere":           {db, named("db-0", forID("r1/1"), spoil(fromField)), []string{r1}},
		"native sidecar":           {db, named("db-0", forID("r1/1"), spoil(func(c *corev1.Container) { c.RestartPolicy = &always })), []string{r1}},
		"another program":          {db, named("db-0", forID("r1/1"), spoil(func(c *corev1.Container) { c.Command = []string{"true"} })), []string{r1}},
		"no command":               {db, named("db-0", forID("r1/1"), spoil(func(c *corev1.Container) { c.Command = nil })), []string{r1}},
		"another container":        {db, named("db-0", forID("r1/1"), spoil(func(c *corev1.Container) { c.Name = "restore" })), []string{r1}},
		"an ordinary container":    {db, named("db-0", forID("r1/1"), ordinary), []string{r1}},
		"opted out":                {db, named("db-0", optOut), []string{r1, "remove the label"}},
		"opted out, restores":      {db, named("db-0", optOut, forID("r1/1")), nil},
		"gated":                    {db, named("db-0", gated), []string{r1}},
		"two Restores, one served": {db, named("both-0", forID("r1/1")), []string{"Restore r2 "}},
		"probe":                    {db, named("r1-probe"), []string{"r1-probe " + r1}},
		"not pending any more":     {db, named("db-2"), nil},
		"of no Restore":            {db, named("db-3"), nil},
		"name made up":             {db, func(p *corev1.Pod) { p.Name, p.GenerateName = "", "db-" }, nil},
		"mirror pod":               {db, named("db-0", mirror), nil},
		"no Restores there":        {none, named("db-0"), nil},
		"not labelled":             {bare, named("db-0"), nil},
		"labelled off":             {off, named("db-0"), nil},
		"no Restore is under way":  {calm, named("db-0"), nil},
		"ours":                     {home, named("db-0"), nil},
		"system":                   {"kube-system", named("db-0"), nil},
	} {
		err := tryPod(t, cp, c.ns, c.edit)
		switch {
		case c.want == nil && err != nil:
			t.Errorf("%s: refused: %v", name, err)
		case c.want != nil && err == nil:
			t.Errorf("%s: created without its restore", name)
		}
		for _, want := range c.want {
			if err != nil && (!strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "'"+pendingPolicy+"'")) {
				t.Errorf("%s: %q is not in: %v", name, want, err)
			}
		}
	}
	// The label is known as soon as the list is.
	kubectl(t, cp, "", "label", "namespace", calm, api.LabelRestoring+"="+api.RestoringTrue)
	awaitTrue(t, "the label to be known", func() bool { return apierrors.IsForbidden(tryPod(t, cp, calm, named("db-0"))) })
	kubectl(t, cp, "", "label", "namespace", calm, api.LabelRestoring+"-")
	awaitTrue(t, "the label to be gone", func() bool { return tryPod(t, cp, calm, named("db-0")) == nil })
	letsGo(t, cp, db)
}

// underWay is what a namespace bears in which a Restore is under way.
var underWay = map[string]string{api.LabelInject: api.InjectEnabled, api.LabelRestoring: api.RestoringTrue}

// letsGo takes pods off the lists, in every way there is.
func letsGo(t *testing.T, cp *cluster.ControlPlane, ns string) {
	t.Helper()
	in := restoresIn(t, cp, ns)
	say(t, in, "r1", `{"pending":["both-0"]}`)
	awaitTrue(t, "a pod that is taken off the list", func() bool { return tryPod(t, cp, ns, named("db-0")) == nil })
	if err := tryPod(t, cp, ns, named("both-0")); err == nil {
		t.Error("both-0 is created, and is on two lists")
	}
	if err := in.Delete(t.Context(), "r2", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	awaitTrue(t, "a pod of a Restore that is deleted", func() bool { return tryPod(t, cp, ns, named("db-1")) == nil })
	say(t, in, "r1", `{"pending":null,"probe":null}`)
	awaitTrue(t, "the last pods to be let go", func() bool {
		return tryPod(t, cp, ns, named("both-0")) == nil && tryPod(t, cp, ns, named("r1-probe")) == nil
	})
}

// Where there are no Restores at all, pods of namespaces in which one is said to be
// under way are not created, and all others are: also those of labelled namespaces. On a control plane of its own: an API server that has had the
// CustomResourceDefinition goes on with what it knew, which is no Restore. It looks
// for new kinds twice a minute, and so takes up to 30 seconds afterwards.
func TestPendingFailsClosed(t *testing.T) {
	rig(t) // skips where none is to be started
	cp, err := cluster.Start(t.Context(), cluster.Options{Log: os.Stderr})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cp.Stop(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	manifest, err := deploy.Pick(deploy.SelfSigned, "Namespace", "ValidatingAdmissionPolicy/"+pendingPolicy, "ValidatingAdmissionPolicyBinding/"+pendingPolicy)
	if err != nil {
		t.Fatal(err)
	}
	kubectl(t, cp, string(manifest), "apply", "-f", "-")
	const db, calm, bare = "pending-closed", "pending-calm", "pending-open"
	namespace(t, cp, db, underWay)
	namespace(t, cp, calm, map[string]string{api.LabelInject: api.InjectEnabled})
	namespace(t, cp, bare, nil)
	kubectl(t, cp, "", "label", "namespace", "kube-public", home, "stategraft.io/inject=enabled", "stategraft.io/restoring=true")
	kubectl(t, cp, "", "wait", "--for=create", "--timeout=180s", "serviceaccount/default", "-n", home)
	refused := func() bool {
		err := tryPod(t, cp, db, named("db-0"))
		return err != nil && strings.Contains(err.Error(), "'"+pendingPolicy+"' denied request: failed to configure policy")
	}
	awaitTrue(t, "pods to be refused", refused)
	for _, ns := range []string{calm, bare, "kube-system", "kube-public", home} {
		if err := tryPod(t, cp, ns, named("db-0")); err != nil {
			t.Errorf("%s: %v", ns, err)
		}
	}
	// The remedy.
	crd, err := deploy.Pick(deploy.SelfSigned, "CustomResourceDefinition")
	if err != nil {
		t.Fatal(err)
	}
	kubectl(t, cp, string(crd), "apply", "-f", "-")
	since := time.Now()
	awaitTrue(t, "pods to be created again", func() bool { return tryPod(t, cp, db, named("db-0")) == nil })
	t.Logf("created %s after the CustomResourceDefinition", time.Since(since).Round(100*time.Millisecond))
}

func fromField(c *corev1.Container) {
	e := &c.Env[len(c.Env)-1]
	e.Value, e.ValueFrom = "", &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}}
}

func ordinary(p *corev1.Pod) {
	p.Spec.Containers, p.Spec.InitContainers = append(p.Spec.Containers, p.Spec.InitContainers...), nil
}

func gated(p *corev1.Pod) {
	p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "stategraft.io/restore"}}
}

func mirror(p *corev1.Pod) {
	p.Annotations = map[string]string{"kubernetes.io/config.mirror": "1"}
	p.Spec.NodeName = "node-1"
}
