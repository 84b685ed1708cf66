package catalogue

import (
	"bytes"
	"context"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/go-logr/logr/testr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/deploy"
	"github.com/stategraft/stategraft/operations/heal"
	"github.com/stategraft/stategraft/operations/objects"
	"github.com/stategraft/stategraft/operations/sidecar"
	"github.com/stategraft/stategraft/operations/sidecar/sidecartest"
	controlplane "github.com/stategraft/stategraft/test/cluster"
	"github.com/stategraft/stategraft/workload"
)

// On a real API server, with the controller's own rights: what is written is valid, and
// may be written.
func TestOnServer(t *testing.T) {
	if os.Getenv(controlplane.EnabledEnv) != "1" {
		t.Skip("needs a control plane: " + controlplane.EnabledEnv + "=1")
	}
	s := startServer(t)
	storage := sidecartest.NewStorage("db-0", "db-1")
	put(storage, nightly, 9*time.Hour, "db-0", "db-1")
	put(storage, before, 30*time.Hour, "db-0")
	begin(storage, "Given_Up", 30*time.Hour, "db-0")
	storage.Put("empty", "db-0", sidecartest.Part{Started: start, Finished: start})
	storage.Put("empty", "db-1", sidecartest.Part{Started: start, Finished: start})
	s.pod(t, storage, "db-0")
	stop := s.controller(t)
	want := func(what string, want map[string]api.BackupPhase) {
		t.Helper()
		await(t, what, func() bool {
			got := map[string]api.BackupPhase{}
			var list api.BackupList
			if err := s.client.List(t.Context(), &list, client.InNamespace("db")); err != nil {
				return false
			}
			for _, b := range list.Items {
				got[b.Name] = b.Status.Phase
			}
			for name, phase := range want {
				if got[name] != phase {
					return false
				}
			}
			return len(got) == len(want)
		})
	}
	givenUp := api.ObjectName("", "Given_Up", false)
	all := map[string]api.BackupPhase{"nightly-20261130-030000": api.BackupComplete, "before": api.BackupPartial, givenUp: api.BackupFailed, "empty": api.BackupFailed}
	want("what is found", all)
	await(t, "the ConfigMap", func() bool { return len(s.documents(t)) == 1 && s.documents(t)[0].Backups == 4 })

	// Asked for: what has come since.
	put(storage, "late", time.Minute, "db-0", "db-1")
	s.annotate(t, "1")
	await(t, "the answer", func() bool { return s.answer(t) == "1" })
	all["late"] = api.BackupComplete
	want("what has come since", all)

	// Deleted by hand: the object of what is kept, and the ConfigMap, come back.
	if err := s.client.Delete(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "db", Name: api.ConfigMapCatalogue}}); err != nil {
		t.Fatal(err)
	}
	await(t, "the ConfigMap again", func() bool { return len(s.documents(t)) == 1 })

	// After a start there is nothing to do.
	stop()
	was := s.versions(t)
	stop = s.controller(t)
	s.annotate(t, "2")
	await(t, "the answer", func() bool { return s.answer(t) == "2" })
	if is := s.versions(t); !slices.Equal(was, is) {
		t.Errorf("%v became %v", was, is)
	}
	b := &api.Backup{}
	if err := s.client.Get(t.Context(), types.NamespacedName{Namespace: "db", Name: "late"}, b); err != nil || !meta.IsStatusConditionTrue(b.Status.Conditions, api.ConditionAccepted) {
		t.Errorf("%+v, %v", b.Status, err)
	}
	// What people may change of one that was found.
	unchanged := client.MergeFrom(b.DeepCopy())
	b.Spec.Pinned, b.Spec.DeletionPolicy = true, api.DeletionDelete
	if err := s.client.Patch(t.Context(), b, unchanged); err != nil {
		t.Error(err)
	}
	stop()
}

// onServer is a control plane with a labelled namespace.
type onServer struct {
	*controlplane.ControlPlane
	client client.Client
}

func schemeOf(t *testing.T) *runtime.Scheme {
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	if err := api.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	return scheme
}

