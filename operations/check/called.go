package check

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"sigs.k8s.io/yaml"

	"github.com/stategraft/stategraft/deploy"
	"github.com/stategraft/stategraft/webhook"
)

// defaultPort is where the API server calls a Service that has no port named
// (k8s.io/api/admissionregistration/v1.ServiceReference).
const defaultPort = 443

// judgeCalled compares where the webhook is called, and the conditions under
// which it is, with what the chart renders for a release in the namespace own.
// Behind a URL the path is whatever stands between.
func judgeCalled(name string, hook *admissionregistrationv1.MutatingWebhook, own string) []Finding {
	shipped, err := shippedHook()
	if err != nil {
		return []Finding{finding(Skip, name, "cannot be compared with what this command line has: %v", err)}
	}
	var findings []Finding
	say := func(status Status, format string, args ...any) {
		findings = append(findings, finding(status, name, format, args...).With("%s", registerAgain(name)))
	}
	if service := hook.ClientConfig.Service; service != nil {
		if path := orZero(service.Path); path != webhook.Path {
			say(Fail, "calls path %q, where the webhook does not answer (it does at %s): no pod is injected", path, webhook.Path)
		}
		if port, want := portOf(service), portOf(shipped.ClientConfig.Service); port != want {
			say(Fail, "calls port %d of the Service, which has the webhook at %d: no pod is injected", port, want)
		}
	}
	has, want := conditions(hook.MatchConditions, ""), conditions(shipped.MatchConditions, own)
	for _, condition := range slices.Sorted(maps.Keys(has)) {
		if expression, ours := want[condition]; !ours {
			say(Fail, "has a match condition that is not Stategraft's, %s (%s): pods that it leaves out go without backup", condition, has[condition])
		} else if expression != has[condition] {
			say(Fail, "has another match condition %s than Stategraft's (%s): pods that it leaves out go without backup", condition, has[condition])
		}
	}
	for _, condition := range slices.Sorted(maps.Keys(want)) {
		if _, there := has[condition]; !there {
			say(Warn, "lacks the match condition %s: it is called for pods that are not to be injected", condition)
		}
	}
	return findings
}

// shippedHook is the webhook as the chart renders it for the default namespace.
func shippedHook() (*admissionregistrationv1.MutatingWebhook, error) {
	text, err := deploy.Pick(deploy.SelfSigned, "MutatingWebhookConfiguration")
	if err != nil {
		return nil, err
	}
	var config admissionregistrationv1.MutatingWebhookConfiguration
	if err := yaml.UnmarshalStrict(text, &config); err != nil {
		return nil, fmt.Errorf("reading the webhook configuration of the manifest: %w", err)
	}
	hook := ours(&config)
	if hook == nil || hook.ClientConfig.Service == nil {
		return nil, fmt.Errorf("the manifest has no webhook %s behind a Service", webhookName)
	}
	return hook, nil
}

// conditions are the expressions by the names of their conditions, for a release
// in the namespace own; as they are for none. Space does not count.
func conditions(list []admissionregistrationv1.MatchCondition, own string) map[string]string {
	found := map[string]string{}
	for _, c := range list {
		expression := strings.Join(strings.Fields(c.Expression), " ")
		if own != "" {
			expression = strings.ReplaceAll(expression, "'"+DefaultNamespace+"'", "'"+own+"'")
		}
		found[c.Name] = expression
	}
	return found
}

func portOf(service *admissionregistrationv1.ServiceReference) int32 {
	if service.Port == nil {
		return defaultPort
	}
	return *service.Port
}

func orZero[T any](value *T) T {
	if value == nil {
		return *new(T)
	}
	return *value
}
