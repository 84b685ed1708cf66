package patches

import (
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/stategraft/stategraft/workload"
)

// cpuLimit is used only where a CPU limit is needed at all. In a Guaranteed pod
// it is also what the node has to have free, so it is small.
func cpuLimit(name string) string {
	switch name {
	case ContainerMedusa, ContainerRestore:
		return "500m"
	case ContainerSnapshot:
		return "200m"
	}
	return "50m"
}

// resources completes the resources of an injected container so that the pod
// keeps its QoS class where that is Guaranteed, and so that a quota that counts
// limits.cpu finds one. A pod with resources of its own, as a whole, gets
// containers without any: their sum may not exceed the pod's
// (k8s.io/kubernetes/pkg/apis/core/validation).
func (b *builder) resources(name string, r Resources) Resources {
	if own := b.pod.Spec.Resources; own != nil && (len(own.Requests) > 0 || len(own.Limits) > 0) {
		return Resources{}
	}
	if !b.guaranteed && !b.s.LimitCPU {
		return r
	}
	if r.Limits.CPU == "" {
		r.Limits.CPU = larger(cpuLimit(name), r.Requests.CPU)
	}
	if r.Limits.Memory == "" {
		r.Limits.Memory = r.Requests.Memory
	}
	if b.guaranteed {
		r.Requests.CPU, r.Requests.Memory = r.Limits.CPU, r.Limits.Memory
	}
	return r
}

// Over gives the resources with what is left open taken from the defaults. A
// default gives way where it would contradict: a limit below the request that
// is asked for, a request above the limit.
func (r Resources) Over(defaults Resources) Resources {
	fill := func(request, limit *string, defaultRequest, defaultLimit string) {
		asked, limited := *request != "", *limit != ""
		if !asked {
			*request = defaultRequest
		}
		if !limited {
			*limit = defaultLimit
		}
		if *request == "" || *limit == "" || larger(*limit, *request) == *limit {
			return
		}
		if limited {
			*request = *limit
		} else {
			*limit = *request
		}
	}
	fill(&r.Requests.CPU, &r.Limits.CPU, defaults.Requests.CPU, defaults.Limits.CPU)
	fill(&r.Requests.Memory, &r.Limits.Memory, defaults.Requests.Memory, defaults.Limits.Memory)
	fill(&r.Requests.EphemeralStorage, &r.Limits.EphemeralStorage, defaults.Requests.EphemeralStorage, defaults.Limits.EphemeralStorage)
	return r
}

func larger(a, b string) string {
	x, err := resource.ParseQuantity(a)
	y, other := resource.ParseQuantity(b)
	if err != nil || other == nil && y.Cmp(x) > 0 {
		return b
	}
	return a
}

// guaranteed tells whether the pod's QoS class is Guaranteed: every container
// has limits of CPU and memory, and no request differs from its limit
// (k8s.io/kubernetes/pkg/apis/core/v1/helper/qos).
func guaranteed(pod *workload.Pod) bool {
	count := 0
	for _, list := range [][]workload.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			if workload.Own(list[i].Name) {
				continue
			}
			count++
			if !equalResources(list[i].Resources) {
				return false
			}
		}
	}
	return count > 0
}

func equalResources(r workload.Resources) bool {
	for _, key := range []string{"cpu", "memory"} {
		limit, err := resource.ParseQuantity(string(r.Limits[key]))
		if err != nil || limit.IsZero() {
			return false
		}
		if text, ok := r.Requests[key]; ok {
			request, err := resource.ParseQuantity(string(text))
			if err != nil || request.Cmp(limit) != 0 {
				return false
			}
		}
	}
	return true
}
