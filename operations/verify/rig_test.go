package verify

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr/testr"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/deploy"
	"github.com/stategraft/stategraft/operations/heal"
	"github.com/stategraft/stategraft/operations/objects"
	"github.com/stategraft/stategraft/test/cluster"
)

// server is a control plane with what gives our controller its rights and bounds, and a
// labelled namespace that enforces the restricted Pod Security Standard.
func server(t *testing.T) (admin, controller client.Client, config *rest.Config) {
	t.Helper()
	if os.Getenv(cluster.EnabledEnv) != "1" {
		t.Skip("needs a control plane: " + cluster.EnabledEnv + "=1")
	}
	ctx := t.Context()
	cp, err := cluster.Start(ctx, cluster.Options{Log: t.Output()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cp.Stop(context.Background()) })
	manifest, err := deploy.Pick(deploy.CertManager, "Namespace", "CustomResourceDefinition", "ClusterRole/stategraft-controller", "ClusterRoleBinding/stategraft-controller",
		"ServiceAccount/stategraft-controller", "ValidatingAdmissionPolicy/controller-creates.stategraft.io", "ValidatingAdmissionPolicyBinding/controller-creates.stategraft.io",
		"ValidatingAdmissionPolicy/controller-pods.stategraft.io", "ValidatingAdmissionPolicyBinding/controller-pods.stategraft.io")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := cp.Kubectl(ctx, bytes.NewReader(manifest), "apply", "-f", "-"); err != nil {
		t.Fatal(err)
	}
	if _, err := cp.Kubectl(ctx, nil, "wait", "--for=condition=Established", "crd", "--all", "--timeout=1m"); err != nil {
		t.Fatal(err)
	}
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), api.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	as := func(user string) (client.Client, *rest.Config) {
		config := cp.Config()
		config.WarningHandler = rest.NoWarnings{}
		if user != "" {
			config.Impersonate.UserName = user
		}
		c, err := client.New(config, client.Options{Scheme: scheme})
		if err != nil {
			t.Fatal(err)
		}
		return c, config
	}
	admin, _ = as("")
	controller, config = as("system:serviceaccount:stategraft:stategraft-controller")
	labels := map[string]string{api.LabelInject: api.InjectEnabled, "pod-security.kubernetes.io/enforce": "restricted"}
	if err := admin.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns", Labels: labels}}); err != nil {
		t.Fatal(err)
	}
	return admin, controller, config
}

