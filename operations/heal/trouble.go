package heal

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/workload"
)

// unusable are the reasons for which a container waits that say that none can be
// made of its image as it is specified (k8s.io/kubernetes pkg/kubelet/images/types.go,
// pkg/kubelet/kuberuntime/kuberuntime_container.go, pkg/kubelet/container/sync_result.go,
// k8s.io/cri-api/pkg/errors). The others are ContainerCreating, PodInitializing and
// CrashLoopBackOff.
var unusable = map[string]bool{
	"ErrImagePull": true, "ImagePullBackOff": true, "ErrImageNeverPull": true, "InvalidImageName": true,
	"ImageInspectError": true, "RegistryUnavailable": true, "SignatureValidationFailed": true,
	"CreateContainerConfigError": true, "CreateContainerError": true, "PreCreateHookError": true,
	"PreStartHookError": true, "PostStartHookError": true, "RunContainerError": true,
}

const (
	// manyRestarts are enough to call it a loop.
	manyRestarts = 3
	// steadyAfter is how long a container has to run until an earlier end says
	// nothing any more. The kubelet forgets its back-off then, too
	// (pkg/kubelet/kubelet.go: 600 s).
	steadyAfter = 10 * time.Minute
)

// trouble is what is wrong with one container.
type trouble struct {
	part
	cause api.Cause
	text  string // what the kubelet says of it
}

// troubleOf looks at a container's status as it is now. A container that ended
// and runs again has no trouble: see steady.
func troubleOf(p part) (trouble, bool) {
	s := p.status
	switch w := s.State.Waiting; {
	case w != nil && unusable[w.Reason]:
		return trouble{p, api.CauseImagePull, said(w.Reason, w.Message)}, true
	case s.RestartCount == 0: // to end once is no trouble
		return trouble{}, false
	case w != nil && w.Reason == "CrashLoopBackOff":
		cause, text := ended(s.LastTerminationState.Terminated)
		return trouble{p, cause, text}, true
	case s.State.Terminated != nil: // between its end and the back-off
		cause, text := ended(s.State.Terminated)
		return trouble{p, cause, text}, true
	}
	return trouble{}, false
}

// ended tells why a container ended.
func ended(t *corev1.ContainerStateTerminated) (api.Cause, string) {
	switch {
	case t == nil:
		return api.CauseCrashLoop, "it ends at every start"
	case t.Reason == "OOMKilled":
		return api.CauseOutOfMemory, "OOMKilled"
	// A shell that the image does not have, or not for this machine (containerd,
	// internal/cri/server/container_start.go; the other is Docker's): the image's fault.
	case t.Reason == "StartError" || t.Reason == "ContainerCannotRun":
		return api.CauseImagePull, said(t.Reason, t.Message)
	}
	// What the container itself wrote on its end is for its log alone.
	return api.CauseCrashLoop, fmt.Sprintf("%s, exit code %d", said(t.Reason, ""), t.ExitCode)
}

// said joins what the kubelet says, without line ends and not too long: it goes
// into events, conditions and the ConfigMap.
func said(reason, message string) string {
	if message = strings.Join(strings.Fields(message), " "); message != "" {
		reason += ": " + message
	}
	return workload.Clip(workload.Printable(reason), 200)
}

// looping tells whether the trouble has come often enough. An image that cannot
// be used once cannot be used, until somebody does something.
func (t trouble) looping() bool {
	return t.cause == api.CauseImagePull || t.status.RestartCount >= manyRestarts
}

// steady tells when what ended lately will have run for long enough; zero where
// nothing did.
func steady(all []part) (at time.Time) {
	for _, p := range all {
		r := p.status.State.Running
		if !p.own || r == nil || p.status.LastTerminationState.Terminated == nil {
			continue
		}
		if t := r.StartedAt.Add(steadyAfter); t.After(at) {
			at = t
		}
	}
	return at
}

// reasonOf is the word of the condition for a cause.
func reasonOf(cause api.Cause) string {
	switch cause {
	case api.CauseImagePull:
		return api.DegradedImagePull
	case api.CauseOutOfMemory:
		return api.DegradedOutOfMemory
	}
	return api.DegradedCrashLoop
}
