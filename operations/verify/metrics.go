package verify

import (
	"context"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	api "github.com/stategraft/stategraft/api/v1alpha1"
)

var (
	resultDesc = prometheus.NewDesc("stategraft_verification_result",
		"What came of the last restore on trial of a schedule: 1 passed, 0 failed, -1 unknown. Only the leader knows.", []string{"namespace", "schedule"}, nil)
	timeDesc = prometheus.NewDesc("stategraft_verification_timestamp_seconds",
		"When the last restore on trial of a schedule was over, whatever came of it. Only the leader knows.", []string{"namespace", "schedule"}, nil)
	runningDesc = prometheus.NewDesc("stategraft_verifications_running",
		"Restores on trial that run. Only the leader knows.", nil, nil)

	finishedTotal = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "stategraft_verification_finished_total", Help: "Restores on trial that are over, by result: passed, failed, unknown.",
	}, []string{"result"})
)

// label is a result as a label's value.
func label(r api.VerificationResult) string { return strings.ToLower(string(r)) }

// collector makes the metrics from the objects when they are asked for, so that no
// series of a schedule outlives it.
type collector struct{ world atomic.Pointer[world] }

var exported = &collector{}

func init() {
	metrics.Registry.MustRegister(exported, finishedTotal)
	for _, r := range []api.VerificationResult{api.VerificationPassed, api.VerificationFailed, api.VerificationUnknown} {
		finishedTotal.WithLabelValues(label(r))
	}
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	ch <- resultDesc
	ch <- timeDesc
	ch <- runningDesc
}

// collectLimit is for reading from the cache.
const collectLimit = 5 * time.Second

// Collect implements prometheus.Collector.
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	w := c.world.Load()
	if w == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), collectLimit)
	defer cancel()
	var schedules api.BackupScheduleList
	backups, err := w.backups(ctx, "")
	if err != nil || w.cached.List(ctx, &schedules) != nil {
		return // the cache has ended
	}
	gauge := func(desc *prometheus.Desc, value float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, labels...)
	}
	n := 0
	for i := range backups {
		if running(&backups[i]) {
			n++
		}
	}
	gauge(runningDesc, float64(n))
	of := bySchedule(backups)
	for i := range schedules.Items {
		s := &schedules.Items[i]
		if s.Spec.Verify == nil {
			continue
		}
		value, at, ok := lastResult(of[[2]string{s.Namespace, s.Name}], s.Status.LastVerified)
		if !ok {
			continue
		}
		gauge(resultDesc, value, s.Namespace, s.Name)
		gauge(timeDesc, float64(at.Unix()), s.Namespace, s.Name)
	}
}

func bySchedule(backups []api.Backup) map[[2]string][]*api.Backup {
	of := map[[2]string][]*api.Backup{}
	for i := range backups {
		if name := backups[i].Labels[api.LabelSchedule]; name != "" {
			key := [2]string{backups[i].Namespace, name}
			of[key] = append(of[key], &backups[i])
		}
	}
	return of
}

// lastResult is what came of the last one that is over. While a Backup is restored
// again, its condition still says what came of it before.
func lastResult(own []*api.Backup, passed *api.ScheduledBackup) (value float64, at time.Time, ok bool) {
	if passed != nil && passed.Finished != nil {
		value, at, ok = 1, passed.Finished.Time, true
	}
	values := map[string]float64{"True": 1, "False": 0, "Unknown": -1}
	for _, b := range own {
		v := b.Status.Verified
		if v == nil {
			continue
		}
		for _, c := range b.Status.Conditions {
			when := c.LastTransitionTime.Time
			if v.Finished != nil {
				when = v.Finished.Time
			}
			if c.Type == api.ConditionVerified && !when.Before(at) {
				value, at, ok = values[string(c.Status)], when, true
			}
		}
	}
	return value, at, ok
}
