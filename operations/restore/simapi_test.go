package restore

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	api "github.com/stategraft/stategraft/api/v1alpha1"
)

// What follows is the cluster as the controller sees it.

func (s *sim) restore(_ context.Context, at types.NamespacedName) (*api.Restore, error) {
	if err := s.read(); err != nil {
		return nil, err
	}
	if s.restore_ == nil || s.restore_.Name != at.Name {
		return nil, notFound("restores", at.Name)
	}
	return s.restore_.DeepCopy(), nil
}

func (s *sim) restores(context.Context, string) (list []api.Restore, err error) {
	if s.restore_ != nil {
		list = append(list, *s.restore_.DeepCopy())
	}
	return list, s.read()
}

func (s *sim) marked(context.Context, string) (map[string]string, error) {
	if s.marked_ {
		return map[string]string{"ns": s.space}, s.read()
	}
	return nil, s.read()
}

func (s *sim) mark(context.Context, string) error {
	return s.effect("label on", func() error {
		if !s.marked_ {
			s.marked_, s.space = true, s.bump()
		}
		return nil
	})
}

func (s *sim) unmark(_ context.Context, _, version string) error {
	return s.effect("label off", func() error {
		if version != s.space {
			return conflict("namespaces", "ns")
		}
		if s.restore_ != nil && needsMark(*s.restore_) {
			s.wrong("the label goes while a Restore is under way")
		}
		s.marked_, s.space = false, s.bump()
		return nil
	})
}

func (s *sim) labelled(context.Context, string) (bool, error) { return true, s.read() }
func (s *sim) set(context.Context, types.NamespacedName) (*appsv1.StatefulSet, error) {
	return s.theSet(), s.read()
}

func (s *sim) theSet() *appsv1.StatefulSet {
	set := factSet(int32(s.replicas))
	if s.anna != nil {
		set.Spec.PodManagementPolicy = appsv1.ParallelPodManagement
	}
	return set
}

func (s *sim) sets(context.Context, string) ([]*appsv1.StatefulSet, error) {
	set := s.theSet()
	templated(set)
	return []*appsv1.StatefulSet{set}, s.read()
}

func (s *sim) budgets(context.Context, string) ([]policyv1.PodDisruptionBudget, error) {
	return nil, s.read()
}

func (s *sim) pod(_ context.Context, at types.NamespacedName) (*corev1.Pod, error) {
	if pod := s.pods_[at.Name]; pod != nil {
		return pod.DeepCopy(), s.read()
	}
	return nil, notFound("pods", at.Name)
}

func (s *sim) pods(_ context.Context, _ string, names []string) (list []*corev1.Pod, err error) {
	for i := range s.replicas {
		if pod := s.pods_["cas-"+strconv.Itoa(i)]; pod != nil && (len(names) == 0 || slices.Contains(names, pod.Name)) {
			list = append(list, pod.DeepCopy())
		}
	}
	return list, s.read()
}

func (s *sim) writeStatus(_ context.Context, r *api.Restore) error {
	return s.effect(fmt.Sprintf("status %s pending=%v %s", r.Status.Phase, r.Status.Pending, r.Status.Message), func() error {
		switch {
		case s.restore_ == nil:
			return notFound("restores", r.Name)
		case s.restore_.ResourceVersion != r.ResourceVersion:
			return conflict("restores", r.Name)
		}
		s.restore_.Status = *r.Status.DeepCopy()
		s.restore_.ResourceVersion = s.bump()
		r.ResourceVersion = s.restore_.ResourceVersion
		if len(r.Status.Pending) > 0 && !held(s.restore_) {
			s.wrong("pods are pending without a finalizer")
		}
		if len(r.Status.Pending) > 0 && !s.marked_ && !s.meddled {
			s.wrong("pods are pending in a namespace without the label")
		}
		return nil
	})
}

