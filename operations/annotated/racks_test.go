package annotated

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	api "github.com/stategraft/stategraft/api/v1alpha1"
)

// Workloads that store below one prefix are one cluster, with one schedule: a backup is
// whole only with all nodes.
func TestRacks(t *testing.T) {
	ring := label("cassandra.datastax.com/cluster", "ring")
	r1, r2 := pod("ring-r1-0", "ring-r1", ring), pod("ring-r2-0", "ring-r2", ring)
	w := newWorld(t, nightly(""), r1, r2, pod("x-0", "x"))
	w.prefixes = map[string]string{"ring-r1-0": "prod-ring", "ring-r2-0": "prod-ring", "x-0": "prod-x"}
	w.look()
	both := []string{"ring: 0 3 * * * of cassandra.datastax.com/cluster=ring", "x: 0 3 * * * of StatefulSet x"}
	w.has(both...)
	w.told("Made", "Made")
	w.look()
	if w.has(both...); w.writes != 2 || w.asked != 3 {
		t.Errorf("%d writes, %d questions", w.writes, w.asked)
	}
	// A third rack has not come up yet: nobody knows where it belongs.
	r3 := pod("ring-r3-0", "ring-r3", ring)
	w.add(r3)
	if again := w.look(); again != unknownAgain {
		t.Errorf("again after %v", again)
	}
	w.has(both...)
	w.told()
	w.clock = w.clock.Add(unknownFor)
	w.look()
	w.has(both...)
	w.told("Warning BackupClusterNotKnown")
	w.prefixes["ring-r3-0"] = "prod-ring"
	w.look()
	w.has(both...)
	w.annotate(api.AnnotationBackupSchedule, "")
	w.look()
	w.has()
}

// A cluster of one workload becomes one of two: its schedule stays, and there is one.
func TestRackIsAdded(t *testing.T) {
	app := label("app", "db")
	w := newWorld(t, nightly(""), pod("r1-0", "r1", app), pod("r2-0", "r2", app), pod("x-0", "x"))
	w.prefixes = map[string]string{"r1-0": "one", "r2-0": "two", "x-0": "x"}
	w.look()
	w.has("r1: 0 3 * * * of StatefulSet r1", "r2: 0 3 * * * of StatefulSet r2", "x: 0 3 * * * of StatefulSet x")
	w.told("Made", "Made", "Made")
	w.memory, w.prefixes["r2-0"] = newMemory(), "one"
	w.look()
	w.has("r1: 0 3 * * * of app=db", "x: 0 3 * * * of StatefulSet x")
	w.told("Changed", "Deleted BackupSchedule r2 is deleted, and its Backups stay: its pods are those of BackupSchedule r1")
	w.look()
	w.has("r1: 0 3 * * * of app=db", "x: 0 3 * * * of StatefulSet x")
	// With its pods gone for a moment, a rack is not left out of the next backup.
	w.remove(pod("r2-0", "r2"))
	w.look()
	w.has("r1: 0 3 * * * of app=db", "x: 0 3 * * * of StatefulSet x")
}

// A rack that comes up anew, and does not answer yet, is where it was; also for a process
// that starts anew.
func TestRackIsSilent(t *testing.T) {
	app := label("app", "db")
	w := newWorld(t, nightly(""), pod("r1-0", "r1", app), pod("r2-0", "r2", app))
	w.prefixes = map[string]string{"r1-0": "one", "r2-0": "one"}
	w.look()
	w.has("r: 0 3 * * * of app=db")
	again := pod("r2-0", "r2", app, func(p *corev1.Pod) { p.UID, p.Status.Phase = "u-new", corev1.PodPending })
	w.remove(pod("r2-0", "r2"))
	w.add(again)
	if after := w.look(); after != unknownAgain {
		t.Errorf("again after %v", after)
	}
	w.has("r: 0 3 * * * of app=db")
	w.memory = newMemory()
	w.look()
	w.clock = w.clock.Add(unknownFor)
	w.look()
	w.has("r: 0 3 * * * of app=db")
	if w.writes != 0 {
		t.Errorf("%d writes", w.writes)
	}
}

// Nothing is made as long as a part of the cluster may not be known, and not for ever.
func TestWaitsForSilent(t *testing.T) {
	w := newWorld(t, nightly(""), pod("db-0", "db"), pod("x-0", "x"))
	w.prefixes = map[string]string{"db-0": "db"}
	w.look()
	w.has()
	w.clock = w.clock.Add(unknownFor)
	w.look()
	w.has("db: 0 3 * * * of StatefulSet db")
	w.told("Warning BackupClusterNotKnown", "Normal BackupScheduleMade")
}

// Where no label tells a cluster's pods from others, nothing is made, and that is told.
func TestNoSelector(t *testing.T) {
	w := newWorld(t, nightly(""), pod("r1-0", "r1"), pod("r2-0", "r2"))
	w.prefixes = map[string]string{"r1-0": "one", "r2-0": "one"}
	w.look()
	w.look()
	w.has()
	w.told("Warning BackupClusterNotSelectable")
}
