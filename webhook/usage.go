package webhook

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/stategraft/stategraft/patches"
	"github.com/stategraft/stategraft/workload"
)

// usage is what a quota counts of a pod, by the quota's long names.
type usage map[corev1.ResourceName]resource.Quantity

// need is the requests and limits of one container.
type need struct{ requests, limits map[string]resource.Quantity }

// podUsage sums a pod as the scheduler and the quota do: containers and
// sidecars add up, of the other init containers the largest counts
// (k8s.io/component-helpers/resource).
func podUsage(pod *workload.Pod, patch *patches.Patch) usage {
	if r := pod.Spec.Resources; r != nil && (len(r.Requests) > 0 || len(r.Limits) > 0) {
		return needOf(*r).addTo(usage{})
	}
	total, largest, sidecars := usage{}, usage{}, usage{}
	runs := func(n need, init, always bool) {
		switch {
		case !init:
			n.addTo(total)
		case always:
			n.addTo(sidecars)
			raise(largest, sidecars)
		default:
			alone := n.addTo(copyUsage(sidecars))
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

// addTo adds the container's needs to a sum, which it gives back.
func (n need) addTo(sum usage) usage {
	for prefix, list := range map[string]map[string]resource.Quantity{"requests.": n.requests, "limits.": n.limits} {
		for name, q := range list {
			key := corev1.ResourceName(prefix + name)
			total := sum[key].DeepCopy()
			total.Add(q)
			sum[key] = total
		}
	}
	return sum
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
