package patches

import (
	"fmt"
	"strings"

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

// AnnotationInjected tells on a pod what was grafted onto it. The label of the
// same name is for those who select pods.
const AnnotationInjected = api.LabelInjected

// AnnotationConfigStarted stands on a pod with a ConfigMap of its database's: what was in
// that when the database was started, as a digest, and of which pod that is said. The
// controller writes it (operations/cycle).
const AnnotationConfigStarted = api.Group + "/config-started"

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
	if err := impossible(pod, &w, &s.Order); err != nil {
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
		if s.Restore != "" && !s.Order.Pending && manySources(s.RestoreSource) {
			return nil, &Conflict{workload.ReasonBadAnnotation, fmt.Sprintf(
				"annotation %s is %q: a node of Cassandra takes the data of one node; name it", api.AnnotationRestoreSource, workload.Short(s.RestoreSource))}
		}
		b.cassandra()
	case workload.KindAnna, workload.KindCloudburst:
		if s.Restores() && !w.HoldsData() {
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
	b.emit()
	b.mark()
	return &b.Patch, nil
}

// manySources tells whether a source stands for more than one node of the backup.
func manySources(text string) bool { return text == AnySource || strings.Contains(text, ",") }

// mark labels the pod, for all who select pods, and annotates it, unless nothing
// is added. Of a pod that is annotated, a label that a later webhook took off comes
// back, as any part does.
func (b *builder) mark() {
	_, annotated := b.pod.Metadata.Annotations[AnnotationInjected]
	if !b.pod.HasMetadata() || len(b.Operations) == 0 && !annotated {
		return
	}
	b.member("/metadata/labels", pathLabel, api.LabelInjected, b.pod.Metadata.Labels)
	b.member("/metadata/annotations", pathAnnotation, AnnotationInjected, b.pod.Metadata.Annotations)
}

var (
	pathLabel      = "/metadata/labels/" + pointer(api.LabelInjected)
	pathAnnotation = "/metadata/annotations/" + pointer(AnnotationInjected)
)

// member adds a key with the kind for its value to an object of strings, where it
// has none, or the object where there is none.
func (b *builder) member(object, path, key string, have map[string]string) {
	if _, ok := have[key]; ok {
		return
	}
	if have == nil {
		b.add(object, map[string]string{key: string(b.w.Kind)})
		return
	}
	b.add(path, string(b.w.Kind))
}
