package coverage

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/stategraft/stategraft/workload"
)

// vacated gives the quotas as they were before the pod: what a live pod uses is
// in their status already, and admission adds what it asks for. Only cpu, memory
// and ephemeral-storage are taken out, as the sidecars ask for nothing else. A
// quota that does not count the pod (by its scopes) is not looked at by admission
// either, so it may be wrong. Nothing that is passed is changed.
func vacated(quotas []corev1.ResourceQuota, pod *workload.Pod) []corev1.ResourceQuota {
	if len(quotas) == 0 {
		return nil
	}
	requests, limits := demand(pod)
	out := make([]corev1.ResourceQuota, len(quotas))
	for i := range quotas {
		out[i] = quotas[i]
		used := corev1.ResourceList{}
		for name, quantity := range quotas[i].Status.Used {
			left := quantity.DeepCopy()
			if part, ok := counted(name, requests, limits); ok {
				left.Sub(part)
			}
			if left.Sign() < 0 { // the status was written before the pod was counted
				left = resource.Quantity{}
			}
			used[name] = left
		}
		out[i].Status.Used = used
	}
	return out
}

// counted is what a quota counts of the pod under a name
// (k8s.io/kubernetes/pkg/quota/v1/evaluator/core/pods.go).
func counted(name corev1.ResourceName, requests, limits amounts) (resource.Quantity, bool) {
	var of amounts
	var what string
	switch name {
	case corev1.ResourceCPU, corev1.ResourceRequestsCPU:
		of, what = requests, "cpu"
	case corev1.ResourceMemory, corev1.ResourceRequestsMemory:
		of, what = requests, "memory"
	case corev1.ResourceEphemeralStorage, corev1.ResourceRequestsEphemeralStorage:
		of, what = requests, "ephemeral-storage"
	case corev1.ResourceLimitsCPU:
		of, what = limits, "cpu"
	case corev1.ResourceLimitsMemory:
		of, what = limits, "memory"
	case corev1.ResourceLimitsEphemeralStorage:
		of, what = limits, "ephemeral-storage"
	default:
		return resource.Quantity{}, false
	}
	quantity, ok := of[what]
	return quantity, ok
}

// amounts are quantities by the names of resources.
type amounts map[string]resource.Quantity

// demand is what the pod asks for and what it is limited to: containers and
// sidecars together, or the largest of the init containers with the sidecars
// before it; what the pod says as a whole goes before that
// (k8s.io/component-helpers/resource).
func demand(pod *workload.Pod) (requests, limits amounts) {
	sum := func(of func(workload.Resources) map[string]workload.Quantity) amounts {
		total, sidecars, largest := amounts{}, amounts{}, amounts{}
		for i := range pod.Spec.InitContainers {
			c := &pod.Spec.InitContainers[i]
			alone := parse(of(c.Resources))
			if c.RestartPolicy == "Always" {
				sidecars.add(alone)
				alone = amounts{}
			}
			alone.add(sidecars)
			largest.raise(alone)
		}
		for i := range pod.Spec.Containers {
			total.add(parse(of(pod.Spec.Containers[i].Resources)))
		}
		total.add(sidecars)
		total.raise(largest)
		if pod.Spec.Resources != nil {
			for name, quantity := range parse(of(*pod.Spec.Resources)) {
				total[name] = quantity
			}
		}
		return total
	}
	return sum(func(r workload.Resources) map[string]workload.Quantity { return r.Requests }),
		sum(func(r workload.Resources) map[string]workload.Quantity { return r.Limits })
}

func parse(list map[string]workload.Quantity) amounts {
	out := amounts{}
	for name, text := range list {
		if quantity, err := resource.ParseQuantity(string(text)); err == nil {
			out[name] = quantity
		}
	}
	return out
}

func (a amounts) add(more amounts) {
	for name, quantity := range more {
		sum := a[name].DeepCopy()
		sum.Add(quantity)
		a[name] = sum
	}
}

func (a amounts) raise(to amounts) {
	for name, quantity := range to {
		if have, ok := a[name]; !ok || quantity.Cmp(have) > 0 {
			a[name] = quantity
		}
	}
}
