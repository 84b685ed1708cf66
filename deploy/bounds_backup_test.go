package deploy_test

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	corev1apply "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/deploy"
	"github.com/stategraft/stategraft/test/cluster"
)

// TestBackupRightsOnServer asks the API server what the two accounts may do about
// backups.
func TestBackupRightsOnServer(t *testing.T) {
	cp := applied(t, deploy.SelfSigned)
	const db, other, bare = "backups-db", "backups-other", "backups-bare"
	for _, ns := range []string{db, other, bare} {
		namespace(t, cp, ns, nil)
	}
	kubectl(t, cp, "", "label", "namespace", db, "kube-public", "stategraft.io/inject=enabled")
	t.Cleanup(func() { unlabel(t, cp, "kube-public") })
	admin, controller, hook := as(t, cp, ""), as(t, cp, "stategraft-controller"), as(t, cp, "stategraft-webhook")

	for name, edit := range map[string]func(*unstructured.Unstructured){
		"asked":     func(*unstructured.Unstructured) {},
		"scheduled": labelled(api.LabelSchedule, "nightly"),
		"pinned":    func(u *unstructured.Unstructured) { labelled(api.LabelSchedule, "nightly")(u); set(true, "pinned")(u) },
		"deleting":  set("Delete", "deletionPolicy"),
	} {
		admin.make(t, db, "Backup", name, edit)
	}
	admin.make(t, db, "BackupSchedule", "theirs", asSchedule)
	admin.make(t, db, "BackupSchedule", "annotated", func(u *unstructured.Unstructured) { asSchedule(u); labelled(api.LabelAnnotated, "true")(u) })
	admin.catalogue(t, other)
	awaitTrue(t, "the policies to be in force", func() bool {
		for _, request := range []func(context.Context) error{
			controller.apply(bare, api.ConfigMapCatalogue), controller.delete(db, "backups", "asked"),
			controller.delete(db, "backupschedules", "theirs"),
		} {
			if policy, _ := forbidden(request(t.Context())); !policy {
				return false
			}
		}
		return true
	})
	existing := func(u *unstructured.Unstructured) {
		u.Object["spec"] = map[string]any{"existing": map[string]any{"name": "b1", "prefix": "p"}}
	}
	for name, c := range map[string]struct {
		request func(context.Context) error
		want    answer
	}{
		"the catalogue":                   {controller.apply(db, api.ConfigMapCatalogue), granted},
		"the catalogue, not labelled":     {controller.apply(bare, api.ConfigMapCatalogue), byPolicy},
		"the catalogue, no longer":        {controller.apply(other, api.ConfigMapCatalogue), granted},
		"the catalogue, system, labelled": {controller.apply("kube-public", api.ConfigMapCatalogue), byPolicy},
		"the catalogue in our home":       {controller.apply(home, api.ConfigMapCatalogue), byPolicy},
		"what is held back":               {controller.apply(home, "stategraft-held-back"), granted},
		"another ConfigMap":               {controller.apply(db, "medusa"), byRole},
		"another ConfigMap, ours":         {controller.post(home, "more"), byPolicy},
		"read another ConfigMap":          {controller.read("kube-system", "extension-apiserver-authentication"), granted}, // to tell that one has changed
		"webhook: read another ConfigMap": {hook.read("kube-system", "extension-apiserver-authentication"), byRole},
		"webhook: the catalogue":          {hook.apply(db, api.ConfigMapCatalogue), byRole},
		"a Backup":                        {controller.create(db, "Backup", "b", func(*unstructured.Unstructured) {}), granted},
		"one that was found":              {controller.create(db, "Backup", "b", existing), granted},
		"one that was found, to go":       {controller.create(db, "Backup", "b", func(u *unstructured.Unstructured) { existing(u); set("Delete", "deletionPolicy")(u) }), byPolicy},
		"one of a schedule, to go": {controller.create(db, "Backup", "b", func(u *unstructured.Unstructured) {
			labelled(api.LabelSchedule, "s")(u)
			set("Delete", "deletionPolicy")(u)
		}), granted},
		"a finalizer":                      {controller.patch(db, "backups", "asked", `{"metadata":{"finalizers":["stategraft.io/backup"]}}`), granted},
		"a finalizer on what goes":         {controller.patch(db, "backups", "deleting", `{"metadata":{"finalizers":["stategraft.io/backup"]}}`), granted},
		"cancel":                           {controller.patch(db, "backups", "asked", `{"spec":{"cancel":true}}`), granted},
		"delete a Backup":                  {controller.delete(db, "backups", "asked"), byPolicy},
		"delete one of a schedule":         {controller.delete(db, "backups", "scheduled"), granted},
		"delete one that is pinned":        {controller.delete(db, "backups", "pinned"), byPolicy},
		"have a Backup go":                 {controller.patch(db, "backups", "asked", `{"spec":{"deletionPolicy":"Delete"}}`), byPolicy},
		"have one of a schedule go":        {controller.patch(db, "backups", "scheduled", `{"spec":{"deletionPolicy":"Delete"}}`), granted},
		"have one go that is pinned":       {controller.patch(db, "backups", "pinned", `{"spec":{"deletionPolicy":"Delete"}}`), byPolicy},
		"have one go, labelled by us":      {controller.patch(db, "backups", "asked", `{"metadata":{"labels":{"stategraft.io/schedule":"s"}},"spec":{"deletionPolicy":"Delete"}}`), byPolicy},
		"take the pin off":                 {controller.patch(db, "backups", "pinned", `{"spec":{"pinned":false}}`), byPolicy},
		"take the pin off, and have it go": {controller.patch(db, "backups", "pinned", `{"spec":{"pinned":null,"deletionPolicy":"Delete"}}`), byPolicy},
		"pin":                              {controller.patch(db, "backups", "asked", `{"spec":{"pinned":true}}`), byPolicy},
		"adopt":                            {controller.patch(db, "backups", "asked", `{"metadata":{"labels":{"stategraft.io/schedule":"s"}}}`), byPolicy},
		"give to another":                  {controller.patch(db, "backups", "scheduled", `{"metadata":{"labels":{"stategraft.io/schedule":"s"}}}`), byPolicy},
		"a status":                         {controller.patchStatus(db, "backups", "asked", `{"status":{"phase":"Waiting"}}`), granted},
		"a schedule's status":              {controller.patchStatus(db, "backupschedules", "theirs", `{"status":{"message":"m"}}`), granted},
		"a schedule":                       {controller.create(db, "BackupSchedule", "s", asSchedule), byPolicy},
		"an annotated schedule":            {controller.create(db, "BackupSchedule", "s", func(u *unstructured.Unstructured) { asSchedule(u); labelled(api.LabelAnnotated, "true")(u) }), granted},
		"change a schedule":                {controller.patch(db, "backupschedules", "theirs", `{"spec":{"suspend":true}}`), byPolicy},
		"a schedule's finalizer":           {controller.patch(db, "backupschedules", "theirs", `{"metadata":{"finalizers":["stategraft.io/x"]}}`), granted},
		"change a schedule made ours":      {controller.patch(db, "backupschedules", "theirs", `{"metadata":{"labels":{"stategraft.io/annotated":"true"}}}`), byPolicy},
		"change an annotated schedule":     {controller.patch(db, "backupschedules", "annotated", `{"spec":{"suspend":true}}`), granted},
		"delete a schedule":                {controller.delete(db, "backupschedules", "theirs"), byPolicy},
		"delete an annotated schedule":     {controller.delete(db, "backupschedules", "annotated"), granted},
		"delete their claim":               {controller.deleteClaim(db, "data-db-0"), byRole},
		"webhook: a Backup":                {hook.create(db, "Backup", "b", func(*unstructured.Unstructured) {}), byRole},
		"administrator: delete a Backup":   {admin.delete(db, "backups", "pinned"), granted},
		"administrator: delete a schedule": {admin.delete(db, "backupschedules", "theirs"), granted},
	} {
		expect(t, name, c.request, c.want)
	}
}

