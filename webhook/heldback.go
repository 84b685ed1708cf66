package webhook

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/patches"
	"github.com/stategraft/stategraft/workload"
)

// HeldBack knows the workloads whose pods are admitted without injection for now.
// It follows one ConfigMap, which the controller writes, and reads it once for
// each of its changes: an admission while nothing is held back loads one pointer.
type HeldBack struct {
	current atomic.Pointer[heldSet] // nil while nothing is held back
	now     func() time.Time
	log     logr.Logger
}

// heldSet is never changed once it is stored.
type heldSet map[heldKey]api.HeldBack

type heldKey struct{ namespace, kind, name string }

// HeldBackCache restricts a cache to the one ConfigMap that WatchHeldBack follows,
// which is all that the webhook's role lets it read.
func HeldBackCache(namespace string) cache.ByObject {
	return cache.ByObject{Namespaces: map[string]cache.Config{
		namespace: {FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, api.HeldBackConfigMap)},
	}}
}

// WatchHeldBack follows the ConfigMap in Stategraft's own namespace. That there is
// none means that nothing is held back; so does not knowing it yet.
func WatchHeldBack(ctx context.Context, c cache.Cache, namespace string, log logr.Logger) (*HeldBack, error) {
	h := &HeldBack{now: time.Now, log: log}
	informer, err := c.GetInformer(ctx, &corev1.ConfigMap{}, cache.BlockUntilSynced(false))
	if err != nil {
		return nil, fmt.Errorf("watching ConfigMap %s: %w", api.HeldBackConfigMap, err)
	}
	ours := func(object any) bool {
		if gone, ok := object.(toolscache.DeletedFinalStateUnknown); ok {
			object = gone.Obj
		}
		o, ok := object.(client.Object)
		return ok && o.GetName() == api.HeldBackConfigMap && o.GetNamespace() == namespace
	}
	read := func(object any) {
		if config, ok := object.(*corev1.ConfigMap); ok {
			h.read(config.Data)
		}
	}
	_, err = informer.AddEventHandler(toolscache.FilteringResourceEventHandler{FilterFunc: ours, Handler: toolscache.ResourceEventHandlerFuncs{
		AddFunc:    read,
		UpdateFunc: func(_, object any) { read(object) },
		DeleteFunc: func(any) { h.read(nil) },
	}})
	if err != nil {
		return nil, fmt.Errorf("watching ConfigMap %s: %w", api.HeldBackConfigMap, err)
	}
	return h, nil
}

// read takes over the data of the ConfigMap. What cannot be read holds nobody
// back: the worst that comes of it is what the controller has to heal again.
func (h *HeldBack) read(data map[string]string) {
	set := make(heldSet, len(data))
	for key, text := range data {
		entry, err := api.ParseHeldBack(text)
		if err != nil {
			h.log.Error(err, "a held back workload cannot be read, its pods are injected", "configMap", api.HeldBackConfigMap, "key", key)
			continue
		}
		set[heldKey{entry.Namespace, entry.Kind, entry.Name}] = entry
	}
	if len(set) == 0 {
		h.current.Store(nil)
		return
	}
	h.current.Store(&set)
}

// Find tells whether the pods of an owner are held back now.
func (h *HeldBack) Find(namespace, kind, name string) (api.HeldBack, bool) {
	set := h.current.Load()
	if set == nil {
		return api.HeldBack{}, false
	}
	entry, ok := (*set)[heldKey{namespace, kind, name}]
	return entry, ok && entry.Active(h.now())
}

// heldBack tells that the pod's workload is held back, and why. A pod that is to
// be restored never is, nor one that is given more than its backup: without its
// configuration or its node's network the database would be another, or none. r and
// patch are what the pod would get.
func heldBack(pod *workload.Pod, r *resolved, patch *patches.Patch, in Input) (string, bool) {
	if in.HeldBack == nil || r.settings.Restores() || r.settings.ConfigMap != "" || r.settings.HostNetwork {
		return "", false
	}
	owner, ok := pod.Controller()
	if !ok {
		owner = workload.Owner{Kind: "Pod", Name: pod.Metadata.Name}
	}
	entry, held := in.HeldBack(in.Namespace.Name, owner.Kind, owner.Name)
	if !held || !stillFails(entry, patch) {
		return "", false
	}
	from := layers{pod.Metadata.Annotations, in.Namespace.Annotations, in.Config.defaults}
	if value, _, ok := from.get(api.AnnotationHeldBack); ok && heldBackValue(value) == nil {
		return "", false
	}
	return heldText(entry), true
}

// heldBackValue checks a value of the annotation.
func heldBackValue(text string) error {
	if text != api.HeldBackIgnore {
		return errors.New("it takes ignore, to inject pods whatever failed before")
	}
	return nil
}

// stillFails tells whether the pod would be given again what failed: another
// image, or another limit of the memory that was short, is worth a try.
func stillFails(entry api.HeldBack, patch *patches.Patch) bool {
	if len(entry.Containers) == 0 {
		return true
	}
	for _, failed := range entry.Containers {
		for _, list := range [...][]*patches.Container{patch.Init, patch.Containers} {
			for _, c := range list {
				if c.Name == failed.Name && c.Image == failed.Image && (failed.Memory == "" || sameAmount(failed.Memory, c.Resources.Limits.Memory)) {
					return true
				}
			}
		}
	}
	return false
}

func sameAmount(a, b string) bool {
	x, err := resource.ParseQuantity(a)
	if err != nil {
		return a == b
	}
	y, err := resource.ParseQuantity(b)
	return err == nil && x.Cmp(y) == 0
}

// heldText says since when, why, until when and what would end it, the important
// first: warnings are cut.
func heldText(entry api.HeldBack) string {
	why, remedy := "", ""
	switch entry.Cause {
	case api.CauseImagePull:
		why, remedy = "no container could be made of "+failedImages(entry), "have the image served, or name another"
	case api.CauseCrashLoop:
		why, remedy = failedNames(entry)+" ended again and again", "see its log, or name another image"
	case api.CauseOutOfMemory:
		why, remedy = failedNames(entry)+" ran out of memory again and again", "raise "+api.AnnotationSidecarResources
	case api.CauseUnschedulable:
		why, remedy = "no node had room for it with the sidecars", "make room, or lower "+api.AnnotationSidecarResources
	case api.CauseRefused:
		why, remedy = "its pods were refused with the sidecars", "have the policy or quota allow them"
	}
	text := fmt.Sprintf("%s %s is held back since %s: %s; %s; tried again after %s, or at once with annotation %s: %s",
		strings.ToLower(entry.Kind), entry.Name, entry.Since.UTC().Format(time.RFC3339), why, remedy,
		entry.Until.UTC().Format(time.RFC3339), api.AnnotationHeldBack, api.HeldBackIgnore)
	if entry.Message != "" {
		text += " (" + entry.Message + ")"
	}
	return workload.Clip(text, 600)
}

func failedImages(entry api.HeldBack) string {
	images := make([]string, 0, len(entry.Containers))
	for _, c := range entry.Containers {
		images = append(images, c.Image)
	}
	return strings.Join(images, ", ")
}

func failedNames(entry api.HeldBack) string {
	names := make([]string, 0, len(entry.Containers))
	for _, c := range entry.Containers {
		names = append(names, c.Name)
	}
	return strings.Join(names, ", ")
}
