package coverage

import (
	"context"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	api "github.com/stategraft/stategraft/api/v1alpha1"
)

// metadata is an object of which only the metadata are watched.
func metadata(kind string) *metav1.PartialObjectMetadata {
	object := &metav1.PartialObjectMetadata{}
	switch kind {
	case "MutatingWebhookConfiguration":
		object.SetGroupVersionKind(admissionregistrationv1.SchemeGroupVersion.WithKind(kind))
	default:
		object.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(kind))
	}
	return object
}

// pods selects the pods with or without the label (selection.Exists,
// DoesNotExist), of which little is kept. Pods that have ended are no databases
// any more.
func pods(op selection.Operator) (cache.ByObject, error) {
	injected, err := labels.NewRequirement(api.LabelInjected, op, nil)
	if err != nil {
		return cache.ByObject{}, fmt.Errorf("selecting pods: %w", err)
	}
	running := fields.AndSelectors(
		fields.OneTermNotEqualSelector("status.phase", string(corev1.PodSucceeded)),
		fields.OneTermNotEqualSelector("status.phase", string(corev1.PodFailed)))
	return cache.ByObject{Label: labels.NewSelector().Add(*injected), Field: running, Transform: stripPod}, nil
}

// newCache makes the cache of what is looked at. The manager's own cannot be
// used: it takes one selector for a kind of objects, and others want other pods.
func newCache(mgr manager.Manager, configuration string) (cache.Cache, error) {
	without, err := pods(selection.DoesNotExist)
	if err != nil {
		return nil, err
	}
	return cacheOf(mgr, map[client.Object]cache.ByObject{
		metadata("Pod"): without,
		// With their managedFields, which tell since when they are labelled.
		metadata("Namespace"): {Label: labels.SelectorFromSet(labels.Set{api.LabelInject: api.InjectEnabled}),
			Transform: func(in any) (any, error) { return in, nil }},
		// By its name, so that a role may be bound to it.
		metadata("MutatingWebhookConfiguration"): {Field: fields.OneTermEqualSelector(metav1.ObjectNameField, configuration)},
	})
}

func cacheOf(mgr manager.Manager, objects map[client.Object]cache.ByObject) (cache.Cache, error) {
	c, err := cache.New(mgr.GetConfig(), cache.Options{
		HTTPClient: mgr.GetHTTPClient(), Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(),
		DefaultTransform: cache.TransformStripManagedFields(), ByObject: objects,
	})
	if err != nil {
		return nil, fmt.Errorf("making a cache: %w", err)
	}
	return c, nil
}

// onLeader starts a cache only in the replica that works.
type onLeader struct{ cache.Cache }

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (onLeader) NeedLeaderElection() bool { return true }

// stripPod keeps of a pod's metadata what is read here: there may be tens of
// thousands of pods that are none of our business.
func stripPod(in any) (any, error) {
	pod, ok := in.(*metav1.PartialObjectMetadata)
	if !ok {
		return in, nil // a cache.DeletedFinalStateUnknown holds what was stripped before
	}
	pod.ObjectMeta = metav1.ObjectMeta{
		Name: pod.Name, Namespace: pod.Namespace, UID: pod.UID, ResourceVersion: pod.ResourceVersion,
		CreationTimestamp: pod.CreationTimestamp, DeletionTimestamp: pod.DeletionTimestamp,
		Labels: ours(pod.Labels), Annotations: ours(pod.Annotations),
	}
	return pod, nil
}

// ours keeps the keys of Stategraft.
func ours(all map[string]string) map[string]string {
	var kept map[string]string
	for key, value := range all {
		if strings.HasPrefix(key, api.Group+"/") {
			if kept == nil {
				kept = map[string]string{}
			}
			kept[key] = value
		}
	}
	return kept
}

// fingerprint tells whether what the pod asks of us has changed.
func fingerprint(pod *metav1.PartialObjectMetadata) uint64 {
	hash := fnv.New64a()
	for _, all := range []map[string]string{pod.Labels, pod.Annotations} {
		for _, key := range slices.Sorted(maps.Keys(all)) {
			fmt.Fprintf(hash, "%q=%q,", key, all[key])
		}
		fmt.Fprint(hash, ";")
	}
	return hash.Sum64()
}

// countInjected counts the pods of an informer by their label.
func countInjected(informer cache.Informer, s *state) error {
	kind := func(object any) string {
		if gone, ok := object.(toolscache.DeletedFinalStateUnknown); ok {
			object = gone.Obj
		}
		if pod, ok := object.(client.Object); ok {
			return kindOf(pod.GetLabels())
		}
		return ""
	}
	_, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(pod any) { s.count(kind(pod), 1) },
		UpdateFunc: func(before, after any) {
			if from, to := kind(before), kind(after); from != to {
				s.count(from, -1)
				s.count(to, 1)
			}
		},
		DeleteFunc: func(pod any) { s.count(kind(pod), -1) },
	})
	if err != nil {
		return fmt.Errorf("counting injected pods: %w", err)
	}
	return nil
}

// injectedInformer makes an informer of the injected pods where nobody has one
// to share.
func injectedInformer(mgr manager.Manager) (cache.Informer, error) {
	with, err := pods(selection.Exists)
	if err != nil {
		return nil, err
	}
	c, err := cacheOf(mgr, map[client.Object]cache.ByObject{metadata("Pod"): with})
	if err != nil {
		return nil, err
	}
	// Nothing is waited for.
	informer, err := c.GetInformer(context.Background(), metadata("Pod"), cache.BlockUntilSynced(false))
	if err != nil {
		return nil, fmt.Errorf("watching injected pods: %w", err)
	}
	if err := mgr.Add(onLeader{c}); err != nil {
		return nil, fmt.Errorf("adding to the manager: %w", err)
	}
	return informer, nil
}
