package cycle

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// The results of an eviction, a closed set.
const (
	resultEvicted = "evicted"
	resultHeld    = "held" // by a PodDisruptionBudget
	resultFailed  = "failed"
)

var (
	outdatedPods = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "stategraft_configmap_outdated_pods",
		Help: "Pods that were started with another content of their database's ConfigMap than it has now. Only the leader knows.",
	}, []string{"namespace", "workload"})

	restarted = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "stategraft_configmap_restarts_total",
		Help: "Evictions of pods whose ConfigMap has changed, by result (evicted, held, failed).",
	}, []string{"result"})
)

func init() { metrics.Registry.MustRegister(outdatedPods, restarted) }