// account asks the API server as one of ours, or as the administrator; in dry runs,
// where it does not say that it makes something.
type account struct {
	kube    kubernetes.Interface
	dynamic dynamic.Interface
}

func as(t *testing.T, cp *cluster.ControlPlane, name string) account {
	t.Helper()
	config := cp.Config()
	if name != "" {
		config.Impersonate.UserName = "system:serviceaccount:" + home + ":" + name
		config.Impersonate.Groups = []string{"system:serviceaccounts", "system:authenticated"}
	}
	dyn, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return account{client(t, cp, name), dyn}
}

// object is a Backup of a pod, or whatever edit makes of it.
func objectOf(kind, name string, edit func(*unstructured.Unstructured)) (o *unstructured.Unstructured, in string) {
	o = &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"pods": map[string]any{"names": []any{"db-0"}}}}}
	o.SetGroupVersionKind(api.GroupVersion.WithKind(kind))
	o.SetName(name)
	edit(o)
	return o, map[string]string{"Backup": "backups", "BackupSchedule": "backupschedules"}[kind]
}

func asSchedule(u *unstructured.Unstructured) {
	u.Object["spec"] = map[string]any{"schedule": "0 3 * * *", "template": map[string]any{"spec": u.Object["spec"]}}
}

func labelled(key, value string) func(*unstructured.Unstructured) {
	return func(u *unstructured.Unstructured) { u.SetLabels(map[string]string{key: value}) }
}

