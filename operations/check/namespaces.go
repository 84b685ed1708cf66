package check

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/webhook"
	"github.com/stategraft/stategraft/workload"
)

func lookNamespaces(ctx context.Context, c *Cluster) []Finding {
	all, err := c.namespaces(ctx)
	if err != nil {
		return skipped(err)
	}
	if c.installation(ctx).Mode() == Preflight {
		return append(judgeNamespacesBefore(all, c.Namespace), c.leftBehind(ctx)...)
	}
	selector := labels.Everything()
	if hook, _ := c.installation(ctx).webhook(); hook != nil {
		if s, err := metav1.LabelSelectorAsSelector(hook.NamespaceSelector); err == nil {
			selector = s
		}
	}
	return judgeNamespaces(all, c.Namespace, selector, c.configuration(ctx).config)
}

// judgeNamespaces judges labels and annotations of all namespaces, or of the one
// that was asked for. The selector is the webhook's.
func judgeNamespaces(all []corev1.Namespace, only string, selector labels.Selector, config *webhook.Config) []Finding {
	var findings []Finding
	var labelled []string
	leftOut := false
	for i := range all {
		ns := &all[i]
		if ns.DeletionTimestamp != nil {
			continue
		}
		findings = append(findings, misspelt(ns, config)...)
		if ns.Labels[api.LabelInject] != api.InjectEnabled {
			continue
		}
		if !selector.Matches(labelSet(ns.Labels)) {
			findings = append(findings, finding(Warn, ns.Name, "is labelled, and the webhook's namespaceSelector leaves it out").
				With("databases do not belong here; take the label off"))
			leftOut = true
			continue
		}
		labelled = append(labelled, ns.Name)
		findings = append(findings, unusable(ns, config)...)
		for _, text := range webhook.Unfollowed("the namespace", ns.Annotations) {
			findings = append(findings, finding(Fail, ns.Name, "%s", text).With("correct %s of the namespace; until then what was asked for before counts", keysIn(text)))
		}
	}
	switch {
	case len(labelled) > 0:
		slices.Sort(labelled)
		findings = append(findings, finding(OK, "", "labelled: %s", some(labelled)))
	case only != "" && leftOut: // and this is said
	case only != "":
		findings = append(findings, finding(Warn, only, "is not labelled: its pods are not injected").
			With("kubectl label namespace %s %s=%s", only, api.LabelInject, api.InjectEnabled))
	default:
		findings = append(findings, finding(Warn, "", "no namespace is labelled: nothing is injected anywhere").
			With("kubectl label namespace NAME %s=%s", api.LabelInject, api.InjectEnabled))
	}
	return findings
}

// misspelt finds keys and values that were meant for us and are not read.
func misspelt(ns *corev1.Namespace, config *webhook.Config) []Finding {
	var findings []Finding
	value, ok := ns.Labels[api.LabelInject]
	if ok && value != api.InjectEnabled && value != api.InjectDisabled {
		findings = append(findings, finding(Warn, ns.Name, "label %s is %q, which nobody reads: its pods are not injected", api.LabelInject, value).
			With("kubectl label --overwrite namespace %s %s=%s", ns.Name, api.LabelInject, api.InjectEnabled))
	}
	unread := false
	for _, keys := range []map[string]string{ns.Labels, ns.Annotations} {
		for _, key := range slices.Sorted(maps.Keys(keys)) {
			lower := strings.ToLower(key)
			if !strings.Contains(lower, "stategraft") {
				continue
			}
			prefix, _, _ := strings.Cut(lower, "/")
			if prefix == api.Group || prefix == "stategraft" {
				unread = true
			} else if strings.Contains(lower, "inject") {
				findings = append(findings, finding(Warn, ns.Name, "%s is not read", key).
					With("the label is %s=%s", api.LabelInject, api.InjectEnabled))
			}
		}
	}
	if unread {
		for _, warning := range decide(ns, config).Unread {
			findings = append(findings, finding(Warn, ns.Name, "%s", warning).With("correct it, or take it off"))
		}
	}
	return findings
}

// unusable finds annotations of a labelled namespace that keep each of its
// databases from being injected.
func unusable(ns *corev1.Namespace, config *webhook.Config) []Finding {
	out := decide(ns, config)
	if out.Reason != workload.ReasonBadAnnotation {
		return nil
	}
	lost := "its databases start without backup"
	if out.Verdict == workload.Refuse {
		lost = "its databases are refused"
	}
	return []Finding{finding(Fail, ns.Name, "%s: %s", out.Message, lost).With("correct %s of the namespace", keysIn(out.Message))}
}

// decide is the webhook's decision on a plain Cassandra pod of the namespace.
func decide(ns *corev1.Namespace, config *webhook.Config) webhook.Outcome {
	raw, err := json.Marshal(probePod(""))
	if err != nil {
		return webhook.Outcome{Decision: workload.Decision{Message: fmt.Sprintf("encoding a pod: %v", err)}}
	}
	return webhook.Decide(webhook.Input{Pod: raw, Config: config, NativeSidecars: true,
		Namespace: webhook.Namespace{Name: ns.Name, Labels: ns.Labels, Annotations: ns.Annotations}})
}
