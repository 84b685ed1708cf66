package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/stategraft/stategraft/api/v1alpha1"
)

// MinutesEnv is how many minutes a schedule of every minute runs; ten where it is not
// set.
const MinutesEnv = "STATEGRAFT_E2E_MINUTES"

func minutes() int {
	if n, err := strconv.Atoi(os.Getenv(MinutesEnv)); err == nil && n > 0 {
		return n
	}
	return 10
}

// AskBackup makes a Backup of the StatefulSet's pods.
func (c *Cassandra) AskBackup(ctx context.Context, name string, spec api.BackupSpec) error {
	objects, err := c.e.Restores()
	if err != nil {
		return err
	}
	if spec.Pods == nil {
		spec.Pods = c.ofSet()
	}
	if err := objects.Create(ctx, &api.Backup{ObjectMeta: metav1.ObjectMeta{Namespace: c.Namespace, Name: name}, Spec: spec}); err != nil {
		return fmt.Errorf("making Backup %s: %w", name, err)
	}
	return nil
}

// ofSet names the StatefulSet's pods.
func (c *Cassandra) ofSet() *api.BackupPods {
	return &api.BackupPods{Workload: &api.BackupWorkload{Kind: "StatefulSet", Name: c.Name()}}
}

// BackupUntil waits until a Backup is as wanted, and answers it. A final phase that is
// not, is an error.
func (c *Cassandra) BackupUntil(ctx context.Context, name string, limit time.Duration, what string, holds func(*api.Backup) bool) (*api.Backup, error) {
	objects, err := c.e.Restores()
	if err != nil {
		return nil, err
	}
	limit = patient(limit)
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("not within %s", limit))
	defer cancel()
	for {
		var b api.Backup
		err := objects.Get(ctx, client.ObjectKey{Namespace: c.Namespace, Name: name}, &b)
		if err == nil && holds(&b) {
			return &b, nil
		}
		if err == nil && b.Status.Phase.Final() {
			return &b, fmt.Errorf("backup %s is %s, not %s: %s", name, b.Status.Phase, what, b.Status.Message)
		}
		select {
		case <-ctx.Done():
			text, _ := json.MarshalIndent(b.Status, "", " ")
			return &b, fmt.Errorf("waiting for Backup %s to be %s: %w (%v)\n%s", name, what, context.Cause(ctx), err, text)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// Ends waits until a Backup is final, in whatever way.
func (c *Cassandra) Ends(ctx context.Context, name string, limit time.Duration) (*api.Backup, error) {
	return c.BackupUntil(ctx, name, limit, "final", func(b *api.Backup) bool { return b.Status.Phase.Final() })
}

// Backups are the Backup objects of the namespace, by name.
func (c *Cassandra) Backups(ctx context.Context) ([]api.Backup, error) {
	objects, err := c.e.Restores()
	if err != nil {
		return nil, err
	}
	var list api.BackupList
	if err := objects.List(ctx, &list, client.InNamespace(c.Namespace)); err != nil {
		return nil, fmt.Errorf("listing Backups: %w", err)
	}
	return list.Items, nil
}

// Schedule reads the BackupSchedule of a name.
func (c *Cassandra) Schedule(ctx context.Context, name string) (*api.BackupSchedule, error) {
	objects, err := c.e.Restores()
	if err != nil {
		return nil, err
	}
	var s api.BackupSchedule
	if err := objects.Get(ctx, client.ObjectKey{Namespace: c.Namespace, Name: name}, &s); err != nil {
		return nil, fmt.Errorf("reading BackupSchedule %s: %w", name, err)
	}
	return &s, nil
}

// AskSchedule makes a BackupSchedule of the StatefulSet's pods.
func (c *Cassandra) AskSchedule(ctx context.Context, name string, spec api.BackupScheduleSpec) error {
	objects, err := c.e.Restores()
	if err != nil {
		return err
	}
	spec.Template.Spec.Pods = c.ofSet()
	if err := objects.Create(ctx, &api.BackupSchedule{ObjectMeta: metav1.ObjectMeta{Namespace: c.Namespace, Name: name}, Spec: spec}); err != nil {
		return fmt.Errorf("making BackupSchedule %s: %w", name, err)
	}
	return nil
}

// PatchSchedule changes it.
func (c *Cassandra) PatchSchedule(ctx context.Context, name, patch string) error {
	_, err := c.e.Kubectl(ctx, nil, "-n", c.Namespace, "patch", "backupschedule", name, "--type=merge", "-p", patch)
	return err
}

// AwaitSchedule waits until a BackupSchedule is as wanted.
func (c *Cassandra) AwaitSchedule(ctx context.Context, name string, limit time.Duration, what string, holds func(*api.BackupSchedule) bool) (*api.BackupSchedule, error) {
	limit = patient(limit)
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("not within %s", limit))
	defer cancel()
	for {
		s, err := c.Schedule(ctx, name)
		if err == nil && holds(s) {
			return s, nil
		}
		select {
		case <-ctx.Done():
			text, _ := json.MarshalIndent(s, "", " ")
			return s, fmt.Errorf("waiting for BackupSchedule %s to be %s: %w (%v)\n%s", name, what, context.Cause(ctx), err, text)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// Written is when rows were sent and acknowledged, in seconds since 1970; the key of a
// row is its place. One that was not acknowledged has 0 and may be there or not.
type Written struct {
	Sent         []float64 `json:"sent"`
	Acknowledged []float64 `json:"acknowledged"`
}

// margin is what clocks of processes on one machine, and the seconds that Medusa counts
// in, may be apart.
const margin = 2

// Check tells what is wrong with the keys of a backup that was made between two times:
// all that were acknowledged before are there, none that was sent after, and of those
// in between nothing can be said.
func (w Written) Check(keys []int, from, to time.Time) error {
	have := map[int]bool{}
	for _, k := range keys {
		have[k] = true
	}
	var missing, early []int
	for k, sent := range w.Sent {
		ack := w.Acknowledged[k]
		if ack > 0 && ack < float64(from.Unix())-margin && !have[k] {
			missing = append(missing, k)
		}
		if sent > float64(to.Unix())+1+margin && have[k] {
			early = append(early, k)
		}
		delete(have, k)
	}
	if len(missing)+len(early)+len(have) > 0 {
		return fmt.Errorf("of %d rows %d are missing (such as %v), %d are from after it (%v), %d are of nobody", len(keys),
			len(missing), head(missing), len(early), head(early), len(have))
	}
	return nil
}

func head(list []int) []int { return list[:min(len(list), 5)] }

// Writing writes a row every 100 ms into a keyspace until the function that it answers
// is called. The first is written when it returns.
func (c *Cassandra) Writing(ctx context.Context, keyspace string, copies int) (func() (Written, error), error) {
	type result struct {
		out string
		err error
	}
	stop := "/tmp/e2e-written-" + strconv.FormatInt(time.Now().UnixNano(), 36)
	done := make(chan result, 1)
	go func() {
		out, err := c.script(ctx, "writing.py", keyspace, strconv.Itoa(copies), stop)
		done <- result{out, err}
	}()
	if _, err := c.e.Exec(ctx, c.Namespace, c.Pod(0), "cassandra", "", "timeout", "180", "sh", "-c", "until [ -e "+stop+".begun ]; do sleep 0.1; done"); err != nil {
		select {
		case r := <-done:
			err = errors.Join(err, r.err)
		default:
		}
		return nil, fmt.Errorf("waiting for the first row: %w", err)
	}
	return func() (w Written, err error) {
		_, touched := c.e.Exec(ctx, c.Namespace, c.Pod(0), "cassandra", "", "touch", stop)
		r := <-done
		if err := errors.Join(touched, r.err); err != nil {
			return w, fmt.Errorf("writing rows: %w", err)
		}
		return w, json.Unmarshal([]byte(r.out), &w)
	}, nil
}

// Keys are those of the rows of a keyspace.
func (c *Cassandra) Keys(ctx context.Context, keyspace string) (keys []int, err error) {
	out, err := c.script(ctx, "writing.py", "keys", keyspace)
	if err != nil {
		return nil, err
	}
	return keys, json.Unmarshal([]byte(out), &keys)
}

// objectNames are names of Backups, sorted.
func objectNames(list []api.Backup) (names []string) {
	for i := range list {
		names = append(names, list[i].Name)
	}
	slices.Sort(names)
	return names
}

// overlap tells of two backups of which one began before the other was over.
func overlap(list []api.Backup) error {
	done := slices.DeleteFunc(slices.Clone(list), func(b api.Backup) bool { return b.Status.Started == nil || b.Status.Finished == nil })
	slices.SortFunc(done, func(a, b api.Backup) int { return a.Status.Started.Compare(b.Status.Started.Time) })
	for i := 1; i < len(done); i++ {
		if done[i].Status.Started.Before(done[i-1].Status.Finished) {
			return fmt.Errorf("%s began at %v, before %s ended at %v", done[i].Name, done[i].Status.Started, done[i-1].Name, done[i-1].Status.Finished)
		}
	}
	return nil
}

// phases counts them, for people.
func phases(list []api.Backup) string {
	count := map[api.BackupPhase]int{}
	for i := range list {
		count[list[i].Status.Phase]++
	}
	var said []string
	for _, p := range api.BackupPhases {
		if count[p] > 0 {
			said = append(said, fmt.Sprintf("%d %s", count[p], p))
		}
	}
	return strings.Join(said, ", ")
}
