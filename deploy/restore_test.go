package deploy_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stategraft/stategraft/deploy"
	"github.com/stategraft/stategraft/test/cluster"
)

// TestRestoreIsHeld asks a real API server for pods that ask for a restore, with
// nobody there to add the container that does it: none is created, wherever it is,
// and what it says is the remedy there.
func TestRestoreIsHeld(t *testing.T) {
	policies, err := deploy.Pick(deploy.SelfSigned, "Namespace", "CustomResourceDefinition", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")
	if err != nil {
		t.Fatal(err)
	}
	cp := applied(t, policies)
	const db, bare, off = "restore-db", "restore-bare", "restore-off"
	namespace(t, cp, db, map[string]string{"stategraft.io/inject": "enabled"})
	namespace(t, cp, bare, nil)
	namespace(t, cp, off, map[string]string{"stategraft.io/inject": "disabled"})
	kubectl(t, cp, "", "label", "namespace", "kube-public", "stategraft.io/inject=enabled")
	t.Cleanup(func() { unlabel(t, cp, "kube-public") })
	pods := client(t, cp, "").CoreV1()
	try := func(ns string, edit func(*corev1.Pod)) error {
		pod := asking("b1")
		edit(pod)
		_, err := pods.Pods(ns).Create(t.Context(), pod, metav1.CreateOptions{DryRun: dryRun})
		return err
	}
	as := func(*corev1.Pod) {}
	awaitTrue(t, "the policy to be in force", func() bool { return apierrors.IsForbidden(try(db, as)) })
	const label = "label the namespace stategraft.io/inject=enabled, or remove the annotation"
	for name, c := range map[string]struct {
		ns   string
		edit func(*corev1.Pod)
		want string // in the refusal; empty for none
	}{
		"labelled":           {db, as, "webhook is running (kubectl -n stategraft get pods)"},
		"not labelled":       {bare, as, label},
		"labelled off":       {off, as, label},
		"opted out":          {db, optOut, "keeps that container from being added: remove the label"},
		"opted out, bare":    {bare, optOut, label},
		"system":             {"kube-system", as, "adds nothing in namespace kube-system: run the database in another"},
		"system, labelled":   {"kube-public", as, "adds nothing in namespace kube-public: run the database in another"},
		"ours":               {home, as, "adds nothing in namespace stategraft: run the database in another"},
		"empty":              {bare, backup(""), "is empty: give it the name"},
		"several lines":      {bare, backup("b1\nb2"), "neither"},
		"of another backup":  {bare, func(p *corev1.Pod) { restores(p); p.Annotations["stategraft.io/restore"] = "b2" }, label},
		"restores":           {bare, restores, ""},
		"restores, labelled": {db, restores, ""},
		"does not ask":       {bare, func(p *corev1.Pod) { p.Annotations = map[string]string{"stategraft.io/spread": "host"} }, ""},
		"no annotation":      {bare, func(p *corev1.Pod) { p.Annotations = nil }, ""},
		"system, not asking": {"kube-system", func(p *corev1.Pod) { p.Annotations = nil }, ""},
		"ours, not asking":   {home, func(p *corev1.Pod) { p.Annotations = nil }, ""},
	} {
		err := try(c.ns, c.edit)
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s: refused: %v", name, err)
		case c.want == "":
		case err == nil:
			t.Errorf("%s: created without its restore", name)
		case name == "several lines": // what stands in for the expression
			if !strings.Contains(err.Error(), "remove the annotation to start without a restore") || !strings.Contains(err.Error(), "label the namespace") {
				t.Errorf("%s: %v", name, err)
			}
		case !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "'restore.stategraft.io'"):
			t.Errorf("%s: %q is not in: %v", name, c.want, err)
		}
	}
}

// asking is a pod that asks for a backup to be restored.
func asking(backup string) *corev1.Pod {
	no, yes := false, true
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "ring-0", Annotations: map[string]string{"stategraft.io/restore": backup}},
		// As the Pod Security of our own namespace wants it.
		Spec: corev1.PodSpec{SecurityContext: &corev1.PodSecurityContext{RunAsNonRoot: &yes, SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}},
			Containers: []corev1.Container{{Name: "cassandra", Image: "cassandra:5.0",
				SecurityContext: &corev1.SecurityContext{AllowPrivilegeEscalation: &no, Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}}}}},
	}
}

func optOut(p *corev1.Pod) { p.Labels = map[string]string{"stategraft.io/inject": "disabled"} }

func backup(name string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Annotations["stategraft.io/restore"] = name }
}

// restores gives the pod the container, as `kubectl stategraft inject` would.
func restores(p *corev1.Pod) {
	p.Spec.InitContainers = []corev1.Container{{Name: "stategraft-restore", Image: "medusa:1", Command: []string{"/stategraft/bin/stategraft-agent"},
		Env: []corev1.EnvVar{{Name: "STATEGRAFT_BACKUP", Value: "b1"}}}}
}

// unlabel takes the label off a namespace that other tests use.
func unlabel(t *testing.T, cp *cluster.ControlPlane, ns string) {
	kubectlAfter(t, cp, "label", "namespace", ns, "stategraft.io/inject-")
}
