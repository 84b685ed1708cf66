package backup

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	api "github.com/stategraft/stategraft/api/v1alpha1"
)

var (
	phasesDesc = prometheus.NewDesc("stategraft_backups",
		"Backup objects by namespace and phase. Only the leader knows.", []string{"namespace", "phase"}, nil)
	bytesDesc = prometheus.NewDesc("stategraft_backup_bytes",
		"Bytes of the newest complete backup of a namespace. Only the leader knows.", []string{"namespace"}, nil)
	waitingDesc = prometheus.NewDesc("stategraft_backup_deletions_waiting",
		"Backups that are being deleted and whose data are not yet, by why. Only the leader knows.", []string{"reason"}, nil)

	finished = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "stategraft_backup_finished_total", Help: "Backups that this process has seen end, by namespace and how.",
	}, []string{"namespace", "result"})
	seconds = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "stategraft_backup_duration_seconds", Help: "From the acceptance of a Backup to its being complete.",
		Buckets: []float64{5, 15, 30, 60, 120, 300, 600, 1800, 3600, 7200, 14400, 43200, 86400},
	})
	triesFailed = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "stategraft_backup_tries_failed_total", Help: "Backups of single pods that failed and are tried again.",
	})
)

// collector makes the gauges from the informer when they are asked for, so that no
// series of a namespace outlives it. It has nothing to say in a process that stands by.
type collector struct{ reader atomic.Pointer[client.Reader] }

var exported = &collector{}

func init() { metrics.Registry.MustRegister(exported, finished, seconds, triesFailed) }

// Describe implements prometheus.Collector.
func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	ch <- phasesDesc
	ch <- bytesDesc
	ch <- waitingDesc
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	reader := c.reader.Load()
	if reader == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	var list api.BackupList
	if err := (*reader).List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return
	}
	measure(list.Items, ch)
}

// measure tells the gauges of all Backups.
func measure(all []api.Backup, ch chan<- prometheus.Metric) {
	type place struct{ namespace, phase string }
	phases, newest, waiting := map[place]int{}, map[string]*api.Backup{}, map[string]int{}
	reasons := deletionReasons()
	for i := range all {
		b := &all[i]
		phase := b.Status.Phase
		if !slices.Contains(api.BackupPhases, phase) {
			phase = api.BackupWaiting // created a moment ago
		}
		phases[place{b.Namespace, string(phase)}]++
		if phase == api.BackupComplete && b.Status.Finished != nil {
			if n := newest[b.Namespace]; n == nil || n.Status.Finished.Before(b.Status.Finished) {
				newest[b.Namespace] = b
			}
		}
		if c := meta.FindStatusCondition(b.Status.Conditions, api.ConditionDeleted); phase == api.BackupDeleting && c != nil {
			reason := c.Reason
			if !slices.Contains(reasons, reason) {
				reason = reasonFailed
			}
			waiting[reason]++
		}
	}
	gauge := func(desc *prometheus.Desc, value float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, labels...)
	}
	for at, n := range phases {
		gauge(phasesDesc, float64(n), at.namespace, at.phase)
	}
	for namespace, b := range newest {
		gauge(bytesDesc, float64(b.Status.Bytes), namespace)
	}
	for _, reason := range reasons {
		gauge(waitingDesc, float64(waiting[reason]), reason)
	}
}
