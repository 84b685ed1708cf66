package backup

import (
	"bytes"
	"context"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/go-logr/logr/testr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/deploy"
	"github.com/stategraft/stategraft/operations/claims"
	"github.com/stategraft/stategraft/operations/heal"
	"github.com/stategraft/stategraft/operations/objects"
	"github.com/stategraft/stategraft/operations/removal"
	"github.com/stategraft/stategraft/operations/sidecar"
	rig "github.com/stategraft/stategraft/test/cluster"
)

// onServer is a control plane with two injected pods, whose sidecars are simulated.
type onServer struct {
	*whole
	cp *rig.ControlPlane
}

// TestOnServer has Backups made on an API server, whose rules every status is held
// against, by the controller as it is added to a manager.
func TestOnServer(t *testing.T) {
	if os.Getenv(rig.EnabledEnv) != "1" {
		t.Skip("needs a control plane: " + rig.EnabledEnv + "=1")
	}
	s := startServer(t)
	s.controller()

	s.make("all", func(b *api.Backup) { b.Spec.DeletionPolicy = api.DeletionDelete })
	b := s.await("all", over_)
	if b.Status.Phase != api.BackupComplete || phases(b) != "Complete Complete" || !held(b) {
		t.Fatalf("%+v", b.Status)
	}
	s.make("planned", func(b *api.Backup) { b.Spec.DryRun = true })
	if b := s.await("planned", over_); b.Status.Phase != api.BackupPlanned || len(b.Status.Pods) != 2 || held(b) {
		t.Errorf("%+v", b.Status)
	}
	s.make("none", func(b *api.Backup) {
		b.Spec.Pods.Names, b.Spec.Timeout = []string{"x"}, &metav1.Duration{Duration: 2 * time.Second}
	})
	if b := s.await("none", over_); b.Status.Phase != api.BackupFailed || b.Status.Name != "" {
		t.Errorf("%+v", b.Status)
	}

	// One pod's vanishes, and one is cancelled in the midst, while another waits for it.
	s.pods[1].set(long)
	s.make("partial", func(*api.Backup) {})
	s.await("partial", podRuns("cas-1"))
	s.pods[1].Kill()
	if err := s.client.Delete(t.Context(), s.pods[1].pod("1"), client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	if b := s.await("partial", over_); b.Status.Phase != api.BackupPartial || phases(b) != "Complete Gone" {
		t.Errorf("%+v", b.Status)
	}
	s.pods[0].set(long)
	s.make("cancelled", func(b *api.Backup) { b.Spec.Pods.Names = []string{"cas-0"} })
	b = s.await("cancelled", podRuns("cas-0"))
	s.make("next", func(b *api.Backup) { b.Spec.Pods.Names = []string{"cas-0"} })
	s.await("next", func(b *api.Backup) bool { return reasonOf(&b.Status, api.ConditionAccepted) == ReasonBusy })
	b.Spec.Cancel = true
	patch := client.MergeFrom(&api.Backup{ObjectMeta: b.ObjectMeta})
	if err := s.client.Patch(t.Context(), &api.Backup{ObjectMeta: b.ObjectMeta, Spec: api.BackupSpec{Cancel: true}}, patch); err != nil {
		t.Fatal(err)
	}
	s.pods[0].set(quick)
	if err := s.pods[0].Restart(); err != nil {
		t.Fatal(err)
	}
	if b := s.await("cancelled", over_); b.Status.Phase != api.BackupCancelled {
		t.Errorf("%+v", b.Status)
	}
	if b := s.await("next", over_); b.Status.Phase != api.BackupComplete {
		t.Errorf("%+v", b.Status)
	}

	// The data of one go with it, once the pod is back that could be at another.
	if err := s.pods[1].Run(); err != nil {
		t.Fatal(err)
	}
	s.place(s.pods[1])
	name := s.read("all").Status.Name
	if err := s.client.Delete(t.Context(), s.read("all")); err != nil {
		t.Fatal(err)
	}
	s.until("the object to go", func() bool { return s.read("all") == nil })
	if slices.Contains(s.storage.Names(), name) || len(s.storage.Damaged())+len(s.storage.Overlaps()) > 0 {
		t.Errorf("the storage has %v, damaged %v, overlaps %v", s.storage.Names(), s.storage.Damaged(), s.storage.Overlaps())
	}
	s.uninstalled("next")
}

// uninstalled takes the CustomResourceDefinition away, and with it all objects: the data of
// one stay, whatever its policy is.
func (s *onServer) uninstalled(name string) {
	s.Helper()
	b := s.read(name)
	before := client.MergeFrom(b.DeepCopy())
	b.Spec.DeletionPolicy = api.DeletionDelete
	if err := s.client.Patch(s.Context(), b, before); err != nil {
		s.Fatal(err)
	}
	if _, err := s.cp.Kubectl(s.Context(), nil, "delete", "crd", "backups.stategraft.io", "--wait=false"); err != nil {
		s.Fatal(err)
	}
	s.until("the object to go", func() bool { return s.read(name) == nil })
	if !slices.Contains(s.storage.Names(), b.Status.Name) {
		s.Errorf("the storage has %v, and no longer %s", s.storage.Names(), b.Status.Name)
	}
}

func startServer(t *testing.T) *onServer {
	w := newWhole(t, 2)
	w.storage.Clock = time.Now
	cp, err := rig.Start(t.Context(), rig.Options{Log: t.Output()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cp.Stop(context.Background()) })
	s := &onServer{whole: w, cp: cp}
	if s.client, err = client.New(cp.Config(), client.Options{Scheme: w.client.Scheme()}); err != nil {
		t.Fatal(err)
	}
	manifest, err := deploy.Pick(deploy.CertManager, "CustomResourceDefinition")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := cp.Kubectl(t.Context(), bytes.NewReader(manifest), "apply", "-f", "-"); err != nil {
		t.Fatal(err)
	}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns", Labels: map[string]string{api.LabelInject: api.InjectEnabled}}}
	if err := s.client.Create(t.Context(), ns); err != nil {
		t.Fatal(err)
	}
	for _, p := range s.pods {
		s.place(p)
	}
	return s
}

// place makes a pod, as if a node ran it.
func (s *onServer) place(p *wholePod) {
	s.Helper()
	s.until("pod "+p.name, func() bool { // once the namespace has its account
		pod := p.pod("")
		pod.OwnerReferences, pod.ResourceVersion = nil, ""
		status := *pod.Status.DeepCopy()
		if err := s.client.Create(context.Background(), pod); err != nil && !apierrors.IsAlreadyExists(err) {
			return false
		}
		before := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}}
		after := before.DeepCopy()
		after.Status.PodIP, after.Status.PodIPs, after.Status.ContainerStatuses = status.PodIP, []corev1.PodIP{{IP: status.PodIP}}, status.ContainerStatuses
		return s.client.Status().Patch(context.Background(), after, client.MergeFrom(before)) == nil
	})
}

