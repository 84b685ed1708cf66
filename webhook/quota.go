package webhook

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/stategraft/stategraft/patches"
	"github.com/stategraft/stategraft/workload"
)

// limitsCPU tells whether every container of the namespace has to have a CPU
// limit: a quota counts limits.cpu, or a LimitRange has a maximum or
// a default
// (k8s.io/apiserver/pkg/admission/plugin/resourcequota, plugin/pkg/admission/limitranger).
func limitsCPU(ns Namespace) bool {
	for i := range ns.Quotas {
		if _, ok := ns.Quotas[i].Spec.Hard[corev1.ResourceLimitsCPU]; ok {
			return true
		}
	}
	for i := range ns.LimitRanges {
		for _, item := range ns.LimitRanges[i].Spec.Limits {
			_, most := item.Max[corev1.ResourceCPU]
			_, ratio := item.MaxLimitRequestRatio[corev1.ResourceCPU]
			_, filled := item.Default[corev1.ResourceCPU] // may be below our request
			if most || ratio || filled && item.Type == corev1.LimitTypeContainer {
				return true
			}
		}
	}
	return false
}

// exceeds tells whether the injected containers would have the API server
// refuse the pod for a ResourceQuota or a LimitRange that the pod alone meets.
func exceeds(pod *workload.Pod, patch *patches.Patch, ns Namespace) (string, bool) {
	if len(ns.Quotas) == 0 && len(ns.LimitRanges) == 0 {
		return "", false
	}
	if text, ok := filled(pod, ns); ok {
		return text, true
	}
	before := podUsage(pod, nil)
	after := podUsage(pod, patch)
	for i := range ns.Quotas {
		q := &ns.Quotas[i]
		if !quotaApplies(q, pod) {
			continue
		}
		if text, ok := newlyCounted(q, pod); ok {
			return text, true
		}
		for _, name := range slices.Sorted(maps.Keys(q.Spec.Hard)) {
			hard := q.Spec.Hard[name]
			if who, ok := silent(patch, quotaName(name)); ok {
				return fmt.Sprintf("ResourceQuota %s counts %s, which container %s does not say; set it in the sidecars' resources", q.Name, name, who), true
			}
			asked, counted := after[quotaName(name)]
			if !counted || asked.Cmp(before[quotaName(name)]) <= 0 {
				continue
			}
			total := q.Status.Used[name].DeepCopy()
			total.Add(asked)
			if total.Cmp(hard) > 0 {
				return fmt.Sprintf("ResourceQuota %s allows %s of %s, of which %s is used, and the pod with its sidecars asks for %s; raise it, or lower the sidecars' resources",
					q.Name, hard.String(), name, q.Status.Used.Name(name, resource.DecimalSI).String(), asked.String()), true
			}
		}
	}
	for i := range ns.LimitRanges {
		if text, ok := breaks(&ns.LimitRanges[i], patch, before, after); ok {
			return text, true
		}
	}
	return "", false
}

// filled tells whether a LimitRange would give the sidecars of a pod that has
// resources as a whole some of their own, which then exceed the pod's.
func filled(pod *workload.Pod, ns Namespace) (string, bool) {
	if r := pod.Spec.Resources; r == nil || len(r.Requests) == 0 && len(r.Limits) == 0 {
		return "", false
	}
	for i := range ns.LimitRanges {
		for _, item := range ns.LimitRanges[i].Spec.Limits {
			if item.Type == corev1.LimitTypeContainer && len(item.Default)+len(item.DefaultRequest) > 0 {
				return fmt.Sprintf("LimitRange %s gives every container resources by default, and the pod has resources as a whole, which those of the sidecars would exceed", ns.LimitRanges[i].Name), true
			}
		}
	}
	return "", false
}

// newlyCounted tells whether a quota of pods that are not BestEffort, which this
// pod is until it has sidecars, has no room for it.
func newlyCounted(q *corev1.ResourceQuota, pod *workload.Pod) (string, bool) {
	scoped := slices.Contains(q.Spec.Scopes, corev1.ResourceQuotaScopeNotBestEffort)
	if q.Spec.ScopeSelector != nil {
		for _, e := range q.Spec.ScopeSelector.MatchExpressions {
			scoped = scoped || e.ScopeName == corev1.ResourceQuotaScopeNotBestEffort
		}
	}
	if !scoped || len(podUsage(pod, nil)) > 0 {
		return "", false
	}
	for _, name := range [...]corev1.ResourceName{corev1.ResourcePods, "count/pods"} {
		hard, ok := q.Spec.Hard[name]
		if !ok {
			continue
		}
		used := q.Status.Used[name].DeepCopy()
		used.Add(resource.MustParse("1"))
		if used.Cmp(hard) > 0 {
			return fmt.Sprintf("ResourceQuota %s has no room for another pod that is not BestEffort, as the sidecars' resources would make this one; raise it", q.Name), true
		}
	}
	return "", false
}

