package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/deploy"
	"github.com/stategraft/stategraft/operations/ask"
	"github.com/stategraft/stategraft/test/cluster"
)

// ringManifest makes pods that are never scheduled: there is no node.
const ringManifest = `
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db, namespace: default}
spec:
  replicas: 2
  serviceName: db
  podManagementPolicy: Parallel
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec: {containers: [{name: cassandra, image: cassandra}]}
`

// TestRestoreOnControlPlane asks a real API server for Restores, by the command as
// users have it. The test plays the controller.
func TestRestoreOnControlPlane(t *testing.T) {
	if os.Getenv(cluster.EnabledEnv) != "1" {
		t.Skipf("needs a real control plane: set %s=1, after `go run ./test/cluster/cmd/rig build`", cluster.EnabledEnv)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute)
	defer cancel()
	cp, err := cluster.Start(ctx, cluster.Options{Log: t.Output()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cp.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	binary := build(t)
	command := func(kubeconfig string, args ...string) (*exec.Cmd, *bytes.Buffer, *bytes.Buffer) {
		var out, notes bytes.Buffer
		c := exec.CommandContext(ctx, binary, append([]string{"restore", "--kubeconfig", kubeconfig, "-n", "default"}, args...)...)
		c.Stdout, c.Stderr = &out, &notes
		return c, &out, &notes
	}
	want := func(what string, c *exec.Cmd, out, notes *bytes.Buffer, status int, parts ...string) {
		t.Helper()
		var exit *exec.ExitError
		if err := c.Wait(); err != nil && !errors.As(err, &exit) {
			t.Fatal(err)
		}
		if c.ProcessState.ExitCode() != status {
			t.Errorf("%s: status %d, want %d: %s %s", what, c.ProcessState.ExitCode(), status, out, notes)
		}
		for _, part := range parts {
			if !strings.Contains(out.String()+notes.String(), part) {
				t.Errorf("%s: no %q in\n%s%s", what, part, out, notes)
			}
		}
	}
	try := func(what, args string, status int, parts ...string) {
		t.Helper()
		c, out, notes := command(cp.Kubeconfig(), strings.Fields(args)...)
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		want(what, c, out, notes, status, parts...)
	}
	kubectl := func(in string, args ...string) {
		t.Helper()
		if out, err := cp.Kubectl(ctx, strings.NewReader(in), args...); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}

	kubectl(ringManifest, "apply", "-f", "-")
	kubectl("", "wait", "--for=create", "--timeout=180s", "pod/db-0", "pod/db-1")
	for _, line := range []string{"list", "show x", "statefulset/db --yes --wait", "pod/db-0 --dry-run"} {
		try("no Restores here: "+line, line, 2, "this cluster has no Restores (the CustomResourceDefinition")
	}
	crd, err := deploy.Pick(deploy.SelfSigned, "CustomResourceDefinition")
	if err != nil {
		t.Fatal(err)
	}
	kubectl(string(crd), "apply", "--server-side", "-f", "-")
	kubectl("", "wait", "--for=condition=Established", "--timeout=180s", "crd/restores.stategraft.io")
	awaitKinds(t, ctx, cp, "restores")

	c, err := ask.New(cp.Config())
	if err != nil {
		t.Fatal(err)
	}
	try("nobody there", "pod/db-0 --yes --wait --timeout 25s --name lonely", 2, "nobody takes the Restore up since 10s: see kubectl stategraft check", "the Restore lonely is not over after 25s (nobody has taken it up)")
	playing, stopPlaying := context.WithCancel(ctx)
	played := make(chan struct{})
	go func() { defer close(played); play(playing, c) }()
	defer func() { stopPlaying(); <-played }()

	try("planned", "statefulset/db --dry-run --backup nightly", 0, "Plan for namespace default: backup nightly", "db-1   restore   db-1                 1.0 KiB")
	try("cannot be", "pod/db-1 --dry-run --backup wrong", 1, "This cannot be restored, and nothing was touched: there is no backup wrong")
	list, err := ask.List(ctx, c, "default")
	if err != nil || len(list.Items) != 1 {
		t.Errorf("dry runs left something: %+v, %v", list, err)
	}
	try("done", "statefulset/db --yes --wait --name done --deadline 90m --parallel 1", 0, "restore.stategraft.io/done created", "db-1: restored", "Completed: all is restored")
	try("once more", "statefulset/db --yes --name done", 2, "there is a Restore done in namespace default already")
	try("by labels", "-l app=db,x!=y --yes --wait --name labels", 0, "Completed")
	try("failed", "pod/db-1 --yes --wait --backup wrong --name failed", 1, "Failed: there is no backup wrong", "error: the Restore failed failed")
	try("undone", "undo done --yes --wait --name undone", 0, "Completed")
	try("refused by the API server", "pod/db-0 --yes --backup a..b", 2, "the API server does not accept this Restore", "it takes the name of a backup")
	try("all of them", "list", 0, "done     latest      InPlace   Completed", "undone   undo:done")
	try("one", "show done", 0, "Deadline:        1h30m0s", "what was kept from before was replaced by Restore")
	try("the newest", "show undone", 0, "kubectl stategraft restore undo undone -n default")
	try("suspended", "suspend lonely", 2, "is over (Completed)")

	// Ctrl-C leaves it; it goes on whatever becomes of the API server meanwhile.
	slow, out, notes := command(cp.Kubeconfig(), "pod/db-0", "--yes", "--wait", "--name", "slow")
	if err := slow.Start(); err != nil {
		t.Fatal(err)
	}
	awaitPhase(t, ctx, c, "slow", api.RestoreRestoring)
	if err := slow.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	want("Ctrl-C", slow, out, notes, 2, "interrupted; the Restore slow is not, it goes on", "kubectl stategraft restore wait slow -n default")
	waits, out, notes := command(cp.Kubeconfig(), "wait", "slow")
	seen := &first{to: out, has: make(chan struct{})}
	waits.Stdout = seen
	if err := waits.Start(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-seen.has: // so that it follows
	case <-ctx.Done():
		t.Fatalf("it shows nothing: %v", context.Cause(ctx))
	}
	if err := cp.Restart(ctx, "kube-apiserver"); err != nil {
		t.Fatal(err)
	}
	kubectl("", "annotate", "restore", "slow", "end=now")
	want("API server started anew", waits, out, notes, 0, "db-0: restoring 50%", "Completed: all is restored")

	// Somebody who may read pods and nothing of ours.
	viewer := viewerOf(t, ctx, cp)
	for line, part := range map[string]string{
		"pod/db-0 --yes":  "you have no right to create restores.stategraft.io in namespace default (kubectl auth can-i create restores.stategraft.io -n default)",
		"list":            "you have no right to list restores.stategraft.io in namespace default",
		"list -A":         "you have no right to list restores.stategraft.io (kubectl auth can-i list restores.stategraft.io --all-namespaces)",
		"show done":       "you have no right to get restores.stategraft.io in namespace default",
		"cancel done":     "you have no right to get restores.stategraft.io",
		"wait done":       "you have no right to get restores.stategraft.io",
		"undo done --yes": "you have no right to get restores.stategraft.io",
	} {
		c, out, notes := command(viewer, strings.Fields(line)...)
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		want("no right: "+line, c, out, notes, 2, part)
	}
}

// first tells of the first that is written.
type first struct {
	to  io.Writer
	has chan struct{}
	one sync.Once
}

func (f *first) Write(p []byte) (int, error) {
	defer f.one.Do(func() { close(f.has) })
	return f.to.Write(p)
}

// awaitKinds waits until the API server tells whoever asks of kinds of ours, which is a
// moment after it serves them.
func awaitKinds(t *testing.T, ctx context.Context, cp *cluster.ControlPlane, kinds ...string) {
	t.Helper()
	for _, kind := range kinds {
		for {
			out, err := cp.Kubectl(ctx, nil, "get", kind+"."+api.Group)
			if err == nil {
				break
			}
			if ctx.Err() != nil {
				t.Fatalf("%v: %s", err, out)
			}
			time.Sleep(100 * time.Millisecond)
		}
	}
}

// play plays the controller: what is asked for is planned, fails or is done; what is
// called slow when somebody annotates it.
func play(ctx context.Context, c client.Client) {
	for ; ctx.Err() == nil; time.Sleep(50 * time.Millisecond) {
		list := &api.RestoreList{}
		if c.List(ctx, list) != nil {
			continue
		}
		for i := range list.Items {
			r := &list.Items[i]
			before := r.Status.Phase
			step(r)
			if r.Status.Phase != before {
				_ = c.Status().Update(ctx, r) // or at the next look
			}
		}
	}
}

func step(r *api.Restore) {
	s := &r.Status
	pod := func(name string, phase api.PodPhase) {
		at := s.Pod(name)
		if at == nil {
			s.Pods = append(s.Pods, api.PodRestore{Name: name, Action: api.ActionRestore, Node: name, BytesTotal: 1024, Previous: true})
			at = &s.Pods[len(s.Pods)-1]
		}
		at.Phase, at.Bytes = phase, 512
	}
	each := func(phase api.PodPhase) {
		for _, name := range []string{"db-0", "db-1"} {
			pod(name, phase)
		}
	}
	switch {
	case s.Phase.Final():
	case r.Spec.Backup == "wrong":
		s.Phase, s.Message = api.RestoreFailed, "there is no backup wrong"
	case r.Spec.DryRun:
		s.Phase = api.RestorePlanned
		each(api.PodPlanned)
	case s.Phase == "":
		s.Phase = api.RestoreRestoring
		each(api.PodRestoring)
	case r.Name == "slow" && r.Annotations["end"] == "":
	default:
		s.Phase, s.Message = api.RestoreCompleted, "all is restored"
		each(api.PodRestored)
	}
}

func awaitPhase(t *testing.T, ctx context.Context, c client.Client, name string, phase api.RestorePhase) {
	t.Helper()
	for ctx.Err() == nil {
		r := &api.Restore{}
		if err := c.Get(ctx, client.ObjectKey{Namespace: metav1.NamespaceDefault, Name: name}, r); err == nil && r.Status.Phase == phase {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Fatalf("%s is never %s", name, phase)
}

// viewerOf is a kubeconfig of somebody with the role view.
func viewerOf(t *testing.T, ctx context.Context, cp *cluster.ControlPlane) string {
	t.Helper()
	for _, args := range [][]string{
		{"create", "serviceaccount", "viewer"}, {"create", "clusterrolebinding", "viewer", "--clusterrole=view", "--serviceaccount=default:viewer"},
	} {
		if out, err := cp.Kubectl(ctx, nil, args...); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	token, err := cp.Kubectl(ctx, nil, "create", "token", "viewer")
	if err != nil {
		t.Fatal(err)
	}
	rest := cp.Config()
	config := clientcmdapi.NewConfig()
	config.Clusters["c"] = &clientcmdapi.Cluster{Server: rest.Host, CertificateAuthorityData: rest.CAData}
	config.AuthInfos["c"] = &clientcmdapi.AuthInfo{Token: strings.TrimSpace(token)}
	config.Contexts["c"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "c"}
	config.CurrentContext = "c"
	path := filepath.Join(t.TempDir(), "viewer")
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		t.Fatal(err)
	}
	return path
}
