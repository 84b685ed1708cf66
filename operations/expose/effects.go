package expose

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/telling"
	"github.com/stategraft/stategraft/workload"
)

// The reasons of the events, a closed set: on the pod.
const (
	eventExposed      = "PodExposed"
	eventMoved        = "PodAddressChanged"
	eventNoAddress    = "PodWithoutAddress"
	eventNotExposable = "PodNotExposable"
	eventTaken        = "PodServiceNameTaken"
	eventUnexposed    = "PodServiceRemoved" // on the Service
)

// noteLimit is less than an event's note may have (k8s.io/api/events/v1).
const noteLimit = 900

// writer writes Services, the address on pods, and events.
type writer struct {
	client client.Client
	events events.EventRecorder
}

func (w *writer) create(ctx context.Context, pod *corev1.Pod, s *corev1.Service) error {
	if err := w.client.Create(ctx, s); err != nil {
		return fmt.Errorf("making Service %s/%s for pod %s: %w", s.Namespace, s.Name, pod.Name, err)
	}
	log.FromContext(ctx).Info("pod exposed", "pod", pod.Name, "service", s.Name)
	return nil
}

// repair puts right what is ours of a Service.
func (w *writer) repair(ctx context.Context, have, want *corev1.Service) error {
	changed := have.DeepCopy()
	changed.Spec.Type, changed.Spec.Selector, changed.Spec.Ports = want.Spec.Type, want.Spec.Selector, nil
	for _, p := range want.Spec.Ports {
		for _, old := range have.Spec.Ports {
			if old.Port == p.Port {
				p.NodePort = old.NodePort // whoever has opened a firewall for it
			}
		}
		changed.Spec.Ports = append(changed.Spec.Ports, p)
	}
	owners := want.OwnerReferences
	for _, o := range have.OwnerReferences {
		if o.Kind != owners[0].Kind || o.Name != owners[0].Name { // one of that name is of a StatefulSet that was deleted
			owners = append(owners, o)
		}
	}
	changed.OwnerReferences = owners
	if err := w.client.Patch(ctx, changed, client.MergeFromWithOptions(have, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("changing Service %s/%s: %w", have.Namespace, have.Name, err)
	}
	return nil
}

// mark says on a Service since when it is not used; empty for that it is.
func (w *writer) mark(ctx context.Context, s *corev1.Service, since string) error {
	changed := s.DeepCopy()
	if since == "" {
		delete(changed.Annotations, annotationUnused)
	} else {
		metav1.SetMetaDataAnnotation(&changed.ObjectMeta, annotationUnused, since)
	}
	err := w.client.Patch(ctx, changed, client.MergeFromWithOptions(s, client.MergeFromWithOptimisticLock{}))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("marking Service %s/%s: %w", s.Namespace, s.Name, err)
	}
	return nil
}

// remove removes the very Service that was looked at.
func (w *writer) remove(ctx context.Context, r removal) error {
	s := r.service
	err := w.client.Delete(ctx, s, client.Preconditions{UID: &s.UID, ResourceVersion: &s.ResourceVersion})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("removing Service %s/%s: %w", s.Namespace, s.Name, err)
	}
	log.FromContext(ctx).Info("Service removed", "service", s.Name, "reason", r.why)
	note := fmt.Sprintf("Service %s is removed: %s", s.Name, r.why)
	w.events.Eventf(s, nil, corev1.EventTypeNormal, eventUnexposed, telling.Action("Expose", note), "%s", workload.Clip(note, noteLimit))
	return nil
}

// address writes on the pod at which address it is reached.
func (w *writer) address(ctx context.Context, pod *corev1.Pod, s *corev1.Service, address string) error {
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": pod.UID, "annotations": map[string]string{api.AnnotationPublicAddress: address}}})
	if err != nil {
		return fmt.Errorf("encoding an annotation: %w", err)
	}
	target := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}}
	if err := w.client.Patch(ctx, target, client.RawPatch(types.MergePatchType, body)); err != nil {
		if client.IgnoreNotFound(err) == nil {
			return nil
		}
		return fmt.Errorf("writing its address on pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	before := pod.Annotations[api.AnnotationPublicAddress]
	if before == "" {
		w.say(pod, corev1.EventTypeNormal, eventExposed, fmt.Sprintf("the pod is reached from outside at %s, by Service %s", address, s.Name))
		return nil
	}
	w.say(pod, corev1.EventTypeWarning, eventMoved, fmt.Sprintf("the address of Service %s was %s and is %s: a node of Anna's tells its clients the old one until it is started anew; delete the pod", s.Name, before, address))
	return nil
}

func (w *writer) say(pod *corev1.Pod, kind, event, note string) {
	about := &corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID}
	w.events.Eventf(about, nil, kind, event, telling.Action("Expose", note), "%s", workload.Clip(note, noteLimit))
}
