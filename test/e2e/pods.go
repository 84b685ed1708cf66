package e2e

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Apply applies an embedded manifest to a namespace.
func (e *Env) Apply(ctx context.Context, namespace, manifest string, values map[string]string) error {
	text, err := expand("manifests/"+manifest, values)
	if err != nil {
		return err
	}
	if _, err := e.Kubectl(ctx, strings.NewReader(text), "-n", namespace, "apply", "-f", "-"); err != nil {
		return fmt.Errorf("applying %s: %w", manifest, err)
	}
	return nil
}

// RolledOut waits until a Deployment or StatefulSet has all its pods, new and
// ready.
func (e *Env) RolledOut(ctx context.Context, namespace, object string, limit time.Duration) error {
	if _, err := e.Kubectl(ctx, nil, "-n", namespace, "rollout", "status", object, fmt.Sprintf("--timeout=%ds", int(patient(limit).Seconds()))); err != nil {
		return fmt.Errorf("%w; its pods:\n%s", err, e.describe(ctx, namespace))
	}
	return nil
}

// Exec runs a command in a container and answers its trimmed standard output.
func (e *Env) Exec(ctx context.Context, namespace, pod, container, stdin string, command ...string) (string, error) {
	args := append([]string{"-n", namespace, "exec", "-i", pod, "-c", container, "--"}, command...)
	out, err := e.Kubectl(ctx, strings.NewReader(stdin), args...)
	return strings.TrimSpace(out), err
}

// Script runs an embedded Python script in a container, after the lines of head.
func (e *Env) Script(ctx context.Context, namespace, pod, container, python, script, head string, args ...string) (string, error) {
	text, err := embedded.ReadFile("scripts/" + script)
	if err != nil {
		return "", fmt.Errorf("reading %s: %w", script, err)
	}
	out, err := e.Exec(ctx, namespace, pod, container, head+string(text), append(append(strings.Fields(python), "-"), args...)...)
	if err != nil {
		return out, fmt.Errorf("%s %s: %w", script, strings.Join(args, " "), err)
	}
	return out, nil
}

// Pod reads a pod.
func (e *Env) Pod(ctx context.Context, namespace, name string) (*corev1.Pod, error) {
	return e.Client.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
}

// Await waits for something of a pod, which need not be there yet. The error says
// how it was in the end.
func (e *Env) Await(ctx context.Context, namespace, name string, limit time.Duration, what string, holds func(*corev1.Pod) bool) (*corev1.Pod, error) {
	limit = patient(limit)
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("not within %s", limit))
	defer cancel()
	for {
		pod, err := e.Pod(ctx, namespace, name)
		if err == nil && holds(pod) {
			return pod, nil
		}
		select {
		case <-ctx.Done():
			return pod, fmt.Errorf("waiting for pod %s/%s to be %s: %w\n%s", namespace, name, what, context.Cause(ctx), e.describe(context.WithoutCancel(ctx), namespace))
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// ready tells whether the pod is, and is to stay.
func ready(pod *corev1.Pod) bool {
	if pod.DeletionTimestamp != nil {
		return false
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// container answers the status of a container; zero where there is none yet.
func container(pod *corev1.Pod, name string) corev1.ContainerStatus {
	for _, s := range append(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses...) {
		if s.Name == name {
			return s
		}
	}
	return corev1.ContainerStatus{}
}

// DeletePod deletes a pod and waits until it is gone, or replaced.
func (e *Env) DeletePod(ctx context.Context, namespace, name string) error {
	pod, err := e.Pod(ctx, namespace, name)
	if err != nil {
		return err
	}
	if err := e.Client.CoreV1().Pods(namespace).Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		return err
	}
	for {
		if now, err := e.Pod(ctx, namespace, name); err != nil || now.UID != pod.UID {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for the end of pod %s: %w", name, context.Cause(ctx))
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// describe says for each container of a namespace's pods how it is.
func (e *Env) describe(ctx context.Context, namespace string) string {
	pods, err := e.Client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err.Error()
	}
	var b strings.Builder
	for _, pod := range pods.Items {
		fmt.Fprintf(&b, "pod %s: %s\n", pod.Name, pod.Status.Phase)
		for _, s := range append(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses...) {
			state := "waiting"
			switch {
			case s.State.Running != nil:
				state = "running"
			case s.State.Terminated != nil:
				state = fmt.Sprintf("ended with %d: %s", s.State.Terminated.ExitCode, s.State.Terminated.Message)
			case s.State.Waiting != nil:
				state = s.State.Waiting.Reason + " " + s.State.Waiting.Message
			}
			if last := s.LastTerminationState.Terminated; last != nil {
				state += fmt.Sprintf("; before, ended with %d: %s", last.ExitCode, last.Message)
			}
			fmt.Fprintf(&b, "  %s: ready %t, %d restarts, %s\n", s.Name, s.Ready, s.RestartCount, strings.TrimSpace(state))
		}
	}
	return b.String()
}
