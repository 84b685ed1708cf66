package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/stategraft/stategraft/api/v1alpha1"
)

func pod(ordinal int) string { return "cassandra-" + strconv.Itoa(ordinal) }

// Pod is the name of one of the pods.
func (c *Cassandra) Pod(ordinal int) string { return c.Name() + "-" + strconv.Itoa(ordinal) }

// Name is that of the StatefulSet.
func (c *Cassandra) Name() string {
	if c.setup.Name == "" {
		return "cassandra"
	}
	return c.setup.Name
}

func (c *Cassandra) object() string { return "statefulset/" + c.Name() }

// Rows is what a table holds.
type Rows struct {
	Count    int    `json:"count"`
	Checksum string `json:"checksum"` // of all keys and values, in order
}

// CQL runs statements in a pod.
func (c *Cassandra) CQL(ctx context.Context, ordinal int, statements string) (string, error) {
	command := []string{"cqlsh", "-e", statements}
	if c.setup.User != "" {
		command = append(command, "-u", c.setup.User, "-p", c.setup.Password)
	}
	return c.e.Exec(ctx, c.Namespace, c.Pod(ordinal), "cassandra", "", command...)
}

// script runs a script of ours in the first pod's database container.
func (c *Cassandra) script(ctx context.Context, script string, args ...string) (string, error) {
	python := imagePython
	if c.setup.User != "" {
		python = fmt.Sprintf("env CQL_USER=%s CQL_PASSWORD=%s %s", c.setup.User, c.setup.Password, imagePython)
	}
	return c.e.Script(ctx, c.Namespace, c.Pod(0), "cassandra", python, script, "", args...)
}

// Write writes rows with the keys from first on into a keyspace, which it makes
// with so many copies where it does not exist.
func (c *Cassandra) Write(ctx context.Context, keyspace string, copies, first, count int) error {
	return c.WriteLarge(ctx, keyspace, copies, first, count, 0)
}

// WriteLarge writes rows with so many random bytes more in each.
func (c *Cassandra) WriteLarge(ctx context.Context, keyspace string, copies, first, count, size int) error {
	_, err := c.script(ctx, "rows.py", "write", keyspace, strconv.Itoa(copies), strconv.Itoa(first), strconv.Itoa(count), strconv.Itoa(size))
	return err
}

// Read reads all rows of a keyspace.
func (c *Cassandra) Read(ctx context.Context, keyspace string) (rows Rows, err error) {
	out, err := c.script(ctx, "rows.py", "read", keyspace)
	if err != nil {
		return rows, err
	}
	return rows, json.Unmarshal([]byte(out), &rows)
}

// Identity is a node's host id and its tokens.
func (c *Cassandra) Identity(ctx context.Context, ordinal int) (string, error) {
	out, err := c.e.Exec(ctx, c.Namespace, c.Pod(ordinal), "cassandra", "", "nodetool", "info", "-T")
	var kept []string
	for line := range strings.Lines(out) {
		if strings.HasPrefix(line, "ID") || strings.HasPrefix(line, "Token") {
			kept = append(kept, strings.TrimSpace(line))
		}
	}
	return strings.Join(kept, "\n"), err
}

// Lose ends all pods, deletes their volumes and asks for a restore in the
// template; then it makes as many pods and waits until they are ready.
func (c *Cassandra) Lose(ctx context.Context, backup string, replicas int) error {
	scale := func(to int) error {
		_, err := c.e.Kubectl(ctx, nil, "-n", c.Namespace, "scale", c.object(), fmt.Sprintf("--replicas=%d", to))
		return err
	}
	if err := scale(0); err != nil {
		return err
	}
	for _, args := range [][]string{
		{"wait", "--for=delete", "pod", "-l", "app=" + c.Name(), "--timeout=300s"},
		{"delete", "pvc", "--all", "--timeout=300s"},
		{"patch", "statefulset", c.Name(), "-p", restorePatch(backup)},
	} {
		if _, err := c.e.Kubectl(ctx, nil, append([]string{"-n", c.Namespace}, args...)...); err != nil {
			return err
		}
	}
	if err := scale(replicas); err != nil {
		return err
	}
	return c.e.RolledOut(ctx, c.Namespace, c.object(), time.Duration(replicas)*readyLimit)
}

