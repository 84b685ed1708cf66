package check

import (
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	fakedynamic "k8s.io/client-go/dynamic/fake"
	core "k8s.io/client-go/testing"

	api "github.com/stategraft/stategraft/api/v1alpha1"
)

// definition is the CustomResourceDefinition that clusters get.
func definition(t *testing.T) *unstructured.Unstructured {
	t.Helper()
	return &unstructured.Unstructured{Object: *read[map[string]any](t, picked(t, "CustomResourceDefinition/"+crdRestores))}
}

func TestCRD(t *testing.T) {
	version := func(crd *unstructured.Unstructured) map[string]any {
		versions, _ := crd.Object["spec"].(map[string]any)["versions"].([]any)
		return versions[0].(map[string]any)
	}
	without := func(path ...string) func(*unstructured.Unstructured) {
		return func(crd *unstructured.Unstructured) { unstructured.RemoveNestedField(version(crd), path...) }
	}
	properties := func(path ...string) []string {
		all := []string{"schema", "openAPIV3Schema"}
		for _, name := range path {
			all = append(all, "properties", name)
		}
		return all
	}
	condition := func(kind, status string) func(*unstructured.Unstructured) {
		return func(crd *unstructured.Unstructured) {
			crd.Object["status"] = map[string]any{"conditions": []any{map[string]any{"type": kind, "status": status, "message": "a conflict"}}}
		}
	}
	for _, c := range []struct {
		what   string
		change func(*unstructured.Unstructured)
		want   string
	}{
		{"as deployed", func(*unstructured.Unstructured) {}, "ok restores.stategraft.io: v1alpha1 is served"},
		{"established", condition("Established", "True"), "ok restores.stategraft.io: v1alpha1 is served"},
		{"not established", condition("Established", "False"), "fail restores.stategraft.io: Established is False: a conflict"},
		{"names taken", condition("NamesAccepted", "False"), "fail restores.stategraft.io: NamesAccepted is False"},
		{"not structural", condition("NonStructuralSchema", "True"), "fail restores.stategraft.io: NonStructuralSchema is True"},
		{"another version", func(crd *unstructured.Unstructured) { version(crd)["name"] = "v1" }, "fail restores.stategraft.io: no version v1alpha1"},
		{"not served", func(crd *unstructured.Unstructured) { version(crd)["served"] = false }, "fail restores.stategraft.io: v1alpha1 is not served"},
		{"no status", without("subresources"), "fail restores.stategraft.io: lacks the subresource status"},
		{"older: no pending", without(properties("status", "pending")...), "fail restores.stategraft.io: lacks status.pending"},
		{"older: no source", without(properties("spec", "source")...), "fail restores.stategraft.io: lacks spec.source"},
		{"older: no prefix", without(properties("spec", "source", "prefix")...), "fail restores.stategraft.io: lacks spec.source.prefix"},
		{"older: no tokens", without(append(append(properties("status", "pods"), "items"), "properties", "tokens")...), "fail restores.stategraft.io: lacks status.pods.tokens"},
		{"without schema", without("schema"), "fail restores.stategraft.io: lacks spec.backup"},
	} {
		crd := definition(t)
		c.change(crd)
		expect(t, c.what, judgeCRD(kindRestore, crd), c.want)
	}
	config := registered(t)
	expect(t, "missing", look(t, "restore-crd", &config), "fail restores.stategraft.io: refuses every pod of namespaces with a Restore under way")
	expect(t, "there", look(t, "restore-crd", &config, definition(t)), "ok restores.stategraft.io: ")
}

