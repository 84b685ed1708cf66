package patches

import (
	"fmt"

	"gomodules.xyz/jsonpatch/v2"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/workload"
)

// Conflict says that the pod cannot be given what it needs, and why.
type Conflict struct {
	Reason  workload.Reason
	Message string
}

func (c *Conflict) Error() string { return string(c.Reason) + ": " + c.Message }

// AnnotationInjected tells on a pod what was grafted onto it.
const AnnotationInjected = api.Group + "/injected"

// Build makes the patch that grafts onto the pod what the settings ask for. A
// pod that has it all gets no operation. The error is a *Conflict.
func Build(pod *workload.Pod, w workload.Workload, s Settings) (*Patch, error) {
	b := &builder{pod: pod, w: w, s: s}
	b.Operations = make([]jsonpatch.Operation, 0, 16) // enough for nearly every pod
	b.Volumes = make([]Volume, 0, 8)
	b.Containers = make([]*Container, 0, 3)
	if err := squatters(pod); err != nil {
		return nil, err
	}
	b.guaranteed = guaranteed(pod)
	if b.token = mountsToken(pod); b.token {
		// Ours have no use for it. Without one of their own there, the API server
		// would also change the pod after us, and ask us again.
		b.volume(emptyVolume(VolumeNoToken))
	}
	b.ordinary = b.security()
	b.network()
	if err := b.ports(); err != nil {
		return nil, err
	}
	switch w.Kind {
	case workload.KindCassandra:
		b.cassandra()
	case workload.KindAnna, workload.KindCloudburst:
		if s.Restore != "" && !w.HoldsData() {
			return nil, &Conflict{workload.ReasonNothingToRestore, fmt.Sprintf(
				"%s (%s) keeps no data, so there is nothing to restore; take annotation %s off", w.Kind, w.Role, api.AnnotationRestore)}
		}
		b.kvs()
	}
	if err := b.restoreMatches(); err != nil {
		return nil, err
	}
	b.configMap()
	b.affinity()
	if b.conflict != nil {
		return nil, b.conflict
	}
	if s.Expose {
		b.warn(fmt.Sprintf("annotation %s is understood, but this version has no controller that makes the Services", api.AnnotationExpose))
	}
	b.emit()
	b.annotate()
	return &b.Patch, nil
}

// annotate marks the pod, unless it is marked or nothing is added.
func (b *builder) annotate() {
	if len(b.Operations) == 0 || !b.pod.HasMetadata() {
		return
	}
	if _, ok := b.pod.Metadata.Annotations[AnnotationInjected]; ok {
		return
	}
	value := string(b.w.Kind)
	if b.pod.Metadata.Annotations == nil {
		b.add("/metadata/annotations", map[string]string{AnnotationInjected: value})
		return
	}
	b.add("/metadata/annotations/"+pointer(AnnotationInjected), value)
}
