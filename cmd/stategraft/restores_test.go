package main

import (
	"encoding/base64"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/deploy"
)

const orderedPod = `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u","kind":{"version":"v1","kind":"Pod"},"namespace":"db","operation":"CREATE","object":
 {"metadata":{"name":"db-0","namespace":"db"},"spec":{"volumes":[{"name":"data","persistentVolumeClaim":{"claimName":"c"}}],
 "containers":[{"name":"cassandra","image":"cassandra:4.1","ports":[{"containerPort":9042},{"containerPort":7000}],"volumeMounts":[{"name":"data","mountPath":"/var/lib/cassandra"}]}]}}}}`

// ordersAppear: a webhook that starts in a cluster without the kind Restore is ready,
// and heeds Restores once there are some; one that starts then knows them before it
// is ready.
func ordersAppear(t *testing.T, config *rest.Config, kubeconfig string) {
	before := startHook(t, kubeconfig, "0s")
	if got := before.patch(t); got == "" || strings.Contains(got, "stategraft-restore") {
		t.Errorf("without the kind: patch %s", got)
	}
	scheme, err := webhookScheme()
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	definition, err := deploy.Pick(deploy.SelfSigned, "CustomResourceDefinition/restores.stategraft.io")
	if err != nil {
		t.Fatal(err)
	}
	object := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(definition, object); err != nil {
		t.Fatal(err)
	}
	if err := c.Create(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "db", Labels: map[string]string{api.LabelInject: api.InjectEnabled}}}
	if err := c.Create(t.Context(), namespace); err != nil {
		t.Fatal(err)
	}
	restore := &api.Restore{ObjectMeta: metav1.ObjectMeta{Namespace: "db", Name: "back"},
		Spec: api.RestoreSpec{Backup: "nightly", Pods: api.RestorePods{Names: []string{"db-0"}}}}
	until(t, "the kind to be served", func() bool { return c.Create(t.Context(), restore) == nil })
	restore.Status.ID, restore.Status.Backup, restore.Status.Pending = restore.RequestID(), "nightly", []string{"db-0"}
	restore.Status.Pods = []api.PodRestore{{Name: "db-0", Phase: api.PodStopping, Action: api.ActionRestore, Node: "db-0"}}
	if err := c.Status().Update(t.Context(), restore); err != nil {
		t.Fatal(err)
	}
	restores := func(patch string) bool { return strings.Contains(patch, `"value":"`+restore.Status.ID+`"`) }
	after := startHook(t, kubeconfig, "0s")
	if got := after.patch(t); !restores(got) {
		t.Errorf("ready, and the pod is not restored: %s", got)
	}
	asked := time.Now()
	until(t, "the older one to know the Restore", func() bool { return restores(before.patch(t)) })
	t.Logf("known after %s by the one that was there before the kind", time.Since(asked).Round(time.Second))
	restore.Status.Pending = nil
	if err := c.Status().Update(t.Context(), restore); err != nil {
		t.Fatal(err)
	}
	for _, h := range []*hook{before, after} {
		until(t, "the end of the Restore to be known", func() bool { return !restores(h.patch(t)) })
	}
}

// patch is what is added to the pod.
func (h *hook) patch(t *testing.T) string {
	t.Helper()
	response, err := h.client.Post(h.url, "application/json", strings.NewReader(orderedPod))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	var review struct {
		Response struct {
			Allowed bool   `json:"allowed"`
			Patch   string `json:"patch"`
		} `json:"response"`
	}
	if err := json.Unmarshal(text, &review); err != nil || !review.Response.Allowed {
		t.Fatalf("%v: %s", err, text)
	}
	patch, err := base64.StdEncoding.DecodeString(review.Response.Patch)
	if err != nil {
		t.Fatal(err)
	}
	return string(patch)
}
