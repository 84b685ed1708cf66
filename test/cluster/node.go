package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// NodeEnv is the environment variable that tests which start a node look at:
// they skip unless it is "1", since a node needs root and changes the machine's
// network while it runs.
const NodeEnv = "STATEGRAFT_NODE"

// NodeName is the name of the only node.
const NodeName = "node1"

// The node's addresses. Pods reach whatever listens on this machine at NodeIP,
// which is the bridge's.
const (
	NodeIP     = "10.213.0.1"
	podRange   = "10.213.0.0/24"
	dnsService = "10.96.0.10"
)

// Programs of Debian's that are components: the container runtime, and what
// takes the pods' connections to the API server, which listens on the loopback.
const (
	Containerd = "containerd"
	Socat      = "socat"
)

// BusyboxImage is an image that every node has: a static busybox.
const BusyboxImage = "stategraft.invalid/busybox:1"

// nodeLimit bounds the start of a node.
const nodeLimit = 5 * time.Minute

// node is what a node has besides its servers.
type node struct {
	dir    string // the state folder
	marker *marker
	cancel context.CancelFunc // ends the provisioner
	done   <-chan struct{}    // closed when it has ended
}

// StartNode adds a node to a control plane that has none: containerd, kubelet,
// kube-proxy and CoreDNS, and persistent volumes for the StorageClass
// "standard". It installs and builds what is missing (see [InstallNode] and
// [Build]) and returns once the node is ready and DNS answers. It needs Linux
// and root. There can be one at a time on a machine; what one that was killed
// has left is removed. [ControlPlane.Stop] ends it too.
func (cp *ControlPlane) StartNode(ctx context.Context, log io.Writer) error {
	log = newLog(log)
	if _, err := Build(ctx, log, NodePrograms()...); err != nil {
		return err
	}
	if err := InstallNode(ctx, log); err != nil {
		return err
	}
	return cp.startNode(ctx, log)
}

func (cp *ControlPlane) startNode(ctx context.Context, log io.Writer) (err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, nodeLimit, fmt.Errorf("not done within %s", nodeLimit))
	defer cancel()
	began := time.Now()
	cp.mu.Lock()
	defer cp.mu.Unlock()
	if cp.node != nil {
		return errors.New("starting a node: there is one already")
	}
	marker, err := claimMachine(ctx, cp.state.dir)
	if err != nil {
		return fmt.Errorf("starting a node: %w", err)
	}
	cp.node = &node{dir: cp.state.dir, marker: marker} // from here on Stop cleans up
	if err := marker.prepareNetwork(ctx); err != nil {
		return fmt.Errorf("preparing the node's network: %w", err)
	}
	p, err := pickPorts()
	if err != nil {
		return err
	}
	stages, err := nodeComponents(cp.state, p, strings.TrimPrefix(cp.config.Host, "https://"))
	if err != nil {
		return err
	}
	for _, c := range stages {
		s := &server{component: c, program: filepath.Join(cp.bin, c.name)}
		if c.name == Containerd || c.name == Socat {
			if s.program, err = exec.LookPath(c.name); err != nil {
				return fmt.Errorf("starting a node: %w", err)
			}
		}
		if c.name == Containerd {
			s.beforeStop = func(ctx context.Context) { cp.endContainers(ctx) }
		}
		if err := cp.launch(s); err != nil {
			return err
		}
		cp.running = append(cp.running, s)
		if c.name == Containerd {
			if err := cp.awaitContainerd(ctx, s.process); err != nil {
				return err
			}
			if err := cp.loadBusybox(ctx); err != nil {
				return err
			}
		} else if err := cp.prober.await(ctx, s.health, s.process); err != nil {
			return err
		}
		fmt.Fprintf(log, "rig: %s works after %.1f s\n", s.name, time.Since(began).Seconds())
		if c.name == Kubelet {
			if err := cp.startProvisioner(ctx); err != nil {
				return err
			}
		}
	}
	if _, err := cp.Kubectl(ctx, strings.NewReader(nodeManifests), "apply", "-f", "-"); err != nil {
		return fmt.Errorf("starting a node: %w", err)
	}
	if err := cp.awaitNode(ctx); err != nil {
		return err
	}
	fmt.Fprintf(log, "rig: node %s is ready after %.1f s\n", NodeName, time.Since(began).Seconds())
	return nil
}