// silent finds an injected container without a resource that a quota counts: the
// API server demands it of every container.
func silent(patch *patches.Patch, name corev1.ResourceName) (string, bool) {
	kind, resourceName, _ := strings.Cut(string(name), ".")
	switch corev1.ResourceName(resourceName) {
	case corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage:
	default:
		return "", false
	}
	for _, list := range [][]*patches.Container{patch.Init, patch.Containers} {
		for _, c := range list {
			n := needOfOurs(c.Resources)
			have := n.limits
			if kind == "requests" {
				have = n.requests
			}
			if _, ok := have[resourceName]; !ok && c.Resources != (patches.Resources{}) {
				return c.Name, true
			}
		}
	}
	return "", false
}

// quotaName maps the short names of a quota to the long ones.
func quotaName(name corev1.ResourceName) corev1.ResourceName {
	switch name {
	case corev1.ResourceCPU:
		return corev1.ResourceRequestsCPU
	case corev1.ResourceMemory:
		return corev1.ResourceRequestsMemory
	case corev1.ResourceEphemeralStorage:
		return corev1.ResourceRequestsEphemeralStorage
	}
	return name
}

// quotaApplies tells whether the quota's scopes select the pod. Injected pods
// are never BestEffort and never Terminating.
func quotaApplies(q *corev1.ResourceQuota, pod *workload.Pod) bool {
	match := func(scope corev1.ResourceQuotaScope, op corev1.ScopeSelectorOperator, values []string) bool {
		switch scope {
		case corev1.ResourceQuotaScopeBestEffort:
			return false
		case corev1.ResourceQuotaScopeTerminating:
			return pod.Spec.ActiveDeadline != nil
		case corev1.ResourceQuotaScopeNotTerminating:
			return pod.Spec.ActiveDeadline == nil
		case corev1.ResourceQuotaScopePriorityClass:
			in := slices.Contains(values, pod.Spec.PriorityClass)
			switch op {
			case corev1.ScopeSelectorOpIn:
				return in
			case corev1.ScopeSelectorOpNotIn:
				return !in
			case corev1.ScopeSelectorOpDoesNotExist:
				return pod.Spec.PriorityClass == ""
			}
			return pod.Spec.PriorityClass != ""
		}
		return true
	}
	for _, scope := range q.Spec.Scopes {
		if !match(scope, corev1.ScopeSelectorOpExists, nil) {
			return false
		}
	}
	if q.Spec.ScopeSelector != nil {
		for _, e := range q.Spec.ScopeSelector.MatchExpressions {
			if !match(e.ScopeName, e.Operator, e.Values) {
				return false
			}
		}
	}
	return true
}

// breaks tells whether a LimitRange refuses an injected container, or the pod
// only because of them (k8s.io/kubernetes/plugin/pkg/admission/limitranger).
func breaks(lr *corev1.LimitRange, patch *patches.Patch, before, after usage) (string, bool) {
	for _, item := range lr.Spec.Limits {
		switch item.Type {
		case corev1.LimitTypeContainer:
			for _, list := range [][]*patches.Container{patch.Init, patch.Containers} {
				for i := range list {
					if text, ok := outside(item, needOfOurs(list[i].Resources)); ok {
						return fmt.Sprintf("LimitRange %s: container %s %s; change it, or the sidecars' resources", lr.Name, list[i].Name, text), true
					}
				}
			}
		case corev1.LimitTypePod:
			if text, ok := outside(item, after.need()); ok {
				if _, anyway := outside(item, before.need()); !anyway {
					return fmt.Sprintf("LimitRange %s: the pod with its sidecars %s; change it, or the sidecars' resources", lr.Name, text), true
				}
			}
		}
	}
	return "", false
}

// outside compares with a LimitRange's item. A missing limit counts where the
// item has a maximum, for the API server demands one then.
func outside(item corev1.LimitRangeItem, n need) (string, bool) {
	for _, name := range slices.Sorted(maps.Keys(item.Min)) {
		least := item.Min[name]
		if q, ok := n.requests[string(name)]; !ok || q.Cmp(least) < 0 {
			return fmt.Sprintf("asks for less than %s of %s", least.String(), name), true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(item.Max)) {
		most := item.Max[name]
		limit, ok := n.limits[string(name)]
		if !ok {
			return fmt.Sprintf("has no limit of %s, and one is demanded", name), true
		}
		if limit.Cmp(most) > 0 {
			return fmt.Sprintf("has a limit above %s of %s", most.String(), name), true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(item.MaxLimitRequestRatio)) {
		ratio := item.MaxLimitRequestRatio[name]
		request, limit := n.requests[string(name)], n.limits[string(name)]
		if request.IsZero() || limit.IsZero() {
			return fmt.Sprintf("needs a request and a limit of %s", name), true
		}
		if limit.AsApproximateFloat64()/request.AsApproximateFloat64() > ratio.AsApproximateFloat64() {
			return fmt.Sprintf("has a limit of %s more than %s times its request", name, ratio.String()), true
		}
	}
	return "", false
}
