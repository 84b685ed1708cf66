package check

import (
	"context"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	api "github.com/stategraft/stategraft/api/v1alpha1"
)

func labelSet(l map[string]string) labels.Set { return labels.Set(l) }

func lookRegistration(ctx context.Context, c *Cluster) []Finding {
	found := c.installation(ctx)
	if found.ConfigurationsErr != nil {
		return skipped(found.ConfigurationsErr)
	}
	return judgeRegistration(found.Configurations, found.Namespace)
}

// judgeRegistration judges what makes the API server call the webhook; own is
// Stategraft's namespace.
func judgeRegistration(configs []admissionregistrationv1.MutatingWebhookConfiguration, own string) []Finding {
	if len(configs) == 0 {
		return []Finding{finding(Fail, "", "there is no MutatingWebhookConfiguration with the webhook %s: no pod is ever injected", webhookName).
			With(applyAgain)}
	}
	var findings []Finding
	if len(configs) > 1 {
		var names []string
		for _, config := range configs {
			names = append(names, config.Name)
		}
		findings = append(findings, finding(Warn, "", "the webhook is registered more than once (%s): one of them may be of an installation that is gone, and costs each pod its timeout", some(names)).
			With("kubectl delete mutatingwebhookconfiguration those that are left over"))
	}
	for i := range configs {
		findings = append(findings, judgeHook(configs[i].Name, ours(&configs[i]), own)...)
	}
	return findings
}

// longTimeout is how many seconds a dead webhook may keep each pod waiting.
const longTimeout = 10

func judgeHook(name string, hook *admissionregistrationv1.MutatingWebhook, own string) []Finding {
	var findings []Finding
	say := func(status Status, remedy, format string, args ...any) {
		findings = append(findings, finding(status, name, format, args...).With("%s", remedy))
	}
	again := registerAgain(name)
	if !seesPods(hook.Rules) {
		say(Fail, again, "is not called for the creation of pods")
	}
	findings = append(findings, judgeCalled(name, hook, own)...)
	selector, err := metav1.LabelSelectorAsSelector(hook.NamespaceSelector)
	switch {
	case err != nil:
		say(Fail, again, "has a namespaceSelector that cannot be read: %v", err)
	case !selector.Matches(namespaceLabels("some-namespace")):
		say(Fail, again, "does not select namespaces with the label %s: %s", api.LabelInject, api.InjectEnabled)
	case selector.Matches(labels.Set{corev1.LabelMetadataName: "some-namespace"}):
		say(Warn, again, "is called for the pods of every namespace, labelled or not: each waits for it")
	case selector.Matches(namespaceLabels(own)) && !excludes(hook.MatchConditions, own):
		say(Warn, again, "does not leave out Stategraft's own namespace %s: label it, and Stategraft waits for itself", own)
	}
	if s := hook.ObjectSelector; s != nil && len(s.MatchLabels)+len(s.MatchExpressions) > 0 {
		say(Warn, again, "has an objectSelector: pods without these labels go without backup, and nobody says so")
	}
	if p := hook.FailurePolicy; p == nil || *p != admissionregistrationv1.Ignore {
		say(Fail, "set failurePolicy: Ignore; the restore policy holds back the pods that must not start without Stategraft",
			"has failurePolicy Fail: databases are to start without Stategraft, and while the webhook is down no pod of a labelled namespace starts")
	}
	if p := hook.ReinvocationPolicy; p == nil || *p != admissionregistrationv1.IfNeededReinvocationPolicy {
		say(Warn, again, "has reinvocationPolicy Never: what a later webhook adds to a pod is not seen")
	}
	if s := hook.TimeoutSeconds; s == nil || *s > longTimeout {
		say(Warn, "set timeoutSeconds: 5", "waits more than %d seconds for an answer: that long each pod waits while the webhook is down", longTimeout)
	}
	return findings
}

func namespaceLabels(name string) labels.Set {
	return labels.Set{api.LabelInject: api.InjectEnabled, corev1.LabelMetadataName: name}
}

// excludes tells whether a match condition speaks of the namespace. The
// expression is not evaluated.
func excludes(conditions []admissionregistrationv1.MatchCondition, namespace string) bool {
	return slices.ContainsFunc(conditions, func(m admissionregistrationv1.MatchCondition) bool {
		return strings.Contains(m.Expression, "request.namespace") && strings.Contains(m.Expression, namespace)
	})
}

// seesPods tells whether the rules have the creation of pods.
func seesPods(rules []admissionregistrationv1.RuleWithOperations) bool {
	has := func(list []string, what string) bool {
		return slices.Contains(list, what) || slices.Contains(list, "*")
	}
	return slices.ContainsFunc(rules, func(r admissionregistrationv1.RuleWithOperations) bool {
		created := slices.Contains(r.Operations, admissionregistrationv1.Create) || slices.Contains(r.Operations, admissionregistrationv1.OperationAll)
		return created && has(r.APIGroups, "") && has(r.APIVersions, "v1") && (has(r.Resources, "pods") || slices.Contains(r.Resources, "*/*")) &&
			(r.Scope == nil || *r.Scope != admissionregistrationv1.ClusterScope)
	})
}