func (s *sim) writeFinalizer(_ context.Context, r *api.Restore, on bool) error {
	return s.effect(fmt.Sprint("finalizer ", on), func() error {
		switch {
		case s.restore_ == nil:
			return notFound("restores", r.Name)
		case s.restore_.ResourceVersion != r.ResourceVersion:
			return conflict("restores", r.Name)
		}
		s.restore_.Finalizers = nil
		if on {
			s.restore_.Finalizers = []string{Finalizer}
		} else if len(s.restore_.Status.Pending) > 0 {
			s.wrong("the finalizer goes while pods are pending")
		}
		s.restore_.ResourceVersion = s.bump()
		r.ObjectMeta = *s.restore_.ObjectMeta.DeepCopy()
		if !on && s.restore_.DeletionTimestamp != nil {
			s.restore_ = nil
		}
		return nil
	})
}

func (s *sim) probe(_ context.Context, r *api.Restore) (probe, error) {
	return probe{refused: s.policyLooks && s.policyProbe == r.Status.Probe}, s.read()
}

func (s *sim) remove(_ context.Context, pod *corev1.Pod) error {
	return s.effect("delete "+pod.Name, func() error {
		is := s.pods_[pod.Name]
		if is == nil || is.UID != pod.UID {
			return conflict("pods", pod.Name)
		}
		s.judgeRemoval(is)
		if is.DeletionTimestamp == nil {
			s.removed[is.UID]++
			s.deleted++
			is.DeletionTimestamp = new(metav1.NewTime(s.now))
		}
		return nil
	})
}

// judgeRemoval holds against the controller what it must not delete.
func (s *sim) judgeRemoval(pod *corev1.Pod) {
	r := s.restore_
	if r == nil {
		if restoreID(pod) == "" || finished(pod) {
			s.wrong("pod %s is deleted without a Restore, and waits for none", pod.Name)
		}
		return
	}
	has := restoreID(pod) == r.Status.ID
	pending := slices.Contains(r.Status.Pending, pod.Name)
	switch {
	case r.Spec.Cancel || r.DeletionTimestamp != nil:
		if pending || !has || finished(pod) {
			s.wrong("pod %s is deleted by a cancellation: pending %v, with container %v, finished %v", pod.Name, pending, has, finished(pod))
		}
	case !pending || has:
		s.wrong("pod %s is deleted, pending %v, with its container %v", pod.Name, pending, has)
	case !(s.policyLooks && slices.Contains(s.policyKnows, pod.Name)) && !pod.CreationTimestamp.After(today):
		s.wrong("pod %s is deleted before the API server knows of the list, or looks at the namespace", pod.Name)
	}
}

func (s *sim) lift(_ context.Context, pod *corev1.Pod) error {
	return s.effect("lift "+pod.Name, func() error {
		if s.restore_ == nil {
			s.wrong("the gate of %s is lifted without a Restore", pod.Name)
			return nil
		}
		is := s.pods_[pod.Name]
		if is == nil || is.UID != pod.UID || is.ResourceVersion != pod.ResourceVersion {
			return conflict("pods", pod.Name)
		}
		running := 0
		if !slices.Contains(s.restore_.Status.Pending, pod.Name) { // it is restored
			is.Spec.SchedulingGates, is.ResourceVersion = nil, s.bump()
			return nil
		}
		for _, name := range s.restore_.Status.Pending {
			other := s.pods_[name]
			if other != nil && restoreID(other) != s.restore_.Status.ID {
				s.wrong("the gate of %s is lifted while %s runs with its old data", pod.Name, name)
			}
			if other != nil && other.DeletionTimestamp == nil && !hasGate(other) && !finished(other) {
				running++
			}
		}
		if limit := int(s.restore_.Spec.Parallel); limit > 0 && running >= limit {
			s.wrong("%d pods restore at once, and %s is let start", running, pod.Name)
		}
		if !s.policyLooks || !slices.Contains(s.policyKnows, pod.Name) {
			s.wrong("the gate of %s is lifted before the API server knows of the list, or looks at the namespace", pod.Name)
		}
		if s.restore_.Spec.Suspend {
			s.logf("lifted while suspended") // the suspension may have come after the read
		}
		is.Spec.SchedulingGates, is.ResourceVersion = nil, s.bump()
		return nil
	})
}
