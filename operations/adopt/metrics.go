package adopt

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

var (
	adoptedPods = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "stategraft_adopted_pods",
		Help: "Pods that are adopted or to be: adopted, their containers run; adopting, these were added and come up; waiting, for their turn, an image, a Secret or a backoff; failed, given up. Only the leader knows.",
	}, []string{"state"})
	refusedPods = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "stategraft_adoption_refused_pods",
		Help: "Pods of namespaces with adoption, or that ask for it, to which no containers are added now, by the reason. Only the leader knows.",
	}, []string{"reason"})
	addedContainers = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "stategraft_adoption_containers_total",
		Help: "Ephemeral containers that were added to running pods, by role.",
	}, []string{"role"})
)

func init() { metrics.Registry.MustRegister(adoptedPods, refusedPods, addedContainers) }

// count says how the pods are that were looked at.
func count(all []*candidate) {
	states, reasons := map[State]int{}, map[Reason]int{}
	for _, c := range all {
		states[c.state()]++
		if c.reason != "" {
			reasons[c.reason]++
		}
	}
	for _, state := range []State{StateAdopted, StateAdopting, StateWaiting, StateFailed} {
		adoptedPods.WithLabelValues(string(state)).Set(float64(states[state]))
	}
	refusedPods.Reset()
	for reason, n := range reasons {
		refusedPods.WithLabelValues(string(reason)).Set(float64(n))
	}
}
