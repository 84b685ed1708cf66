package heal

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	api "github.com/stategraft/stategraft/api/v1alpha1"
)

// Every label has a closed set of values: causes, and the names of our containers
// (empty for the causes that are the pod's as a whole).
var (
	healed = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "stategraft_healed_total",
		Help: "Injected containers made harmless, and pods replaced by ones without us, by cause and container (empty for a pod as a whole).",
	}, []string{"cause", "container"})

	heldBack = gauges{prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "stategraft_held_back_workloads",
		Help: "Workloads whose pods are admitted without injection for now, by cause. Only the leader knows.",
	}, []string{"cause"})}

	full = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "stategraft_held_back_dropped_total",
		Help: "Workloads that should have been held back and were not, as too many are.",
	})
)

func init() { metrics.Registry.MustRegister(healed, heldBack, full) }

type gauges struct{ *prometheus.GaugeVec }

// set takes over the counts; a cause that has none is there as 0.
func (g gauges) set(count map[api.Cause]int) {
	for _, cause := range api.Causes {
		g.WithLabelValues(string(cause)).Set(float64(count[cause]))
	}
}
