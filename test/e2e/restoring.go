package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stategraft/stategraft/api/node"
	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/patches"
)

// home is Stategraft's own namespace.
const home = "stategraft"

// Restores is a client of the Restore objects.
func (e *Env) Restores() (client.Client, error) {
	scheme := runtime.NewScheme()
	if err := errors.Join(api.AddToScheme(scheme), corev1.AddToScheme(scheme)); err != nil {
		return nil, fmt.Errorf("making a scheme: %w", err)
	}
	ctrl.SetLogger(logr.Discard())
	made, err := client.New(e.Config(), client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	return made, nil
}

// Asked makes a Restore.
func (c *Cassandra) Asked(ctx context.Context, name string, spec api.RestoreSpec) error {
	restores, err := c.e.Restores()
	if err != nil {
		return err
	}
	if err := restores.Create(ctx, &api.Restore{ObjectMeta: metav1.ObjectMeta{Namespace: c.Namespace, Name: name}, Spec: spec}); err != nil {
		return fmt.Errorf("making Restore %s: %w", name, err)
	}
	return nil
}

// Of names pods of the StatefulSet, all where none is named.
func (c *Cassandra) Of(ordinals ...int) api.RestorePods {
	if len(ordinals) == 0 {
		return api.RestorePods{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": c.Name()}}}
	}
	var pods api.RestorePods
	for _, i := range ordinals {
		pods.Names = append(pods.Names, c.Pod(i))
	}
	return pods
}

// Until waits until a Restore is as wanted, and answers it. A final phase that is
// not, is an error.
func (c *Cassandra) Until(ctx context.Context, name string, limit time.Duration, what string, holds func(*api.Restore) bool) (*api.Restore, error) {
	restores, err := c.e.Restores()
	if err != nil {
		return nil, err
	}
	limit = patient(limit)
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("not within %s", limit))
	defer cancel()
	var r api.Restore
	for {
		r = api.Restore{}
		err := restores.Get(ctx, client.ObjectKey{Namespace: c.Namespace, Name: name}, &r)
		if err == nil && holds(&r) {
			return &r, nil
		}
		if err == nil && r.Status.Phase.Final() {
			return &r, fmt.Errorf("restore %s is %s, not %s: %s", name, r.Status.Phase, what, r.Status.Message)
		}
		select {
		case <-ctx.Done():
			text, _ := json.MarshalIndent(r.Status, "", " ")
			return &r, fmt.Errorf("waiting for Restore %s to be %s: %w (%v)\n%s\n%s", name, what, context.Cause(ctx), err, text, c.e.describe(context.WithoutCancel(ctx), c.Namespace))
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// Restored waits until a Restore is completed and the pods are ready.
func (c *Cassandra) Restored(ctx context.Context, name string, limit time.Duration) (*api.Restore, error) {
	r, err := c.Until(ctx, name, limit, "completed", func(r *api.Restore) bool { return r.Status.Phase == api.RestoreCompleted })
	if err != nil {
		return r, err
	}
	return r, c.AllReady(ctx, limit)
}

// Volume is the folder of a pod's data volume on this machine.
func (c *Cassandra) Volume(ordinal int) (string, error) {
	found, err := filepath.Glob(filepath.Join(c.e.VolumesDir(), fmt.Sprintf("%s_data-%s_*", c.Namespace, c.Pod(ordinal))))
	if err != nil || len(found) != 1 {
		return "", fmt.Errorf("finding the volume of %s: %v (%w)", c.Pod(ordinal), found, err)
	}
	return found[0], nil
}

// Memory is what a pod's volume remembers of Restores.
func (c *Cassandra) Memory(ordinal int) (done []node.Done, err error) {
	volume, err := c.Volume(ordinal)
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(filepath.Join(volume, ".stategraft", "restore.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading a marker: %w", err)
	}
	var marker struct {
		Requests []node.Done `json:"requests"`
	}
	if err := json.Unmarshal(text, &marker); err != nil {
		return nil, fmt.Errorf("reading a marker: %w", err)
	}
	return marker.Requests, nil
}

// Once is an error unless the volume of each of the pods remembers the Restore once. How
// often the data began to be replaced is no error: a container that was killed begins
// anew (test/restore counts what went through).
func (c *Cassandra) Once(r *api.Restore, ordinals ...int) error {
	for _, i := range ordinals {
		done, err := c.Memory(i)
		if err != nil {
			return err
		}
		count := 0
		for _, d := range done {
			if d.ID == r.Status.ID {
				count++
			}
		}
		if count != 1 {
			return fmt.Errorf("the volume of %s remembers %d restores by %s: %+v", c.Pod(i), count, r.Status.ID, done)
		}
	}
	return nil
}

// Stategraft runs the command line.
func (e *Env) Stategraft(ctx context.Context, args ...string) (string, error) {
	return run(ctx, e.Program("kubectl-stategraft"), append([]string{"--kubeconfig", e.Kubeconfig()}, args...)...)
}

// restoreContainer is the restore container's status in a pod.
func restoreContainer(pod *corev1.Pod) corev1.ContainerStatus {
	return container(pod, patches.ContainerRestore)
}

// restoreRuns waits until the restore container of one of the pods runs.
func (c *Cassandra) restoreRuns(ctx context.Context, ordinal int, limit time.Duration) (*corev1.Pod, error) {
	return c.e.Await(ctx, c.Namespace, c.Pod(ordinal), limit, "restoring", func(pod *corev1.Pod) bool {
		return restoreContainer(pod).State.Running != nil
	})
}

// backups makes a backup of all nodes.
func (c *Cassandra) backups(ctx context.Context, name string, nodes int) error {
	for i := range nodes {
		backup, err := c.Backup(ctx, i, name)
		if err != nil {
			return err
		}
		if backup.Status != "SUCCESS" || backup.Objects == 0 {
			return fmt.Errorf("the backup of node %d: %+v", i, backup)
		}
	}
	return nil
}

// identities are the host ids and tokens of all nodes.
func (c *Cassandra) identities(ctx context.Context, nodes int) ([]string, error) {
	var all []string
	for i := range nodes {
		identity, err := c.Identity(ctx, i)
		if err != nil || identity == "" {
			return nil, fmt.Errorf("identity of node %d: %q, %w", i, identity, err)
		}
		all = append(all, identity)
	}
	return all, nil
}

// tokens leaves the host ids out.
func tokens(identity string) string {
	var kept []string
	for line := range strings.Lines(identity) {
		if strings.HasPrefix(line, "Token") {
			kept = append(kept, strings.TrimSpace(line))
		}
	}
	return strings.Join(kept, "\n")
}

// onlyRestore waits for the one Restore of the namespace.
func (c *Cassandra) onlyRestore(ctx context.Context, limit time.Duration) (*api.Restore, error) {
	restores, err := c.e.Restores()
	if err != nil {
		return nil, err
	}
	limit = patient(limit)
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("not within %s", limit))
	defer cancel()
	for {
		var all api.RestoreList
		err := restores.List(ctx, &all, client.InNamespace(c.Namespace))
		switch {
		case err == nil && len(all.Items) == 1:
			return &all.Items[0], nil
		case err == nil && len(all.Items) > 1:
			return nil, fmt.Errorf("there are %d Restores in %s", len(all.Items), c.Namespace)
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("waiting for a Restore in %s: %w (%v)", c.Namespace, context.Cause(ctx), err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// cqlDelete deletes the rows with the keys from first up to end.
func cqlDelete(keyspace string, first, end int) string {
	const atOnce = 500
	var b strings.Builder
	for ; first < end; first += atOnce {
		keys := make([]string, 0, atOnce)
		for key := first; key < min(first+atOnce, end); key++ {
			keys = append(keys, strconv.Itoa(key))
		}
		fmt.Fprintf(&b, "DELETE FROM %s.rows WHERE key IN (%s);", keyspace, strings.Join(keys, ","))
	}
	return b.String()
}

// run runs a program and answers what it printed.
func run(ctx context.Context, program string, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, program, args...).CombinedOutput()
	if err != nil {
		return string(out), fmt.Errorf("%s %s: %w\n%s", filepath.Base(program), strings.Join(args, " "), err, out)
	}
	return string(out), nil
}
