package expose

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

var exposedPods = prometheus.NewGaugeVec(prometheus.GaugeOpts{
	Name: "stategraft_exposed_pods",
	Help: "Pods with a Service of their own, by whether that has an address (ready, waiting). Only the leader knows.",
}, []string{"namespace", "state"})

func init() { metrics.Registry.MustRegister(exposedPods) }

// count says how the pods of a namespace are. One that exposes none has no series.
func count(namespace string, p plan) {
	ready, waiting := 0, 0
	for _, e := range p.expose {
		if e.service == nil {
			continue
		}
		if address, _ := addressOf(e.service); address == "" {
			waiting++
		} else {
			ready++
		}
	}
	if ready+waiting == 0 {
		forgetMetrics(namespace)
		return
	}
	exposedPods.WithLabelValues(namespace, "ready").Set(float64(ready))
	exposedPods.WithLabelValues(namespace, "waiting").Set(float64(waiting))
}

func forgetMetrics(namespace string) {
	exposedPods.DeletePartialMatch(prometheus.Labels{"namespace": namespace})
}
