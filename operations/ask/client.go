// Package ask makes Restores for a person at a terminal and follows them: what
// kubectl stategraft restore does. It talks to the API server and to nothing else;
// the controller does what was asked for. Below it are the same for Backups
// (backup), the age of each pod's backup (status), what a namespace's storage holds
// (sync), and sidecars for pods that run (adopt).
//
//	client.go    the client, and what its errors mean to a person
//	targets.go   the pods that are meant
//	live.go      and those of them that are there
//	request.go   the object that is made of the command line
//	follow.go    a Restore's or a Backup's status as it changes
//	progress.go  how far the pods are, as it changes
//	screen.go    what fits on a terminal
//	bars.go      a pod's line on it
//	plan.go      the plan, from a dry run
//	list.go      the table of Restores
//	show.go      one Restore, in full
//	next.go      what to do next
//	change.go    cancel, suspend, resume
//	followed.go  what is looked at of one that is followed
//	alive.go     whether a controller runs, and the namespace is there
//	later.go     what became of the data from before
//	volumes.go   in what state a cancellation left the volumes
//	text.go      bytes, times, tables
package ask

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	api "github.com/stategraft/stategraft/api/v1alpha1"
)

// Resources, in the words of RBAC.
const (
	restores     = "restores." + api.Group
	Backups      = "backups." + api.Group
	Schedules    = "backupschedules." + api.Group
	pods         = "pods"
	StatefulSets = "statefulsets.apps"
	ConfigMaps   = "configmaps"
	Namespaces   = "namespaces"
	Nodes        = "nodes"
)

// Scheme knows the objects that are read and written.
func Scheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{api.AddToScheme, corev1.AddToScheme, appsv1.AddToScheme, coordinationv1.AddToScheme} {
		if err := add(scheme); err != nil {
			panic("making the scheme: " + err.Error()) // of types that are compiled in
		}
	}
	return scheme
}

// New makes the client. It asks the API server for nothing: which resources there
// are is known, and one that there is not answers so.
func New(config *rest.Config) (client.WithWatch, error) {
	log.SetLogger(logr.Discard()) // or it complains that nobody did
	config = rest.CopyConfig(config)
	if config.WarningHandler == nil {
		config.WarningHandler = rest.NoWarnings{}
	}
	mapper := meta.NewDefaultRESTMapper(nil)
	for _, kind := range []schema.GroupVersionKind{api.GroupVersion.WithKind("Restore"), api.GroupVersion.WithKind("Backup"),
		api.GroupVersion.WithKind("BackupSchedule"), corev1.SchemeGroupVersion.WithKind("Pod"), corev1.SchemeGroupVersion.WithKind("ConfigMap"), corev1.SchemeGroupVersion.WithKind("Secret"),
		corev1.SchemeGroupVersion.WithKind("Namespace"), corev1.SchemeGroupVersion.WithKind("Node"), corev1.SchemeGroupVersion.WithKind("Event"), appsv1.SchemeGroupVersion.WithKind("StatefulSet"),
		coordinationv1.SchemeGroupVersion.WithKind("Lease")} {
		scope := meta.RESTScopeNamespace
		if kind.Kind == "Namespace" || kind.Kind == "Node" {
			scope = meta.RESTScopeRoot
		}
		mapper.Add(kind, scope)
	}
	made, err := client.NewWithWatch(config, client.Options{Scheme: Scheme(), Mapper: mapper})
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	return made, nil
}

// ErrNotServed says that the cluster knows no Restores, or no Backups: any error that
// says so is one of these.
var ErrNotServed error = unservedError{"Restores", restores}

// unservedError says that a CustomResourceDefinition is missing.
type unservedError struct{ kinds, resource string }

func (e unservedError) Error() string {
	return "this cluster has no " + e.kinds + " (the CustomResourceDefinition " + e.resource + " is missing): " +
		"install Stategraft or upgrade it, its CustomResourceDefinitions included, then see kubectl stategraft check"
}

// Is makes all of them one error.
func (unservedError) Is(target error) bool {
	_, ok := target.(unservedError)
	return ok
}

// ours are the resources that a CustomResourceDefinition of ours serves.
var ours = map[string]unservedError{
	restores: {"Restores", restores}, Backups: {"Backups", Backups}, Schedules: {"BackupSchedules", Schedules},
}

// notServed tells whether an API server has no such resource at all, unlike no
// object of a name.
func notServed(err error) bool {
	return meta.IsNoMatchError(err) || apierrors.IsNotFound(err) && apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}

// Explain says in words of the person who asked what an error of the API server
// means. The verb, the resource and the namespace are those of the request; a name
// may be left out.
func Explain(err error, verb, resource, namespace, name string) error {
	where := ""
	if namespace != "" {
		where = " in namespace " + namespace
	}
	var status apierrors.APIStatus
	missing := errors.As(err, &status) && apierrors.IsNotFound(err)
	switch {
	case err == nil, errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case ours[resource].kinds != "" && notServed(err):
		return ours[resource]
	case apierrors.IsForbidden(err) && refusedByRight(err), apierrors.IsUnauthorized(err):
		flag := " --all-namespaces"
		if namespace != "" {
			flag = " -n " + namespace
		}
		return fmt.Errorf("you have no right to %s %s%s (kubectl auth can-i %s %s%s): %w", verb, resource, where, verb, resource, flag, err)
	case missing && status.Status().Details != nil && status.Status().Details.Kind == "namespaces":
		return fmt.Errorf("there is no namespace %q", namespace)
	case missing && name != "":
		return fmt.Errorf("there is no %s %s%s", kindOf(resource), name, where)
	}
	if name != "" {
		return fmt.Errorf("%s %s %s%s: %w", verb, kindOf(resource), name, where, err)
	}
	return fmt.Errorf("%s %s%s: %w", verb, resource, where, err)
}

// refusedByRight tells a lacking right from an admission plugin's refusal, which
// has the same status.
func refusedByRight(err error) bool {
	return strings.Contains(err.Error(), " cannot ")
}

func kindOf(resource string) string {
	return map[string]string{restores: "Restore", Backups: "Backup", Schedules: "BackupSchedule", ConfigMaps: "ConfigMap",
		Namespaces: "namespace", Nodes: "node", pods: "pod", StatefulSets: "statefulset"}[resource]
}
