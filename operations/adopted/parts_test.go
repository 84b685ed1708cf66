package adopted_test

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/stategraft/stategraft/operations/adopted"
	"github.com/stategraft/stategraft/operations/adopted/adoptedtest"
	"github.com/stategraft/stategraft/patches"
)

// again puts the containers of another round on a pod, with numbers from first on, and the
// statuses that there are of them.
func again(pod *corev1.Pod, first string, statuses ...corev1.ContainerStatus) *corev1.Pod {
	pod = pod.DeepCopy()
	for _, c := range slices.Clone(pod.Spec.EphemeralContainers) {
		c = *c.DeepCopy()
		role, number, _ := strings.Cut(strings.TrimPrefix(c.Name, "stategraft-"), "-")
		next := string(number[0] + first[0] - '1')
		c.Name = "stategraft-" + role + "-" + next
		for i := range c.Env {
			if c.Env[i].Name == patches.EnvAdopted {
				c.Env[i].Value = next
			}
		}
		pod.Spec.EphemeralContainers = append(pod.Spec.EphemeralContainers, c)
	}
	pod.Status.EphemeralContainerStatuses = append(pod.Status.EphemeralContainerStatuses, statuses...)
	return pod
}

func TestViewTakesWhatServes(t *testing.T) {
	pod := adoptedtest.Official(t, repo).Adopted // agent-1, snapshot-2, medusa-3
	running, ended, waiting := adoptedtest.Running, adoptedtest.Ended, adoptedtest.Waiting
	status := func(pod *corev1.Pod, name string, s corev1.ContainerStatus) *corev1.Pod {
		pod = pod.DeepCopy()
		for i := range pod.Status.EphemeralContainerStatuses {
			if pod.Status.EphemeralContainerStatuses[i].Name == name {
				s.Name = name
				pod.Status.EphemeralContainerStatuses[i] = s
			}
		}
		return pod
	}
	for name, c := range map[string]struct {
		pod      *corev1.Pod
		agent    string // the container in the view
		medusa   string
		runs     bool // Medusa's
		ready    bool // the agent's
		restarts int32
	}{
		"all through":                         {pod, "stategraft-agent-1", "stategraft-medusa-3", true, true, 0},
		"nothing was heard of it":             {status(pod, "stategraft-medusa-3", corev1.ContainerStatus{}), "stategraft-agent-1", "stategraft-medusa-3", false, true, 0},
		"it waits":                            {status(pod, "stategraft-medusa-3", waiting("", "ImagePullBackOff", "")), "stategraft-agent-1", "stategraft-medusa-3", false, true, 0},
		"the agent was killed":                {status(pod, "stategraft-agent-1", ended("", 137)), "stategraft-agent-1", "stategraft-medusa-3", true, false, 0},
		"the agent waits for the others":      {status(pod, "stategraft-agent-1", running("")), "stategraft-agent-1", "stategraft-medusa-3", true, true, 0},
		"another is on its way":               {again(pod, "4", waiting("stategraft-medusa-6", "ContainerCreating", "")), "stategraft-agent-1", "stategraft-medusa-3", true, true, 0},
		"another is there":                    {again(pod, "4", running("stategraft-agent-4"), running("stategraft-medusa-6")), "stategraft-agent-4", "stategraft-medusa-6", true, true, 1},
		"another has ended, and the first":    {again(status(pod, "stategraft-medusa-3", ended("", 0)), "4", ended("stategraft-medusa-6", 1)), "stategraft-agent-1", "stategraft-medusa-6", false, true, 1},
		"another has ended, the first serves": {again(pod, "4", ended("stategraft-medusa-6", 1)), "stategraft-agent-1", "stategraft-medusa-3", true, true, 0},
	} {
		view := adopted.View(c.pod)
		if got := adopted.Name(view, patches.ContainerAgent); got != c.agent {
			t.Errorf("%s: the agent is %s", name, got)
		}
		if got := adopted.Name(view, patches.ContainerMedusa); got != c.medusa {
			t.Errorf("%s: Medusa is %s", name, got)
		}
		if got := runs(view, patches.ContainerMedusa); got != c.runs {
			t.Errorf("%s: Medusa runs %v", name, got)
		}
		if got := runs(view, patches.ContainerAgent); got != c.ready {
			t.Errorf("%s: the agent is ready %v", name, got)
		}
		for _, s := range view.Status.ContainerStatuses {
			if s.Name == patches.ContainerMedusa && s.RestartCount != c.restarts {
				t.Errorf("%s: Medusa was started again %d times", name, s.RestartCount)
			}
		}
		if len(view.Spec.Containers) != len(c.pod.Spec.Containers)+3 {
			t.Errorf("%s: %d containers in the view", name, len(view.Spec.Containers))
		}
	}
}