func set(value any, field string) func(*unstructured.Unstructured) {
	return func(u *unstructured.Unstructured) { u.Object["spec"].(map[string]any)[field] = value }
}

func (a account) resource(ns, resource string) dynamic.ResourceInterface {
	return a.dynamic.Resource(api.GroupVersion.WithResource(resource)).Namespace(ns)
}

// make creates an object for good.
func (a account) make(t *testing.T, ns, kind, name string, edit func(*unstructured.Unstructured)) {
	t.Helper()
	o, in := objectOf(kind, name, edit)
	if _, err := a.resource(ns, in).Create(t.Context(), o, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func (a account) create(ns, kind, name string, edit func(*unstructured.Unstructured)) func(context.Context) error {
	return func(ctx context.Context) error {
		o, in := objectOf(kind, name, edit)
		_, err := a.resource(ns, in).Create(ctx, o, metav1.CreateOptions{DryRun: dryRun})
		return err
	}
}

func (a account) patch(ns, resource, name, patch string) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := a.resource(ns, resource).Patch(ctx, name, types.MergePatchType, []byte(patch), metav1.PatchOptions{DryRun: dryRun})
		return err
	}
}

func (a account) patchStatus(ns, resource, name, patch string) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := a.resource(ns, resource).Patch(ctx, name, types.MergePatchType, []byte(patch), metav1.PatchOptions{DryRun: dryRun}, "status")
		return err
	}
}

func (a account) delete(ns, resource, name string) func(context.Context) error {
	return func(ctx context.Context) error {
		return a.resource(ns, resource).Delete(ctx, name, metav1.DeleteOptions{DryRun: dryRun})
	}
}

// apply writes a ConfigMap by server-side apply.
func (a account) apply(ns, name string) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := a.kube.CoreV1().ConfigMaps(ns).Apply(ctx, corev1apply.ConfigMap(name, ns).WithData(map[string]string{"a": "b"}),
			metav1.ApplyOptions{FieldManager: "test", Force: true, DryRun: dryRun})
		return err
	}
}

func (a account) post(ns, name string) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := a.kube.CoreV1().ConfigMaps(ns).Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{DryRun: dryRun})
		return err
	}
}

func (a account) read(ns, name string) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := a.kube.CoreV1().ConfigMaps(ns).Get(ctx, name, metav1.GetOptions{})
		return err
	}
}

// catalogue makes one for good.
func (a account) catalogue(t *testing.T, ns string) {
	t.Helper()
	if _, err := a.kube.CoreV1().ConfigMaps(ns).Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: api.ConfigMapCatalogue}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func (a account) deleteClaim(ns, name string) func(context.Context) error {
	return func(ctx context.Context) error {
		return a.kube.CoreV1().PersistentVolumeClaims(ns).Delete(ctx, name, metav1.DeleteOptions{DryRun: dryRun})
	}
}
