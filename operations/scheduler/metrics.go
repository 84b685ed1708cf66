package scheduler

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/schedule/retention"
)

var deletedTotal = prometheus.NewCounterVec(prometheus.CounterOpts{
	Name: "stategraft_retention_deleted_total", Help: "Backups that retention deleted: Expired, complete and kept by no rule; Abandoned, not complete for too long. Only the leader knows.",
}, []string{"reason"})

func desc(name, help string, more ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help+" Only the leader knows.", append([]string{"namespace", "schedule"}, more...), nil)
}

var (
	lastDesc      = desc("stategraft_schedule_last_complete_timestamp_seconds", "When the newest complete Backup of a BackupSchedule was finished; absent where there is none.")
	nextDesc      = desc("stategraft_schedule_next_timestamp_seconds", "When the next run of a BackupSchedule is due; absent while none is.")
	missedDesc    = desc("stategraft_schedule_missed", "Runs of a BackupSchedule that were left out since the last one that was complete.")
	onTimeDesc    = desc("stategraft_schedule_on_time", "0 while a run of a BackupSchedule is late, left out or stuck, and while the last one is not complete; else 1.")
	suspendedDesc = desc("stategraft_schedule_suspended", "1 while a BackupSchedule is suspended.")
	heldDesc      = desc("stategraft_retention_held", "1 while retention cannot delete what is to go, by the reason.", "reason")
)

// collector tells of the schedules as they were last looked at.
type collector struct {
	mu  sync.Mutex
	all []api.BackupSchedule
}

var exported = &collector{}

func init() {
	metrics.Registry.MustRegister(exported, deletedTotal)
	for _, reason := range []retention.Reason{retention.Expired, retention.Abandoned} {
		deletedTotal.WithLabelValues(string(reason))
	}
}

func (c *collector) set(all []api.BackupSchedule) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = all
}

// Describe implements prometheus.Collector.
func (*collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{lastDesc, nextDesc, missedDesc, onTimeDesc, suspendedDesc, heldDesc} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range c.all {
		s := &c.all[i]
		gauge := func(d *prometheus.Desc, value float64, more ...string) {
			ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, append([]string{s.Namespace, s.Name}, more...)...)
		}
		if last := s.Status.LastComplete; last != nil && last.Finished != nil {
			gauge(lastDesc, float64(last.Finished.Unix()))
		}
		if s.Status.Next != nil {
			gauge(nextDesc, float64(s.Status.Next.Unix()))
		}
		gauge(missedDesc, float64(s.Status.Missed))
		gauge(onTimeDesc, one(!is(s, api.ConditionOnTime, metav1.ConditionFalse)))
		gauge(suspendedDesc, one(s.Spec.Suspend))
		if c := meta.FindStatusCondition(s.Status.Conditions, api.ConditionRetained); c != nil && c.Status == metav1.ConditionFalse {
			gauge(heldDesc, 1, c.Reason)
		}
	}
}

func is(s *api.BackupSchedule, kind string, value metav1.ConditionStatus) bool {
	c := meta.FindStatusCondition(s.Status.Conditions, kind)
	return c != nil && c.Status == value
}

func one(is bool) float64 {
	if is {
		return 1
	}
	return 0
}
