package check

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiversion "k8s.io/apimachinery/pkg/version"
	fakediscovery "k8s.io/client-go/discovery/fake"
	fakedynamic "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/fake"
	fakemetadata "k8s.io/client-go/metadata/fake"
	core "k8s.io/client-go/testing"

	api "github.com/stategraft/stategraft/api/v1alpha1"
)

// stand makes a cluster of objects whose every right the person who asks has.
func stand(objects ...runtime.Object) (*Cluster, *fake.Clientset) {
	var heads, others []runtime.Object
	objects, others = apart(objects)
	client := fake.NewClientset(objects...)
	discovered := client.Discovery().(*fakediscovery.FakeDiscovery)
	discovered.FakedServerVersion = &apiversion.Info{GitVersion: "v1.37.2"}
	client.Resources = []*metav1.APIResourceList{{GroupVersion: "admissionregistration.k8s.io/v1", APIResources: []metav1.APIResource{{Name: "validatingadmissionpolicies"}}}}
	scheme := fakemetadata.NewTestScheme()
	_ = metav1.AddMetaToScheme(scheme)
	for _, object := range objects {
		if pod, ok := object.(*corev1.Pod); ok {
			heads = append(heads, &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, ObjectMeta: pod.ObjectMeta})
		}
	}
	client.PrependReactor("create", "selfsubjectaccessreviews", func(core.Action) (bool, runtime.Object, error) {
		return true, &authorizationv1.SelfSubjectAccessReview{Status: authorizationv1.SubjectAccessReviewStatus{Allowed: true}}, nil
	})
	return &Cluster{Kube: client, Dynamic: unfixed(others...), Warnings: &Warnings{},
		Meta:    fakemetadata.NewSimpleMetadataClient(scheme, heads...),
		Options: Options{Where: "https://example", Version: "v0", Now: func() time.Time { return noon }}}, client
}

// unfixed is a dynamic client of the kinds that are read by it.
func unfixed(objects ...runtime.Object) *fakedynamic.FakeDynamicClient {
	scheme := runtime.NewScheme()
	_ = api.AddToScheme(scheme)
	return fakedynamic.NewSimpleDynamicClientWithCustomListKinds(scheme, map[schema.GroupVersionResource]string{
		crdResource: "CustomResourceDefinitionList", restoreResource: "RestoreList", backupResource: "BackupList", scheduleResource: "BackupScheduleList", certificateResource: "CertificateList"}, objects...)
}

// apart puts the objects aside that are read by the dynamic client.
func apart(objects []runtime.Object) (fixed, other []runtime.Object) {
	for _, object := range objects {
		switch object.(type) {
		case *unstructured.Unstructured, *api.Restore, *api.Backup, *api.BackupSchedule:
			other = append(other, object)
		default:
			fixed = append(fixed, object)
		}
	}
	return fixed, other
}

func labelledNamespace(name string) *corev1.Namespace {
	ns := namespace(name, map[string]string{api.LabelInject: api.InjectEnabled}, nil)
	return &ns
}

