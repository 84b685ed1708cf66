package rpo

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

var (
	ageDesc = prometheus.NewDesc("stategraft_backup_age_seconds",
		"Since when the data of the last complete backup of a workload are, that of the pod for which it is longest; none where no pod has one. Only the leader knows.", []string{"namespace", "workload"}, nil)
	withoutDesc = prometheus.NewDesc("stategraft_pods_without_backup",
		"Pods that ought to be backed up and are in no complete backup. Only the leader knows.", []string{"namespace"}, nil)
	behindDesc = prometheus.NewDesc("stategraft_pods_behind_rpo",
		"Pods whose last complete backup is older than it may be, or was never made, of workloads for which there is such a limit. Only the leader knows.", []string{"namespace", "workload"}, nil)
)

// figures are what the metrics are made of. By name alone, as are the series: two
// workloads of a name are one.
type figures struct {
	clock   func() time.Time
	oldest  map[[2]string]time.Time
	without map[string]int
	behind  map[[2]string]int
}

func figuresOf(rows []Row, clock func() time.Time) *figures {
	f := &figures{clock: clock, oldest: map[[2]string]time.Time{}, without: map[string]int{}, behind: map[[2]string]int{}}
	for i := range rows {
		r := &rows[i]
		key := [2]string{r.Namespace, r.Workload}
		if r.Last != nil {
			if oldest, ok := f.oldest[key]; !ok || r.LastStarted.Before(oldest) {
				f.oldest[key] = r.LastStarted
			}
		}
		f.without[r.Namespace] += count(r.Last == nil)
		if r.RPO > 0 {
			f.behind[key] += count(r.Behind)
		}
	}
	return f
}

func count(is bool) int {
	if is {
		return 1
	}
	return 0
}

// collector makes the metrics when they are asked for, so that an age is that of now
// and no series outlives its workload. It has nothing to say in a process that does not
// lead.
type collector struct{ figures atomic.Pointer[figures] }

var exported = &collector{}

func init() { metrics.Registry.MustRegister(exported) }

// Describe implements prometheus.Collector.
func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	ch <- ageDesc
	ch <- withoutDesc
	ch <- behindDesc
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	f := c.figures.Load()
	if f == nil {
		return
	}
	gauge := func(desc *prometheus.Desc, value float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, labels...)
	}
	now := f.clock()
	for key, started := range f.oldest {
		gauge(ageDesc, max(now.Sub(started), 0).Seconds(), key[0], key[1])
	}
	for namespace, n := range f.without {
		gauge(withoutDesc, float64(n), namespace)
	}
	for key, n := range f.behind {
		gauge(behindDesc, float64(n), key[0], key[1])
	}
}