func TestRestores(t *testing.T) {
	at := func(d time.Duration) *metav1.Time { return &metav1.Time{Time: noon.Add(d)} }
	pending := []string{"db-0", "db-1"}
	for _, c := range []struct {
		what   string
		change func(*api.Restore)
		want   []string
	}{
		{"runs", func(r *api.Restore) { r.Status.Phase, r.Status.Pending = api.RestoreRestoring, pending }, nil},
		{"just made", func(r *api.Restore) { r.CreationTimestamp = *at(-time.Second) }, nil},
		{"taken up by nobody", func(*api.Restore) {}, []string{"fail ns/r: nobody has taken it up"}},
		{"completed", func(r *api.Restore) { r.Status.Phase = api.RestoreCompleted }, nil},
		{"completed in an odd way", func(r *api.Restore) { r.Status.Phase, r.Status.Pending = api.RestoreCompleted, pending }, []string{"fail ns/r: is Completed and keeps pods from starting all the same (kept from starting: db-0, db-1)"}},
		{"failed by its deadline", func(r *api.Restore) {
			r.Status.Phase, r.Status.Pending, r.Status.Message = api.RestoreFailed, pending, "the deadline is over"
		}, []string{"fail ns/r: failed (kept from starting: db-0, db-1): the deadline is over"}},
		{"failed, nothing touched", func(r *api.Restore) {
			r.Status.Phase, r.Status.Finished, r.Status.Message = api.RestoreFailed, at(-time.Hour), "no backup"
		}, []string{"warn ns/r: failed, and keeps no pod from starting: no backup"}},
		{"failed long ago", func(r *api.Restore) { r.Status.Phase, r.Status.Finished = api.RestoreFailed, at(-25*time.Hour) }, nil},
		{"late", func(r *api.Restore) {
			r.Status.Phase, r.Status.Started, r.Spec.Deadline, r.Status.Pending = api.RestoreRestoring, at(-2*time.Hour), &metav1.Duration{Duration: time.Hour}, pending
		}, []string{"fail ns/r: deadline is over since 1h0m0s"}},
		{"in time", func(r *api.Restore) {
			r.Status.Phase, r.Status.Started, r.Spec.Deadline = api.RestoreRestoring, at(-2*time.Hour), &metav1.Duration{Duration: 3 * time.Hour}
			r.ManagedFields = written(at(-time.Second))
		}, nil},
		{"waits", func(r *api.Restore) { r.Status.Phase, r.Status.Message = api.RestoreWaiting, "a backup runs on db-0" }, []string{"warn ns/r: waits: a backup runs on db-0"}},
		{"waits for the storage", func(r *api.Restore) {
			r.Status.Phase, r.Status.Message = api.RestoreWaiting, "the storage of the backups does not answer: refused"
			r.Status.Conditions = notChecked("StorageUnreachable", r.Status.Message, at(-time.Second))
		}, []string{"warn ns/r: waits: the storage of the backups does not answer: refused"}},
		{"waits for the storage, and looks again", func(r *api.Restore) {
			r.Status.Phase, r.Status.Started = api.RestoreChecking, at(-2*time.Minute)
			r.Status.Conditions = notChecked("StorageUnreachable", "the storage of the backups does not answer: refused", at(-time.Second))
		}, []string{"warn ns/r: waits: the storage of the backups does not answer: refused"}},
		{"a pod is made to look, again and again", func(r *api.Restore) {
			r.Status.Phase, r.Status.Started = api.RestoreChecking, at(-3*time.Minute)
			r.Status.Conditions = notChecked("LookingUp", "no sidecar answers, so a pod is to look", at(-2*time.Minute))
		}, []string{"warn ns/r: waits: no sidecar answers, so a pod is to look"}},
		{"a pod is made to look", func(r *api.Restore) {
			r.Status.Phase, r.Status.Started = api.RestoreChecking, at(-time.Minute)
			r.Status.Conditions = notChecked("LookingUp", "no sidecar answers, so a pod is to look", at(-30*time.Second))
		}, nil},
		{"suspended", func(r *api.Restore) { r.Status.Phase, r.Spec.Suspend = api.RestoreWaiting, true }, []string{"info ns/r: suspended, and has stopped no pod"}},
		{"suspended in the middle", func(r *api.Restore) {
			r.Status.Phase, r.Spec.Suspend, r.Status.Pending = api.RestoreRestoring, true, pending
		}, []string{"warn ns/r: is suspended (kept from starting: db-0, db-1)"}},
		{"stops", func(r *api.Restore) {
			r.Status.Phase, r.Status.Conditions = api.RestoreStopping, []metav1.Condition{{Type: api.ConditionStopping, LastTransitionTime: *at(-time.Minute)}}
		}, nil},
		{"does not stop", func(r *api.Restore) {
			r.Status.Phase, r.Status.Conditions = api.RestoreStopping, []metav1.Condition{{Type: api.ConditionStopping, LastTransitionTime: *at(-time.Hour)}}
		}, []string{"warn ns/r: have not gone down after 1h0m0s"}},
		{"a pod fails", func(r *api.Restore) {
			r.Status.Phase, r.Status.Pods = api.RestoreRestoring, []api.PodRestore{{Name: "db-0", Phase: api.PodRestoring, Failures: 1}, {Name: "db-1", Phase: api.PodRestoring, Failures: 3, Message: "no room"}, {Name: "db-2", Phase: api.PodRestored, Failures: 5}}
		}, []string{"warn ns/db-0: failed 1 time", "fail ns/db-1: failed 3 times, and its database is kept from starting: no room"}},
		{"stalled", func(r *api.Restore) {
			r.Status.Phase, r.Status.Pending, r.Status.Started, r.Status.Message = api.RestoreRestoring, pending, at(-2*time.Hour), "waiting to be created: db-0"
			r.ManagedFields = written(at(-40 * time.Minute))
		}, []string{"warn ns/r: is Restoring, and has not gone on for 40m0s (kept from starting: db-0, db-1): waiting to be created: db-0"}},
		{"goes on", func(r *api.Restore) {
			r.Status.Phase, r.Status.Pending, r.Status.Started, r.ManagedFields = api.RestoreRestoring, pending, at(-2*time.Hour), written(at(-time.Minute))
		}, nil},
		{"only its spec was written", func(r *api.Restore) {
			r.Status.Phase, r.Status.Started, r.ManagedFields = api.RestoreRestoring, at(-2*time.Hour), written(at(-time.Minute))
			r.ManagedFields[0].Subresource = ""
		}, []string{"warn ns/r: has not gone on for 2h0m0s"}},
		{"a pod was restored lately", func(r *api.Restore) {
			r.Status.Phase, r.Status.Started, r.Status.Pods = api.RestoreRestoring, at(-2*time.Hour), []api.PodRestore{{Name: "db-0", Phase: api.PodRestored, Finished: at(-5 * time.Minute)}, {Name: "db-1"}}
		}, nil},
		{"checked for long", func(r *api.Restore) {
			r.Status.Phase, r.Status.Started = api.RestoreChecking, at(-11*time.Minute)
		}, []string{"warn ns/r: is Checking, and has not gone on for 11m0s"}},
		{"is checked", func(r *api.Restore) { r.Status.Phase, r.Status.Started = api.RestoreChecking, at(-9*time.Minute) }, nil},
		{"not let go", func(r *api.Restore) {
			r.Status.Phase, r.Status.Pending, r.DeletionTimestamp, r.Finalizers = api.RestoreRestoring, pending, at(-time.Hour), []string{"stategraft.io/restore"}
		}, []string{"fail ns/r: is being deleted since"}},
	} {
		restore := &api.Restore{TypeMeta: metav1.TypeMeta{APIVersion: api.GroupVersion.String(), Kind: "Restore"},
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "r", CreationTimestamp: *at(-3 * time.Hour)}}
		c.change(restore)
		want := c.want
		if want == nil {
			want = []string{"ok : 1 Restore, and none that is stuck"}
		}
		space := labelledNamespace("ns")
		space.Labels[api.LabelRestoring] = api.RestoringTrue
		expect(t, c.what, look(t, "restores", controller(), space, restore), want...)
		held := len(restore.Status.Pending) > 0
		if got := look(t, "restores", controller(), plain("ns"), restore); held != strings.Contains(got[len(got)-1].Message, "nothing keeps db-0, db-1 from starting") {
			t.Errorf("%s, without the label: %+v", c.what, got)
		}
	}
	expect(t, "none", look(t, "restores", controller(), labelledNamespace("ns")), "ok : no Restore")
}

