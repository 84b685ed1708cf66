package request

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/testr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/stategraft/stategraft/api/node"
	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/deploy"
	"github.com/stategraft/stategraft/operations/coverage"
	"github.com/stategraft/stategraft/operations/heal"
	"github.com/stategraft/stategraft/test/cluster"
)

// onServer is a control plane with a StatefulSet of two injected pods, and pods
// without sidecars, in a labelled namespace and in one that is not.
type onServer struct {
	*cluster.ControlPlane
	client client.Client
	inbox  *Inbox
}

func TestOnServer(t *testing.T) {
	if os.Getenv(cluster.EnabledEnv) != "1" {
		t.Skip("needs a control plane: " + cluster.EnabledEnv + "=1")
	}
	s := startServer(t)
	stop := s.controller(t, true)

	// The pods of a workload, annotated one after the other, get one Restore.
	s.kubectl(t, "annotate", "-n", "db", "pod", "cas-0", "cas-1", api.AnnotationRestore+"=nightly")
	await(t, "both pods to be answered", func() bool { return s.answer("cas-0") != "" && s.answer("cas-1") != "" })
	all := s.restores(t)
	if len(all) != 1 || !slices.Equal(all[0].Spec.Pods.Names, []string{"cas-0", "cas-1"}) || s.answer("cas-0") != "nightly: restore "+all[0].Name {
		t.Fatalf("%+v, answered %q", all, s.answer("cas-0"))
	}
	await(t, "the events", func() bool { return s.event("db", "cas-0", EventAsked) && s.event("db", "cas-1", EventMade) })

	// Pods without a sidecar are told why.
	s.kubectl(t, "annotate", "-n", "db", "pod", "bare", api.AnnotationRestore+"=nightly")
	s.kubectl(t, "annotate", "-n", "elsewhere", "pod", "bare", api.AnnotationRestore+"=nightly")
	await(t, "the refusals", func() bool {
		return strings.HasPrefix(s.answer("bare"), "nightly: refused: ") && s.event("db", "bare", EventRefused) && s.event("elsewhere", "bare", EventRefused)
	})

	// Taken off: the answer goes. Asked for while nobody looks: found afterwards.
	s.kubectl(t, "annotate", "-n", "db", "pod", "cas-0", api.AnnotationRestore+"-")
	await(t, "the answer to go", func() bool { return s.answer("cas-0") == "" })
	stop()
	s.kubectl(t, "annotate", "-n", "db", "pod", "cas-0", api.AnnotationRestore+"=newer", api.AnnotationRestoreSource+"=old-0")
	s.controller(t, false)
	await(t, "what was asked for in the meantime", func() bool { return strings.HasPrefix(s.answer("cas-0"), "newer: restore ") })
	all = s.restores(t)
	if len(all) != 2 || !slices.ContainsFunc(all, func(r api.Restore) bool { return r.Spec.Source != nil && r.Spec.Source.Nodes["cas-0"] == "old-0" }) {
		t.Errorf("%+v", all)
	}
}

