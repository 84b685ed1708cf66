package e2e

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/patches"
	"github.com/stategraft/stategraft/test/cluster"
)

// fault is something that happens to a restore of a pod.
type fault struct {
	name   string
	happen func(ctx context.Context, c *Cassandra, restore string) error
}

// Whatever is killed, restarted or down while a pod is restored: its rows are back
// at the end without help, and it was restored once.
func TestRestoreExactlyOnce(t *testing.T) {
	e, ctx := restoring(t, 40*time.Minute)
	step := stepper(t)
	c, err := e.Cassandra(ctx, "once", Setup{}) // about ten seconds to download
	step("ready", err)
	step("written", c.WriteLarge(ctx, "e2e", 1, 0, 1000, 2500))
	before, err := c.Read(ctx, "e2e")
	step("read", err)
	step("backed up", c.backups(ctx, "e2e-000001", 1))
	all := faults()
	for i, f := range all {
		step("written after that", c.Write(ctx, "e2e", 1, 1000, 100))
		name := fmt.Sprintf("r%02d", i)
		asked := time.Now()
		step("asked", c.Asked(ctx, name, api.RestoreSpec{Backup: "e2e-000001", Pods: c.Of(0)}))
		if err := f.happen(ctx, c, name); err != nil {
			t.Fatalf("%s: %v", f.name, err)
		}
		r, err := c.Restored(ctx, name, 6*time.Minute)
		if err != nil {
			t.Fatalf("%s: %v", f.name, err)
		}
		after, err := c.Read(ctx, "e2e")
		if err != nil || after != before {
			t.Errorf("%s: restored %+v, want %+v (%v)", f.name, after, before, err)
		}
		if err := c.Once(r, 0); err != nil {
			t.Errorf("%s: %v", f.name, err)
		}
		if done, err := c.Memory(0); err != nil || len(done) != i+1 {
			t.Errorf("%s: the volume remembers %d restores, want %d (%v)", f.name, len(done), i+1, err)
		}
		t.Logf("%s: Ready after %s", f.name, time.Since(asked).Round(time.Second))
	}
	figure(t, "%d faults: %d rows back each time, %d markers, one of each", len(all), before.Count, len(all))
}

// faults are the crash of the controller after each of its steps, and of all else
// that takes part.
func faults() []fault {
	phase := func(p api.RestorePhase) func(*api.Restore) bool {
		return func(r *api.Restore) bool { return r.Status.Phase == p }
	}
	crash := func(name string, after func(*api.Restore) bool) fault {
		return fault{"controller killed: " + name, func(ctx context.Context, c *Cassandra, restore string) error {
			if _, err := c.Until(ctx, restore, time.Minute, name, after); err != nil {
				return err
			}
			return errors.Join(c.e.Controller.Kill(), c.e.Controller.Start(ctx))
		}}
	}
	at := func(phases ...api.PodPhase) func(*api.Restore) bool {
		return func(r *api.Restore) bool {
			for _, p := range r.Status.Pods {
				for _, want := range phases {
					if p.Phase == want {
						return true
					}
				}
			}
			return r.Status.Phase == api.RestoreCompleted
		}
	}
	return []fault{
		{"controller killed: at once", func(ctx context.Context, c *Cassandra, _ string) error {
			return errors.Join(c.e.Controller.Kill(), c.e.Controller.Start(ctx))
		}},
		crash("accepted", func(r *api.Restore) bool { return len(r.Status.Pods) > 0 }),
		crash("pending written", func(r *api.Restore) bool { return len(r.Status.Pending) > 0 }),
		crash("pod deleted", phase(api.RestoreRestoring)),
		crash("waiting", at(api.PodWaiting, api.PodRestoring, api.PodRestored)),
		crash("restoring", at(api.PodRestoring, api.PodRestored)),
		crash("completed", phase(api.RestoreCompleted)),
		{"controller down while the container restores", func(ctx context.Context, c *Cassandra, _ string) error {
			if _, err := c.restoreRuns(ctx, 0, 2*time.Minute); err != nil {
				return err
			}
			if err := c.e.Controller.Kill(); err != nil {
				return err
			}
			_, err := c.Await(ctx, 3*time.Minute, "restored", func(pod *corev1.Pod) bool { return restoreContainer(pod).State.Terminated != nil })
			return errors.Join(err, c.e.Controller.Start(ctx))
		}},
		killed("at its start", ""),
		killed("while it downloads", `"restoring"`),
		{"pod deleted by hand", func(ctx context.Context, c *Cassandra, _ string) error {
			if _, err := c.restoreRuns(ctx, 0, 2*time.Minute); err != nil {
				return err
			}
			return c.e.DeletePod(ctx, c.Namespace, c.Pod(0))
		}},
		restarted(cluster.Kubelet), restarted(cluster.APIServer),
		{"webhook down while the pod comes back", func(ctx context.Context, c *Cassandra, restore string) error {
			_, err := c.Until(ctx, restore, time.Minute, "stopping", func(r *api.Restore) bool { return len(r.Status.Pending) > 0 })
			if err := errors.Join(err, c.e.Webhook.Kill()); err != nil {
				return err
			}
			time.Sleep(20 * time.Second)
			return c.e.Webhook.Start(ctx)
		}},
	}
}

// killed kills the restore container once it has written a text.
func killed(when, text string) fault {
	return fault{"restore container killed " + when, func(ctx context.Context, c *Cassandra, _ string) error {
		pod, err := c.restoreRuns(ctx, 0, 2*time.Minute)
		if err == nil && text != "" {
			_, err = c.AwaitLog(ctx, patches.ContainerRestore, time.Minute, text)
		}
		if err != nil {
			return err
		}
		return cluster.KillContainer(restoreContainer(pod).ContainerID)
	}}
}

// restarted restarts a component while the pod is restored.
func restarted(component string) fault {
	return fault{component + " restarted", func(ctx context.Context, c *Cassandra, _ string) error {
		if _, err := c.restoreRuns(ctx, 0, 2*time.Minute); err != nil {
			return err
		}
		return c.e.Restart(ctx, component)
	}}
}
