package webhook

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/stategraft/stategraft/patches"
	"github.com/stategraft/stategraft/workload"
)

// limitsCPU tells whether every container of the namespace has to have a CPU
// limit: a quota counts limits.cpu, or a LimitRange has a maximum
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
			if most || ratio {
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
	before := podUsage(pod, nil)
	after := podUsage(pod, patch)
	for i := range ns.Quotas {
		q := &ns.Quotas[i]
		if !quotaApplies(q, pod) {
			continue
		}
		for name, hard := range q.Spec.Hard {
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

// usage is what a quota counts of a pod, by the quota's long names.
type usage map[corev1.ResourceName]resource.Quantity

// need is the requests and limits of one container.
type need struct{ requests, limits map[string]resource.Quantity }

// podUsage sums a pod as the scheduler and the quota do: containers and
// sidecars add up, of the other init containers the largest counts
// (k8s.io/component-helpers/resource).
func podUsage(pod *workload.Pod, patch *patches.Patch) usage {
	if r := pod.Spec.Resources; r != nil && (len(r.Requests) > 0 || len(r.Limits) > 0) {
		return fold(needOf(*r), usage{}, add)
	}
	total, largest, sidecars := usage{}, usage{}, usage{}
	runs := func(n need, init, always bool) {
		switch {
		case !init:
			fold(n, total, add)
		case always:
			fold(n, sidecars, add)
			raise(largest, sidecars)
		default:
			alone := fold(n, copyUsage(sidecars), add)
			raise(largest, alone)
		}
	}
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		runs(needOf(c.Resources), true, c.RestartPolicy == "Always")
	}
	for i := range pod.Spec.Containers {
		runs(needOf(pod.Spec.Containers[i].Resources), false, false)
	}
	if patch != nil {
		for i := range patch.Init {
			runs(needOfOurs(patch.Init[i].Resources), true, patch.Init[i].RestartPolicy == "Always")
		}
		for i := range patch.Containers {
			runs(needOfOurs(patch.Containers[i].Resources), false, false)
		}
	}
	for name, q := range sidecars {
		sum := total[name]
		sum.Add(q)
		total[name] = sum
	}
	raise(total, largest)
	return total
}

func needOf(r workload.Resources) need {
	n := need{map[string]resource.Quantity{}, map[string]resource.Quantity{}}
	for name, text := range r.Limits {
		if q, err := resource.ParseQuantity(string(text)); err == nil {
			n.limits[name] = q
			n.requests[name] = q // a request that is left out is the limit
		}
	}
	for name, text := range r.Requests {
		if q, err := resource.ParseQuantity(string(text)); err == nil {
			n.requests[name] = q
		}
	}
	return n
}

func needOfOurs(r patches.Resources) need {
	asMap := func(a patches.Amounts) map[string]workload.Quantity {
		out := map[string]workload.Quantity{}
		for name, text := range map[string]string{"cpu": a.CPU, "memory": a.Memory, "ephemeral-storage": a.EphemeralStorage} {
			if text != "" {
				out[name] = workload.Quantity(text)
			}
		}
		return out
	}
	return needOf(workload.Resources{Requests: asMap(r.Requests), Limits: asMap(r.Limits)})
}

func add(a *resource.Quantity, b resource.Quantity) { a.Add(b) }

func fold(n need, into usage, op func(*resource.Quantity, resource.Quantity)) usage {
	for name, q := range n.requests {
		key := corev1.ResourceName("requests." + name)
		sum := into[key].DeepCopy()
		op(&sum, q)
		into[key] = sum
	}
	for name, q := range n.limits {
		key := corev1.ResourceName("limits." + name)
		sum := into[key].DeepCopy()
		op(&sum, q)
		into[key] = sum
	}
	return into
}

func raise(to, by usage) {
	for name, q := range by {
		if have, ok := to[name]; !ok || q.Cmp(have) > 0 {
			to[name] = q.DeepCopy()
		}
	}
}

func copyUsage(u usage) usage {
	out := usage{}
	raise(out, u)
	return out
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

func (u usage) need() need {
	n := need{map[string]resource.Quantity{}, map[string]resource.Quantity{}}
	for name, q := range u {
		if key, ok := strings.CutPrefix(string(name), "requests."); ok {
			n.requests[key] = q
		} else if key, ok := strings.CutPrefix(string(name), "limits."); ok {
			n.limits[key] = q
		}
	}
	return n
}

// outside compares with a LimitRange's item. A missing limit counts where the
// item has a maximum, for the API server demands one then.
func outside(item corev1.LimitRangeItem, n need) (string, bool) {
	for name, least := range item.Min {
		if q, ok := n.requests[string(name)]; !ok || q.Cmp(least) < 0 {
			return fmt.Sprintf("asks for less than %s of %s", least.String(), name), true
		}
	}
	for name, most := range item.Max {
		limit, ok := n.limits[string(name)]
		if !ok {
			return fmt.Sprintf("has no limit of %s, and one is demanded", name), true
		}
		if limit.Cmp(most) > 0 {
			return fmt.Sprintf("has a limit above %s of %s", most.String(), name), true
		}
	}
	for name, ratio := range item.MaxLimitRequestRatio {
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
