package webhook

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// Every label has a closed set of values: decisions, reasons and kinds.
var (
	admissions = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "stategraft_admission_total",
		Help: "Pods looked at, by decision (inject, skip, refuse), reason (empty when injected) and kind of database.",
	}, []string{"decision", "reason", "kind"})

	latency = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name:    "stategraft_admission_duration_seconds",
		Help:    "Time from the decoded request to the answer.",
		Buckets: prometheus.ExponentialBuckets(0.0001, 2, 14), // 100 µs to 0.8 s
	})

	configReloads = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "stategraft_config_reloads_total",
		Help: "Changes of the configuration file that were seen, by result (good, bad).",
	}, []string{"result"})

	configBroken = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "stategraft_config_broken",
		Help: "1 while the configuration file cannot be taken over and the last good one is in force, else 0.",
	})
)

func init() { metrics.Registry.MustRegister(admissions, latency, configReloads, configBroken) }

// countReload counts a change of the configuration file. That it is broken stays
// until it is not: the counter alone would have an alert forget it.
func countReload(good bool) {
	if good {
		configReloads.WithLabelValues("good").Inc()
		configBroken.Set(0)
		return
	}
	configReloads.WithLabelValues("bad").Inc()
	configBroken.Set(1)
}
