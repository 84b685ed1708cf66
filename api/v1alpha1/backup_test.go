package v1alpha1

import (
	"os"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

func TestBackupPhases(t *testing.T) {
	over := map[BackupPhase]bool{
		"": false, BackupWaiting: false, BackupRunning: false, BackupDeleting: false,
		BackupComplete: true, BackupPartial: true, BackupFailed: true, BackupCancelled: true, BackupPlanned: true, BackupMissing: true,
	}
	if len(over) != len(BackupPhases)+1 {
		t.Errorf("%d phases are tried here, there are %d", len(over)-1, len(BackupPhases))
	}
	for phase, want := range over {
		if phase.Final() != want {
			t.Errorf("%q: final is %v", phase, !want)
		}
	}
	for phase, want := range map[PodBackupPhase]bool{PodBackupWaiting: false, PodBackupRunning: false, PodBackupChecking: false, PodBackupComplete: true, PodBackupFailed: true, PodBackupGone: true} {
		if phase.Final() != want {
			t.Errorf("a pod, %q: final is %v", phase, !want)
		}
	}
	for phase, want := range map[BackupPhase]RunOutcome{"": RunActive, BackupWaiting: RunActive, BackupRunning: RunActive, BackupPartial: "Partial", BackupMissing: "Missing"} {
		if got := OutcomeOf(phase); got != want {
			t.Errorf("%q: the run is %s, want %s", phase, got, want)
		}
	}
}

// Data go only where it was said, and not while they are pinned.
func TestKeeps(t *testing.T) {
	for _, c := range []struct {
		policy DeletionPolicy
		pinned bool
		want   bool
	}{{"", false, true}, {DeletionKeep, false, true}, {DeletionDelete, false, false}, {DeletionDelete, true, true}, {"Other", false, true}} {
		b := &Backup{Spec: BackupSpec{DeletionPolicy: c.policy, Pinned: c.pinned}}
		if b.Keeps() != c.want {
			t.Errorf("%+v", c)
		}
	}
}

func TestDefaults(t *testing.T) {
	var s BackupSpec
	if s.TypeOrDefault() != BackupDifferential || s.TimeoutOrDefault() != 24*time.Hour || s.RetriesOrDefault() != 2 {
		t.Errorf("%s, %s, %d", s.TypeOrDefault(), s.TimeoutOrDefault(), s.RetriesOrDefault())
	}
	none := int32(0)
	s = BackupSpec{Type: BackupFull, Timeout: &metav1.Duration{Duration: time.Hour}, Retries: &none}
	if s.TypeOrDefault() != BackupFull || s.TimeoutOrDefault() != time.Hour || s.RetriesOrDefault() != 0 {
		t.Errorf("%s, %s, %d", s.TypeOrDefault(), s.TimeoutOrDefault(), s.RetriesOrDefault())
	}
	var schedule BackupScheduleSpec
	if schedule.HistoryOrDefault() != 10 || schedule.FailedHistoryOrDefault() != 3 {
		t.Errorf("%d, %d", schedule.HistoryOrDefault(), schedule.FailedHistoryOrDefault())
	}
	schedule.HistoryLimit, schedule.FailedHistoryLimit = &none, &none
	if schedule.HistoryOrDefault() != 0 || schedule.FailedHistoryOrDefault() != 0 {
		t.Errorf("%d, %d", schedule.HistoryOrDefault(), schedule.FailedHistoryOrDefault())
	}
	// The rule that compares specs has to know them, too.
	text, err := os.ReadFile("../../deploy/chart/files/crds/stategraft.io_backups.yaml")
	if err != nil {
		t.Fatal(err)
	}
	rule := strings.Join(strings.Fields(string(text)), " ")
	for _, want := range []string{
		"(has(self.spec.type) ? self.spec.type : ''differential'')",
		"(has(self.spec.retries) ? self.spec.retries : 2)",
		"(has(self.spec.timeout) ? duration(self.spec.timeout) : duration(''24h''))",
	} {
		if !strings.Contains(rule, want) {
			t.Errorf("no rule has %s", want)
		}
	}
}

func TestScheme(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"Restore", "Backup", "BackupSchedule"} {
		for _, k := range []string{kind, kind + "List"} {
			if !scheme.Recognizes(GroupVersion.WithKind(k)) {
				t.Errorf("%s is not known", k)
			}
		}
	}
}

func TestPodOfBackup(t *testing.T) {
	s := BackupStatus{Pods: []PodBackup{{Name: "db-0"}, {Name: "db-1", Node: "10.0.0.7"}}}
	if s.Pod("db-2") != nil || s.Pod("db-0").StorageNode() != "db-0" || s.Pod("db-1").StorageNode() != "10.0.0.7" {
		t.Errorf("%+v", s)
	}
	s.Pod("db-1").Tries++
	if s.Pods[1].Tries != 1 {
		t.Error("a copy is changed")
	}
}