// Whatever fails, no item takes what it could not read for good, and none
// stops the others.
func TestNothingCanBeRead(t *testing.T) {
	fails := map[string]error{
		"forbidden": apierrors.NewForbidden(corev1.Resource("things"), "", errors.New("no right")),
		"late":      fmt.Errorf("asking: %w", context.DeadlineExceeded),
		"broken":    apierrors.NewInternalError(errors.New("etcd is gone")),
	}
	for name, err := range fails {
		for _, namespace := range []string{"", "db"} {
			c, client := stand(labelledNamespace("db"))
			c.Namespace = namespace
			client.PrependReactor("*", "*", func(action core.Action) (bool, runtime.Object, error) {
				if review := action.GetResource().Resource == "selfsubjectaccessreviews"; review && name == "forbidden" {
					return true, &authorizationv1.SelfSubjectAccessReview{}, nil
				}
				discovers := action.GetVerb() == "get" && (action.GetResource().Resource == "version" || action.GetResource().Resource == "resource")
				return !discovers, nil, err
			})
			c.Meta.(*fakemetadata.FakeMetadataClient).PrependReactor("*", "*", func(core.Action) (bool, runtime.Object, error) { return true, nil, err })
			c.Dynamic.(*fakedynamic.FakeDynamicClient).PrependReactor("*", "*", func(core.Action) (bool, runtime.Object, error) { return true, nil, err })
			report, runErr := Run(t.Context(), c, Items)
			if runErr != nil {
				t.Fatal(runErr)
			}
			if report.Result != Incomplete || report.Installed != "unknown" {
				t.Errorf("%s: %s, installed %s", name, report.Result, report.Installed)
			}
			for _, item := range report.Items {
				well := item.ID == "server-version" || item.ID == "cert-manager" // which ask for no object
				says := item.ID == "configuration" || item.ID == "versions" || item.ID == "rights" && name == "forbidden"
				switch {
				case well && item.Status == OK, says && item.Status == Info, !well && item.Status == Skip:
				default:
					t.Errorf("%s, namespace %q: %s is %s", name, namespace, item.ID, item.Status)
				}
			}
		}
	}
}

func TestNoCluster(t *testing.T) {
	c, client := stand()
	client.PrependReactor("get", "version", func(core.Action) (bool, runtime.Object, error) { return true, nil, errors.New("refused") })
	if _, err := Run(t.Context(), c, Items); err == nil || err.Error() != "no cluster answers at https://example: refused" {
		t.Errorf("%v", err)
	}
}

// A large namespace is read in pages, once for all items.
func TestPodsAreReadInPages(t *testing.T) {
	config := registered(t)
	c, client := stand(labelledNamespace("db"), &config)
	lists := 0
	client.PrependReactor("list", "pods", func(action core.Action) (bool, runtime.Object, error) {
		options := action.(core.ListActionImpl).GetListOptions()
		if action.GetNamespace() != "db" {
			return false, nil, nil
		}
		if options.Limit != pageSize {
			t.Errorf("a list without limit: %+v", options)
		}
		lists++
		list := &corev1.PodList{Items: []corev1.Pod{*databasePod(t)}}
		if options.Continue == "" {
			list.Continue = "more"
		}
		return true, list, nil
	})
	report, err := Run(t.Context(), c, Items)
	if err != nil {
		t.Fatal(err)
	}
	if lists != 2 {
		t.Errorf("%d lists for two pages", lists)
	}
	for _, f := range report.Findings {
		if f.Item == "containers" && !strings.Contains(f.Message, "2 injected pods") {
			t.Errorf("%+v", f)
		}
	}
}

func TestSelect(t *testing.T) {
	items, err := Select([]string{"certificate", "nodes"})
	if err != nil || len(items) != 2 || items[0].ID != "nodes" || items[1].ID != "certificate" {
		t.Errorf("%v, %v", items, err)
	}
	if items, err = Select(nil); err != nil || len(items) != len(Items) {
		t.Errorf("%d items, %v", len(items), err)
	}
	if _, err = Select([]string{"nods"}); err == nil || !strings.Contains(err.Error(), "server-version, rights") {
		t.Errorf("%v", err)
	}
	if len(Items) < 15 {
		t.Error("Select changed the items")
	}
}

// The mode goes by what is there.
func TestMode(t *testing.T) {
	config := registered(t)
	webhook := deployment(partWebhook, 1, 1)
	webhook.Labels["app.kubernetes.io/name"] = "stategraft"
	for _, c := range []struct {
		what    string
		objects []runtime.Object
		mode    Mode
		own     string
	}{
		{"nothing", nil, Preflight, DefaultNamespace},
		{"registered", []runtime.Object{&config}, Doctor, "stategraft"},
		{"a Deployment", []runtime.Object{&webhook}, Doctor, "sg"},
	} {
		cluster, _ := stand(c.objects...)
		found := cluster.installation(t.Context())
		if found.Mode() != c.mode || found.Namespace != c.own {
			t.Errorf("%s: %s in %s", c.what, found.Mode(), found.Namespace)
		}
	}
}
