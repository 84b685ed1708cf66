package rpo

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/coverage"
	"github.com/stategraft/stategraft/operations/scope"
)

// selectEvery is how long it is remembered which pods a schedule selects by labels,
// which the cache does not have. That is asked of the API server.
const selectEvery = 10 * time.Minute

// selection is what a schedule has selected.
type selection struct {
	uid        types.UID
	generation int64
	at         time.Time
	pods       []string
}

// source is where all that is looked at comes from.
type source struct {
	objects   client.Reader // cached: Backups, BackupSchedules
	cached    client.Reader // of the manager: injected pods as heal.ByObject keeps them, namespaces
	live      client.Reader
	own       string // Stategraft's namespace
	uncovered func() []coverage.Uncovered
	selected  map[types.NamespacedName]selection
}

// gather reads all. What it gives is shared with the cache and is not to be changed.
func (s *source) gather(ctx context.Context, now time.Time) (Input, error) {
	in := Input{Namespaces: map[string]map[string]string{}, Now: now}
	var namespaces metav1.PartialObjectMetadataList
	namespaces.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("NamespaceList"))
	if err := s.cached.List(ctx, &namespaces, client.UnsafeDisableDeepCopy); err != nil {
		return in, fmt.Errorf("listing namespaces: %w", err)
	}
	for i := range namespaces.Items {
		if ns := &namespaces.Items[i]; scope.Asks(ns, s.own) {
			in.Namespaces[ns.Name] = ns.Annotations
		}
	}
	var backups api.BackupList
	if err := s.objects.List(ctx, &backups, client.UnsafeDisableDeepCopy); err != nil {
		return in, fmt.Errorf("listing Backups: %w", err)
	}
	var schedules api.BackupScheduleList
	if err := s.objects.List(ctx, &schedules, client.UnsafeDisableDeepCopy); err != nil {
		return in, fmt.Errorf("listing BackupSchedules: %w", err)
	}
	in.Backups, in.Schedules = backups.Items, schedules.Items
	if err := s.pods(ctx, &in); err != nil {
		return in, err
	}
	return in, s.find(ctx, &in)
}

// pods takes over the pods that ought to be backed up.
func (s *source) pods(ctx context.Context, in *Input) error {
	var injected corev1.PodList
	if err := s.cached.List(ctx, &injected, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("listing injected pods: %w", err)
	}
	known := make(map[types.NamespacedName]bool, len(injected.Items))
	for i := range injected.Items {
		pod := &injected.Items[i]
		known[client.ObjectKeyFromObject(pod)] = true
		if _, asks := in.Namespaces[pod.Namespace]; !asks {
			continue
		}
		if p, ok := OfPod(pod); ok {
			in.Pods = append(in.Pods, p)
		}
	}
	for _, u := range s.uncovered() {
		// One that was made anew with a sidecar may be known here first.
		if _, asks := in.Namespaces[u.Pod.Namespace]; !asks || known[client.ObjectKeyFromObject(u.Pod)] {
			continue
		}
		if u.NoData {
			continue
		}
		if p, ok := OfUncovered(u.Pod, u.Kind, u.Reason); ok {
			in.Pods = append(in.Pods, p)
		}
	}
	return nil
}

// find asks which pods the schedules select that go by labels.
func (s *source) find(ctx context.Context, in *Input) error {
	in.Selected = map[types.NamespacedName][]string{}
	kept := map[types.NamespacedName]selection{}
	for i := range in.Schedules {
		schedule := &in.Schedules[i]
		pods := schedule.Spec.Template.Spec.Pods
		if _, asks := in.Namespaces[schedule.Namespace]; !asks || pods == nil || pods.Selector == nil {
			continue
		}
		key := client.ObjectKeyFromObject(schedule)
		found := s.selected[key]
		if found.uid != schedule.UID || found.generation != schedule.Generation || in.Now.Sub(found.at) >= selectEvery {
			names, err := s.list(ctx, schedule.Namespace, pods.Selector)
			if err != nil {
				return err
			}
			found = selection{schedule.UID, schedule.Generation, in.Now, names}
		}
		kept[key], in.Selected[key] = found, found.pods
	}
	s.selected = kept
	return nil
}

func (s *source) list(ctx context.Context, namespace string, by *metav1.LabelSelector) (names []string, err error) {
	selector, err := metav1.LabelSelectorAsSelector(by)
	if err != nil || selector.Empty() {
		return nil, nil // whose schedule says so
	}
	var pods metav1.PartialObjectMetadataList
	pods.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PodList"))
	if err := s.live.List(ctx, &pods, client.InNamespace(namespace), client.MatchingLabelsSelector{Selector: selector}); err != nil {
		return nil, fmt.Errorf("listing the pods that a schedule of namespace %s selects: %w", namespace, err)
	}
	for i := range pods.Items {
		names = append(names, pods.Items[i].Name)
	}
	return names, nil
}