// controller runs the controller.
func (s *onServer) controller() {
	c := s.cp.Config()
	c.WarningHandler = rest.NoWarnings{}
	mgr, err := manager.New(c, manager.Options{Logger: testr.New(s.T), Scheme: s.client.Scheme(), Metrics: metricsserver.Options{BindAddress: "0"},
		Controller: config.Controller{SkipNameValidation: new(true)}, Cache: cache.Options{ByObject: heal.ByObject()}})
	if err != nil {
		s.Fatal(err)
	}
	g := objects.New(mgr)
	asks := sidecar.New(nil)
	if err := Add(g, Options{Namespace: "stategraft", Sidecars: asks, AbsentLimit: 3 * time.Second,
		Turns:   func(cached client.Reader) Turns { return claims.New(cached) },
		Remover: &removal.Remover{Nodes: asks, Medusas: asks, Discards: asks}}); err != nil {
		s.Fatal(err)
	}
	if err := mgr.Add(g); err != nil {
		s.Fatal(err)
	}
	ctx, cancel := context.WithCancel(s.Context())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	s.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			s.Error(err)
		}
	})
}

// make asks for a backup of both pods, at the prefix that the sidecars tell.
func (s *onServer) make(name string, change func(b *api.Backup)) {
	s.Helper()
	b := &api.Backup{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}}
	b.Spec.Pods = &api.BackupPods{Names: []string{"cas-0", "cas-1"}}
	change(b)
	if err := s.client.Create(context.Background(), b); err != nil {
		s.Fatal(err)
	}
}

// read reads a Backup; nil where there is none.
func (s *onServer) read(name string) *api.Backup {
	b := &api.Backup{}
	if err := s.client.Get(context.Background(), client.ObjectKey{Namespace: "ns", Name: name}, b); err != nil {
		return nil
	}
	return b
}

func (s *onServer) await(name string, is func(b *api.Backup) bool) (b *api.Backup) {
	s.Helper()
	s.until("backup "+name, func() bool { b = s.read(name); return b != nil && is(b) })
	return b
}

// until waits for what an API server and its controllers do in their own time.
func (s *onServer) until(what string, done func() bool) {
	s.Helper()
	for end := time.Now().Add(60 * time.Second); !done(); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(end) {
			var all api.BackupList
			_ = s.client.List(context.Background(), &all)
			for _, b := range all.Items {
				s.Logf("%s: %+v", b.Name, b.Status)
			}
			s.Fatalf("waited in vain for %s", what)
		}
	}
}
