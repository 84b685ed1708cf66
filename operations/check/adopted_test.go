package check

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/adopted"
	"github.com/stategraft/stategraft/operations/adopted/adoptedtest"
)

// Every item says of an adopted pod what it says of an injected one.
func TestAdoptedIsSweptAsInjected(t *testing.T) {
	for name, pair := range adoptedtest.Corpus(t, "../..") {
		ns := &corev1.Namespace{}
		ns.Labels = map[string]string{labelEnforce: levelRestricted}
		c, _ := stand()
		was, is := swept(), swept()
		for _, pod := range []*corev1.Pod{pair.Injected, pair.Adopted} {
			if !isInjected(pod) {
				t.Errorf("%s: is not taken for one of ours", name)
			}
		}
		was.add(c, ns, pair.Injected)
		is.add(c, ns, pair.Adopted)
		if is.adopted[pair.Adopted.Namespace+"/"+pair.Adopted.Name] == "" || len(was.adopted) > 0 {
			t.Errorf("%s: adopted %v, injected %v", name, is.adopted, was.adopted)
		}
		if len(is.containers)+len(is.unfollowed) > 0 || len(was.containers) > 0 {
			t.Errorf("%s: %+v", name, is.containers)
		}
		if len(is.security) != len(was.security) && !strings.Contains(name, "anna") { // of Anna an injected one may own the volume as root
			t.Errorf("%s: %+v; injected %+v", name, is.security, was.security)
		}
		for at, use := range was.references {
			if is.references[at].lost != use.lost && !(use.key == api.AnnotationConfigMap && pair.Workload.Kind == "cassandra") {
				t.Errorf("%s: lacks %+v", name, at)
			}
		}
		for at := range is.references {
			if _, ok := was.references[at]; !ok {
				t.Errorf("%s: takes %+v", name, at)
			}
		}
		if len(is.rings) != len(was.rings) || len(is.agents) != 1 || is.agents[first(was.agents)] != 1 || is.injected() != 1 ||
			len(is.mutual) != len(was.mutual) || len(is.backedUp) != len(was.backedUp) {
			t.Errorf("%s: %+v\ninjected: %+v", name, is, was)
		}
		delete(pair.Adopted.Labels, api.LabelInjected)
		if isInjected(pair.Adopted) {
			t.Errorf("%s: is taken for adopted without its label", name)
		}
	}
}

func first(counts map[string]int) string {
	for key := range counts {
		return key
	}
	return ""
}

// What is wrong with a container that adoption has added is said of it by its own name.
func TestAdoptedContainers(t *testing.T) {
	over := adoptedtest.Ended("", 137)
	over.State.Terminated.Reason = "OOMKilled"
	for what, c := range map[string]struct {
		of     string
		status corev1.ContainerStatus
		want   []string
		remedy string
	}{
		"well":              {"medusa-3", adoptedtest.Running(""), nil, ""},
		"ended":             {"medusa-3", over, []string{"warn cassandra/cassandra-0: container stategraft-medusa-3, which was added while the pod ran, has ended, and the pod is not backed up: OOMKilled (status 137)"}, "logs cassandra-0 -c stategraft-medusa-3"},
		"image is missing":  {"snapshot-2", adoptedtest.Waiting("", "ImagePullBackOff", "because"), []string{"fail cassandra/cassandra-0: container stategraft-snapshot-2: ImagePullBackOff: because"}, "see that the nodes can pull"},
		"Secret is missing": {"medusa-3", adoptedtest.Waiting("", "CreateContainerConfigError", `secret "bucket" not found`), []string{"fail cassandra/cassandra-0: container stategraft-medusa-3, which was added while the pod ran, waits: secret \"bucket\" not found"}, "starts by itself"},
		"cannot start":      {"medusa-3", adoptedtest.Waiting("", "RunContainerError", "no"), []string{"fail cassandra/cassandra-0: container stategraft-medusa-3: RunContainerError: no"}, "logs cassandra-0 -c stategraft-medusa-3"},
		"being created":     {"medusa-3", adoptedtest.Waiting("", "ContainerCreating", ""), nil, ""},
		"agent was killed":  {"agent-1", over, []string{"warn cassandra/cassandra-0: container stategraft-agent-1"}, "agent-1"},
	} {
		pod := adoptedtest.Official(t, "../..").Adopted
		pod.Namespace, pod.Name = "cassandra", "cassandra-0"
		for i := range pod.Status.EphemeralContainerStatuses {
			if s := &pod.Status.EphemeralContainerStatuses[i]; s.Name == "stategraft-"+c.of {
				c.status.Name = s.Name
				*s = c.status
			}
		}
		got := judgeContainers(adopted.View(pod), noon)
		expect(t, what, got, c.want...)
		if len(got) > 0 && !strings.Contains(got[0].Remedy, c.remedy) {
			t.Errorf("%s: remedy %q", what, got[0].Remedy)
		}
		if len(got) > 0 && strings.Contains(got[0].Remedy, "--previous") {
			t.Errorf("%s: asks for the log of a container before, which there is none of: %q", what, got[0].Remedy)
		}
	}
}
