package check

import (
	"crypto/x509"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/adopted/adoptedtest"
)

// look runs one item on a cluster of objects.
func look(t *testing.T, id string, objects ...runtime.Object) []Finding {
	t.Helper()
	c, _ := stand(objects...)
	items, err := Select([]string{id})
	if err != nil {
		t.Fatal(err)
	}
	return items[0].Look(t.Context(), c)
}

// The certificate of a webhook behind a Service is that of its Secret.
func TestLookCertificate(t *testing.T) {
	ca := authority(t, noon.AddDate(4, 0, 0))
	config := registered(t)
	config.Webhooks[0].ClientConfig.CABundle = ca.pem
	leaf := ca.leaf(t, "stategraft-webhook.stategraft.svc", noon.AddDate(0, 0, -30), noon.AddDate(0, 0, 60), x509.ExtKeyUsageServerAuth)
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "stategraft", Name: secretServing}, Data: map[string][]byte{keyCert: leaf.pem}}
	expect(t, "good", look(t, "certificate", &config, secret), "ok stategraft/stategraft-webhook-tls: valid for stategraft-webhook.stategraft.svc")
	expect(t, "no Secret", look(t, "certificate", &config), "fail stategraft/stategraft-webhook-tls: is missing")
	bare := config.DeepCopy()
	bare.Webhooks[0].ClientConfig.CABundle = nil
	expect(t, "no bundle", look(t, "certificate", bare, secret), "fail stategraft: has no caBundle")
	expect(t, "not registered", look(t, "certificate", secret), "info : not registered")
}

// A pod without sidecar is judged by its owner's being held back, too.
func TestLookSidecarsHeldBack(t *testing.T) {
	config := registered(t)
	config.CreationTimestamp = metav1.NewTime(noon.AddDate(-1, 0, 0))
	ns := labelledNamespace("ns")
	ns.CreationTimestamp = config.CreationTimestamp
	pod := probePod("")
	yes := true
	pod.Namespace, pod.Name, pod.CreationTimestamp = "ns", "db-0", metav1.NewTime(noon)
	pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "db", Controller: &yes}}
	entry := api.HeldBack{Namespace: "ns", Kind: "StatefulSet", Name: "db", Cause: api.CauseUnschedulable, Since: noon, Until: noon.AddDate(1000, 0, 0), Message: "no room"}
	held := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "stategraft", Name: api.HeldBackConfigMap}, Data: map[string]string{entry.Key(): entry.Encode()}}

	expect(t, "not held back", look(t, "sidecars", &config, ns, pod), "fail ns/db-0: webhook-was-down")
	expect(t, "held back", look(t, "sidecars", &config, ns, pod, held), "fail ns/db-0: held-back")
	expect(t, "held back, itself", look(t, "held-back", &config, ns, held), "fail ns/StatefulSet/db: no room")
	older := pod.DeepCopy()
	older.CreationTimestamp = metav1.NewTime(noon.AddDate(-2, 0, 0))
	expect(t, "older", look(t, "sidecars", &config, ns, older), "warn ns/db-0: created-before")
	out := pod.DeepCopy()
	out.Labels[api.LabelInject] = api.InjectDisabled
	expect(t, "opted out", look(t, "sidecars", &config, ns, out), "ok : no pod that is a database")
	ended := pod.DeepCopy()
	ended.Status.Phase = corev1.PodFailed
	expect(t, "ended", look(t, "sidecars", &config, ns, ended), "ok : no pod that is a database")
	expect(t, "injected", look(t, "sidecars", &config, ns, databasePod(t)), "ok : 1 injected pod")
}

// What several pods take is looked for once, and all of them are named.
func TestLookReferences(t *testing.T) {
	config := registered(t)
	first, second := databasePod(t), databasePod(t)
	second.Name = "db-1"
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "medusa-bucket-key"}, Data: map[string][]byte{"credentials": []byte("hidden")}}
	got := look(t, "references", &config, labelledNamespace("ns"), first, second, secret)
	expect(t, "one is missing", got, "fail ns/medusa: (db-0, db-1)")
	if slices.ContainsFunc(got, func(f Finding) bool { return strings.Contains(f.Message+f.Remedy, "hidden") }) {
		t.Error("the Secret's content is shown")
	}
	ini := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "medusa"}, Data: map[string]string{"medusa.ini": "[storage]"}}
	expect(t, "all are there", look(t, "references", &config, labelledNamespace("ns"), first, second, secret, ini), "ok : 2 objects")
	expect(t, "no Service", look(t, "ptr-records", &config, labelledNamespace("ns"), first, second), "fail ns/Pod/db-0: Service db", "fail ns/Pod/db-1: Service db")
	expect(t, "no namespace", look(t, "references", &config), "info : no namespace is labelled")
}

// The names of Secrets that pods take for gRPC come from the pods.
func TestLookGRPC(t *testing.T) {
	config, pod := registered(t), databasePod(t)
	expect(t, "off", look(t, "grpc-certificates", &config, labelledNamespace("ns"), pod), "ok : no pod takes one")
	pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: "stategraft-grpc-tls", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: api.SecretGRPC}}})
	expect(t, "missing", look(t, "grpc-certificates", &config, labelledNamespace("ns"), pod), "fail ns/stategraft-grpc: is missing")
	config.Webhooks[0].ClientConfig.Service.Namespace = "backup"
	got := look(t, "grpc-certificates", &config, labelledNamespace("ns"), pod)
	if len(got) != 1 || !strings.Contains(got[0].Remedy, "kubectl -n backup logs deployment/stategraft-controller") {
		t.Errorf("installed in backup: %+v", got)
	}
}

// A pod whose adoption has begun has as its remedy what that waits for, and one that asks for
// it in other words is told of in the same item.
func TestLookSidecarsAdopting(t *testing.T) {
	config := registered(t)
	config.CreationTimestamp = metav1.NewTime(noon.AddDate(-1, 0, 0))
	ns := labelledNamespace("cassandra")
	ns.Annotations = map[string]string{api.AnnotationAdopt: api.AdoptRunning}
	pod := adoptedtest.Official(t, "../..").Adopted.DeepCopy()
	pod.Namespace, pod.Name, pod.CreationTimestamp = "cassandra", "cassandra-0", metav1.NewTime(noon.AddDate(-2, 0, 0))
	delete(pod.Labels, api.LabelInjected)
	pod.Status.EphemeralContainerStatuses[2] = adoptedtest.Waiting("stategraft-medusa-3", "CreateContainerConfigError", `secret "medusa-bucket-key" not found`)
	got := look(t, "sidecars", &config, ns, pod)
	expect(t, "a Secret is missing", got, `warn cassandra/cassandra-0: its adoption has begun, and container stategraft-medusa-3 waits: CreateContainerConfigError: secret "medusa-bucket-key" not found`)
	if len(got) > 0 && got[0].Remedy != "create Secret medusa-bucket-key; the container starts by itself then" {
		t.Errorf("remedy %q", got[0].Remedy)
	}
	pod.Annotations = map[string]string{api.AnnotationAdopt: api.AdoptNever}
	expect(t, "never", look(t, "sidecars", &config, ns, pod), "warn cassandra/cassandra-0: nobody asks for it any more")
	pod.Annotations[api.AnnotationAdopt] = "runing"
	expect(t, "a typo", look(t, "sidecars", &config, ns, pod), "warn cassandra/cassandra-0: nobody asks for it any more", `fail cassandra/cassandra-0: is "runing": it takes running or never`)
}
