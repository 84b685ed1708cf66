package check

import (
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	fakedynamic "k8s.io/client-go/dynamic/fake"
	core "k8s.io/client-go/testing"

	corev1 "k8s.io/api/core/v1"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/rpo"
)

func at(d time.Duration) *metav1.Time { return &metav1.Time{Time: noon.Add(d)} }

func is(kind string, status metav1.ConditionStatus, reason string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: "because", LastTransitionTime: *at(-time.Hour)}
}

func TestBackups(t *testing.T) {
	deleted := func(since time.Duration, conditions ...metav1.Condition) func(*api.Backup) {
		return func(b *api.Backup) {
			b.DeletionTimestamp, b.Finalizers = at(-since), []string{api.FinalizerBackup}
			b.Status.Phase, b.Status.Conditions = api.BackupDeleting, conditions
		}
	}
	failed := func(phase api.BackupPhase, since time.Duration) func(*api.Backup) {
		return func(b *api.Backup) {
			b.Status.Phase, b.Status.Message, b.Status.Finished = phase, "because", at(-since)
		}
	}
	for _, c := range []struct {
		what   string
		change func(*api.Backup)
		want   string
	}{
		{"runs", func(b *api.Backup) { b.Status.Phase, b.Status.Started = api.BackupRunning, at(-2*time.Hour) }, ""},
		{"just made", func(b *api.Backup) { b.CreationTimestamp = *at(-time.Second) }, ""},
		{"taken up by nobody", func(*api.Backup) {}, "fail ns/b: nobody has taken it up"},
		{"found, and not looked into yet", func(b *api.Backup) { b.Spec = api.BackupSpec{Existing: &api.ExistingBackup{Name: "b1"}} }, ""},
		{"complete", func(b *api.Backup) { b.Status.Phase = api.BackupComplete }, ""},
		{"complete, and verified", func(b *api.Backup) {
			b.Status.Phase, b.Status.Conditions = api.BackupComplete, []metav1.Condition{is(api.ConditionVerified, metav1.ConditionTrue, "Passed")}
		}, ""},
		{"could not be verified", func(b *api.Backup) {
			b.Status.Phase, b.Status.Conditions = api.BackupComplete, []metav1.Condition{is(api.ConditionVerified, metav1.ConditionUnknown, "TimedOut")}
		}, ""},
		{"complete, and is not", func(b *api.Backup) {
			b.Status.Phase, b.Status.Conditions = api.BackupComplete, []metav1.Condition{is(api.ConditionVerified, metav1.ConditionFalse, "Differs")}
		}, "fail ns/b: does not hold what it should (Differs): because"},
		{"missing", func(b *api.Backup) { b.Status.Phase, b.Status.Message = api.BackupMissing, "because" }, "warn ns/b: not in the storage any more: because"},
		{"failed", failed(api.BackupFailed, time.Hour), "warn ns/b: is Failed, and no newer backup of its pods is complete: because"},
		{"partial", failed(api.BackupPartial, time.Hour), "warn ns/b: is Partial, and no newer backup of its pods is complete: because"},
		{"cancelled", failed(api.BackupCancelled, time.Hour), ""},
		{"over its timeout", func(b *api.Backup) {
			b.Spec.Timeout, b.Status.Phase, b.Status.Started = &metav1.Duration{Duration: time.Hour}, api.BackupRunning, at(-2*time.Hour)
		}, "fail ns/b: timeout is over since 1h0m0s"},
		{"over its timeout before it began", func(b *api.Backup) { b.CreationTimestamp, b.Status.Phase = *at(-25 * time.Hour), api.BackupWaiting }, "fail ns/b: timeout is over since 1h0m0s"},
		{"ends", func(b *api.Backup) {
			b.Spec.Timeout, b.Status.Phase, b.Status.Started = &metav1.Duration{Duration: time.Hour}, api.BackupRunning, at(-61*time.Minute)
		}, ""},
		{"waits", func(b *api.Backup) { b.Status.Phase, b.Status.Message = api.BackupWaiting, "because" }, "warn ns/b: waits: because"},
		{"waits a little", func(b *api.Backup) { b.CreationTimestamp, b.Status.Phase = *at(-time.Minute), api.BackupWaiting }, ""},
		{"suspended", func(b *api.Backup) { b.Spec.Suspend, b.Status.Phase = true, api.BackupWaiting }, "info ns/b: is suspended"},
		{"is deleted", deleted(10*time.Minute, is(api.ConditionDeleted, metav1.ConditionFalse, "Busy")), ""},
		{"is deleted, for long", deleted(2*time.Hour, is(api.ConditionDeleted, metav1.ConditionFalse, "NoSidecar")), "warn ns/b: its data cannot be (NoSidecar): because"},
		{"is deleted now", deleted(time.Second), ""},
		{"not let go", deleted(2 * time.Minute), "fail ns/b: the controller does not let it go"},
		{"is deleted in the middle", func(b *api.Backup) { deleted(10 * time.Minute)(b); b.Status.Phase = api.BackupRunning }, ""},
		{"is deleted in the middle, and stays", func(b *api.Backup) { deleted(26 * time.Hour)(b); b.Status.Phase = api.BackupRunning }, "fail ns/b: the controller does not let it go"},
	} {
		b := backup(c.change)
		want := c.want
		if want == "" {
			want = "ok : 1 Backup, and none in trouble"
		}
		expect(t, c.what, look(t, "backups", controller(), labelledNamespace("ns"), b), want)
	}
	expect(t, "none", look(t, "backups", controller(), labelledNamespace("ns")), "ok : no Backup")
}

