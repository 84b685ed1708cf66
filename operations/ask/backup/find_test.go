package backup

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/ask"
)

func TestGet(t *testing.T) {
	twin := func(name, prefix string) *api.Backup {
		return made(func(b *api.Backup) {
			found(b)
			b.Name, b.Spec.Existing.Name, b.Spec.Existing.Prefix, b.Status.Name = name, "Nightly:1", prefix, ""
		})
	}
	cluster := store(nil, made(nil), twin("nightly-1-aaaaaaaa", "a"), twin("nightly-1-bbbbbbbb", "b"))
	for name, want := range map[string]string{
		"before-upgrade": "before-upgrade",
		"20261130-020000-m0a1b2c3d-before-upgrade": "before-upgrade",
		"nightly-1-bbbbbbbb":                       "nightly-1-bbbbbbbb",
		"Nightly:1":                                `several Backups of namespace db are Nightly:1 in the storage: nightly-1-aaaaaaaa (prefix "a"), nightly-1-bbbbbbbb (prefix "b"); say which by its own name`,
		"nightly":                                  "there is no Backup nightly in namespace db (kubectl stategraft backup list -n db has those that there are; kubectl stategraft sync looks for more in the storage)",
	} {
		b, err := Get(t.Context(), cluster, "db", name)
		if err == nil && b.Name != want || err != nil && err.Error() != want {
			t.Errorf("%s: %+v, %v", name, b, err)
		}
	}
	if _, err := Get(t.Context(), cluster, "gone", "x"); err == nil || err.Error() != `there is no namespace "gone"` {
		t.Error(err)
	}
}

func ring(name string, start, replicas int32) *appsv1.StatefulSet {
	set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "db", Name: name}, Spec: appsv1.StatefulSetSpec{Replicas: &replicas}}
	if start > 0 {
		set.Spec.Ordinals = &appsv1.StatefulSetOrdinals{Start: start}
	}
	return set
}

// TestResolve finds the pods that are meant, also those that are not there.
func TestResolve(t *testing.T) {
	objects := []client.Object{ring("c", 0, 3), ring("rack", 5, 2), ring("none", 0, 0)}
	yes := true
	for _, name := range []string{"c-0", "c-1", "c-10"} {
		objects = append(objects, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "db", Name: name, Labels: map[string]string{"app": "c", "n": name},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "c", UID: "u", Controller: &yes}}}})
	}
	cluster := store(nil, objects...)
	for _, c := range []struct{ args, selector, workload, names, set, note string }{
		{"sts/c", "", "c", "", "c", ""},
		{"pod/c-1", "", "c", "c-1", "", "Not in this backup: c-0, c-10, of the same workload."},
		{"pod/c-10 pod/c-0 pod/c-1", "", "c", "c-0 c-1 c-10", "", ""},
		{"sts/c sts/rack", "", "rack", "c-0 c-1 c-2 rack-5 rack-6", "", "Not in this backup: c-10"},
		{"sts/rack pod/c-0", "", "c", "c-0 rack-5 rack-6", "", "Not in this backup: c-1, c-10"},
		{"", "app=c", "c", "", "", ""},
		{"", "n=c-1", "c", "", "", "Not in this backup: c-0, c-10"},
	} {
		targets, err := ask.ParseTargetsTo("backed up", "list", strings.Fields(c.args))
		if err != nil {
			t.Fatal(err)
		}
		got, err := Resolve(t.Context(), cluster, "db", targets, c.selector)
		if err != nil {
			t.Errorf("%s %s: %v", c.args, c.selector, err)
			continue
		}
		set := ""
		if w := got.Pods.Workload; w != nil {
			set = w.Name
		}
		if got.Workload != c.workload || strings.Join(got.Pods.Names, " ") != c.names || set != c.set || (got.Pods.Selector != nil) != (c.selector != "") ||
			!strings.HasPrefix(got.Note, c.note) || c.note == "" && got.Note != "" {
			t.Errorf("%s %s: %+v", c.args, c.selector, got)
		}
	}
	for arg, want := range map[string]string{"sts/none": "is scaled to 0", "sts/gone": "there is no statefulset gone", "pod/gone": "there is no pod gone"} {
		targets, _ := ask.ParseTargets([]string{arg})
		if _, err := Resolve(t.Context(), cluster, "db", targets, ""); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", arg, err)
		}
	}
}
