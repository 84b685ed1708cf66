package coverage

import (
	"encoding/json"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/adopted/adoptedtest"
)

// A pod that was adopted is covered once it bears the label. Until then it is without, for
// the reason for which it would be if nothing had begun, and the message says what has.
func TestJudgeAdopted(t *testing.T) {
	text := func(pod *corev1.Pod, labelled bool) []byte {
		pod = pod.DeepCopy()
		if !labelled {
			delete(pod.Labels, api.LabelInjected)
		}
		raw, err := json.Marshal(pod)
		if err != nil {
			t.Fatal(err)
		}
		return live(t, raw, func(p *corev1.Pod) { p.Status = pod.Status })
	}
	pair := adoptedtest.Official(t, "../..")
	waits := pair.Adopted.DeepCopy()
	s := &waits.Status.EphemeralContainerStatuses[1]
	*s = adoptedtest.Waiting(s.Name, "ImagePullBackOff", "")
	secret := pair.Adopted.DeepCopy() // the agent starts meanwhile
	s = &secret.Status.EphemeralContainerStatuses[0]
	*s = adoptedtest.Waiting(s.Name, "ContainerCreating", "")
	s = &secret.Status.EphemeralContainerStatuses[2]
	*s = adoptedtest.Waiting(s.Name, "CreateContainerConfigError", `secret "medusa-bucket-key" not found`)
	key := secret.DeepCopy()
	key.Status.EphemeralContainerStatuses[2].State.Waiting.Message = "couldn't find key credentials in Secret cassandra/medusa-bucket-key"
	starts := secret.DeepCopy()
	starts.Status.EphemeralContainerStatuses[2].State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	never := secret.DeepCopy()
	never.Annotations = map[string]string{api.AnnotationAdopt: api.AdoptNever}
	gone := pair.Adopted.DeepCopy()
	s = &gone.Status.EphemeralContainerStatuses[2]
	s.State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 137}}
	others := pair.Plain.DeepCopy()
	others.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "stategraft-medusa-1"}}}
	others.Labels[api.LabelInjected] = "cassandra"
	for name, c := range map[string]struct {
		raw     []byte
		without bool
		message string
		remedy  string
	}{
		"adopted":                     {text(pair.Adopted, true), false, "", ""},
		"not labelled yet":            {text(pair.Adopted, false), true, "its adoption has begun, and is all but through", "wait"},
		"an image is missing":         {text(waits, false), true, "container stategraft-snapshot-2 waits: ImagePullBackOff: ", "see that the nodes can pull " + pair.Adopted.Spec.EphemeralContainers[1].Image},
		"one has ended":               {text(gone, false), true, "container stategraft-medusa-3 has ended", "logs "},
		"a Secret is missing":         {text(secret, false), true, `container stategraft-medusa-3 waits: CreateContainerConfigError: secret "medusa-bucket-key" not found`, "create Secret medusa-bucket-key; the container starts by itself then"},
		"a key is missing":            {text(key, false), true, "waits: CreateContainerConfigError", "settle what the kubelet says: couldn't find key credentials in Secret cassandra/medusa-bucket-key; the container starts"},
		"it starts":                   {text(starts, false), true, "container stategraft-agent-1 does not run yet", "describe pod"},
		"never":                       {text(never, false), true, `its adoption has begun, and nobody asks for it any more: annotation stategraft.io/adopt of the pod is "never"`, "kubectl stategraft adopt"},
		"not begun":                   {text(pair.Plain, false), true, "annotation stategraft.io/adopt=running on the pod or its namespace gives it a sidecar without a restart", ""},
		"a label without containers":  {text(others, true), true, "restart StatefulSet cassandra; or annotation", ""},
		"the label is all that it is": {live(t, text(pair.Plain, false), func(p *corev1.Pod) { p.Labels[api.LabelInjected] = "cassandra" }), true, "restart", ""},
	} {
		in := input(c.raw)
		in.Namespace.Annotations = map[string]string{api.AnnotationAdopt: api.AdoptRunning}
		got := Judge(in, since)
		if (got.Remedy == "") != (c.remedy == "") || !strings.Contains(got.Remedy, c.remedy) {
			t.Errorf("%s: remedy %q", name, got.Remedy)
		}
		if got.Without != c.without || !strings.Contains(got.Message, c.message) {
			t.Errorf("%s: %+v", name, got)
		}
		if c.without && (got.Reason != ReasonWebhookWasDown || got.Kind != "cassandra") {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if got := Judge(input(text(pair.Adopted, false)), since); !strings.Contains(got.Message, "nobody asks for it any more: neither it nor its namespace has annotation stategraft.io/adopt") {
		t.Errorf("the annotation is gone: %+v", got)
	}
	for name, pair := range adoptedtest.Corpus(t, "../..") {
		if got := Judge(input(text(pair.Adopted, true)), since); got.Without {
			t.Errorf("%s, adopted: %+v", name, got)
		}
		if got := Judge(input(text(pair.Adopted, false)), since); !got.Without {
			t.Errorf("%s, not labelled yet: %+v", name, got)
		}
	}
}

// What keeps no data is not adopted, and nobody is told to.
func TestRemedyWithoutData(t *testing.T) {
	pods, _ := corpus(t)
	for name, adopts := range map[string]bool{"anna-memory": true, "anna-routing": false, "cloudburst-scheduler": false} {
		got := Judge(input(live(t, pods[name])), since)
		if !got.Without || strings.Contains(got.Message, api.AnnotationAdopt) != adopts {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
