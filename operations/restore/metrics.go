package restore

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	api "github.com/stategraft/stategraft/api/v1alpha1"
)

// The outcomes of pods, a closed set.
const (
	outcomeRestored  = "restored"
	outcomeFailed    = "failed-try"
	outcomeMissing   = "missing-container"
	outcomeCancelled = "cancelled"
)

var phases = []api.RestorePhase{api.RestoreWaiting, api.RestoreChecking, api.RestoreStopping, api.RestoreRestoring,
	api.RestoreCompleted, api.RestoreFailed, api.RestoreCancelled, api.RestorePlanned}

var (
	byPhase = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "stategraft_restores", Help: "Restores by phase. Only the leader knows.",
	}, []string{"phase"})
	pendingPods = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "stategraft_restore_pending_pods", Help: "Pods that may not start before they are restored. Only the leader knows.",
	})
	oldestActive = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "stategraft_restore_oldest_active_seconds", Help: "Since when the oldest Restore that has been accepted and is not over, or still keeps pods stopped, has been going on; 0 where there is none. Only the leader knows.",
	})
	podsTotal = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "stategraft_restore_pods_total", Help: "Pods of Restores by outcome: restored, failed-try (a restore container failed and is tried again), missing-container (deleted as it came up without it), cancelled.",
	}, []string{"outcome"})
	seconds = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "stategraft_restore_seconds", Help: "From the acceptance of a Restore to its completion.",
		Buckets: []float64{10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 14400, 43200, 86400},
	})
)

func init() {
	metrics.Registry.MustRegister(byPhase, pendingPods, oldestActive, podsTotal, seconds)
	for _, outcome := range []string{outcomeRestored, outcomeFailed, outcomeMissing, outcomeCancelled} {
		podsTotal.WithLabelValues(outcome)
	}
}

// measure sets the gauges from all Restores.
func measure(all []api.Restore, now time.Time) {
	count, pending, oldest := map[api.RestorePhase]int{}, 0, time.Duration(0)
	for i := range all {
		status := &all[i].Status
		phase := status.Phase
		if phase == "" {
			phase = api.RestoreWaiting // created a moment ago
		}
		count[phase]++
		pending += len(status.Pending)
		if status.Started != nil && (!phase.Final() || len(status.Pending) > 0) {
			oldest = max(oldest, now.Sub(status.Started.Time))
		}
	}
	for _, phase := range phases {
		byPhase.WithLabelValues(string(phase)).Set(float64(count[phase]))
	}
	pendingPods.Set(float64(pending))
	oldestActive.Set(oldest.Seconds())
}
