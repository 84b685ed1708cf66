package check

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/adopted"
	"github.com/stategraft/stategraft/patches"
	"github.com/stategraft/stategraft/workload"
)

// Of containers that end and start again: how often counts as again and again,
// and how long ago the last end may be.
const (
	restartsMany   = 3
	restartsRecent = 15 * time.Minute
)

// waitingWell are the reasons of a container that is about to start.
var waitingWell = []string{"", "PodInitializing", "ContainerCreating"}

func lookContainers(ctx context.Context, c *Cluster) []Finding {
	s, err := c.sweep(ctx)
	if err != nil {
		return skipped(err)
	}
	return s.say(s.containers, "%s", counted(s.injected(), "injected pod", "none with a container of ours in trouble"))
}

// judgeContainers finds containers of ours that fail, or idle in an image that
// is not theirs. The pod is Ready in the second case, and has no backup. Of one that was
// adopted it takes the view.
func judgeContainers(pod *corev1.Pod, now time.Time) []Finding {
	name := pod.Namespace + "/" + pod.Name
	var findings []Finding
	images := userImages(pod)
	statuses := slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses)
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		if !workload.Own(c.Name) {
			continue
		}
		at := slices.IndexFunc(statuses, func(s corev1.ContainerStatus) bool { return s.Name == c.Name })
		if at >= 0 {
			s := statuses[at]
			if s.Name = adopted.Name(pod, c.Name); s.Name != c.Name {
				findings = append(findings, judgeAdopted(name, c.Image, &s)...)
				continue
			}
			if f, bad := judgeStatus(name, c.Image, &s, now); bad {
				findings = append(findings, f)
				continue
			}
		}
		if idles(c.Name, slices.Contains(images, c.Image)) {
			findings = append(findings, finding(Fail, name, "container %s idles in image %s, which is not its own (healed): the pod is Ready and is not backed up", c.Name, c.Image).
				With("settle why its own image did not run (%s), then delete the pod", imagesOf(pod)))
		}
	}
	if len(findings) == 0 {
		if d := podCondition(pod, api.ConditionDegraded); d != nil && d.Status == corev1.ConditionTrue {
			findings = append(findings, finding(Fail, name, "is degraded (%s): %s", d.Reason, d.Message).
				With("kubectl -n %s describe pod %s", pod.Namespace, pod.Name))
		}
	}
	if f, bad := judgePending(pod); bad {
		findings = append(findings, f)
	}
	return findings
}

// idles tells whether a container was given an image to idle in: another's, and
// to the snapshot server, whose own is the database's, any but that.
func idles(name string, usersImage bool) bool {
	switch name {
	case patches.ContainerAgent, patches.ContainerMedusa:
		return usersImage
	case patches.ContainerSnapshot:
		return !usersImage
	}
	return false
}

// imagesOf says where the images are named.
func imagesOf(pod *corev1.Pod) string {
	return fmt.Sprintf("kubectl -n %s get events --field-selector involvedObject.name=%s", pod.Namespace, pod.Name)
}

// userImages are the images of the containers that are not ours.
func userImages(pod *corev1.Pod) []string {
	var images []string
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		if !workload.Own(c.Name) {
			images = append(images, c.Image)
		}
	}
	return images
}

// judgeStatus judges one of our containers by its status.
func judgeStatus(pod, image string, s *corev1.ContainerStatus, now time.Time) (Finding, bool) {
	if w := s.State.Waiting; w != nil && !slices.Contains(waitingWell, w.Reason) {
		f := finding(Fail, pod, "container %s: %s: %s", s.Name, w.Reason, w.Message)
		switch w.Reason {
		case "ImagePullBackOff", "ErrImagePull", "InvalidImageName", "ErrImageNeverPull", "RegistryUnavailable", "ImageInspectError":
			return f.With("see that the nodes can pull %s, or name another image (annotations %s, %s)", image, api.AnnotationMedusaImage, api.AnnotationAgentImage), true
		case "CrashLoopBackOff":
			if ended := s.LastTerminationState.Terminated; ended != nil {
				f = finding(Fail, pod, "container %s ends again and again: %s", s.Name, ending(ended))
			}
		}
		return f.With("%s", logs(pod, s.Name)), true
	}
	ended := s.LastTerminationState.Terminated
	if ended == nil || s.RestartCount < restartsMany || now.Sub(ended.FinishedAt.Time) > restartsRecent {
		return Finding{}, false
	}
	f := finding(Warn, pod, "container %s was started %d times, the last time it ended %s ago: %s", s.Name, s.RestartCount, days(now.Sub(ended.FinishedAt.Time)), ending(ended))
	if ended.Reason == "OOMKilled" {
		return f.With("give it more memory: annotation %s", api.AnnotationSidecarResources), true
	}
	return f.With("%s", logs(pod, s.Name)), true
}

// judgeAdopted judges a container that adoption has put on a pod. It keeps the pod from
// nothing, and is followed by another when it has ended.
func judgeAdopted(pod, image string, s *corev1.ContainerStatus) []Finding {
	if ended := s.State.Terminated; ended != nil {
		namespace, name, _ := strings.Cut(pod, "/")
		return []Finding{finding(Warn, pod, "container %s, which was added while the pod ran, has ended, and the pod is not backed up: %s", s.Name, ending(ended)).
			With("the controller adds another, a few times a day; if it does not: kubectl -n %s logs %s -c %s", namespace, name, s.Name)}
	}
	if w := s.State.Waiting; w != nil && w.Reason == "CreateContainerConfigError" {
		return []Finding{finding(Fail, pod, "container %s, which was added while the pod ran, waits: %s", s.Name, w.Message).
			With("create what it names; the container starts by itself then")}
	}
	if f, bad := judgeStatus(pod, image, s, time.Time{}); bad {
		f.Remedy = strings.TrimSuffix(f.Remedy, " --previous") // it runs once
		return []Finding{f}
	}
	return nil
}

func ending(s *corev1.ContainerStateTerminated) string {
	return strings.TrimSpace(fmt.Sprintf("%s (status %d) %s", s.Reason, s.ExitCode, s.Message))
}

func logs(pod, container string) string {
	namespace, name, _ := strings.Cut(pod, "/")
	return fmt.Sprintf("kubectl -n %s logs %s -c %s --previous", namespace, name, container)
}

// judgePending tells that an injected pod finds no node, and what of its requests
// is ours.
func judgePending(pod *corev1.Pod) (Finding, bool) {
	scheduled := podCondition(pod, corev1.PodScheduled)
	if scheduled == nil || scheduled.Status != corev1.ConditionFalse || scheduled.Reason != corev1.PodReasonUnschedulable ||
		!strings.Contains(scheduled.Message, "Insufficient") {
		return Finding{}, false
	}
	var cpu, memory resource.Quantity
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		if workload.Own(c.Name) {
			cpu.Add(c.Resources.Requests[corev1.ResourceCPU])
			memory.Add(c.Resources.Requests[corev1.ResourceMemory])
		}
	}
	return finding(Warn, pod.Namespace+"/"+pod.Name, "finds no node; Stategraft's part of what it asks for is %s CPU and %s memory: %s", cpu.String(), memory.String(), scheduled.Message).
		With("make room, or lower %s; the pod is healed after a deadline if it fits without Stategraft", api.AnnotationSidecarResources), true
}
