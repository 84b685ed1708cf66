package deploy_test

import (
	"bytes"
	"strconv"
	"strings"
	"sync"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"

	"github.com/stategraft/stategraft/test/cluster"
)

// objects are the UIDs of all objects in the cluster, of whatever kind, that are
// called after us or have our label, by resource and name.
func objects(t *testing.T, cp *cluster.ControlPlane) map[string]string {
	t.Helper()
	disco, err := discovery.NewDiscoveryClientForConfig(cp.Config())
	if err != nil {
		t.Fatal(err)
	}
	lists, err := disco.ServerPreferredResources()
	if err != nil {
		t.Fatal(err)
	}
	dyn, err := dynamic.NewForConfig(cp.Config())
	if err != nil {
		t.Fatal(err)
	}
	leaving := leavingNamespaces(t, cp)
	found := map[string]string{}
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			t.Fatal(err)
		}
		for _, resource := range list.APIResources {
			if strings.Contains(resource.Name, "/") || !strings.Contains(resource.Verbs.String(), "list") || leftAside[resource.Name] {
				continue
			}
			all, err := dyn.Resource(gv.WithResource(resource.Name)).List(t.Context(), metav1.ListOptions{})
			if apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err) {
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			for _, o := range all.Items {
				if ours(o) && !leaving[o.GetNamespace()] {
					found[resource.Name+"/"+o.GetName()] = string(o.GetUID())
				}
			}
		}
	}
	return found
}

// staysBehind is what is there once a release is uninstalled.
var staysBehind = []string{
	"customresourcedefinitions/" + crdNames[0], "customresourcedefinitions/" + crdNames[1], "customresourcedefinitions/" + crdNames[2],
	"namespaces/stategraft", "secrets/stategraft-grpc",
}

// leftAside are told by others (events), made of others by controllers
// (endpoints, replica sets, pods, API services) and gone with them, or Helm's own.
var leftAside = map[string]bool{"events": true, "apiservices": true, "endpoints": true, "endpointslices": true, "replicasets": true, "pods": true, "componentstatuses": true}

// leavingNamespaces are those that another test has removed.
func leavingNamespaces(t *testing.T, cp *cluster.ControlPlane) map[string]bool {
	t.Helper()
	all, err := client(t, cp, "").CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	leaving := map[string]bool{}
	for _, ns := range all.Items {
		leaving[ns.Name] = ns.DeletionTimestamp != nil
	}
	return leaving
}

func ours(o unstructured.Unstructured) bool {
	if strings.HasPrefix(o.GetName(), "sh.helm.release") {
		return false
	}
	return strings.HasPrefix(o.GetName(), "stategraft") || strings.HasSuffix(o.GetName(), "stategraft.io") ||
		o.GetLabels()["app.kubernetes.io/name"] == "stategraft"
}

// What others fill in: cert-manager, its cainjector, our controller.
var (
	filledSecret = map[string][]byte{"tls.crt": []byte("certificate"), "tls.key": []byte("key"), "ca.crt": []byte("ca")}
	filledHeld   = map[string]string{"db.statefulset.cassandra": "{}"}
	filledBundle = []byte("-----BEGIN CERTIFICATE-----\nMIIBMTCB5KADAgECAhQ=\n-----END CERTIFICATE-----\n")
	filledHolder = "stategraft-controller-0_1"
)

