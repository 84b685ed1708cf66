package catalogue

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

var (
	listedAt = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "stategraft_catalogue_listed_timestamp_seconds", Help: "When the storage of the namespace's clusters was last listed: of the one that was longest ago. Absent until one was. Only the leader knows.",
	}, []string{"namespace"})
	failedNow = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "stategraft_catalogue_failed", Help: "Clusters of the namespace whose storage could not be listed, or shows what cannot be believed. Only the leader knows.",
	}, []string{"namespace"})
)

func init() { metrics.Registry.MustRegister(listedAt, failedNow) }

// measure sets the gauges of a namespace.
func measure(namespace string, documents []Document) {
	failed, oldest := 0, 0.0
	for _, d := range documents {
		if d.Failed != "" {
			failed++
		}
		if at := float64(d.Listed.Unix()); !d.Listed.IsZero() && (oldest == 0 || at < oldest) {
			oldest = at
		}
	}
	failedNow.WithLabelValues(namespace).Set(float64(failed))
	if oldest == 0 { // it was not, or its pods have gone
		listedAt.DeleteLabelValues(namespace)
		return
	}
	listedAt.WithLabelValues(namespace).Set(oldest)
}

func unmeasure(namespace string) {
	listedAt.DeleteLabelValues(namespace)
	failedNow.DeleteLabelValues(namespace)
}
