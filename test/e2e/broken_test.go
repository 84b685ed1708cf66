package e2e

import (
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/patches"
)

// missingImage is on no node, and there is no registry to get it from.
const missingImage = "stategraft.invalid/missing:1"

// fresh makes a Cassandra and answers how long its database took to serve.
func fresh(ctx context.Context, e *Env, namespace string, s Setup) (*Cassandra, time.Duration, error) {
	s.NoWait = true
	c, err := e.Cassandra(ctx, namespace, s)
	if err != nil {
		return nil, 0, err
	}
	began := time.Now()
	took, err := c.served(ctx, began)
	if err != nil {
		return nil, 0, err
	}
	_, err = c.CQL(ctx, 0, "SELECT key FROM system.local")
	return c, took, err
}

// restarted deletes the pod and answers how long the database of the next one took to
// serve.
func (c *Cassandra) restarted(ctx context.Context) (time.Duration, error) {
	if err := c.e.DeletePod(ctx, c.Namespace, pod(0)); err != nil {
		return 0, err
	}
	if _, err := c.Await(ctx, time.Minute, "there again", func(*corev1.Pod) bool { return true }); err != nil {
		return 0, err
	}
	return c.served(ctx, time.Now())
}

// serves makes a Cassandra, starts it some more times, and answers how long its
// database took to serve, by the median.
func serves(ctx context.Context, e *Env, namespace string, s Setup) (*Cassandra, time.Duration, error) {
	c, first, err := fresh(ctx, e, namespace, s)
	if err != nil {
		return nil, 0, err
	}
	all := []time.Duration{first}
	for len(all) < starts {
		again, err := c.restarted(ctx)
		if err != nil {
			return nil, 0, err
		}
		all = append(all, again)
	}
	return c, median(all), nil
}

// An image of ours that cannot be pulled keeps no database from starting as fast
// as without us, and the pod is healed in place.
func TestImagesMissing(t *testing.T) {
	e, ctx := scenario(t, 15*time.Minute)
	step := stepper(t)
	_, plain, err := serves(ctx, e, "missing-none", Setup{Plain: true})
	step("serves, plain", err)
	step("gone", e.Forget(ctx))
	for _, c := range []struct {
		name        string
		annotations []string
		stuck       []string // containers
	}{
		{"agent", []string{api.AnnotationAgentImage}, []string{patches.ContainerAgent}},
		{"medusa", []string{api.AnnotationMedusaImage}, []string{patches.ContainerMedusa}},
		{"both", []string{api.AnnotationAgentImage, api.AnnotationMedusaImage}, []string{patches.ContainerAgent, patches.ContainerMedusa}},
	} {
		annotations := map[string]string{}
		for _, key := range c.annotations {
			annotations[key] = missingImage
		}
		cassandra, took, err := serves(ctx, e, "missing-"+c.name, Setup{Annotations: annotations})
		step("serves, without the image of "+c.name, err)
		within(t, c.name+": the database's way to serving", took-plain, startLimit)
		now, err := cassandra.Await(ctx, time.Minute, "told that an image is missing", func(pod *corev1.Pod) bool {
			for _, name := range c.stuck {
				if w := container(pod, name).State.Waiting; w == nil || !strings.Contains(w.Reason, "Image") {
					return false
				}
			}
			return true
		})
		step("its image is missing", err)
		if ready(now) {
			t.Errorf("%s: the pod is Ready: there is nothing to heal", c.name)
		}
		serving := cassandra.Serve(ctx)
		step("healed", cassandra.Heal(ctx, c.stuck...))
		served, err := serving()
		step("served while it was healed", err)
		figure(t, "%s: serves after %s, %s without us, medians of %d; healed, %d queries answered meanwhile",
			c.name, seconds(took), seconds(plain), starts, served.Queries)
		step("gone", e.Forget(ctx)) // so that each starts on the same machine
	}
}

// Medusa that ends at every start makes no pod unready.
func TestMedusaCrashes(t *testing.T) {
	t.Parallel()
	e, ctx := scenario(t, 10*time.Minute)
	step := stepper(t)
	// Medusa reads this file before it serves.
	c, _, err := fresh(ctx, e, "crash", Setup{Medusa: "\n[grpc]\ntls_cert = /nowhere.crt\ntls_key = /nowhere.key\nca_cert = /nowhere.ca\n"})
	step("serves", err)
	serving := c.Serve(ctx)
	_, err = c.AwaitLog(ctx, patches.ContainerMedusa, 3*time.Minute, `"wait_seconds":4`)
	step("Medusa has crashed three times", err)
	now, err := c.Await(ctx, readyLimit, "Ready", ready)
	step("Ready all the same", err)
	if s := container(now, patches.ContainerMedusa); s.RestartCount != 0 {
		t.Errorf("the sidecar was restarted %d times", s.RestartCount)
	}
	state, err := e.Exec(ctx, c.Namespace, pod(0), patches.ContainerMedusa, "", patches.AgentShared, "status")
	step("state", err)
	if !strings.Contains(state, "/nowhere.crt") {
		t.Errorf("the state does not say why: %s", state)
	}
	step("healed", c.Heal(ctx, patches.ContainerMedusa))
	served, err := serving()
	step("served throughout", err)
	figure(t, "Ready while Medusa crashes; %d queries answered, the longest gap %.1f s", served.Queries, served.Longest)
}

// A sidecar without enough memory stops no database.
func TestMedusaOutOfMemory(t *testing.T) {
	t.Parallel()
	e, ctx := scenario(t, 10*time.Minute)
	step := stepper(t)
	c, _, err := fresh(ctx, e, "memory", Setup{Annotations: map[string]string{
		api.AnnotationSidecarResources: `{"requests":{"memory":"32Mi"},"limits":{"memory":"48Mi"}}`}})
	step("serves", err)
	serving := c.Serve(ctx)
	// With cgroup v1 the kernel kills Medusa, with v2 the kubelet has it kill the
	// container as a whole.
	var restarts int32
	for deadline := time.Now().Add(patient(2 * time.Minute)); ; time.Sleep(300 * time.Millisecond) {
		now, err := e.Pod(ctx, c.Namespace, pod(0))
		if err != nil {
			t.Fatal(err)
		}
		s := container(now, patches.ContainerMedusa)
		if restarts = s.RestartCount; restarts > 0 && s.LastTerminationState.Terminated != nil {
			t.Logf("the container ended: %s %d", s.LastTerminationState.Terminated.Reason, s.LastTerminationState.Terminated.ExitCode)
			break
		}
		if strings.Contains(c.Log(ctx, patches.ContainerMedusa), "killed by signal 9") {
			t.Log("Medusa was killed, its container was not")
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the sidecar never ran out of memory:\n%s", c.Log(ctx, patches.ContainerMedusa))
		}
	}
	step("out of memory", nil)
	if restarts == 0 {
		_, err = c.Await(ctx, readyLimit, "Ready", ready)
		step("Ready all the same", err)
	}
	step("healed", c.Heal(ctx, patches.ContainerMedusa))
	served, err := serving()
	step("served throughout", err)
	figure(t, "the sidecar's container restarted %d times; %d queries answered, the longest gap %.1f s", restarts, served.Queries, served.Longest)
}