// TestOnServer has the API server take a pod after each of the corpus, with an emptyDir
// and with a claim, with the rights and within the bounds of our controller.
func TestOnServer(t *testing.T) {
	admin, controller, _ := server(t)
	ctx := t.Context()

	// A policy takes a moment to be in force.
	other := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "other"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "x", Image: "x"}}}}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(200 * time.Millisecond) {
		err := controller.Create(ctx, other.DeepCopy())
		if err != nil && strings.Contains(err.Error(), NamePrefix) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the policy is not in force: %v", err)
		}
		_ = client.IgnoreNotFound(admin.Delete(ctx, other.DeepCopy()))
	}

	n := 0
	for name, like := range injected(t) {
		database, err := databaseOf(like, nil)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for _, spec := range []*api.BackupVerify{{}, {Volume: &api.VerifyVolume{}}} {
			n++
			j := jobOf(spec)
			j.backup.UID = types.UID(fmt.Sprint("uid-", n))
			pod, err := build(like, database, j)
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			if err := controller.Create(ctx, pod); err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			if err := controller.Delete(ctx, pod, client.Preconditions{UID: &pod.UID}); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

// TestControllersOnServer runs the controllers with their rights, from a schedule that
// is due to what its Backup says in the end.
func TestControllersOnServer(t *testing.T) {
	admin, _, config := server(t)
	ctx := t.Context()
	made := objectsOf(t, "live", &api.BackupVerify{Nodes: new(int32(2))})
	made[2].SetLabels(map[string]string{api.LabelInject: api.InjectEnabled})
	made[0].SetUID("")
	// Soon: the API server's clock, which dates the pods, is not the one that is put forward,
	// and a pod that does not start within a quarter of an hour is given up.
	made[0].(*api.BackupSchedule).Spec.Verify.Schedule = "*/5 * * * *"
	made[0].(*api.BackupSchedule).Spec.Template.Spec.Pods = &api.BackupPods{Names: []string{"cassandra-0"}}
	for _, pod := range made[3:] {
		pod.SetOwnerReferences(nil) // or it is collected as garbage
	}
	for _, o := range append(made[2:3:3], append(made[3:], made[0])...) {
		if err := admin.Create(ctx, o); err != nil {
			t.Fatal(err)
		}
	}
	b := made[1].(*api.Backup)
	status := b.Status
	b.UID, b.Spec.Pods = "", &api.BackupPods{Names: []string{"cassandra-0", "cassandra-1", "cassandra-2"}}
	if err := admin.Create(ctx, b); err != nil {
		t.Fatal(err)
	}
	b.Status = status
	if err := admin.Status().Update(ctx, b); err != nil {
		t.Fatal(err)
	}

	mgr, err := manager.New(config, manager.Options{Scheme: admin.Scheme(), Logger: testr.New(t), Metrics: metricsserver.Options{BindAddress: "0"}, Cache: cache.Options{ByObject: heal.ByObject()}})
	if err != nil {
		t.Fatal(err)
	}
	var skew atomic.Int64
	group := objectsGroup(t, mgr)
	if err := Add(group, Options{Clock: func() time.Time { return time.Now().Add(time.Duration(skew.Load())) }, Every: 200 * time.Millisecond}); err != nil {
		t.Fatal(err)
	}
	running, stop := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- mgr.Start(running) }()
	defer func() { stop(); <-done }()

	s := &api.BackupSchedule{}
	eventually(t, "the next is noted", func() bool {
		return admin.Get(ctx, client.ObjectKeyFromObject(made[0]), s) == nil && s.Status.NextVerification != nil
	})
	skew.Store(int64(time.Until(s.Status.NextVerification.Time) + time.Second))
	touched := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"touched":"yes"}}}`))
	if err := admin.Patch(ctx, s, touched); err != nil { // it would be looked at again within the hour
		t.Fatal(err)
	}
	defer func() {
		if t.Failed() {
			t.Logf("%+v\n%+v", s.Status, b.Status.Verified)
		}
	}()
	eventually(t, "it is over", func() bool {
		var pods corev1.PodList
		if err := admin.List(ctx, &pods, client.InNamespace("live"), client.HasLabels{api.LabelVerify}); err != nil {
			t.Fatal(err)
		}
		for i := range pods.Items { // there is no kubelet
			pod := &pods.Items[i]
			if pod.DeletionTimestamp != nil || pod.Status.Phase == corev1.PodSucceeded {
				continue
			}
			result := sound
			result.Node = pod.Annotations[api.LabelVerify]
			pod.Status.Phase = corev1.PodSucceeded
			pod.Status.ContainerStatuses = []corev1.ContainerStatus{ended(containerVerify, 0, result.Encode(), 0)}
			if err := admin.Status().Update(ctx, pod); err != nil && !outdated(err) {
				t.Fatal(err)
			}
		}
		return admin.Get(ctx, client.ObjectKeyFromObject(b), b) == nil && b.Status.Verified != nil && b.Status.Verified.Result != api.VerificationRunning &&
			admin.Get(ctx, client.ObjectKeyFromObject(s), s) == nil && s.Status.LastVerified != nil && len(pods.Items) == 0
	})
	if v := b.Status.Verified; v.Result != api.VerificationPassed || v.Rows != 10 || len(v.Nodes) != 2 || !meta.IsStatusConditionTrue(b.Status.Conditions, api.ConditionVerified) {
		t.Errorf("%+v", v)
	}
	if b.Status.Name != status.Name || len(b.Status.Pods) != 3 || s.Status.LastVerified.Backup != b.Name || !s.Status.NextVerification.After(time.Now()) {
		t.Errorf("%+v", s.Status)
	}
	eventually(t, "events are written", func() bool {
		var list eventsv1.EventList
		return admin.List(ctx, &list, client.InNamespace("live")) == nil &&
			slices.ContainsFunc(list.Items, func(e eventsv1.Event) bool { return e.Reason == eventPassed && e.Regarding.Kind == "Backup" })
	})
}

func objectsGroup(t *testing.T, mgr manager.Manager) *objects.Group {
	t.Helper()
	group := objects.New(mgr)
	if err := mgr.Add(group); err != nil {
		t.Fatal(err)
	}
	return group
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !ok(); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within a minute", what)
		}
	}
}
