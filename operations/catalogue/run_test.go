package catalogue

import (
	"context"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/sidecar/sidecartest"
)

// asks is a queue that notes who is to be looked at.
type asks struct {
	queue
	names []string
}

func (q *asks) Add(r reconcile.Request)                       { q.names = append(q.names, r.Name) }
func (q *asks) AddAfter(r reconcile.Request, _ time.Duration) { q.names = append(q.names, r.Name) }

func TestWhenItLooks(t *testing.T) {
	ctx := context.Background()
	r, s := newRig(t, "prod"), sidecartest.NewStorage("db-0")
	q := &asks{}
	want := func(what string, names ...string) {
		t.Helper()
		if !slices.Equal(q.names, names) {
			t.Errorf("%s: %v, want %v", what, q.names, names)
		}
		q.names = nil
	}
	backup := func(existing bool, phase api.BackupPhase) *api.Backup {
		b := &api.Backup{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: "x"}, Status: api.BackupStatus{Phase: phase}}
		if existing {
			b.Spec.Existing = &api.ExistingBackup{Name: "x"}
		}
		return b
	}
	backups := r.ofBackups()
	backups.Create(ctx, event.TypedCreateEvent[*api.Backup]{Object: backup(false, "")}, q)
	want("one that is to be made")
	backups.Create(ctx, event.TypedCreateEvent[*api.Backup]{Object: backup(true, "")}, q)
	want("one that somebody says is there", "prod")
	if !r.isMaking(whereOf(backup(true, "")), "prod") {
		t.Error("it is made by nobody")
	}
	shared := where{prefix: "c", name: "x"}
	for i, want := range []bool{true, true, false} { // again is fine
		if namespace := []string{"prod", "prod", "test"}[i]; r.isMaking(shared, namespace) != want {
			t.Errorf("made for %s: not %v", namespace, want)
		}
	}
	delete(r.making, shared)
	backups.Create(ctx, event.TypedCreateEvent[*api.Backup]{Object: backup(true, "")}, q)
	want("one of our own")
	backups.Update(ctx, event.TypedUpdateEvent[*api.Backup]{ObjectOld: backup(false, api.BackupRunning), ObjectNew: backup(false, api.BackupPartial)}, q)
	want("one that has ended", "prod")
	backups.Update(ctx, event.TypedUpdateEvent[*api.Backup]{ObjectOld: backup(false, api.BackupPartial), ObjectNew: backup(false, api.BackupPartial)}, q)
	want("one that had ended")
	backups.Delete(ctx, event.TypedDeleteEvent[*api.Backup]{Object: backup(true, api.BackupComplete)}, q)
	want("one that has gone", "prod")
	if len(r.gone) > 0 || len(r.making) > 0 {
		t.Errorf("%v, %v", r.gone, r.making)
	}
	deletes := backup(true, api.BackupComplete)
	deletes.Spec.DeletionPolicy = api.DeletionDelete
	backups.Delete(ctx, event.TypedDeleteEvent[*api.Backup]{Object: deletes}, q)
	want("one that has gone with its data", "prod")
	if len(r.gone) != 1 {
		t.Errorf("%v", r.gone)
	}

	configMap := func(sync, synced string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Annotations: map[string]string{api.AnnotationSync: sync, api.AnnotationSynced: synced}}}
	}
	maps := ofConfigMaps()
	maps.Create(ctx, event.TypedCreateEvent[*corev1.ConfigMap]{Object: configMap("1", "")}, q)
	want("asked before the start", "prod")
	maps.Update(ctx, event.TypedUpdateEvent[*corev1.ConfigMap]{ObjectOld: configMap("1", "1"), ObjectNew: configMap("2", "1")}, q)
	want("asked", "prod")
	maps.Update(ctx, event.TypedUpdateEvent[*corev1.ConfigMap]{ObjectOld: configMap("2", "1"), ObjectNew: configMap("2", "2")}, q)
	want("answered")
	maps.Update(ctx, event.TypedUpdateEvent[*corev1.ConfigMap]{ObjectOld: configMap("2", "2"), ObjectNew: configMap("", "2")}, q)
	want("taken off")
	maps.Delete(ctx, event.TypedDeleteEvent[*corev1.ConfigMap]{Object: configMap("2", "2")}, q)
	want("deleted by hand", "prod")

	namespace := func(label string) *metav1.PartialObjectMetadata {
		return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "prod", Labels: map[string]string{api.LabelInject: label}}}
	}
	namespaces := r.ofNamespaces()
	namespaces.Create(ctx, event.TypedCreateEvent[*metav1.PartialObjectMetadata]{Object: namespace("")}, q)
	want("a namespace without label")
	namespaces.Update(ctx, event.TypedUpdateEvent[*metav1.PartialObjectMetadata]{ObjectOld: namespace(""), ObjectNew: namespace(api.InjectEnabled)}, q)
	want("that is labelled", "prod")
	namespaces.Update(ctx, event.TypedUpdateEvent[*metav1.PartialObjectMetadata]{ObjectOld: namespace(api.InjectEnabled), ObjectNew: namespace(api.InjectEnabled)}, q)
	want("that was")
	namespaces.Update(ctx, event.TypedUpdateEvent[*metav1.PartialObjectMetadata]{ObjectOld: namespace(api.InjectEnabled), ObjectNew: namespace("")}, q)
	want("that is no more", "prod")

	r.nodes("prod", s, "db-0")
	var pod *corev1.Pod
	for _, pod = range r.slim.all {
	}
	pods := r.ofPods()
	pods.Create(ctx, event.TypedCreateEvent[*corev1.Pod]{Object: pod}, q)
	want("the first pod of a cluster", "prod")
	r.round("prod")
	pods.Update(ctx, event.TypedUpdateEvent[*corev1.Pod]{ObjectOld: pod, ObjectNew: pod}, q)
	want("one that is known")
	pending := pod.DeepCopy()
	pending.Status.Phase, pending.OwnerReferences, pending.UID = corev1.PodPending, nil, "other"
	pods.Create(ctx, event.TypedCreateEvent[*corev1.Pod]{Object: pending}, q)
	want("one that does not run")
	pending.Status.Phase = corev1.PodRunning
	pods.Update(ctx, event.TypedUpdateEvent[*corev1.Pod]{ObjectOld: pending, ObjectNew: pending}, q)
	want("that does", "prod")
}
