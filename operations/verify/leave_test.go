package verify

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/stategraft/stategraft/api/v1alpha1"
)

// TestBackupIsDeleted: its pod goes, and then it is over: the deletion of its data waits
// for that (operations/claims).
func TestBackupIsDeleted(t *testing.T) {
	objects := threeNodes(t)
	objects[1].SetFinalizers([]string{api.FinalizerBackup})
	s := newSim(t, objects...)
	s.kubelet = hang
	s.until(2*time.Hour, "begins", func() bool { return len(s.pods()) == 1 })
	b := s.backups()[0]
	if err := s.world.Delete(t.Context(), &b); err != nil {
		t.Fatal(err)
	}
	s.until(time.Minute, "ends", s.over)
	if b := s.backups()[0]; b.Status.Verified.Result != api.VerificationUnknown || b.Status.Conditions[0].Reason != ReasonNotWanted {
		t.Errorf("%+v", b.Status)
	}
}

// TestBackupIsDeletedOnALostNode: a pod that does not go, as its node is lost, holds the
// deletion up for a while only.
func TestBackupIsDeletedOnALostNode(t *testing.T) {
	objects := threeNodes(t)
	objects[1].SetFinalizers([]string{api.FinalizerBackup})
	s := newSim(t, objects...)
	s.kubelet = hang
	s.until(2*time.Hour, "begins", func() bool { return len(s.pods()) == 1 })
	s.pause = time.Minute
	pod := s.pods()[0]
	pod.Finalizers = []string{"a.b/stays"}
	if err := s.world.Update(t.Context(), &pod); err != nil {
		t.Fatal(err)
	}
	b := s.backups()[0]
	if err := s.world.Delete(t.Context(), &b); err != nil {
		t.Fatal(err)
	}
	s.tick()
	pod = s.pods()[0]
	if pod.DeletionTimestamp == nil {
		t.Fatal("the pod is not deleted")
	}
	s.now = pod.DeletionTimestamp.Time // the fake server's clock is another
	running1 := func() bool { b := s.backups()[0]; return running(&b) }
	if s.tick(); !running1() {
		t.Error("it is over while the pod may read yet")
	}
	s.until(20*time.Minute, "over", func() bool { return !running1() })
}

// TestClockWasAhead: what was noted by a clock that was a year ahead holds nothing up for
// a year.
func TestClockWasAhead(t *testing.T) {
	objects := threeNodes(t)
	s := newSim(t, objects...)
	real := s.now
	s.now = real.AddDate(1, 0, 0)
	s.until(25*time.Hour, "verified", s.over)
	s.tick()
	s.now = real
	s.until(2*time.Hour, "verified again", func() bool {
		v := s.backups()[0].Status.Verified
		return v.Result == api.VerificationPassed && v.Started.Before(&metav1.Time{Time: real.Add(2 * time.Hour)})
	})
	// One that has begun then may take no longer than any.
	b := running1()
	b.Status.Verified.Started = at(365 * 24 * time.Hour)
	if got := course(b, &api.BackupVerify{}, nil, t0); got.kind != create || got.limit != defaultTimeout {
		t.Errorf("%+v", got)
	}
}