func startServer(t *testing.T) *onServer {
	ctx := t.Context()
	cp, err := cluster.Start(ctx, cluster.Options{Log: t.Output()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cp.Stop(context.Background()) })
	s := &onServer{ControlPlane: cp}
	if s.client, err = client.New(cp.Config(), client.Options{Scheme: scheme(t)}); err != nil {
		t.Fatal(err)
	}
	manifest, err := deploy.Pick(deploy.CertManager, "Namespace", "CustomResourceDefinition", "ClusterRole/stategraft-controller", "ClusterRoleBinding/stategraft-controller",
		"ServiceAccount/stategraft-controller", "ValidatingAdmissionPolicy/controller-pods.stategraft.io", "ValidatingAdmissionPolicyBinding/controller-pods.stategraft.io")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := cp.Kubectl(ctx, bytes.NewReader(manifest), "apply", "-f", "-"); err != nil {
		t.Fatal(err)
	}
	labelled := map[string]string{api.LabelInject: api.InjectEnabled}
	match := map[string]string{"app": "cas"}
	bare := func(namespace string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "bare"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "cassandra", Image: "cassandra:4.1"}}}}
	}
	for _, object := range []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "db", Labels: labelled}},
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "elsewhere"}},
		&appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "db", Name: "cas"}, Spec: appsv1.StatefulSetSpec{
			Replicas: new(int32(2)), PodManagementPolicy: appsv1.ParallelPodManagement, Selector: &metav1.LabelSelector{MatchLabels: match},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "cas", api.LabelInjected: "cassandra"}},
				Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "cassandra", Image: "cassandra:4.1"},
					{Name: "stategraft-medusa", Image: "medusa", Ports: []corev1.ContainerPort{{Name: node.PortName, ContainerPort: node.DefaultPort}}}}}},
		}},
	} {
		if err := s.client.Create(ctx, object); err != nil {
			t.Fatal(err)
		}
	}
	await(t, "the pods", func() bool {
		for _, pod := range []*corev1.Pod{bare("db"), bare("elsewhere")} {
			_ = s.client.Create(ctx, pod) // once the namespace has its account
		}
		var pods corev1.PodList
		return s.client.List(ctx, &pods) == nil && slices.ContainsFunc(pods.Items, func(p corev1.Pod) bool { return p.Name == "cas-1" }) &&
			len(slices.DeleteFunc(pods.Items, func(p corev1.Pod) bool { return p.Name != "bare" })) == 2
	})
	return s
}

// controller runs the controllers with their own rights until it is stopped.
func (s *onServer) controller(t *testing.T, first bool) (stop func()) {
	c := s.Config()
	c.WarningHandler = rest.NoWarnings{}
	c.Impersonate.UserName = "system:serviceaccount:stategraft:stategraft-controller"
	mgr, err := manager.New(c, manager.Options{Logger: testr.New(t), Scheme: scheme(t), Metrics: metricsserver.Options{BindAddress: "0"},
		Controller: config.Controller{SkipNameValidation: new(true)}, Cache: cache.Options{ByObject: heal.ByObject()}})
	if err != nil {
		t.Fatal(err)
	}
	s.inbox = NewInbox()
	if err := Add(mgr, Options{Namespace: "stategraft", Inbox: s.inbox}); err != nil {
		t.Fatal(err)
	}
	if first { // once in a process
		if err := coverage.Add(mgr, coverage.Options{Namespace: "stategraft", RestoreAsked: func(pod *metav1.PartialObjectMetadata) { s.inbox.Asked(pod) }}); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	stop = func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		ended <- nil
	}
	t.Cleanup(stop)
	return stop
}

func (s *onServer) kubectl(t *testing.T, args ...string) {
	t.Helper()
	if out, err := s.Kubectl(t.Context(), nil, args...); err != nil {
		t.Fatal(out, err)
	}
}

func (s *onServer) restores(t *testing.T) []api.Restore {
	t.Helper()
	var all api.RestoreList
	if err := s.client.List(t.Context(), &all, client.InNamespace("db")); err != nil {
		t.Fatal(err)
	}
	return all.Items
}

func (s *onServer) answer(name string) string {
	pod := &corev1.Pod{}
	if err := s.client.Get(context.Background(), client.ObjectKey{Namespace: "db", Name: name}, pod); err != nil {
		return fmt.Sprint(err)
	}
	return pod.Annotations[api.AnnotationRestoreAnswer]
}

func (s *onServer) event(namespace, pod, reason string) bool {
	var all corev1.EventList
	if err := s.client.List(context.Background(), &all, client.InNamespace(namespace)); err != nil {
		return false
	}
	return slices.ContainsFunc(all.Items, func(e corev1.Event) bool { return e.InvolvedObject.Name == pod && e.Reason == reason })
}

func await(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !done(); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("waited in vain for " + what)
		}
	}
}
