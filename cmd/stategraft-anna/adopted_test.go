package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stategraft/stategraft/agent/event"
	"github.com/stategraft/stategraft/api/node"
	"github.com/stategraft/stategraft/operations/sidecar"
	"github.com/stategraft/stategraft/patches"
	"github.com/stategraft/stategraft/test/annanode"
	"github.com/stategraft/stategraft/test/ports"
)

// added is a container added to the pod of a node that runs.
type added struct {
	*exec.Cmd
	out   bytes.Buffer
	ended chan error
}

func add(t *testing.T, root string, number int, env []string) *added {
	t.Helper()
	a := &added{Cmd: anna(t, root, append(slices.Clone(env), patches.EnvAdopted+"="+strconv.Itoa(number)), "adopted"), ended: make(chan error, 1)}
	a.Stdout, a.Stderr = &a.out, &a.out
	must(t, a.Start())
	go func() { a.ended <- a.Wait() }()
	t.Cleanup(func() {
		_ = a.Process.Kill()
		<-a.ended
		if t.Failed() {
			t.Logf("number %d:\n%s", number, a.out.String())
		}
	})
	return a
}

// over waits for its end, which has to be a good one.
func (a *added) over(t *testing.T) {
	t.Helper()
	select {
	case err := <-a.ended:
		if a.ended <- err; err != nil {
			t.Errorf("it ended with %v", err)
		}
	case <-time.After(patience):
		t.Fatal("it does not end")
	}
}

// twoPorts finds two free ones in a row.
func twoPorts(t *testing.T) int {
	t.Helper()
	first, err := ports.Row(2)
	must(t, err)
	return first
}

// TestTakeOver has a container be added beside a node that runs, and then another, which
// takes over: at the same ports, with nothing that was secret in the environment, and small.
func TestTakeOver(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it takes some seconds")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cluster, err := annanode.StartCluster(ctx, annanode.ClusterConfig{Routing: 1, Memory: 1, Report: 100 * time.Millisecond})
	must(t, err)
	t.Cleanup(cluster.Close)
	bucket := t.TempDir()
	must(t, os.MkdirAll(filepath.Join(bucket, "b"), 0o755))
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "hydro", Name: "m-0"}}
	grpc, service := freePort(t), freePort(t)
	number := func(text string) int32 { n, _ := strconv.ParseInt(text, 10, 32); return int32(n) }
	pod.Spec.InitContainers = []corev1.Container{{Name: patches.ContainerAgent, Ports: []corev1.ContainerPort{
		{Name: patches.PortAgent, ContainerPort: number(grpc)}, {Name: node.PortName, ContainerPort: number(service)},
	}}}
	pod.Status.PodIP = cluster.Nodes[0].Server().Private
	pod.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: patches.ContainerAgent, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
	const secret = "not-to-be-seen"
	env := []string{
		"STATEGRAFT_KIND=anna", "STATEGRAFT_ROLE=memory", "STATEGRAFT_CLUSTER=kvs", "POD_NAME=m-0", "POD_NAMESPACE=hydro", "POD_IP=" + pod.Status.PodIP,
		fmt.Sprintf("%s=%08x-0000-4000-8000-%012x", patches.EnvPodUID, os.Getpid(), time.Now().UnixNano()&(1<<48-1)),
		"STATEGRAFT_GRPC_PORT=" + grpc, patches.EnvNodePort + "=" + service, patches.EnvResponsePort + "=" + strconv.Itoa(twoPorts(t)), "STATEGRAFT_GRPC_TLS=off",
		"STATEGRAFT_NODE_ROUTING=" + cluster.RoutingHosts()[0], patches.EnvMemory + "=1073741824", // the race detector needs more than the sidecar
		"STATEGRAFT_FILE_INI=[storage]\nstorage_provider = local\nbucket_name = b\nbase_path = " + bucket + "\n",
		"STATEGRAFT_FILE_CREDENTIALS=" + secret,
	}
	client := sidecar.New(nil)
	serves := func() {
		t.Helper()
		var last string
		for ctx.Err() == nil {
			report, err := client.Report(ctx, pod)
			if err == nil && report.Node == "m-0" && report.Prefix == "hydro_kvs" && report.Waiting == "" && report.Busy == "" {
				return
			}
			last = fmt.Sprintf("%+v, %v", report, err)
			time.Sleep(50 * time.Millisecond)
		}
		t.Fatalf("it does not serve: %s", last)
	}
	roots := []string{t.TempDir(), t.TempDir(), t.TempDir()}
	first := add(t, roots[0], 1, env)
	serves()
	environment, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", first.Process.Pid))
	if err != nil || bytes.Contains(environment, []byte(secret)) || !bytes.Contains(environment, []byte("POD_NAME=m-0")) {
		t.Errorf("%v: the environment is %q", err, environment)
	}
	if content, err := os.ReadFile(filepath.Join(roots[0], patches.DirStorage, "credentials")); err != nil || string(content) != secret {
		t.Errorf("credentials %q, %v", content, err)
	}
	if score, err := os.ReadFile(fmt.Sprintf("/proc/%d/oom_score_adj", first.Process.Pid)); err != nil || strings.TrimSpace(string(score)) != "1000" {
		t.Errorf("the kernel would end the database before this: %s, %v", score, err)
	}
	second := add(t, roots[1], 2, env)
	first.over(t)
	serves()
	add(t, roots[2], 1, env).over(t) // there is a newer one
	serves()
	must(t, second.Process.Signal(syscall.SIGTERM))
	second.over(t)
	for _, a := range []*added{first, second} {
		if strings.Contains(a.out.String(), secret) {
			t.Error("the log tells the secret")
		}
	}
}

// TestAdoptedConfig: what is said of the node is on the pod's volumes, and not below the
// container's own root.
func TestAdoptedConfig(t *testing.T) {
	root := t.TempDir()
	for name, value := range map[string]string{
		"STATEGRAFT_ROOT": root, "POD_NAME": "m-0", "POD_IP": "10.0.0.1", "STATEGRAFT_ROLE": "memory", "STATEGRAFT_CONF_DIR": "/stategraft-conf/kvs",
		"STATEGRAFT_NODE_ROUTING": " r-0.r  r-1.r ",
	} {
		t.Setenv(name, value)
	}
	log := event.New(os.Stderr, &event.Secrets{}, "test")
	c, wrong := adoptedConfig(log, nil)
	if len(wrong) > 0 || !c.Adopted || c.Conf != "/stategraft-conf/kvs" || c.Node == nil || !slices.Equal(c.Routing, []string{"r-0.r", "r-1.r"}) || c.Config != patches.DirConfig || c.Local != "10.0.0.1" || c.LifePort != 0 {
		t.Errorf("%+v, %v", c, wrong)
	}
	placed := filepath.Join(root, patches.DirConfig)
	must(t, os.MkdirAll(placed, 0o700))
	if c, _ := adoptedConfig(log, nil); c.Config != placed {
		t.Errorf("the ConfigMap that is named for us is left at %s for %s", placed, c.Config)
	}
}

// TestAdoptedEnds: what can do nothing ends, with an error that is told.
func TestAdoptedEnds(t *testing.T) {
	for name, c := range map[string]struct{ env, want string }{
		"memory": {patches.EnvMemory + "=much", patches.EnvMemory},
		"number": {patches.EnvAdopted + "=first", patches.EnvAdopted},
	} {
		out, err := anna(t, t.TempDir(), []string{c.env}, "adopted").CombinedOutput()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != 1 || !strings.Contains(string(out), c.want) {
			t.Errorf("%s: %v, %s", name, err, out)
		}
	}
}
