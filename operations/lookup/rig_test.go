package lookup

import (
	"bytes"
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/deploy"
	"github.com/stategraft/stategraft/test/cluster"
)

// TestOnServer has the API server take a pod after each of the corpus, with the
// rights and within the bounds of our controller, in a namespace that enforces the
// restricted Pod Security Standard.
func TestOnServer(t *testing.T) {
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
		"ServiceAccount/stategraft-controller", "ValidatingAdmissionPolicy/controller-creates.stategraft.io", "ValidatingAdmissionPolicyBinding/controller-creates.stategraft.io")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := cp.Kubectl(ctx, bytes.NewReader(manifest), "apply", "-f", "-"); err != nil {
		t.Fatal(err)
	}
	as := func(user string) client.Client {
		config := cp.Config()
		config.WarningHandler = rest.NoWarnings{}
		if user != "" {
			config.Impersonate.UserName = user
		}
		c, err := client.New(config, client.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	admin, controller := as(""), as("system:serviceaccount:stategraft:stategraft-controller")
	labels := map[string]string{api.LabelInject: api.InjectEnabled, "pod-security.kubernetes.io/enforce": "restricted"}
	if err := admin.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns", Labels: labels}}); err != nil {
		t.Fatal(err)
	}

	// A policy takes a moment to be in force.
	other := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "other"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "x", Image: "x"}}}}
	deadline := time.Now().Add(time.Minute)
	for {
		err := controller.Create(ctx, other.DeepCopy())
		if err != nil && strings.Contains(err.Error(), "stategraft-lookup-") {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the policy is not in force: %v", err)
		}
		_ = client.IgnoreNotFound(admin.Delete(ctx, other.DeepCopy()))
		time.Sleep(200 * time.Millisecond)
	}

	l := New(controller, controller, nil)
	for name, like := range injected(t) {
		r := owner()
		r.UID = types.UID("uid-" + name)
		var status *apierrors.StatusError
		if _, err := l.Pod(ctx, like, r); !errors.Is(err, ErrStarting) || errors.As(err, &status) {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if err := l.Remove(ctx, r); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