func restorePatch(backup string) string {
	return fmt.Sprintf(`{"spec":{"template":{"metadata":{"annotations":{%q:%q}}}}}`, api.AnnotationRestore, backup)
}

// Backup is what Medusa says of one.
type Backup struct {
	Status  string `json:"status"`
	Objects int    `json:"objects"`
	Bytes   int64  `json:"bytes"`
	Nodes   int    `json:"nodes"`
}

// Backup makes a backup of one node over gRPC (AsyncBackup, BackupStatus) and
// asks what it holds (GetBackup).
func (c *Cassandra) Backup(ctx context.Context, ordinal int, name string) (b Backup, err error) {
	if err := c.Begin(ctx, ordinal, name); err != nil {
		return b, err
	}
	return c.Ended(ctx, ordinal, name)
}

// Begin asks for a backup and does not wait for it.
func (c *Cassandra) Begin(ctx context.Context, ordinal int, name string) error {
	_, err := c.call(ctx, c.client, ordinal, "begin", name)
	return err
}

// Ended waits until a backup is made, or has failed.
func (c *Cassandra) Ended(ctx context.Context, ordinal int, name string) (b Backup, err error) {
	out, err := c.call(ctx, c.client, ordinal, "wait", name)
	if err != nil {
		return b, err
	}
	if err := json.Unmarshal([]byte(out), &b); err != nil {
		return b, fmt.Errorf("reading what backup.py printed: %w: %s", err, out)
	}
	return b, nil
}

// AskRestore puts a restore into the template, which makes the StatefulSet create
// its pods anew.
func (c *Cassandra) AskRestore(ctx context.Context, name string) error {
	_, err := c.e.Kubectl(ctx, nil, "-n", c.Namespace, "patch", "statefulset", c.Name(), "-p", restorePatch(name))
	return err
}

// Restore asks for a restore and waits until the pods are ready.
func (c *Cassandra) Restore(ctx context.Context, name string, limit time.Duration) error {
	if err := c.AskRestore(ctx, name); err != nil {
		return err
	}
	return c.e.RolledOut(ctx, c.Namespace, c.object(), limit)
}

// AllReady waits until all pods are ready and of the present template, whatever the
// strategy of their updates.
func (c *Cassandra) AllReady(ctx context.Context, limit time.Duration) error {
	limit = patient(limit)
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("not within %s", limit))
	defer cancel()
	for {
		set, err := c.e.Client.AppsV1().StatefulSets(c.Namespace).Get(ctx, c.Name(), metav1.GetOptions{})
		if err == nil && set.Status.ObservedGeneration == set.Generation && set.Status.ReadyReplicas == *set.Spec.Replicas &&
			set.Status.UpdatedReplicas == *set.Spec.Replicas {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for all pods to be ready: %w (%v); they are:\n%s", context.Cause(ctx), err, c.e.describe(context.WithoutCancel(ctx), c.Namespace))
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// Await waits for something of the first pod.
func (c *Cassandra) Await(ctx context.Context, limit time.Duration, what string, holds func(*corev1.Pod) bool) (*corev1.Pod, error) {
	return c.e.Await(ctx, c.Namespace, c.Pod(0), limit, what, holds)
}

// Log is what a container of the first pod has written.
func (c *Cassandra) Log(ctx context.Context, container string) string {
	out, err := c.e.Kubectl(ctx, nil, "-n", c.Namespace, "logs", c.Pod(0), "-c", container)
	if err != nil {
		out += err.Error()
	}
	return out
}

// AwaitLog waits until a container of the first pod has written one of the texts.
func (c *Cassandra) AwaitLog(ctx context.Context, container string, limit time.Duration, texts ...string) (string, error) {
	for deadline := time.Now().Add(patient(limit)); ; {
		log := c.Log(ctx, container)
		for line := range strings.Lines(log) {
			for _, text := range texts {
				if strings.Contains(line, text) {
					return strings.TrimSpace(line), nil
				}
			}
		}
		if time.Now().After(deadline) || ctx.Err() != nil {
			return "", fmt.Errorf("container %s never wrote %q; its log:\n%s", container, texts, log)
		}
		time.Sleep(300 * time.Millisecond)
	}
}
