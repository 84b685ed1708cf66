package annotated

import (
	"bytes"
	"context"
	"errors"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/go-logr/logr/testr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/deploy"
	"github.com/stategraft/stategraft/operations/coverage"
	"github.com/stategraft/stategraft/operations/heal"
	"github.com/stategraft/stategraft/operations/objects"
	"github.com/stategraft/stategraft/operations/rpo"
	rig "github.com/stategraft/stategraft/test/cluster"
)

// onServer is a control plane with a StatefulSet of two injected pods, in a labelled
// namespace.
type onServer struct {
	*rig.ControlPlane
	client client.Client
}

// With the controller's own rights a BackupSchedule is made, changed and deleted, and told
// how its pods stand. That of rpo is here too: it needs the same.
func TestOnServer(t *testing.T) {
	if os.Getenv(rig.EnabledEnv) != "1" {
		t.Skip("needs a control plane: " + rig.EnabledEnv + "=1")
	}
	s := startServer(t)
	s.controllers(t)

	s.annotate(t, api.AnnotationBackupSchedule+"=0 3 * * *", api.AnnotationRetain+"=7")
	await(t, "the BackupSchedule", func() bool { return s.schedule("cas") != nil })
	made := s.schedule("cas")
	if made.Spec.Schedule != "0 3 * * *" || *made.Spec.Retention.KeepLast != 7 || made.Spec.Jitter.Duration != jitterWide || !isAnnotated(made) ||
		made.Spec.Template.Spec.Pods.Workload.Name != "cas" || made.Spec.Template.Spec.DeletionPolicy != api.DeletionKeep {
		t.Errorf("made %+v", made.Spec)
	}
	await(t, "what is told of its pods", func() bool {
		c := meta.FindStatusCondition(s.schedule("cas").Status.Conditions, rpo.ConditionWithinRPO)
		return c != nil && c.Status == metav1.ConditionTrue && c.Reason == string(rpo.ReasonAwaited)
	})

	// What somebody else sets stays.
	s.kubectl(t, "patch", "-n", "db", "backupschedules.stategraft.io", "cas", "--type=merge", "-p", `{"spec":{"suspend":true}}`)
	s.annotate(t, api.AnnotationRetain+"=9")
	await(t, "the change", func() bool { return *s.schedule("cas").Spec.Retention.KeepLast == 9 })
	if now := s.schedule("cas"); !now.Spec.Suspend || now.Generation != made.Generation+2 {
		t.Errorf("changed %+v, generation %d after %d", now.Spec, now.Generation, made.Generation)
	}

	s.annotate(t, api.AnnotationRetain+"=all")
	await(t, "the event", func() bool { return s.event("cas", eventBad) })
	s.kubectl(t, "annotate", "-n", "db", "pod", "cas-0", api.AnnotationBackupSchedule+"=@hourly", api.AnnotationRetain+"=3")
	await(t, "the pod's annotation to count", func() bool { return s.schedule("cas").Spec.Schedule == "@hourly" })

	s.kubectl(t, "annotate", "-n", "db", "pod", "cas-0", api.AnnotationBackupSchedule+"-")
	s.annotate(t, api.AnnotationBackupSchedule+"-")
	await(t, "the BackupSchedule to go", func() bool { return s.schedule("cas") == nil })
	await(t, "the workload's events of it", func() bool { return s.event("cas", eventMade) && s.event("cas", eventDeleted) })
}

func startServer(t *testing.T) *onServer {
	ctx := t.Context()
	cp, err := rig.Start(ctx, rig.Options{Log: t.Output()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cp.Stop(context.Background()) })
	s := &onServer{ControlPlane: cp}
	if s.client, err = client.New(cp.Config(), client.Options{Scheme: allKinds(t)}); err != nil {
		t.Fatal(err)
	}
	manifest, err := deploy.Pick(deploy.CertManager, "Namespace", "CustomResourceDefinition", "ClusterRole/stategraft-controller", "ClusterRoleBinding/stategraft-controller",
		"ServiceAccount/stategraft-controller", "ValidatingAdmissionPolicy/controller-schedules.stategraft.io", "ValidatingAdmissionPolicyBinding/controller-schedules.stategraft.io")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := cp.Kubectl(ctx, bytes.NewReader(manifest), "apply", "-f", "-"); err != nil {
		t.Fatal(err)
	}
	match := map[string]string{"app": "cas"}
	for _, object := range []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "db", Labels: map[string]string{api.LabelInject: api.InjectEnabled}}},
		&appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "db", Name: "cas"}, Spec: appsv1.StatefulSetSpec{
			Replicas: new(int32(2)), PodManagementPolicy: appsv1.ParallelPodManagement, Selector: &metav1.LabelSelector{MatchLabels: match},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "cas", api.LabelInjected: "cassandra"}},
				Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "cassandra", Image: "cassandra:4.1"}, {Name: "stategraft-medusa", Image: "medusa"}}}},
		}},
	} {
		if err := s.client.Create(ctx, object); err != nil {
			t.Fatal(err)
		}
	}
	await(t, "the pods", func() bool {
		var pods corev1.PodList
		return s.client.List(ctx, &pods, client.InNamespace("db")) == nil && len(pods.Items) == 2
	})
	return s
}

func allKinds(t *testing.T) *runtime.Scheme {
	t.Helper()
	s := runtime.NewScheme()
	if err := errors.Join(clientscheme.AddToScheme(s), api.AddToScheme(s)); err != nil {
		t.Fatal(err)
	}
	return s
}

// controllers runs both with their own rights.
func (s *onServer) controllers(t *testing.T) {
	c := s.Config()
	c.WarningHandler = rest.NoWarnings{}
	c.Impersonate.UserName = "system:serviceaccount:stategraft:stategraft-controller"
	mgr, err := manager.New(c, manager.Options{Logger: testr.New(t), Scheme: allKinds(t), Metrics: metricsserver.Options{BindAddress: "0"},
		Controller: config.Controller{SkipNameValidation: new(true)}, Cache: cache.Options{ByObject: heal.ByObject()}})
	if err != nil {
		t.Fatal(err)
	}
	g := objects.New(mgr)
	g.Pause = 200 * time.Millisecond
	err = errors.Join(Add(g, Options{Namespace: "stategraft", Settle: 200 * time.Millisecond}),
		rpo.Add(g, rpo.Options{Namespace: "stategraft", Every: time.Second, Uncovered: func() []coverage.Uncovered { return nil }}), mgr.Add(g))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func (s *onServer) annotate(t *testing.T, what ...string) {
	t.Helper()
	s.kubectl(t, append([]string{"annotate", "--overwrite", "namespace", "db"}, what...)...)
}

func (s *onServer) kubectl(t *testing.T, args ...string) {
	t.Helper()
	if out, err := s.Kubectl(t.Context(), nil, args...); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// schedule is a BackupSchedule; nil where there is none.
func (s *onServer) schedule(name string) *api.BackupSchedule {
	found := &api.BackupSchedule{}
	if s.client.Get(context.Background(), client.ObjectKey{Namespace: "db", Name: name}, found) != nil {
		return nil
	}
	return found
}

func (s *onServer) event(of, reason string) bool {
	var all corev1.EventList
	return s.client.List(context.Background(), &all, client.InNamespace("db")) == nil && slices.ContainsFunc(all.Items, func(e corev1.Event) bool {
		return e.InvolvedObject.Name == of && e.Reason == reason
	})
}

func await(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !done(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("waited in vain for " + what)
		}
	}
}
