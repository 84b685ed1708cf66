package verify

import (
	"maps"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/stategraft/stategraft/api/v1alpha1"
)

func TestMetrics(t *testing.T) {
	schedule := func(name string, verify bool, last *api.ScheduledBackup) *api.BackupSchedule {
		s := &api.BackupSchedule{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}}
		if s.Status.LastVerified = last; verify {
			s.Spec.Verify = &api.BackupVerify{Schedule: "@daily"}
		}
		return s
	}
	backup := func(name, schedule string, ended time.Duration, status metav1.ConditionStatus, result api.VerificationResult) *api.Backup {
		b := backupOf("c-0")
		b.Name, b.Labels[api.LabelSchedule] = name, schedule
		b.Status.Verified = &api.Verification{Result: result, Started: at(0), Finished: at(ended)}
		if result == api.VerificationRunning {
			b.Status.Verified.Finished = nil
		}
		b.Status.Conditions = []metav1.Condition{{Type: api.ConditionVerified, Status: status, Reason: "R", LastTransitionTime: *at(ended)}}
		return b
	}
	s := newSim(t,
		schedule("passed", true, nil), backup("p1", "passed", time.Hour, "False", api.VerificationFailed), backup("p2", "passed", 2*time.Hour, "True", api.VerificationPassed),
		schedule("failed", true, &api.ScheduledBackup{Backup: "f0", Finished: at(0)}), backup("f1", "failed", time.Hour, "False", api.VerificationFailed),
		schedule("unknown", true, nil), backup("u1", "unknown", time.Hour, "Unknown", api.VerificationUnknown),
		// What was found before counts until there is something else.
		schedule("again", true, nil), backup("a1", "again", time.Hour, "False", api.VerificationRunning),
		schedule("gone", true, &api.ScheduledBackup{Backup: "g0", Finished: at(time.Minute)}),
		schedule("never", true, nil), schedule("none", false, nil), backup("n1", "none", time.Hour, "True", api.VerificationPassed),
	)
	c := &collector{}
	registry := prometheus.NewRegistry()
	registry.MustRegister(c)
	if got := gathered(t, registry); len(got) != 0 {
		t.Errorf("without a leader: %v", got)
	}
	c.world.Store(s.run.world)
	got := gathered(t, registry)
	want := map[string]float64{"stategraft_verifications_running": 1}
	for name, c := range map[string]struct {
		value float64
		at    time.Duration
	}{"again": {0, time.Hour}, "failed": {0, time.Hour}, "gone": {1, time.Minute}, "passed": {1, 2 * time.Hour}, "unknown": {-1, time.Hour}} {
		want["stategraft_verification_result ns "+name] = c.value
		want["stategraft_verification_timestamp_seconds ns "+name] = float64(t0.Add(c.at).Unix())
	}
	if !maps.Equal(got, want) {
		t.Errorf("got %v\nwant %v", got, want)
	}
}

// gathered are the values by name and labels.
func gathered(t *testing.T, from prometheus.Gatherer) map[string]float64 {
	t.Helper()
	families, err := from.Gather()
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]float64{}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			name := family.GetName()
			for _, l := range m.GetLabel() {
				name += " " + l.GetValue()
			}
			values[name] = m.GetGauge().GetValue()
		}
	}
	return values
}
