package check

import (
	"context"
	"reflect"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	api "github.com/stategraft/stategraft/api/v1alpha1"
)

var crdResource = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// The CustomResourceDefinitions.
const (
	crdRestores  = "restores." + api.Group
	crdBackups   = "backups." + api.Group
	crdSchedules = "backupschedules." + api.Group
)

// kind is one of our kinds: what is lost without it, and what it has to have.
type kind struct {
	crd, lost    string
	spec, status reflect.Type
}

var (
	kindRestore = kind{crdRestores, "no running pod can be restored, and an API server that starts without it refuses every pod of namespaces with a Restore under way (policy " + pendingName + ")",
		reflect.TypeFor[api.RestoreSpec](), reflect.TypeFor[api.RestoreStatus]()}
	kindBackup   = kind{crdBackups, "nothing can be backed up", reflect.TypeFor[api.BackupSpec](), reflect.TypeFor[api.BackupStatus]()}
	kindSchedule = kind{crdSchedules, "nothing is backed up by itself", reflect.TypeFor[api.BackupScheduleSpec](), reflect.TypeFor[api.BackupScheduleStatus]()}
)

func lookCRD(ctx context.Context, c *Cluster) []Finding { return c.crd(ctx, kindRestore) }

func lookBackupCRDs(ctx context.Context, c *Cluster) []Finding {
	return append(c.crd(ctx, kindBackup), c.crd(ctx, kindSchedule)...)
}

func (c *Cluster) crd(ctx context.Context, k kind) []Finding {
	crd, err := c.Dynamic.Resource(crdResource).Get(ctx, k.crd, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		crd = nil
	case err != nil:
		return skipped(unread(err, right{Verb: "get", Group: crdResource.Group, Resource: crdResource.Resource, Name: k.crd}))
	}
	return judgeCRD(k, crd)
}

// judgeCRD judges the CustomResourceDefinition; nil where there is none. What it
// lacks the API server drops without a word: a list of pending pods that is dropped
// keeps no pod from starting.
func judgeCRD(k kind, crd *unstructured.Unstructured) []Finding {
	if crd == nil {
		return []Finding{finding(Fail, k.crd, "there is no such CustomResourceDefinition: %s", k.lost).
			With("%s; with crds.install=false apply deploy/chart/files/crds yourself", applyAgain)}
	}
	conditions, _, _ := unstructured.NestedSlice(crd.Object, "status", "conditions")
	for _, entry := range conditions {
		condition, _ := entry.(map[string]any)
		of, value := condition["type"], condition["status"]
		if of == "Established" && value != "True" || of == "NamesAccepted" && value != "True" || of == "NonStructuralSchema" && value == "True" {
			return []Finding{finding(Fail, k.crd, "is not served: %v is %v: %v", of, value, condition["message"]).
				With("kubectl describe crd %s", k.crd)}
		}
	}
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	at := slices.IndexFunc(versions, func(v any) bool {
		version, _ := v.(map[string]any)
		return version["name"] == api.GroupVersion.Version
	})
	if at < 0 {
		return []Finding{finding(Fail, k.crd, "has no version %s, which the controller and the webhook read", api.GroupVersion.Version).With("%s", applyAgain)}
	}
	version, _ := versions[at].(map[string]any)
	if version["served"] != true {
		return []Finding{finding(Fail, k.crd, "version %s is not served", api.GroupVersion.Version).With("%s", applyAgain)}
	}
	return judgeSchema(k, version)
}

func judgeSchema(k kind, version map[string]any) []Finding {
	var lacking []string
	if _, ok, _ := unstructured.NestedMap(version, "subresources", "status"); !ok {
		lacking = append(lacking, "the subresource status")
	}
	have, _, _ := unstructured.NestedMap(version, "schema", "openAPIV3Schema")
	lacking = append(lacking, missingFields(k.spec, property(have, "spec"), "spec")...)
	lacking = append(lacking, missingFields(k.status, property(have, "status"), "status")...)
	if len(lacking) > 0 {
		return []Finding{finding(Fail, k.crd, "is of another version than this command, and lacks %s: what the controller writes there is lost", strings.Join(lacking, ", ")).
			With("upgrade what is older: %s (helm does not upgrade a CustomResourceDefinition that it did not install)", applyAgain)}
	}
	return []Finding{finding(OK, k.crd, "version %s is served", api.GroupVersion.Version)}
}

func property(schema map[string]any, name string) map[string]any {
	found, _, _ := unstructured.NestedMap(schema, "properties", name)
	return found
}

// missingFields are the members of a type that a schema has not, with those of the
// types in it that are ours.
func missingFields(of reflect.Type, schema map[string]any, path string) []string {
	for of.Kind() == reflect.Pointer {
		of = of.Elem()
	}
	if of.Kind() == reflect.Slice {
		items, _, _ := unstructured.NestedMap(schema, "items")
		return missingFields(of.Elem(), items, path)
	}
	if of.Kind() != reflect.Struct || of.PkgPath() != reflect.TypeFor[api.Restore]().PkgPath() {
		return nil
	}
	if schema["x-kubernetes-preserve-unknown-fields"] == true {
		return nil
	}
	var missing []string
	for i := range of.NumField() {
		name, _, _ := strings.Cut(of.Field(i).Tag.Get("json"), ",")
		if name == "" || name == "-" {
			continue
		}
		below := property(schema, name)
		if below == nil {
			missing = append(missing, path+"."+name)
			continue
		}
		missing = append(missing, missingFields(of.Field(i).Type, below, path+"."+name)...)
	}
	return missing
}
