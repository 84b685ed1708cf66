package coverage

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stategraft/stategraft/workload"
)

// Uncovered is a pod that ought to have our containers and has none.
type Uncovered struct {
	// Pod is its name, UID, creation, controlling owner, labels, and annotations of
	// Stategraft. It is not to be changed.
	Pod    *metav1.PartialObjectMetadata
	Kind   workload.Kind
	Reason string // as of Judgement
	NoData bool   // likewise
}

// FindUncovered lists the pods that the controller of this process has found, in no
// order; none where it does not run, or not yet.
func FindUncovered() []Uncovered {
	s := exported.state.Load()
	if s == nil {
		return nil
	}
	return s.uncovered()
}

func (s *state) uncovered() (found []Uncovered) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.records {
		if r.pod != nil {
			found = append(found, *r.pod)
		}
	}
	return found
}

// uncovered is what is kept of a pod that has none, and that as it was read.
func uncovered(live *corev1.Pod, judged Judgement) *Uncovered {
	if !judged.Without {
		return nil
	}
	kept := metadata("Pod")
	kept.ObjectMeta = metav1.ObjectMeta{Name: live.Name, Namespace: live.Namespace, UID: live.UID, CreationTimestamp: live.CreationTimestamp,
		Labels: live.Labels, Annotations: ours(live.Annotations)}
	if owner := metav1.GetControllerOf(live); owner != nil {
		kept.OwnerReferences = []metav1.OwnerReference{*owner}
	}
	return &Uncovered{Pod: kept, Kind: judged.Kind, Reason: judged.Reason, NoData: judged.NoData}
}
