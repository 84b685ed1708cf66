package simulated

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Play says what becomes of an ephemeral container. The zero value starts at once and
// runs for ever.
type Play struct {
	// Waits is why it does not start, as the kubelet says it (ErrImagePull); it starts
	// once it is empty.
	Waits string
	// After is how long it takes to start.
	After time.Duration
	// Runs is how long it runs; 0 for ever.
	Runs time.Duration
	// Exit and Reason are those of its end; of the kubelet's reasons where Reason is
	// empty.
	Exit   int32
	Reason string
}

// Killed ends a container with SIGKILL.
func Killed(runs time.Duration) Play { return Play{Runs: runs, Exit: 137} }

// OutOfMemory ends a container as the kernel does that has gone beyond its limit.
func OutOfMemory(runs time.Duration) Play { return Play{Runs: runs, Exit: 137, Reason: "OOMKilled"} }

// Script says what becomes of a container of a pod. It is asked again as long as the
// container has not ended, so that an image can appear, or a container be killed.
type Script func(pod *corev1.Pod, c *corev1.EphemeralContainer) Play

// container is an ephemeral container as the kubelet knows it. It is never started again.
type container struct {
	seen, from, to time.Time
	play           Play
}

// advance goes on with it.
func (c *container) advance(now time.Time, play Play) {
	if !c.to.IsZero() {
		return
	}
	c.play = play
	if c.from.IsZero() {
		if play.Waits != "" || now.Before(c.seen.Add(play.After)) {
			return
		}
		c.from = now
	}
	if play.Runs > 0 && !now.Before(c.from.Add(play.Runs)) {
		c.to = now
	}
}

// runs tells whether it runs.
func (c *container) runs() bool { return !c.from.IsZero() && c.to.IsZero() }

// status is what the kubelet writes of it.
// clock is what it takes for the time that it writes.
func (c *container) status(name, image string, clock Clock) corev1.ContainerStatus {
	s := corev1.ContainerStatus{Name: name, Image: image}
	switch {
	case !c.to.IsZero():
		reason := c.play.Reason
		if reason == "" {
			if reason = "Completed"; c.play.Exit != 0 {
				reason = "Error"
			}
		}
		s.ContainerID, s.ImageID = "simulated://"+name, image
		s.State.Terminated = &corev1.ContainerStateTerminated{ExitCode: c.play.Exit, Reason: reason, ContainerID: s.ContainerID,
			StartedAt: clock.at(c.from), FinishedAt: clock.at(c.to)}
	case !c.from.IsZero():
		s.ContainerID, s.ImageID = "simulated://"+name, image
		s.State.Running = &corev1.ContainerStateRunning{StartedAt: clock.at(c.from)}
		s.Ready = true // the kubelet's, as there is no probe
	case c.play.Waits != "":
		s.State.Waiting = &corev1.ContainerStateWaiting{Reason: c.play.Waits, Message: "simulated"}
	default:
		s.State.Waiting = &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}
	}
	return s
}

// Clock tells the time of a simulation, in which it may go faster. nil is the usual one.
type Clock func(time.Time) time.Time

// Faster goes so many times faster, from a moment on.
func Faster(from time.Time, times int) Clock {
	return func(t time.Time) time.Time { return from.Add(t.Sub(from) * time.Duration(times)) }
}

// Now is the time now.
func (c Clock) Now() time.Time { return c.at(time.Now()).Time }

func (c Clock) at(t time.Time) metav1.Time {
	if c == nil {
		return metav1.NewTime(t)
	}
	return metav1.NewTime(c(t))
}
