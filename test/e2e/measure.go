package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stategraft/stategraft/test/cluster"
)

// Cycle is a pod's end and its successor's start.
type Cycle struct {
	Deleted  time.Duration // from the request to its end
	Database time.Duration // from the admission to the database's container ready
	Ready    time.Duration // from the admission to the pod Ready
}

// Cycle deletes the first pod and waits until the one that replaces it is Ready.
func (c *Cassandra) Cycle(ctx context.Context) (cycle Cycle, err error) {
	old, err := c.e.Pod(ctx, c.Namespace, c.Pod(0))
	if err != nil {
		return cycle, err
	}
	began := time.Now()
	if err := c.e.Client.CoreV1().Pods(c.Namespace).Delete(ctx, c.Pod(0), metav1.DeleteOptions{}); err != nil {
		return cycle, err
	}
	var gone, admitted time.Time
	for admitted.IsZero() {
		now, err := c.e.Pod(ctx, c.Namespace, c.Pod(0))
		if (err != nil || now.UID != old.UID) && gone.IsZero() {
			gone = time.Now()
		}
		if err == nil && now.UID != old.UID {
			admitted = time.Now()
		}
		if ctx.Err() != nil {
			return cycle, fmt.Errorf("waiting for the pod that replaces %s: %w", c.Pod(0), context.Cause(ctx))
		}
		time.Sleep(10 * time.Millisecond)
	}
	cycle.Deleted = gone.Sub(began)
	cycle.Database, cycle.Ready, err = c.started(ctx, admitted)
	return cycle, err
}

// started waits until the first pod is Ready, and answers the time from then to
// the database's container ready and to the pod Ready.
func (c *Cassandra) started(ctx context.Context, from time.Time) (database, all time.Duration, err error) {
	if database, err = c.served(ctx, from); err != nil {
		return 0, 0, err
	}
	_, err = c.Await(ctx, readyLimit, "Ready", ready)
	return database, time.Since(from), err
}

// served waits until the database's container is ready, which it is when it
// serves CQL, whatever the other containers do.
func (c *Cassandra) served(ctx context.Context, from time.Time) (time.Duration, error) {
	_, err := c.Await(ctx, readyLimit, "served by its database", func(pod *corev1.Pod) bool {
		return pod.DeletionTimestamp == nil && container(pod, "cassandra").Ready
	})
	return time.Since(from), err
}

func median(all []time.Duration) time.Duration {
	slices.Sort(all)
	return all[len(all)/2]
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.2f s", d.Seconds()) }

// Serving is how a database has served while something else went wrong.
type Serving struct {
	Queries int     `json:"queries"`
	Errors  int     `json:"errors"`
	Longest float64 `json:"longest"` // seconds between two answers
	Last    string  `json:"last"`    // error
}

// Serve begins to query the database of the first pod all the time, and answers
// when it has an answer. The function that it answers ends that, and is an error
// where a query failed.
func (c *Cassandra) Serve(ctx context.Context) func() (Serving, error) {
	type result struct {
		out string
		err error
	}
	stop := "/tmp/e2e-stop-" + strconv.FormatInt(time.Now().UnixNano(), 36)
	done := make(chan result, 1)
	go func() {
		out, err := c.script(ctx, "serving.py", stop)
		done <- result{out, err}
	}()
	_, begun := c.e.Exec(ctx, c.Namespace, c.Pod(0), "cassandra", "", "timeout", "180", "sh", "-c", "until [ -e "+stop+".begun ]; do sleep 0.1; done")
	return func() (s Serving, err error) {
		if begun != nil {
			return s, fmt.Errorf("waiting for the first answer of the database: %w", begun)
		}
		if _, err := c.e.Exec(ctx, c.Namespace, c.Pod(0), "cassandra", "", "touch", stop); err != nil {
			return s, err
		}
		r := <-done
		if r.err != nil {
			return s, r.err
		}
		if err := json.Unmarshal([]byte(r.out), &s); err != nil {
			return s, fmt.Errorf("reading what serving.py printed: %w: %s", err, r.out)
		}
		if s.Errors > 0 || s.Queries == 0 {
			return s, fmt.Errorf("the database did not serve throughout: %+v", s)
		}
		return s, nil
	}
}

// Kill kills all processes of a container of the first pod, from outside.
func (c *Cassandra) Kill(ctx context.Context, name string) error {
	return c.killIn(ctx, c.Pod(0), name)
}

func (c *Cassandra) killIn(ctx context.Context, pod, name string) error {
	now, err := c.e.Pod(ctx, c.Namespace, pod)
	if err != nil {
		return err
	}
	if err := cluster.KillContainer(container(now, name).ContainerID); err != nil {
		return fmt.Errorf("killing container %s of %s: %w", name, pod, err)
	}
	return nil
}

// Heal gives containers of the live pod the database's image, in place, and waits
// until the pod is Ready. The database must not have been restarted.
func (c *Cassandra) Heal(ctx context.Context, names ...string) error {
	before, err := c.e.Pod(ctx, c.Namespace, c.Pod(0))
	if err != nil {
		return err
	}
	var parts []string
	for _, name := range names {
		parts = append(parts, fmt.Sprintf(`{"name":%q,"image":%q}`, name, before.Spec.Containers[0].Image))
	}
	patch := fmt.Sprintf(`{"spec":{"containers":[%s]}}`, strings.Join(parts, ","))
	if _, err := c.e.Kubectl(ctx, nil, "-n", c.Namespace, "patch", "pod", c.Pod(0), "-p", patch); err != nil {
		return err
	}
	after, err := c.Await(ctx, 2*time.Minute, "Ready, healed", func(pod *corev1.Pod) bool {
		for _, name := range names {
			if s := container(pod, name); s.State.Running == nil || s.Image != before.Spec.Containers[0].Image {
				return false
			}
		}
		return ready(pod)
	})
	if err != nil {
		return err
	}
	was, is := container(before, "cassandra"), container(after, "cassandra")
	if is.RestartCount != 0 || is.ContainerID != was.ContainerID || after.UID != before.UID {
		return fmt.Errorf("the database was restarted: %+v, before %+v", is, was)
	}
	return nil
}
