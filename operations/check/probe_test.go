package check

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/stategraft/stategraft/patches"
	"github.com/stategraft/stategraft/webhook"
	"github.com/stategraft/stategraft/webhook/offline"
	"github.com/stategraft/stategraft/workload"
)

// came is the tried pod as it comes back, with containers added.
func came(restore string, names ...string) *corev1.Pod {
	pod := probePod(restore)
	for _, name := range names {
		if name == patches.ContainerRestore {
			pod.Spec.InitContainers = append(pod.Spec.InitContainers, corev1.Container{Name: name})
			continue
		}
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: name})
	}
	return pod
}

func TestClassify(t *testing.T) {
	forbidden := func(text string) error {
		return apierrors.NewForbidden(corev1.Resource("pods"), "p", errors.New(text))
	}
	ours := []string{patches.ContainerAgent, patches.ContainerMedusa}
	for _, c := range []struct {
		what     string
		pod      *corev1.Pod
		warnings []string
		err      error
		want     outcome
		text     string
	}{
		{"injected", came("", ours...), []string{"stategraft: annotation x is not known"}, nil, injected, ""},
		{"as it was", came(""), nil, nil, failedOpen, ""},
		{"half", came("", patches.ContainerAgent), nil, nil, failedOpen, ""},
		{"others warn", came(""), []string{"would violate PodSecurity"}, nil, failedOpen, ""},
		{"skipped", came(""), []string{"stategraft: not injected (quota-exceeded): cpu"}, nil, answered, "not injected (quota-exceeded): cpu"},
		{"restored", came("b", append(ours, patches.ContainerRestore)...), nil, nil, injected, ""},
		{"injected, but not restored", came("b", ours...), nil, nil, failedOpen, ""},
		{"not restored", came("b"), nil, nil, failedOpen, ""},
		// The texts are those of Kubernetes 1.37.
		{"policy", nil, nil, forbidden("ValidatingAdmissionPolicy 'restore.stategraft.io' with binding 'restore.stategraft.io' denied request: no"), held, ""},
		{"another policy", nil, nil, forbidden("ValidatingAdmissionPolicy 'images' with binding 'images' denied request: no"), foreign, ""},
		{"refused by us", nil, nil, errors.New(`admission webhook "pods.stategraft.io" denied the request: stategraft: no (bad-annotation)`), refused, ""},
		{"refused by another", nil, nil, errors.New(`admission webhook "x.example.org" denied the request: no`), foreign, ""},
		{"no answer", nil, nil, apierrors.NewInternalError(errors.New(`failed calling webhook "pods.stategraft.io": x509: unknown authority`)), unanswered, ""},
		{"no answer of another", nil, nil, apierrors.NewInternalError(errors.New(`failed calling webhook "x.example.org": timeout`)), foreign, ""},
		{"quota", nil, nil, forbidden("exceeded quota: q"), foreign, ""},
	} {
		got := classify(c.pod, c.warnings, c.err)
		text := c.text
		if c.err != nil {
			text = c.err.Error()
		}
		if got.outcome != c.want || got.text != text {
			t.Errorf("%s: got %+v, want %s, %q", c.what, got, c.want, text)
		}
	}
}

func TestAdmission(t *testing.T) {
	for _, c := range []struct {
		outcome   outcome
		admission string
		restoring []string
	}{
		{injected, "ok db: comes back with its sidecars", nil},
		{answered, "warn db: leaves a plain Cassandra pod as it is: why", []string{"fail db: comes back without it"}},
		{failedOpen, "fail db: comes back without sidecars", []string{"fail db: comes back without it"}},
		{unanswered, "fail db: no pod of a labelled namespace starts: why", nil},
		{refused, "warn db: is refused on a dry run: why", nil},
		{held, "warn db: is refused on a dry run: why", []string{"ok db: is refused"}},
		{foreign, "skip db: something that is not Stategraft refuses", nil},
	} {
		p := probe{namespace: "db", outcome: c.outcome, text: "why"}
		expect(t, string(c.outcome), judgeAdmission(p), c.admission)
		expect(t, string(c.outcome)+", restoring", judgeRestoring(p), c.restoring...)
	}
}

// The pod that is tried is one that the webhook injects, wherever nothing is in
// the way, and that the restricted Pod Security Standard admits.
func TestProbePod(t *testing.T) {
	out := decide(&corev1.Namespace{}, webhook.DefaultConfig())
	if out.Reason != workload.ReasonNamespaceNotLabelled {
		t.Errorf("without label: %s %s", out.Verdict, out.Reason)
	}
	ns := &corev1.Namespace{}
	ns.Labels = offline.Labelled().Labels
	out = decide(ns, webhook.DefaultConfig())
	if out.Verdict != workload.Inject || len(out.Warnings) > 0 {
		t.Errorf("%s %s: %s %q", out.Verdict, out.Reason, out.Message, out.Warnings)
	}
	pod := probePod("")
	if what := breaks(pod, &pod.Spec.Containers[0], levelRestricted); what != "" {
		t.Errorf("the pod is not restricted: %s", what)
	}
}
