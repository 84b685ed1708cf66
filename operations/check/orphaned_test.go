package check

import (
	"errors"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	core "k8s.io/client-go/testing"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/lookup"
	"github.com/stategraft/stategraft/operations/restore"
)

func objectsOf(objects ...runtime.Object) []runtime.Object { return objects }

// servingRestores has the API server tell that it has Restores.
func servingRestores(client *fake.Clientset) {
	client.Resources = append(client.Resources, &metav1.APIResourceList{GroupVersion: api.GroupVersion.String(), APIResources: []metav1.APIResource{{Name: "restores"}}})
}

// Restores outlive the installation: the chart leaves their kind behind. They are
// looked at, whether they were named or not.
func TestRestoresOfNobody(t *testing.T) {
	left := func(change func(*api.Restore)) *api.Restore {
		r := &api.Restore{TypeMeta: metav1.TypeMeta{APIVersion: api.GroupVersion.String(), Kind: "Restore"},
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "r", CreationTimestamp: metav1.NewTime(noon), Finalizers: []string{restore.Finalizer}}}
		change(r)
		return r
	}
	running := func(r *api.Restore) {
		r.Status.Phase, r.Status.Pending = api.RestoreRestoring, []string{"db-0", "db-1"}
	}
	const patch = `kubectl patch restores.stategraft.io r -n ns --type merge -p '{"metadata":{"finalizers":null}}'`
	config := registered(t)
	url := registered(t)
	address := "https://10.0.0.1/mutate"
	url.Webhooks[0].ClientConfig.Service, url.Webhooks[0].ClientConfig.URL = nil, &address
	for _, c := range []struct {
		what    string
		objects []runtime.Object
		want    string
		remedy  string
	}{
		{"in the middle", objectsOf(left(running)), "fail ns/r: is Restoring (waiting for it: db-0, db-1), and no controller is installed", patch},
		{"in the middle, the webhook is there", objectsOf(&config, left(running)), "fail ns/r: is Restoring (waiting for it: db-0, db-1), and no controller is installed", patch},
		{"in the middle, the controller is there", objectsOf(controller(), labelledNamespace("ns"), left(running)), "ok : 1 Restore, and none that is stuck", ""},
		{"in the middle, the controller may be anywhere", objectsOf(&url, labelledNamespace("ns"), left(running)), "ok : 1 Restore, and none that is stuck", ""},
		{"is checked", objectsOf(left(func(r *api.Restore) { r.Status.Phase = api.RestoreChecking })), "fail ns/r: is Checking, and no", patch},
		{"new", objectsOf(left(func(r *api.Restore) { r.Finalizers = nil })), "fail ns/r: is not taken up yet, and no", "kubectl delete restores.stategraft.io r -n ns"},
		{"deleted", objectsOf(left(func(r *api.Restore) {
			running(r)
			r.DeletionTimestamp = &metav1.Time{Time: noon.Add(-time.Second)}
		})), "fail ns/r: is being deleted (waiting for it: db-0, db-1), and no", patch},
		{"failed and holds", objectsOf(left(func(r *api.Restore) {
			running(r)
			r.Status.Phase = api.RestoreFailed
		})), "fail ns/r: is Failed (waiting for it: db-0, db-1)", patch},
		{"over", objectsOf(left(func(r *api.Restore) { r.Status.Phase, r.Finalizers = api.RestoreCompleted, nil })), "ok : 1 Restore, and none that is stuck", ""},
		{"over, with the finalizer", objectsOf(left(func(r *api.Restore) { r.Status.Phase = api.RestoreCompleted })), "fail ns/r: is Completed, and no", patch},
		{"none", nil, "ok : no Restore", ""},
	} {
		for _, named := range []bool{false, true} {
			cluster, client := stand(c.objects...)
			servingRestores(client)
			items := Items
			if cluster.Named = named; named {
				items, _ = Select([]string{"restores"})
			}
			report, err := Run(t.Context(), cluster, items)
			if err != nil {
				t.Fatal(err)
			}
			got := of(report, "restores")
			expect(t, c.what, got, c.want)
			if !strings.Contains(got[0].Remedy, c.remedy) || strings.Contains(got[0].Remedy, "finalizers") != (c.remedy == patch) {
				t.Errorf("%s: remedy %q", c.what, got[0].Remedy)
			}
		}
	}
}

// Before the installation there is no such kind, and nothing to look at.
func TestRestoresBeforeTheInstallation(t *testing.T) {
	items, _ := Select([]string{"restores"})
	for _, c := range []struct {
		what  string
		named bool
		fails error
		want  string
	}{
		{"among all", false, nil, "info : not installed yet"},
		{"named", true, nil, "skip : Stategraft is not installed"},
		{"no answer", false, errors.New("gone"), "skip : gone"},
	} {
		cluster, client := stand()
		cluster.Named = c.named
		if c.fails != nil {
			client.PrependReactor("get", "resource", func(core.Action) (bool, runtime.Object, error) { return true, nil, c.fails })
		}
		report, err := Run(t.Context(), cluster, items)
		if err != nil {
			t.Fatal(err)
		}
		expect(t, c.what, report.Findings, c.want)
	}
}

// The pod that looks into the storage has our containers and is no database's.
func TestLookupPodIsNotInjected(t *testing.T) {
	config := registered(t)
	pod := databasePod(t)
	pod.Name = lookup.NamePrefix + "1"
	delete(pod.Labels, api.LabelInjected)
	pod.Labels[api.LabelInject] = api.InjectDisabled
	pod.Labels[lookup.LabelLookup] = "1"
	// Likewise the one that a backup is restored into on trial.
	trial := pod.DeepCopy()
	trial.Name, trial.Labels = "stategraft-verify-1", map[string]string{api.LabelInject: api.InjectDisabled, api.LabelVerify: "1"}
	copied := databasePod(t)
	copied.Labels[lookup.LabelLookup], copied.Labels[api.LabelVerify] = "1", "1"
	expect(t, "beside one", look(t, "sidecars", &config, labelledNamespace("ns"), databasePod(t), pod, trial), "ok : 1 injected pod")
	expect(t, "its label on a database", look(t, "sidecars", &config, labelledNamespace("ns"), copied), "ok : 1 injected pod")
}

// What is written here a second time, to keep the controller out of the command.
func TestNamesOfTheController(t *testing.T) {
	if restoreFinalizer != restore.Finalizer || reasonStorage != restore.ReasonStorage {
		t.Error(restoreFinalizer, reasonStorage)
	}
}