// The view is the pod itself where there is nothing of ours, or all of it.
func TestViewOfOthers(t *testing.T) {
	pair := adoptedtest.Official(t, repo)
	debugger := pair.Plain.DeepCopy()
	debugger.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "debugger-x"}},
		{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "stategraft-medusa-1"}}}
	both := pair.Injected.DeepCopy()
	both.Spec.EphemeralContainers = pair.Adopted.Spec.EphemeralContainers
	for name, pod := range map[string]*corev1.Pod{"without us": pair.Plain, "injected": pair.Injected, "with a debugger's, and one of our name": debugger, "injected and adopted": both} {
		if adopted.View(pod) != pod {
			t.Errorf("%s: the view is another pod", name)
		}
	}
	if name := adopted.Name(pair.Injected, patches.ContainerMedusa); name != patches.ContainerMedusa {
		t.Errorf("of an injected pod: %s", name)
	}
}

// Kept with their stubs, the containers of a view keep their names, and are no less a view.
func TestStubs(t *testing.T) {
	view := adopted.View(adoptedtest.Official(t, repo).Adopted)
	kept := &corev1.Pod{}
	kept.Spec.Containers = view.Spec.Containers
	kept.Spec.EphemeralContainers = adopted.Stubs(view, patches.RoleAgent, patches.RoleMedusa)
	if name := adopted.Name(kept, patches.ContainerMedusa); name != "stategraft-medusa-3" {
		t.Errorf("Medusa is %s", name)
	}
	if !adopted.Is(kept) || adopted.View(kept) != kept || len(kept.Spec.EphemeralContainers) != 2 {
		t.Errorf("kept: %+v", kept.Spec.EphemeralContainers)
	}
	for _, c := range kept.Spec.EphemeralContainers {
		if len(c.Env) != 1 || c.Image != "" {
			t.Errorf("kept of %s: %+v", c.Name, c)
		}
	}
}

// What the database's container mounts by subPath an adopted one cannot have; a pod that is
// made after it can, and has to.
func TestViewMountsBySubPath(t *testing.T) {
	plain := adoptedtest.Official(t, repo).Plain.DeepCopy()
	plain.Spec.Volumes = append(plain.Spec.Volumes, corev1.Volume{Name: "logs"})
	c := &plain.Spec.Containers[0]
	c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: "logs", MountPath: "/var/lib/commitlog", SubPath: "commitlog"})
	c.Env = append(c.Env, corev1.EnvVar{Name: "CASSANDRA_COMMITLOG_DIRECTORY", Value: "/var/lib/commitlog"})
	pair, ok := adoptedtest.Make(t, plain)
	if !ok {
		t.Fatal("it is not adopted")
	}
	want := "logs /var/lib/commitlog commitlog"
	found := func(pod *corev1.Pod) bool {
		c := container(pod, patches.ContainerMedusa)
		return slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return m.Name+" "+m.MountPath+" "+m.SubPath == want && m.ReadOnly })
	}
	if !found(pair.Injected) {
		t.Fatalf("an injected Medusa has no such mount: %+v", container(pair.Injected, patches.ContainerMedusa).VolumeMounts)
	}
	if !found(adopted.View(pair.Adopted)) {
		t.Errorf("the view's Medusa has %+v", container(adopted.View(pair.Adopted), patches.ContainerMedusa).VolumeMounts)
	}
}
