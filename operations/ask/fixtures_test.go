package ask

import (
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	api "github.com/stategraft/stategraft/api/v1alpha1"
)

// noon is when the tests take place.
var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

func at(d time.Duration) *metav1.Time { return &metav1.Time{Time: noon.Add(d)} }

// store is a cluster of objects; functions may stand before it.
func store(funcs *interceptor.Funcs, objects ...client.Object) client.WithWatch {
	builder := fake.NewClientBuilder().WithScheme(Scheme()).WithObjects(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "db"}}).WithObjects(objects...).WithStatusSubresource(&api.Restore{})
	if funcs != nil {
		builder = builder.WithInterceptorFuncs(*funcs)
	}
	return builder.Build()
}

// set makes a StatefulSet with pods of these ordinals, and others that are not its
// own although they have its labels.
func set(name string, replicas int32, ordinals ...string) []client.Object {
	labels := map[string]string{"app": name}
	yes := true
	owner := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "db", Name: name, UID: types.UID("uid-" + name)},
		Spec: appsv1.StatefulSetSpec{Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels}}}
	objects := []client.Object{owner,
		&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "db", Name: name + "-stray", Labels: labels}}}
	for _, n := range ordinals {
		objects = append(objects, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "db", Name: name + "-" + n, Labels: labels,
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "StatefulSet", Name: name, UID: owner.UID, Controller: &yes}}}})
	}
	return objects
}

// running is a Restore in the middle, with a pod in each phase.
func running() *api.Restore {
	const gib = 1 << 30
	return &api.Restore{
		ObjectMeta: metav1.ObjectMeta{Namespace: "db", Name: "cassandra-20261130-115000", UID: "u1", CreationTimestamp: *at(-10 * time.Minute)},
		Spec: api.RestoreSpec{Backup: "latest", Mode: api.InPlace, Parallel: 2, WhenNoBackup: api.NoBackupFail, KeepPrevious: api.KeepIfRoom,
			Pods:     api.RestorePods{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "cassandra"}}},
			Deadline: &metav1.Duration{Duration: 6 * time.Hour}},
		Status: api.RestoreStatus{
			ID: "cassandra-20261130-115000/0a1b2c3d4e5f", Phase: api.RestoreRestoring, Backup: "nightly-20261130", BackupFinished: at(-9 * time.Hour),
			Message: "2 of 10 pods are restored", Started: at(-9*time.Minute - 30*time.Second),
			Progress: api.RestoreProgress{Pods: "2/10", Data: "41%"},
			Pending:  []string{"cassandra-1", "cassandra-10", "cassandra-2", "cassandra-3"},
			Pods: []api.PodRestore{
				{Name: "cassandra-0", Phase: api.PodRestored, Action: api.ActionRestore, Node: "cassandra-0", Bytes: 2 * gib, BytesTotal: 2 * gib, Started: at(-8 * time.Minute), Finished: at(-3 * time.Minute), Previous: true},
				{Name: "cassandra-10", Phase: api.PodWaiting, Action: api.ActionEmpty},
				{Name: "cassandra-1", Phase: api.PodRestoring, Action: api.ActionRestore, Node: "cassandra-1", Bytes: 1181116006, BytesTotal: 2791728742, Started: at(-150 * time.Second)},
				{Name: "cassandra-2", Phase: api.PodRestoring, Action: api.ActionRestore, Node: "cassandra-2", BytesTotal: 3 * gib, Started: at(-2 * time.Minute), Failures: 2, Message: "the bucket does not answer:\n403 \x1b[31mForbidden"},
				{Name: "cassandra-3", Phase: api.PodStopping, Action: api.ActionRestore, Node: "cassandra-3", BytesTotal: 512 << 20},
				{Name: "cassandra-4", Phase: api.PodJoining, Action: api.ActionRestore, Node: "cassandra-4", Bytes: gib, BytesTotal: gib, Started: at(-8 * time.Minute)},
			},
			Conditions: []metav1.Condition{
				{Type: api.ConditionAccepted, Status: metav1.ConditionTrue, Reason: "Accepted", LastTransitionTime: *at(-9*time.Minute - 30*time.Second)},
				{Type: api.ConditionRestoring, Status: metav1.ConditionTrue, Reason: "Restoring", Message: "2 at a time", LastTransitionTime: *at(-8 * time.Minute)},
			},
		},
	}
}