// awaitContainerd waits until the container runtime answers.
func (cp *ControlPlane) awaitContainerd(ctx context.Context, p *process) error {
	for {
		_, err := cp.ctr(ctx, "version")
		if err == nil {
			return nil
		}
		select {
		case <-p.done:
			return p.failure()
		case <-ctx.Done():
			return fmt.Errorf("waiting for containerd: %w", err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// awaitNode waits until pods can be scheduled on the node.
func (cp *ControlPlane) awaitNode(ctx context.Context) error {
	client, err := kubernetes.NewForConfig(cp.config)
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	why := "the node has not registered"
	for {
		found, err := client.CoreV1().Nodes().Get(ctx, NodeName, metav1.GetOptions{})
		if err == nil {
			if why = notReady(found); why == "" {
				return nil
			}
		}
		for _, s := range cp.running {
			if s.process.ended() {
				return s.process.failure()
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for the node (%w): %s; the last lines of the kubelet's log:\n%s", context.Cause(ctx), why, fileTail(cp.LogFile(Kubelet)))
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// notReady says why no pod can be scheduled on the node; empty if one can.
func notReady(n *corev1.Node) string {
	for _, t := range n.Spec.Taints {
		return "it has the taint " + t.Key
	}
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue {
			return ""
		} else if c.Type == corev1.NodeReady {
			return c.Message
		}
	}
	return "it has no status"
}

// LoadImages gives the node images, each in an archive as `docker save` writes
// them. A pod uses one by its name and imagePullPolicy Never, or IfNotPresent.
func (cp *ControlPlane) LoadImages(ctx context.Context, archives ...string) error {
	for _, path := range archives {
		if _, err := cp.ctr(ctx, "images", "import", path); err != nil {
			return fmt.Errorf("loading image %s: %w", filepath.Base(path), err)
		}
	}
	return nil
}

// RemoveImage takes an image from the node.
func (cp *ControlPlane) RemoveImage(ctx context.Context, name string) error {
	_, err := cp.ctr(ctx, "images", "rm", "--sync", name)
	return err
}

// ctr runs containerd's client in the namespace of Kubernetes.
func (cp *ControlPlane) ctr(ctx context.Context, args ...string) (string, error) {
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, "ctr", append([]string{"-a", socket(cp.state), "-n", "k8s.io"}, args...)...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return stdout.String(), fmt.Errorf("ctr %s: %w: %s", args[0], err, bytes.TrimSpace(stderr.Bytes()))
	}
	return stdout.String(), nil
}

// endContainers ends all containers by way of containerd, which then also ends
// their shims and removes their sockets. What it fails to end is cleaned later.
func (cp *ControlPlane) endContainers(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, stopGrace)
	defer cancel()
	list, err := cp.ctr(ctx, "tasks", "ls", "-q")
	if ids := strings.Fields(list); err == nil && len(ids) > 0 {
		_, _ = cp.ctr(ctx, append([]string{"tasks", "rm", "-f"}, ids...)...)
	}
}

// release ends the provisioner and removes what the node's servers left.
func (n *node) release(ctx context.Context) error {
	if n.cancel != nil {
		n.cancel()
		<-n.done
	}
	if err := n.marker.clean(context.WithoutCancel(ctx)); err != nil {
		return fmt.Errorf("cleaning up after a node: %w", err)
	}
	return n.marker.Close()
}

// VolumesDir answers the folder that holds the persistent volumes, each in a
// folder NAMESPACE_CLAIM_UID.
func (cp *ControlPlane) VolumesDir() string { return cp.state.node("volumes") }

func socket(s state) string { return s.node("containerd.sock") }

// makeDirs makes folders of the node's state.
func makeDirs(s state, names ...string) error {
	for _, name := range names {
		if err := os.MkdirAll(s.node(name), 0o755); err != nil {
			return fmt.Errorf("making the node's folders: %w", err)
		}
	}
	return nil
}
