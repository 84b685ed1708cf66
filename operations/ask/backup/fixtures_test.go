package backup

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/ask"
)

// noon is when the tests take place.
var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

func at(d time.Duration) *metav1.Time { return &metav1.Time{Time: noon.Add(d)} }

func store(funcs *interceptor.Funcs, objects ...client.Object) client.WithWatch {
	builder := fake.NewClientBuilder().WithScheme(ask.Scheme()).WithObjects(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "db"}}).
		WithObjects(objects...).WithStatusSubresource(&api.Backup{})
	if funcs != nil {
		builder = builder.WithInterceptorFuncs(*funcs)
	}
	return builder.Build()
}

const gib = 1 << 30

// made is a Backup of a StatefulSet that is complete.
func made(change func(*api.Backup)) *api.Backup {
	b := &api.Backup{
		ObjectMeta: metav1.ObjectMeta{Namespace: "db", Name: "before-upgrade", UID: "u1", CreationTimestamp: *at(-10 * time.Hour)},
		Spec: api.BackupSpec{Pods: &api.BackupPods{Workload: &api.BackupWorkload{Kind: "StatefulSet", Name: "cassandra"}},
			Timeout: &metav1.Duration{Duration: 6 * time.Hour}, Parallel: 2, DeletionPolicy: api.DeletionKeep},
		Status: api.BackupStatus{
			Name: "20261130-020000-m0a1b2c3d-before-upgrade", Prefix: "db_ring", Origin: api.BackupMade, Phase: api.BackupComplete, Type: api.BackupDifferential,
			Message: "3 of 3 pods are complete", Started: at(-10*time.Hour + time.Second), Finished: at(-9*time.Hour - 42*time.Minute),
			Progress: api.BackupProgress{Pods: "3/3", Size: "6.0GiB"}, Bytes: 6 * gib, Objects: 1236, Database: "4.1.7", Listed: at(-2 * time.Hour),
			Conditions: []metav1.Condition{
				{Type: api.ConditionAccepted, Status: metav1.ConditionTrue, Reason: "Accepted", LastTransitionTime: *at(-10 * time.Hour)},
				{Type: api.ConditionCompleted, Status: metav1.ConditionTrue, Reason: "AllComplete", LastTransitionTime: *at(-9*time.Hour - 42*time.Minute)},
			},
		},
	}
	for i, name := range []string{"cassandra-0", "cassandra-10", "cassandra-1"} {
		b.Status.Pods = append(b.Status.Pods, api.PodBackup{Name: name, Phase: api.PodBackupComplete, Tries: int32(i + 1), Objects: 412, Bytes: 2 * gib, Tables: 41,
			Started: at(-10 * time.Hour), Finished: at(-9*time.Hour - time.Duration(42+i)*time.Minute), Datacenter: "dc1", Rack: []string{"r1", "r2", "r1"}[i], Tokens: 16})
	}
	if change != nil {
		change(b)
	}
	return b
}

// running is a Backup in the middle, with a pod in each phase.
func running(b *api.Backup) {
	s := &b.Status
	b.CreationTimestamp = *at(-10 * time.Minute)
	s.Phase, s.Message, s.Started, s.Finished, s.Listed = api.BackupRunning, "1 of 6 pods is complete", at(-9*time.Minute), nil, nil
	s.Progress, s.Bytes, s.Objects, s.Database = api.BackupProgress{Pods: "1/6", Size: "2.0GiB"}, 2*gib, 412, ""
	s.Conditions = s.Conditions[:1]
	s.Pods = []api.PodBackup{
		{Name: "cassandra-0", Phase: api.PodBackupComplete, Tries: 1, Objects: 412, Bytes: 2 * gib, Tables: 41, Started: at(-8 * time.Minute), Finished: at(-3 * time.Minute)},
		{Name: "cassandra-10", Phase: api.PodBackupWaiting},
		{Name: "cassandra-1", Phase: api.PodBackupRunning, Tries: 1, Started: at(-150 * time.Second)},
		{Name: "cassandra-2", Phase: api.PodBackupRunning, Tries: 2, Started: at(-2 * time.Minute), Message: "tried again: the bucket does not answer:\n503 \x1b[31mSlow down"},
		{Name: "cassandra-3", Phase: api.PodBackupChecking, Tries: 1, Started: at(-8 * time.Minute)},
		{Name: "cassandra-4", Phase: api.PodBackupGone, Message: "the pod is not there"},
	}
}

