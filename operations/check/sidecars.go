package check

import (
	"cmp"
	"context"
	"encoding/json"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/version"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/coverage"
	"github.com/stategraft/stategraft/webhook"
	"github.com/stategraft/stategraft/workload"
)

func lookSidecars(ctx context.Context, c *Cluster) []Finding {
	s, err := c.sweep(ctx)
	if err != nil {
		return skipped(err)
	}
	if s.injected() == 0 {
		return s.say(s.uncovered, "no pod that is a database")
	}
	return s.say(s.uncovered, "%s", counted(s.injected(), "injected pod", "no database without sidecar"))
}

// cover judges the pods of one namespace by what the webhook would decide today.
type cover struct {
	input   webhook.Input
	since   coverage.Since
	unknown bool // whether a webhook is registered cannot be seen
}

func (c *Cluster) coverage(ctx context.Context, ns *corev1.Namespace) *cover {
	found := c.installation(ctx)
	configured := c.configuration(ctx).config
	k := &cover{unknown: found.ConfigurationsErr != nil,
		input: webhook.Input{Config: configured, HeldBack: c.heldBack(ctx).find,
			Namespace: webhook.Namespace{Name: ns.Name, Labels: ns.Labels, Annotations: ns.Annotations}}}
	if info, err := c.server(ctx); err == nil {
		if v, err := version.ParseGeneric(info.GitVersion); err == nil {
			k.input.NativeSidecars = v.AtLeast(nativeUsedSince)
		}
	}
	if _, config := found.webhook(); config != nil {
		k.since = coverage.Since{Webhook: config.CreationTimestamp.Time, Label: coverage.LabelledSince(ns)}
	}
	// Without the right to read them the reasons are less exact.
	if quotas, err := c.Kube.CoreV1().ResourceQuotas(ns.Name).List(ctx, metav1.ListOptions{}); err == nil {
		k.input.Namespace.Quotas = quotas.Items
	}
	if ranges, err := c.Kube.CoreV1().LimitRanges(ns.Name).List(ctx, metav1.ListOptions{}); err == nil {
		k.input.Namespace.LimitRanges = ranges.Items
	}
	return k
}

// judge says of a pod that it ought to have a sidecar and has none.
func (k *cover) judge(pod *corev1.Pod) []Finding {
	if isInjected(pod) {
		return nil // and need not be encoded
	}
	raw, err := json.Marshal(pod)
	if err != nil {
		return []Finding{finding(Skip, pod.Namespace+"/"+pod.Name, "encoding the pod: %v", err)}
	}
	in := k.input
	in.Pod = raw
	return judgeCoverage(pod.Namespace+"/"+pod.Name, coverage.Judge(in, k.since), k.unknown)
}

// ownFaults are the reasons that the pod's owner did not choose: they want a
// backup, and get none.
var ownFaults = []string{coverage.ReasonWebhookWasDown, string(workload.ReasonHeldBack), string(workload.ReasonUnreadablePod), string(workload.ReasonInternalError),
	string(workload.ReasonBadAnnotation)} // as on the namespace

// judgeCoverage puts a judgement in words. What its owner can settle is a
// warning; a database that ought to be backed up and is not through no fault of
// its owner's is broken.
func judgeCoverage(pod string, j coverage.Judgement, unknown bool) []Finding {
	switch {
	case !j.Without:
		return nil
	case unknown && (j.Reason == coverage.ReasonWebhookWasDown || j.Reason == coverage.ReasonCreatedBefore):
		return []Finding{finding(Warn, pod, "has no sidecar; why cannot be told without the right to read the webhook configuration").
			With("%s", cmp.Or(j.Remedy, "create it anew, with the webhook running"))}
	}
	status := Warn
	if slices.Contains(ownFaults, j.Reason) {
		status = Fail
	}
	return []Finding{finding(status, pod, "has no sidecar (%s): %s", j.Reason, j.Message).With("%s", explained(j))}
}

// judgeAsking finds a pod whose own annotation asks for its adoption in words that nobody
// reads.
func judgeAsking(pod *corev1.Pod) (findings []Finding) {
	value, asks := pod.Annotations[api.AnnotationAdopt]
	if !asks {
		return nil
	}
	for _, text := range webhook.Unfollowed("the pod", map[string]string{api.AnnotationAdopt: value}) {
		findings = append(findings, finding(Fail, pod.Namespace+"/"+pod.Name, "%s", text).
			With("kubectl -n %s annotate --overwrite pod %s %s=%s (or %s)", pod.Namespace, pod.Name, api.AnnotationAdopt, api.AdoptRunning, api.AdoptNever))
	}
	return findings
}

// explained says where a reason is.
func explained(j coverage.Judgement) string {
	if j.Remedy != "" { // its adoption has begun
		return j.Remedy
	}
	reason := j.Reason
	if reason == string(workload.ReasonBadAnnotation) {
		return "correct " + keysIn(j.Message) + " of the pod's template or its namespace, and create the pod anew; docs/reasons.md explains " + reason
	}
	if reason == coverage.ReasonCreatedBefore || reason == coverage.ReasonWebhookWasDown {
		if j.NoData {
			return "kubectl rollout restart, or delete the pod; docs/check.md has more"
		}
		return "kubectl rollout restart, or delete the pod; or kubectl stategraft adopt, without a restart; docs/check.md has more"
	}
	return "docs/reasons.md explains " + reason
}

// ourKey is a key of ours in a text.
var ourKey = regexp.MustCompile(`\b` + regexp.QuoteMeta(api.Group) + `/[a-z-]+`)

// keysIn names the annotations and labels that a message speaks of.
func keysIn(message string) string {
	var keys []string
	for _, key := range ourKey.FindAllString(message, -1) {
		if !slices.Contains(keys, key) {
			keys = append(keys, key)
		}
	}
	if len(keys) == 0 {
		return "the annotation"
	}
	return strings.Join(keys, ", ")
}