func backup(change func(*api.Backup)) *api.Backup {
	b := &api.Backup{TypeMeta: metav1.TypeMeta{APIVersion: api.GroupVersion.String(), Kind: "Backup"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "b", CreationTimestamp: *at(-3 * time.Hour)},
		Spec:       api.BackupSpec{Pods: &api.BackupPods{Names: []string{"db-0"}}}}
	change(b)
	return b
}

// Backups outlive the installation, and so does the finalizer on them.
func TestBackupsOfNobody(t *testing.T) {
	const gone = "and no controller is installed"
	for _, c := range []struct {
		what   string
		change func(*api.Backup)
		want   string
	}{
		{"over", func(b *api.Backup) { b.Status.Phase, b.Finalizers = api.BackupComplete, []string{api.FinalizerBackup} }, "ok : 1 Backup, and none in trouble"},
		{"found", func(b *api.Backup) { b.Spec = api.BackupSpec{Existing: &api.ExistingBackup{Name: "b1"}} }, "ok : 1 Backup, and none in trouble"},
		{"runs", func(b *api.Backup) { b.Status.Phase = api.BackupRunning }, "fail ns/b: is not over Running, " + gone},
		{"new", func(*api.Backup) {}, "fail ns/b: is not over, " + gone},
		{"is deleted", func(b *api.Backup) {
			b.Status.Phase, b.DeletionTimestamp, b.Finalizers = api.BackupComplete, at(-time.Second), []string{api.FinalizerBackup}
		}, "fail ns/b: is being deleted, " + gone},
	} {
		cluster, client := stand(backup(c.change))
		client.Resources = append(client.Resources, &metav1.APIResourceList{GroupVersion: api.GroupVersion.String(), APIResources: []metav1.APIResource{{Name: "backups"}}})
		expect(t, c.what, lookBackups(t.Context(), cluster), c.want)
	}
	cluster, _ := stand()
	expect(t, "nothing is left", lookBackups(t.Context(), cluster), "info : not installed yet")
}

func TestSchedules(t *testing.T) {
	if rpo.ConditionWithinRPO != conditionWithinRPO {
		t.Errorf("the condition is %s", rpo.ConditionWithinRPO)
	}
	well := []metav1.Condition{is(api.ConditionAccepted, metav1.ConditionTrue, "Accepted")}
	with := func(more ...metav1.Condition) func(*api.BackupSchedule) {
		return func(s *api.BackupSchedule) { s.Status.Conditions = append(s.Status.Conditions, more...) }
	}
	for _, c := range []struct {
		what   string
		change func(*api.BackupSchedule)
		want   []string
	}{
		{"in time", with(is(api.ConditionOnTime, metav1.ConditionTrue, "OnTime"), is(conditionWithinRPO, metav1.ConditionTrue, "WithinRPO")), nil},
		{"taken up by nobody", func(s *api.BackupSchedule) { s.Status.Conditions = nil }, []string{"fail ns/s: nobody has taken it up"}},
		{"just made", func(s *api.BackupSchedule) { s.Status.Conditions, s.CreationTimestamp = nil, *at(-time.Second) }, nil},
		{"goes", func(s *api.BackupSchedule) { s.Status.Conditions, s.DeletionTimestamp = nil, at(-time.Hour) }, nil},
		{"refused", func(s *api.BackupSchedule) {
			s.Status.Conditions[0] = is(api.ConditionAccepted, metav1.ConditionFalse, "InvalidSchedule")
		},
			[]string{"fail ns/s: makes no backups (InvalidSchedule): because"}},
		{"late", with(is(api.ConditionOnTime, metav1.ConditionFalse, "Busy")), []string{"warn ns/s: is not in time (Busy): because"}},
		{"behind", with(is(api.ConditionOnTime, metav1.ConditionFalse, "Busy"), is(conditionWithinRPO, metav1.ConditionFalse, "TooOld")),
			[]string{"fail ns/s: older than they may become: because", "warn ns/s: is not in time (Busy): because"}},
		{"suspended", func(s *api.BackupSchedule) { s.Spec.Suspend = true }, []string{"info ns/s: is suspended"}},
		{"deletes nothing", with(is(api.ConditionRetained, metav1.ConditionFalse, "ListEmpty")), []string{"warn ns/s: old backups are not deleted (ListEmpty): because"}},
		{"deletes nothing for now", with(is(api.ConditionRetained, metav1.ConditionFalse, "BackupActive")), nil},
	} {
		s := &api.BackupSchedule{TypeMeta: metav1.TypeMeta{APIVersion: api.GroupVersion.String(), Kind: "BackupSchedule"},
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "s", CreationTimestamp: *at(-3 * time.Hour)}, Status: api.BackupScheduleStatus{Conditions: append([]metav1.Condition(nil), well...)}}
		c.change(s)
		want := c.want
		if want == nil {
			want = []string{"ok : 1 BackupSchedule, all in time"}
		}
		expect(t, c.what, look(t, "schedules", controller(), labelledNamespace("ns"), databasePod(t), s), want...)
	}
	expect(t, "none", look(t, "schedules", controller(), labelledNamespace("ns"), databasePod(t)), "warn ns: 1 injected pod, and no BackupSchedule")
	expect(t, "no database", look(t, "schedules", controller(), labelledNamespace("ns")), "ok : no BackupSchedule, and no database")
}

