package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/patches"
)

// readyLimit is how long one Cassandra may take from its creation to Ready. It
// takes six seconds on an idle machine.
const readyLimit = 3 * time.Minute

const (
	imagePython  = "/usr/bin/python3"
	medusaPython = "/home/cassandra/.venv/bin/python"
)

// Cassandra is a StatefulSet "cassandra" in a namespace of its own, which is
// labelled for injection, with Medusa's configuration and credentials.
type Cassandra struct {
	e         *Env
	Namespace string
}

// Cassandra makes one and waits until its pods are ready.
func (e *Env) Cassandra(ctx context.Context, namespace string, replicas int) (*Cassandra, error) {
	if err := e.CreateNamespace(ctx, namespace, map[string]string{api.LabelInject: api.InjectEnabled}, nil); err != nil {
		return nil, err
	}
	e.namespaces = append(e.namespaces, namespace)
	c := &Cassandra{e, namespace}
	if err := e.Apply(ctx, namespace, "medusa.yaml", map[string]string{"NAMESPACE": namespace}); err != nil {
		return nil, err
	}
	if err := e.Apply(ctx, namespace, "cassandra.yaml", map[string]string{"NAMESPACE": namespace, "REPLICAS": strconv.Itoa(replicas)}); err != nil {
		return nil, err
	}
	return c, e.RolledOut(ctx, namespace, "statefulset/cassandra", time.Duration(replicas)*readyLimit)
}

func pod(ordinal int) string { return "cassandra-" + strconv.Itoa(ordinal) }

// Rows is what a table holds.
type Rows struct {
	Count    int    `json:"count"`
	Checksum string `json:"checksum"` // of all keys and values, in order
}

// CQL runs statements in a pod.
func (c *Cassandra) CQL(ctx context.Context, ordinal int, statements string) (string, error) {
	return c.e.Exec(ctx, c.Namespace, pod(ordinal), "cassandra", "", "cqlsh", "-e", statements)
}

// Write writes rows with the keys from first on into a keyspace, which it makes
// with so many copies where it does not exist.
func (c *Cassandra) Write(ctx context.Context, keyspace string, copies, first, count int) error {
	_, err := c.e.Script(ctx, c.Namespace, pod(0), "cassandra", imagePython, "rows.py",
		"write", keyspace, strconv.Itoa(copies), strconv.Itoa(first), strconv.Itoa(count))
	return err
}

// Read reads all rows of a keyspace.
func (c *Cassandra) Read(ctx context.Context, keyspace string) (rows Rows, err error) {
	out, err := c.e.Script(ctx, c.Namespace, pod(0), "cassandra", imagePython, "rows.py", "read", keyspace)
	if err != nil {
		return rows, err
	}
	return rows, json.Unmarshal([]byte(out), &rows)
}

// Identity is a node's host id and its tokens.
func (c *Cassandra) Identity(ctx context.Context, ordinal int) (string, error) {
	out, err := c.e.Exec(ctx, c.Namespace, pod(ordinal), "cassandra", "", "nodetool", "info", "-T")
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
		_, err := c.e.Kubectl(ctx, nil, "-n", c.Namespace, "scale", "statefulset/cassandra", fmt.Sprintf("--replicas=%d", to))
		return err
	}
	if err := scale(0); err != nil {
		return err
	}
	for _, args := range [][]string{
		{"wait", "--for=delete", "pod", "-l", "app=cassandra", "--timeout=120s"},
		{"delete", "pvc", "--all", "--timeout=60s"},
		{"patch", "statefulset", "cassandra", "-p", restorePatch(backup)},
	} {
		if _, err := c.e.Kubectl(ctx, nil, append([]string{"-n", c.Namespace}, args...)...); err != nil {
			return err
		}
	}
	if err := scale(replicas); err != nil {
		return err
	}
	return c.e.RolledOut(ctx, c.Namespace, "statefulset/cassandra", time.Duration(replicas)*readyLimit)
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
	out, err := c.e.Script(ctx, c.Namespace, pod(ordinal), patches.ContainerMedusa, medusaPython, "backup.py", name)
	if err != nil {
		return b, err
	}
	if err := json.Unmarshal([]byte(out), &b); err != nil {
		return b, fmt.Errorf("reading what backup.py printed: %w: %s", err, out)
	}
	return b, nil
}

// Restore asks for a restore in the template, which makes the StatefulSet create
// its pods anew, and waits until they are ready.
func (c *Cassandra) Restore(ctx context.Context, name string, limit time.Duration) error {
	if _, err := c.e.Kubectl(ctx, nil, "-n", c.Namespace, "patch", "statefulset", "cassandra", "-p", restorePatch(name)); err != nil {
		return err
	}
	return c.e.RolledOut(ctx, c.Namespace, "statefulset/cassandra", limit)
}