func fillIn(t *testing.T, cp *cluster.ControlPlane) {
	t.Helper()
	c := client(t, cp, "")
	for _, name := range []string{"stategraft-ca", "stategraft-webhook-tls"} {
		s, err := c.CoreV1().Secrets(home).Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		s.Data = filledSecret
		if _, err := c.CoreV1().Secrets(home).Update(t.Context(), s, metav1.UpdateOptions{FieldManager: "cert-manager-certificates-issuing"}); err != nil {
			t.Fatal(err)
		}
	}
	held, err := c.CoreV1().ConfigMaps(home).Get(t.Context(), "stategraft-held-back", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	held.Data = filledHeld
	if _, err := c.CoreV1().ConfigMaps(home).Update(t.Context(), held, metav1.UpdateOptions{FieldManager: "stategraft"}); err != nil {
		t.Fatal(err)
	}
	lease, err := c.CoordinationV1().Leases(home).Get(t.Context(), "stategraft-controller", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	seconds := int32(15)
	lease.Spec.HolderIdentity, lease.Spec.LeaseDurationSeconds = &filledHolder, &seconds
	if _, err := c.CoordinationV1().Leases(home).Update(t.Context(), lease, metav1.UpdateOptions{FieldManager: "stategraft"}); err != nil {
		t.Fatal(err)
	}
	hooks := c.AdmissionregistrationV1().MutatingWebhookConfigurations()
	hook, err := hooks.Get(t.Context(), "stategraft", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	hook.Webhooks[0].ClientConfig.CABundle = filledBundle
	if _, err := hooks.Update(t.Context(), hook, metav1.UpdateOptions{FieldManager: "cert-manager-cainjector"}); err != nil {
		t.Fatal(err)
	}
}

func stillFilledIn(t *testing.T, cp *cluster.ControlPlane) {
	t.Helper()
	c := client(t, cp, "")
	for _, name := range []string{"stategraft-ca", "stategraft-webhook-tls"} {
		s, err := c.CoreV1().Secrets(home).Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for key, want := range filledSecret {
			if !bytes.Equal(s.Data[key], want) {
				t.Errorf("Secret %s: %s is %q", name, key, s.Data[key])
			}
		}
	}
	held, err := c.CoreV1().ConfigMaps(home).Get(t.Context(), "stategraft-held-back", metav1.GetOptions{})
	if err != nil || len(held.Data) != 1 {
		t.Errorf("held back are %v (%v)", held.Data, err)
	}
	lease, err := c.CoordinationV1().Leases(home).Get(t.Context(), "stategraft-controller", metav1.GetOptions{})
	if err != nil || lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity != filledHolder {
		t.Errorf("the lease is %v (%v)", lease.Spec, err)
	}
	hook, err := c.AdmissionregistrationV1().MutatingWebhookConfigurations().Get(t.Context(), "stategraft", metav1.GetOptions{})
	if err != nil || !bytes.Equal(hook.Webhooks[0].ClientConfig.CABundle, filledBundle) {
		t.Errorf("the caBundle is %q (%v)", hook.Webhooks[0].ClientConfig.CABundle, err)
	}
}

func webhookDeployment(t *testing.T, cp *cluster.ControlPlane) *appsv1.Deployment {
	t.Helper()
	d, err := client(t, cp, "").AppsV1().Deployments(home).Get(t.Context(), "stategraft-webhook", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// watchRemovals answers a function that waits for the removal of an object and
// tells its resource version, by which removals are ordered.
func watchRemovals(t *testing.T, cp *cluster.ControlPlane) func(resource, name string) uint64 {
	t.Helper()
	dyn, err := dynamic.NewForConfig(cp.Config())
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	removed := map[string]uint64{}
	for _, r := range []schema.GroupVersionResource{
		{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "mutatingwebhookconfigurations"},
		{Group: "apps", Version: "v1", Resource: "deployments"},
		{Version: "v1", Resource: "services"},
		{Version: "v1", Resource: "secrets"},
	} {
		w, err := dyn.Resource(r).Watch(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(w.Stop)
		go func() {
			for event := range w.ResultChan() {
				o, ok := event.Object.(metav1.Object)
				if !ok || event.Type != watch.Deleted {
					continue
				}
				version, err := strconv.ParseUint(o.GetResourceVersion(), 10, 64)
				if err != nil {
					continue
				}
				mu.Lock()
				removed[r.Resource+"/"+o.GetName()] = version
				mu.Unlock()
			}
		}()
	}
	return func(resource, name string) (version uint64) {
		t.Helper()
		awaitTrue(t, resource+"/"+name+" to be removed", func() bool {
			mu.Lock()
			defer mu.Unlock()
			version = removed[resource+"/"+name]
			return version != 0
		})
		return version
	}
}
