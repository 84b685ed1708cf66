package coverage

import (
	"cmp"
	"fmt"
	"regexp"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/adopted"
	"github.com/stategraft/stategraft/patches"
	"github.com/stategraft/stategraft/workload"
)

// begun is a pod whose adoption has begun and which is not labelled yet.
type begun struct {
	namespace, pod string
	said           map[string]string // annotations of the pod
	above          map[string]string // and of its namespace
	parts          []adopted.Part
}

// lacks says what keeps the adoption from being through, and what settles it.
func (b *begun) lacks() (message, remedy string) {
	if why := b.unasked(); why != "" {
		return "its adoption has begun, and nobody asks for it any more: " + why,
			fmt.Sprintf("kubectl stategraft adopt -n %s pod/%s goes on with it; or delete the pod, which has it created with its sidecars", b.namespace, b.pod)
	}
	p := waitsFor(b.parts)
	if p == nil {
		return "its adoption has begun, and is all but through", "wait a moment: the controller labels it (see that it runs, the item components)"
	}
	name := p.Container.Name
	switch {
	case p.State() == adopted.Ended:
		return fmt.Sprintf("its adoption has begun, and container %s has ended (its log says why); another follows, unless there were too many by then, which the pod's events and kubectl stategraft adopt --dry-run tell: then create it anew", name),
			fmt.Sprintf("kubectl -n %s logs %s -c %s", b.namespace, b.pod, name)
	case troubled(p):
		w := p.Status.State.Waiting
		said := workload.Clip(w.Message, 300)
		return fmt.Sprintf("its adoption has begun, and container %s waits: %s: %s", name, w.Reason, said), settles(p.Container.Image, w.Reason, said)
	}
	return fmt.Sprintf("its adoption has begun, and container %s does not run yet; the events of the pod tell what it waits for", name),
		fmt.Sprintf("wait a moment; if it goes on: kubectl -n %s describe pod %s", b.namespace, b.pod)
}

// unasked says by what nobody asks for the pod's adoption, as operations/adopt.Asks has it;
// empty where somebody does.
func (b *begun) unasked() string {
	where, value, ok := "the pod", "", false
	if value, ok = b.said[api.AnnotationAdopt]; !ok {
		where = "its namespace"
		value, ok = b.above[api.AnnotationAdopt]
	}
	switch {
	case value == api.AdoptRunning:
		return ""
	case !ok:
		return "neither it nor its namespace has annotation " + api.AnnotationAdopt
	}
	return fmt.Sprintf("annotation %s of %s is %q", api.AnnotationAdopt, where, workload.Short(value))
}

// missing is what the kubelet says where a container takes variables from what is not there
// (k8s.io/kubernetes/pkg/kubelet, kubelet_pods.go makeEnvironmentVariables).
var missing = regexp.MustCompile(`^(secret|configmap) "([^"]+)" not found`)

// settles says what has a container start that waits; message is the kubelet's.
func settles(image, reason, message string) string {
	const then = "; the container starts by itself then"
	if found := missing.FindStringSubmatch(message); found != nil {
		return "create " + map[string]string{"secret": "Secret ", "configmap": "ConfigMap "}[found[1]] + found[2] + then
	}
	if reason == "CreateContainerConfigError" {
		return "settle what the kubelet says: " + message + then
	}
	if pulls.MatchString(reason) {
		return "see that the nodes can pull " + image + then
	}
	return "settle what the kubelet says: " + cmp.Or(message, reason)
}

// pulls are the reasons of a container whose image is not there.
var pulls = regexp.MustCompile(`Image|Registry`)

// troubled tells whether a part has ended, or waits for what does not come by itself.
func troubled(p *adopted.Part) bool {
	switch p.State() {
	case adopted.Ended:
		return true
	case adopted.Waiting:
		switch p.Status.State.Waiting.Reason {
		case "", "ContainerCreating", "PodInitializing":
			return false
		}
		return true
	}
	return false
}

// waitsFor is the newest part of a role that does not run, one in trouble before others; nil
// for none.
func waitsFor(parts []adopted.Part) (first *adopted.Part) {
	for _, role := range patches.Roles {
		p := adopted.Newest(parts, role)
		switch {
		case p == nil || p.State() == adopted.Running || p.Done():
		case troubled(p):
			return p
		case first == nil:
			first = p
		}
	}
	return first
}
