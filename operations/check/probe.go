package check

import (
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/patches"
	"github.com/stategraft/stategraft/workload"
)

// outcome is what became of the pod that was tried.
type outcome string

const (
	injected   outcome = "injected"    // it came back with our containers
	answered   outcome = "answered"    // the webhook left it as it is, and says why
	failedOpen outcome = "failed-open" // it came back as it was, and nobody says why
	unanswered outcome = "unanswered"  // the webhook did not answer, and is registered to refuse then
	refused    outcome = "refused"     // the webhook refused it
	held       outcome = "held"        // the restore policy refused it
	foreign    outcome = "foreign"     // something else refused it
)

// probe is a pod that was created on a dry run.
type probe struct {
	namespace string
	outcome   outcome
	text      string // what was said
}

// probePod is a Cassandra pod that every Pod Security level admits, and most
// quotas. It is never stored.
func probePod(restore string) *corev1.Pod {
	no, yes, user := false, true, int64(workload.MedusaUID)
	amounts := func(cpu, memory string) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}
	}
	pod := &corev1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Name: "stategraft-check-0", Labels: map[string]string{api.LabelWorkload: string(workload.KindCassandra)}},
		Spec: corev1.PodSpec{
			AutomountServiceAccountToken: &no,
			SecurityContext: &corev1.PodSecurityContext{RunAsNonRoot: &yes, RunAsUser: &user, RunAsGroup: &user,
				SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}},
			Containers: []corev1.Container{{
				Name: "cassandra", Image: "docker.io/library/cassandra:5.0",
				Ports:        []corev1.ContainerPort{{Name: "cql", ContainerPort: 9042}, {Name: "intra-node", ContainerPort: 7000}},
				Resources:    corev1.ResourceRequirements{Requests: amounts("10m", "16Mi"), Limits: amounts("20m", "32Mi")},
				VolumeMounts: []corev1.VolumeMount{{Name: "data", MountPath: "/var/lib/cassandra"}},
				SecurityContext: &corev1.SecurityContext{AllowPrivilegeEscalation: &no,
					Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}},
			}},
			Volumes: []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data-stategraft-check-0"}}}}, // admission does not look for it
		},
	}
	if restore != "" {
		pod.Annotations = map[string]string{api.AnnotationRestore: restore}
	}
	return pod
}

// errNoNamespace says that there is no namespace to try a pod in.
var errNoNamespace = errors.New("no namespace is labelled")

// probesLimit is in how many namespaces a pod is tried, where something that is
// not ours refuses it.
const probesLimit = 3

// probe tries a pod in the first labelled namespace that takes it.
func (c *Cluster) probe(ctx context.Context) (probe, error) {
	return c.probed.get(func() (probe, error) {
		namespaces, err := c.labelled(ctx)
		if err != nil {
			return probe{}, err
		}
		last := probe{}
		err = errNoNamespace
		for i := range namespaces[:min(len(namespaces), probesLimit)] {
			last, err = c.try(ctx, namespaces[i].Name, "")
			if err == nil && last.outcome != foreign {
				break
			}
		}
		return last, err
	})
}

// try creates the pod on a dry run.
func (c *Cluster) try(ctx context.Context, namespace, restore string) (probe, error) {
	needs := right{Verb: "create", Resource: "pods", Namespace: namespace}
	may, err := c.mayI(ctx, needs)
	if err != nil {
		return probe{}, err
	}
	if !may { // asked first, as a refusal by admission looks the same
		return probe{}, unread(apierrors.NewForbidden(corev1.Resource("pods"), "", errors.New("no right")), needs)
	}
	c.Warnings.Take()
	pod, err := c.Kube.CoreV1().Pods(namespace).Create(ctx, probePod(restore),
		metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}, FieldValidation: metav1.FieldValidationStrict})
	if err != nil && !apierrors.IsForbidden(err) && !apierrors.IsInvalid(err) && !apierrors.IsInternalError(err) && !apierrors.IsBadRequest(err) {
		return probe{}, fmt.Errorf("creating a pod in namespace %s on a dry run: %w", namespace, err)
	}
	result := classify(pod, c.Warnings.Take(), err)
	result.namespace = namespace
	return result, nil
}

// classify tells what became of the pod, from the API server's answer.
func classify(pod *corev1.Pod, warnings []string, err error) probe {
	if err != nil {
		text := err.Error()
		switch {
		case strings.Contains(text, `failed calling webhook "`+webhookName):
			return probe{outcome: unanswered, text: text}
		case strings.Contains(text, `admission webhook "`+webhookName):
			return probe{outcome: refused, text: text}
		case strings.Contains(text, "ValidatingAdmissionPolicy '"+policyName):
			return probe{outcome: held, text: text}
		}
		return probe{outcome: foreign, text: text}
	}
	has := map[string]bool{}
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			has[list[i].Name] = true
		}
	}
	_, restores := pod.Annotations[api.AnnotationRestore]
	if has[patches.ContainerAgent] && has[patches.ContainerMedusa] && (!restores || has[patches.ContainerRestore]) {
		return probe{outcome: injected}
	}
	for _, warning := range warnings {
		if text, ok := strings.CutPrefix(warning, "stategraft: "); ok {
			return probe{outcome: answered, text: text}
		}
	}
	return probe{outcome: failedOpen}
}

func lookAdmission(ctx context.Context, c *Cluster) []Finding {
	tried, err := c.probe(ctx)
	if errors.Is(err, errNoNamespace) {
		return c.noneLabelled()
	}
	if err != nil {
		return skipped(err)
	}
	return judgeAdmission(tried)
}

// judgeAdmission says what it means. The webhook's failurePolicy has the API
// server keep the cause to itself, so the likely ones are named.
func judgeAdmission(p probe) []Finding {
	switch p.outcome {
	case injected:
		return []Finding{finding(OK, p.namespace, "a Cassandra pod comes back with its sidecars (dry run)")}
	case answered:
		return []Finding{finding(Warn, p.namespace, "the webhook answers, and leaves a plain Cassandra pod as it is: %s", p.text).
			With("the reason is in docs/reasons.md")}
	case refused, held:
		return []Finding{finding(Warn, p.namespace, "a plain Cassandra pod is refused on a dry run: %s", p.text).
			With("the reason is in docs/reasons.md")}
	case unanswered:
		return []Finding{finding(Fail, p.namespace, "the webhook does not answer the API server, and no pod of a labelled namespace starts: %s", p.text).
			With("the items components and certificate say more; set failurePolicy: Ignore, so that databases start without backup")}
	case foreign:
		return []Finding{finding(Skip, p.namespace, "cannot be tried: something that is not Stategraft refuses a Cassandra pod here: %s", p.text).
			With("try another namespace with -n")}
	}
	return []Finding{finding(Fail, p.namespace, "a Cassandra pod comes back without sidecars (dry run): the webhook was not called or did not answer, and databases start without backup").
		With("look at components, webhook-configuration and certificate first; if these are well, the control plane does not reach the webhook's pods: " +
			"a firewall before port 9443, a NetworkPolicy, a proxy")}
}
