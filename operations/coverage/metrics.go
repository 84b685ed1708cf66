package coverage

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

var (
	withoutDesc = prometheus.NewDesc("stategraft_pods_without_sidecar",
		"Database pods in labelled namespaces without the injected containers, by namespace and reason.", []string{"namespace", "reason"}, nil)
	injectedDesc = prometheus.NewDesc("stategraft_injected_pods",
		"Pods that carry the label stategraft.io/injected, by kind of database.", []string{"kind"}, nil)
)

// collector makes the metrics from the state when they are asked for, so that no
// series of a namespace outlives it. It has nothing to say in a process that does
// not run this controller, nor in one that stands by, which watches no pods.
type collector struct{ state atomic.Pointer[state] }

var exported = &collector{}

func init() { metrics.Registry.MustRegister(exported) }

// Describe implements prometheus.Collector.
func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	ch <- withoutDesc
	ch <- injectedDesc
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	s := c.state.Load()
	if s == nil {
		return
	}
	gauge := func(desc *prometheus.Desc, value int, labels ...string) {
		ch <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, float64(value), labels...)
	}
	without, injected, leading := s.totals()
	if !leading {
		return
	}
	for at, n := range without {
		gauge(withoutDesc, n, at.namespace, at.reason)
	}
	for _, kind := range kinds {
		gauge(injectedDesc, injected[kind], kind)
	}
}

// place is the labels of a series of pods without.
type place struct{ namespace, reason string }

func (s *state) totals() (without map[place]int, injected map[string]int, leading bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	without, injected = map[place]int{}, map[string]int{}
	for pod, r := range s.records {
		if r.reason != "" {
			without[place{pod.Namespace, r.reason}]++
		}
	}
	for kind, n := range s.injected {
		injected[kind] = n
	}
	return without, injected, s.leading
}