func startServer(t *testing.T) *onServer {
	ctx := t.Context()
	cp, err := controlplane.Start(ctx, controlplane.Options{Log: t.Output()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cp.Stop(context.Background()) })
	s := &onServer{ControlPlane: cp}
	if s.client, err = client.New(cp.Config(), client.Options{Scheme: schemeOf(t)}); err != nil {
		t.Fatal(err)
	}
	manifest, err := deploy.Pick(deploy.CertManager, "Namespace", "CustomResourceDefinition", "ClusterRole/stategraft-controller", "ClusterRoleBinding/stategraft-controller",
		"ServiceAccount/stategraft-controller", "ValidatingAdmissionPolicy/controller-backups.stategraft.io", "ValidatingAdmissionPolicyBinding/controller-backups.stategraft.io",
		"ValidatingAdmissionPolicy/controller-configmaps.stategraft.io", "ValidatingAdmissionPolicyBinding/controller-configmaps.stategraft.io")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := cp.Kubectl(ctx, bytes.NewReader(manifest), "apply", "-f", "-"); err != nil {
		t.Fatal(err)
	}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "db", Labels: map[string]string{api.LabelInject: api.InjectEnabled}}}
	if err := s.client.Create(ctx, ns); err != nil {
		t.Fatal(err)
	}
	return s
}

// pod makes one whose sidecar sees into a storage.
func (s *onServer) pod(t *testing.T, storage *sidecartest.Storage, name string) {
	b, err := sidecartest.StartBoth(sidecartest.Address(900), sidecartest.Pair{}, sidecartest.Node{Name: name, Storage: storage})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	pod := b.Pod("db", name)
	pod.Labels = map[string]string{api.LabelInjected: string(workload.KindCassandra)}
	status := pod.Status.DeepCopy()
	status.Phase, status.PodIPs = corev1.PodRunning, []corev1.PodIP{{IP: status.PodIP}}
	await(t, "the pod", func() bool { return s.client.Create(t.Context(), pod) == nil }) // once the namespace has its account
	pod.Status = *status
	if err := s.client.Status().Update(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
}

// controller runs the catalogue with the controller's rights until it is stopped.
func (s *onServer) controller(t *testing.T) (stop func()) {
	c := s.Config()
	c.WarningHandler = rest.NoWarnings{}
	c.Impersonate.UserName = "system:serviceaccount:stategraft:stategraft-controller"
	mgr, err := manager.New(c, manager.Options{Logger: testr.New(t), Scheme: schemeOf(t), Metrics: metricsserver.Options{BindAddress: "0"},
		Controller: config.Controller{SkipNameValidation: new(true)}, Cache: cache.Options{ByObject: heal.ByObject()}})
	if err != nil {
		t.Fatal(err)
	}
	g := objects.New(mgr)
	g.Pause = 100 * time.Millisecond
	if err := Add(g, Options{Namespace: "stategraft", Nodes: sidecar.New(nil)}); err != nil {
		t.Fatal(err)
	}
	if err := mgr.Add(g); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	return func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

func (s *onServer) configMap(t *testing.T) *corev1.ConfigMap {
	cm := &corev1.ConfigMap{}
	if err := s.client.Get(t.Context(), types.NamespacedName{Namespace: "db", Name: api.ConfigMapCatalogue}, cm); err != nil {
		return &corev1.ConfigMap{}
	}
	return cm
}

func (s *onServer) documents(t *testing.T) []Document { return Documents(s.configMap(t)) }
func (s *onServer) answer(t *testing.T) string {
	return s.configMap(t).Annotations[api.AnnotationSynced]
}

func (s *onServer) annotate(t *testing.T, value string) {
	t.Helper()
	if _, err := s.Kubectl(t.Context(), nil, "annotate", "-n", "db", "--overwrite", "configmap", api.ConfigMapCatalogue, api.AnnotationSync+"="+value); err != nil {
		t.Fatal(err)
	}
}

// versions are those of all Backups.
func (s *onServer) versions(t *testing.T) (all []string) {
	var list api.BackupList
	if err := s.client.List(t.Context(), &list); err != nil {
		t.Fatal(err)
	}
	for _, b := range list.Items {
		all = append(all, b.Name+" "+b.ResourceVersion)
	}
	slices.Sort(all)
	return all
}

func await(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(60 * time.Second); !done(); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within a minute", what)
		}
	}
}