// found is a Backup that was in the storage.
func found(b *api.Backup) {
	b.Name, b.Labels = "nightly-20261129-030000", map[string]string{api.LabelSchedule: "nightly"}
	b.Spec = api.BackupSpec{Existing: &api.ExistingBackup{Name: "20261129-030002-s0a1b2c3d-nightly-20261129-030000", Prefix: "db_ring"}, DeletionPolicy: api.DeletionKeep}
	b.Status.Name, b.Status.Origin, b.Status.Started, b.Status.Finished = b.Spec.Existing.Name, api.BackupFound, at(-33*time.Hour), at(-32*time.Hour)
	b.Status.Pods[1].Name, b.Status.Pods[2].Name = "cassandra-1", "cassandra-2"
	b.Status.Pods[1].Tries, b.Status.Pods[2].Tries = 0, 0
	b.Status.Verified = &api.Verification{Result: api.VerificationFailed, Started: at(-5 * time.Hour), Finished: at(-4 * time.Hour), Nodes: []string{"cassandra-0", "cassandra-1"},
		Tables: 82, SSTables: 310, Rows: 1200300, Message: "1 of 82 tables does not hold what it held",
		Differences: []api.TableDifference{{Node: "cassandra-1", Table: "shop.orders", Want: 60000, Have: 59998}}}
	b.Status.Conditions = append(b.Status.Conditions, metav1.Condition{Type: api.ConditionVerified, Status: metav1.ConditionFalse, Reason: "Failed", LastTransitionTime: *at(-4 * time.Hour)})
}

// partial is a Backup of which a pod has vanished.
func partial(b *api.Backup) {
	b.Name, b.Spec.Pinned = "weekly-1", true
	s := &b.Status
	s.Phase, s.Message, s.Progress.Pods = api.BackupPartial, "2 of 3 pods are complete; cassandra-10 has gone", "2/3"
	s.Pods[1] = api.PodBackup{Name: "cassandra-10", Phase: api.PodBackupGone, Tries: 1, Started: at(-10 * time.Hour), Message: "the pod has gone, and did not come back in 10m"}
}

// all are Backups of each kind, by what they show.
func all() map[string]*api.Backup {
	return map[string]*api.Backup{
		"complete":   made(nil),
		"running":    made(running),
		"found":      made(found),
		"cancelling": made(func(b *api.Backup) { running(b); b.Spec.Cancel, b.Spec.Suspend = true, true }),
		"partial":    made(partial),
		"missing": made(func(b *api.Backup) {
			b.Status.Phase, b.Status.Message = api.BackupMissing, "the storage has nothing of it since 2026-11-30T09:00:00Z"
		}),
		"deleting": made(func(b *api.Backup) {
			b.DeletionTimestamp, b.Finalizers, b.Spec.DeletionPolicy = at(-time.Minute), []string{api.FinalizerBackup}, api.DeletionDelete
			b.Status.Phase, b.Status.Message = api.BackupDeleting, "waits for Restore back of the same cluster"
			b.Status.Conditions = append(b.Status.Conditions, metav1.Condition{Type: api.ConditionDeleted, Status: metav1.ConditionFalse, Reason: "RestoreActive", Message: "waits for Restore back of the same cluster", LastTransitionTime: *at(-time.Minute)})
		}),
		"new": {ObjectMeta: metav1.ObjectMeta{Namespace: "db", Name: "new", CreationTimestamp: *at(-time.Minute)},
			Spec: api.BackupSpec{Pods: &api.BackupPods{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "cassandra"}}}, Type: api.BackupFull, DeletionPolicy: api.DeletionDelete}},
		"planned": {ObjectMeta: metav1.ObjectMeta{Namespace: "db", Name: "plan", CreationTimestamp: *at(-time.Second)},
			Spec: api.BackupSpec{Pods: &api.BackupPods{Names: []string{"c-10", "c-2"}}, DryRun: true},
			Status: api.BackupStatus{Phase: api.BackupPlanned, Prefix: "db_ring", Message: "2 pods",
				Pods: []api.PodBackup{{Name: "c-10", Phase: api.PodBackupFailed, Message: "it has no sidecar"}, {Name: "c-2", Phase: api.PodBackupWaiting, Node: "c-2.ring.db.svc"}}}},
	}
}