// controller is an installation's that goes on with Restores.
func controller() *appsv1.Deployment {
	d := deployment(partController, 1, 1)
	d.Labels["app.kubernetes.io/name"] = "stategraft"
	return &d
}

func notChecked(reason, message string, since *metav1.Time) []metav1.Condition {
	return []metav1.Condition{{Type: api.ConditionPrechecked, Status: metav1.ConditionFalse, Reason: reason, Message: message, LastTransitionTime: *since}}
}

// written is what the API server notes of the last write of the status.
func written(when *metav1.Time) []metav1.ManagedFieldsEntry {
	return []metav1.ManagedFieldsEntry{{Manager: "stategraft", Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: api.GroupVersion.String(), Time: when, Subresource: "status"}}
}

// Without the CustomResourceDefinition there are no Restores to look at.
func TestRestoresNotServed(t *testing.T) {
	c, _ := stand(labelledNamespace("ns"), controller())
	c.Dynamic.(*fakedynamic.FakeDynamicClient).PrependReactor("list", "restores", func(core.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewNotFound(schema.GroupResource{}, "")
	})
	expect(t, "not served", lookRestores(t.Context(), c), "info : there is no restores.stategraft.io")
}

// A pod that a Restore keeps from starting is another matter than one that asks for
// a restore itself.
func TestRefusedByPending(t *testing.T) {
	set := read[appsv1.StatefulSet](t, "metadata: {namespace: ns, name: db}\nspec: {replicas: 2}\nstatus: {replicas: 1}\n")
	got := judgeRefused(set, []corev1.Event{{Message: "create Pod db-1 in StatefulSet db failed error: pods \"db-1\" is forbidden: ValidatingAdmissionPolicy '" + pendingName + "' denied request"}})
	if len(got) != 1 || !strings.Contains(got[0].Remedy, "restore list -n ns") {
		t.Errorf("%+v", got)
	}
}

// Pods are held where the namespace bears both labels.
func TestLabelsOfRestore(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	at := func(age time.Duration, pending ...string) *api.Restore {
		r := &api.Restore{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "r"}}
		r.Status.Pending, r.Status.Started = pending, new(metav1.NewTime(now.Add(-age)))
		return r
	}
	both := map[string]string{api.LabelInject: api.InjectEnabled, api.LabelRestoring: api.RestoringTrue}
	one := map[string]string{api.LabelInject: api.InjectEnabled}
	expect(t, "both", judgeLabels(at(time.Hour, "db-0"), both, now))
	expect(t, "nothing pending", judgeLabels(at(time.Hour), nil, now))
	expect(t, "just begun", judgeLabels(at(time.Minute, "db-0"), one, now))
	expect(t, "without ours", judgeLabels(at(time.Hour, "db-0"), one, now), "fail ns/r: lacks the label stategraft.io/restoring")
	expect(t, "another value", judgeLabels(at(time.Hour, "db-0"), map[string]string{api.LabelInject: api.InjectEnabled, api.LabelRestoring: "no"}, now), "fail ns/r: lacks the label")
	expect(t, "without theirs", judgeLabels(at(time.Minute, "db-0"), map[string]string{api.LabelRestoring: api.RestoringTrue}, now), "fail ns/r: not labelled any more: nothing keeps db-0")
}