func TestCatalogue(t *testing.T) {
	document := func(text string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: api.ConfigMapCatalogue}, Data: map[string]string{"prod-c": text, "theirs": "no JSON"}}
	}
	for what, c := range map[string]struct{ text, want string }{
		"well":    {`{"prefix":"prod-c","pod":"db-0","listed":"` + noon.Add(-time.Minute).Format(time.RFC3339) + `","backups":3,"complete":2}`, "ok : 3 backups in the storage, 2 of them complete"},
		"failed":  {`{"prefix":"prod-c","pod":"db-0","failed":"refused"}`, "warn ns/prod-c: is not known, and none is deleted: refused"},
		"stale":   {`{"prefix":"prod-c","pod":"db-0","listed":"` + noon.Add(-2*time.Hour).Format(time.RFC3339) + `"}`, "warn ns/prod-c: and not since"},
		"missing": {`{"prefix":"prod-c","pod":"db-0","listed":"` + noon.Format(time.RFC3339) + `","missing":2}`, "warn ns/prod-c: 2 backups not in the storage any more"},
	} {
		expect(t, what, look(t, "catalogue", controller(), labelledNamespace("ns"), databasePod(t), document(c.text)), c.want)
	}
	expect(t, "none", look(t, "catalogue", controller(), labelledNamespace("ns"), databasePod(t)), "info ns: nobody has looked into its storage yet")
}

func TestBackupCRDs(t *testing.T) {
	config := registered(t)
	expect(t, "missing", look(t, "backup-crds", &config), "fail backups.stategraft.io: nothing can be backed up", "fail backupschedules.stategraft.io: nothing is backed up by itself")
	var both []runtime.Object
	for _, name := range []string{crdBackups, crdSchedules} {
		both = append(both, &unstructured.Unstructured{Object: *read[map[string]any](t, picked(t, "CustomResourceDefinition/"+name))})
	}
	expect(t, "there", look(t, "backup-crds", append(both, &config)...), "ok backups.stategraft.io: ", "ok backupschedules.stategraft.io: ")
	versions := both[0].(*unstructured.Unstructured).Object["spec"].(map[string]any)["versions"].([]any)
	unstructured.RemoveNestedField(versions[0].(map[string]any), "schema", "openAPIV3Schema", "properties", "status", "properties", "verified", "properties", "rows")
	expect(t, "older", look(t, "backup-crds", append(both, &config)...), "fail backups.stategraft.io: lacks status.verified.rows", "ok backupschedules.stategraft.io: ")
}

// Without their CustomResourceDefinitions there is nothing to look at.
func TestBackupsNotServed(t *testing.T) {
	c, _ := stand(labelledNamespace("ns"), controller())
	c.Dynamic.(*fakedynamic.FakeDynamicClient).PrependReactor("list", "*", func(core.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewNotFound(schema.GroupResource{}, "")
	})
	expect(t, "Backups", lookBackups(t.Context(), c), "info : there is no backups.stategraft.io")
	expect(t, "BackupSchedules", lookSchedules(t.Context(), c), "info : there is no backupschedules.stategraft.io")
}
