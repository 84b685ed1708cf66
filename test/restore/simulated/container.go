package simulated

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stategraft/stategraft/patches"
)

// The states of a container.
const (
	waiting = iota
	running
	ended
)

// A container that fails is started again after backoff, which doubles up to
// backoffMost: the kubelet's ten seconds and five minutes, shortened.
const (
	backoff     = 100 * time.Millisecond
	backoffMost = 1600 * time.Millisecond
)

// container is a container as the kubelet knows it.
type container struct {
	spec *corev1.Container
	init bool

	state    int
	from, to time.Time // of its present or last run
	due      time.Time // waiting: when it starts; running: when it ends by itself, zero for never
	exit     int32
	message  string
	last     *corev1.ContainerStateTerminated
	restarts int32
	failures int
	run      *run // of the restore container
}

// sidecar tells whether it is an init container that goes on running.
func (c *container) sidecar() bool {
	return c.init && c.spec.RestartPolicy != nil && *c.spec.RestartPolicy == corev1.ContainerRestartPolicyAlways
}

func (c *container) restores() bool { return c.init && c.spec.Name == patches.ContainerRestore }

// done tells whether what comes after it may start.
func (c *container) done() bool {
	return c.state == ended && c.exit == 0 || c.sidecar() && c.state == running
}

func (c *container) start(now time.Time) {
	if c.state == ended || c.last != nil {
		c.restarts++
	}
	c.state, c.from, c.to, c.due, c.message = running, now, time.Time{}, time.Time{}, ""
}

// end ends it; a failure has it started again later.
func (c *container) end(now time.Time, exit int32, message string) {
	c.state, c.to, c.exit, c.message, c.run = ended, now, exit, message, nil
	t := c.terminated()
	c.last = &t
	if exit != 0 {
		c.failures++
		c.due = now.Add(min(backoff<<(c.failures-1), backoffMost))
	}
}

// again has it start once more, as after the end of the node.
func (c *container) again(now time.Time) {
	if c.state == running {
		c.end(now, 137, "")
	}
	c.state, c.due, c.run = waiting, now, nil
}

func (c *container) terminated() corev1.ContainerStateTerminated {
	reason := "Completed"
	if c.exit != 0 {
		reason = "Error"
	}
	return corev1.ContainerStateTerminated{ExitCode: c.exit, Reason: reason, Message: c.message,
		StartedAt: metav1.NewTime(c.from), FinishedAt: metav1.NewTime(c.to), ContainerID: c.id()}
}

func (c *container) id() string {
	return "simulated://" + c.spec.Name + c.from.Format("-150405.000000")
}

// status is what the kubelet writes of it.
func (c *container) status(now time.Time, ready bool) corev1.ContainerStatus {
	s := corev1.ContainerStatus{Name: c.spec.Name, Image: c.spec.Image, RestartCount: c.restarts, Started: new(c.state == running)}
	switch {
	case c.state == running:
		s.ContainerID, s.ImageID = c.id(), c.spec.Image
		s.State.Running = &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(c.from)}
		s.Ready = !c.init && ready
	case c.state == ended && (c.exit == 0 || c.due.Sub(now) > c.due.Sub(c.to)/2):
		s.ContainerID, s.ImageID = c.id(), c.spec.Image
		s.State.Terminated = new(c.terminated())
		s.Ready = c.init && c.exit == 0
	case c.state == ended:
		s.State.Waiting = &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff", Message: "back-off restarting failed container " + c.spec.Name}
	default:
		s.State.Waiting = &corev1.ContainerStateWaiting{Reason: "PodInitializing"}
	}
	if c.last != nil && (c.state != ended || s.State.Terminated == nil) {
		s.LastTerminationState.Terminated = c.last
	}
	return s
}
