package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// EnabledEnv is the environment variable that tests which start a control plane
// look at: they skip unless it is "1", since the first build takes so long.
const EnabledEnv = "STATEGRAFT_RIG"

// startLimit bounds a start, building aside. It takes seconds; a loaded machine
// may take longer.
const startLimit = 5 * time.Minute

// Options say how to start a control plane. The zero value will do.
type Options struct {
	// Dir is the state folder, made where it does not exist. What an earlier
	// control plane left in it is removed: each starts empty. If Dir is empty,
	// a temporary folder is used, which Stop removes.
	Dir string
	// Log gets progress lines; nil means none. The servers' own output goes to
	// files, see [ControlPlane.LogFile].
	Log io.Writer
	// ExtraAPIServerArgs are added to the arguments of kube-apiserver, where of
	// a repeated flag the last one counts.
	ExtraAPIServerArgs []string
	// Node adds a node, which runs pods: see [ControlPlane.StartNode].
	Node bool
}

// ControlPlane is a running control plane. Its methods may be called from
// several goroutines.
type ControlPlane struct {
	bin       string
	state     state
	temporary bool // Stop removes the state folder
	config    *rest.Config
	prober    *prober

	mu      sync.Mutex
	running []*server // in the order of their start
	node    *node     // nil where there is none
}

// server is a component with its present process.
type server struct {
	component
	program string // path
	process *process
	// beforeStop, where set, runs before the process is stopped.
	beforeStop func(context.Context)
}

// Start builds what is missing (see [Build]) and starts etcd, kube-apiserver,
// kube-controller-manager and kube-scheduler on free ports of 127.0.0.1. It
// returns once the API server is ready, the other servers are healthy, and the
// namespace default has its ServiceAccount, without which no pod can be created.
//
// ctx bounds the start only, which takes at most two minutes once all is built.
// If a server ends early, the error holds the last lines of its log, and nothing
// is left running. The caller has to call [ControlPlane.Stop].
func Start(ctx context.Context, opts Options) (*ControlPlane, error) {
	log := newLog(opts.Log)
	programs := ControlPlanePrograms()
	if opts.Node {
		programs = append(programs, NodePrograms()...)
	}
	bin, err := Build(ctx, log, programs...)
	if err != nil {
		return nil, err
	}
	if opts.Node {
		if err := InstallNode(ctx, log); err != nil {
			return nil, err
		}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, startLimit, fmt.Errorf("not done within %s", startLimit))
	defer cancel()

	// A port that was free may be taken before the server gets to it. That is
	// rare enough to simply start over, with others.
	const attempts = 3
	for attempt := 1; ; attempt++ {
		cp, err := start(ctx, bin, opts, log)
		if err == nil {
			return cp, nil
		}
		if attempt == attempts || !strings.Contains(err.Error(), "address already in use") {
			return nil, fmt.Errorf("starting a control plane: %w", err)
		}
		fmt.Fprintln(log, "rig: a port was taken meanwhile; starting over")
	}
}

func start(ctx context.Context, bin string, opts Options, log io.Writer) (_ *ControlPlane, err error) {
	began := time.Now()
	cp := &ControlPlane{bin: bin}
	if opts.Dir == "" {
		cp.temporary = true
		if opts.Dir, err = os.MkdirTemp("", "stategraft-rig-"); err != nil {
			return nil, fmt.Errorf("making a state folder: %w", err)
		}
	}
	// The servers run in the folder, so a relative path would mislead them.
	if opts.Dir, err = filepath.Abs(opts.Dir); err != nil {
		return nil, fmt.Errorf("finding the state folder: %w", err)
	}
	cp.state = state{opts.Dir}
	if err := cp.state.open(); err != nil {
		return nil, err // possibly another's folder: nothing to clean up
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, cp.Stop(context.WithoutCancel(ctx)))
		}
	}()

	p, err := pickPorts()
	if err != nil {
		return nil, err
	}
	if err := writePKI(cp.state, "https://"+address(p.apiServer)); err != nil {
		return nil, err
	}
	if err := cp.loadConfig(); err != nil {
		return nil, err
	}
	for _, stage := range components(cp.state, p, opts) {
		for _, c := range stage {
			s := &server{component: c, program: filepath.Join(bin, c.name)}
			if err := cp.launch(s); err != nil {
				return nil, err
			}
			cp.running = append(cp.running, s)
		}
		for _, s := range cp.running[len(cp.running)-len(stage):] {
			if err := cp.prober.await(ctx, s.health, s.process); err != nil {
				return nil, err
			}
			fmt.Fprintf(log, "rig: %s works after %.1f s\n", s.name, time.Since(began).Seconds())
		}
	}
	if err := cp.awaitServiceAccount(ctx); err != nil {
		return nil, err
	}
	if opts.Node {
		if err := cp.startNode(ctx, log); err != nil {
			return nil, err
		}
	}
	fmt.Fprintf(log, "rig: Kubernetes %s is ready after %.1f s, state in %s\n", KubernetesVersion, time.Since(began).Seconds(), cp.state.dir)
	return cp, nil
}

// launch starts the process of a server.
func (cp *ControlPlane) launch(s *server) error {
	p, err := startProcess(s.name, s.program, s.args,
		cp.state.dir, cp.state.log(s.name), cp.state.pidFile(s.name))
	if err != nil {
		return err // a restarted server keeps its ended process
	}
	s.process = p
	return nil
}

// loadConfig reads the administrator's kubeconfig back, as any client would.
func (cp *ControlPlane) loadConfig() error {
	config, err := clientcmd.BuildConfigFromFlags("", cp.Kubeconfig())
	if err != nil {
		return fmt.Errorf("reading the kubeconfig: %w", err)
	}
	config.QPS, config.Burst = 1000, 2000 // the default of 5 a second slows tests
	cp.config = config
	cp.prober, err = newProber(config.CAData, config.CertData, config.KeyData)
	return err
}

// awaitServiceAccount waits for the controllers to have made the ServiceAccount
// "default": the admission plugin ServiceAccount refuses pods before.
func (cp *ControlPlane) awaitServiceAccount(ctx context.Context) error {
	client, err := kubernetes.NewForConfig(cp.config)
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	for {
		_, err := client.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Get(ctx, "default", metav1.GetOptions{})
		if err == nil {
			return nil
		}
		for _, s := range cp.running {
			if s.process.ended() {
				return s.process.failure()
			}
		}
		if ctx.Err() != nil || !apierrors.IsNotFound(err) {
			return fmt.Errorf("waiting for the ServiceAccount default/default: %w", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// Kubeconfig answers the path of the administrator's kubeconfig (group
// system:masters), which needs no other file.
func (cp *ControlPlane) Kubeconfig() string { return KubeconfigPath(cp.state.dir) }

// Config answers a configuration for clients of the administrator, with limits
// of 1000 requests a second and bursts of 2000. Each call makes a new copy.
func (cp *ControlPlane) Config() *rest.Config { return rest.CopyConfig(cp.config) }

// LogFile answers the path of a component's log, such as [APIServer]'s.
func (cp *ControlPlane) LogFile(component string) string { return cp.state.log(component) }

// Restart stops a component, such as [APIServer], starts it again with the same
// arguments and data, and waits until all of the control plane works. A
// component that has ended by itself is started too. It takes up to five minutes,
// or less where ctx is done earlier: mostly seconds, for etcd about ten, since
// that waits for the API server's watches.
func (cp *ControlPlane) Restart(ctx context.Context, component string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, startLimit, fmt.Errorf("not done within %s", startLimit))
	defer cancel()
	cp.mu.Lock()
	defer cp.mu.Unlock()
	i := slices.IndexFunc(cp.running, func(s *server) bool { return s.name == component })
	if i < 0 {
		return fmt.Errorf("restarting %q: no such component is running", component)
	}
	if err := cp.running[i].process.stop(ctx); err != nil {
		return fmt.Errorf("restarting %s: %w", component, err)
	}
	if err := cp.launch(cp.running[i]); err != nil {
		return fmt.Errorf("restarting %s: %w", component, err)
	}
	// Those that depend on it come back some time after it.
	for _, s := range cp.running[i:] {
		if s.health == "" {
			continue
		}
		if err := cp.prober.await(ctx, s.health, s.process); err != nil {
			return fmt.Errorf("restarting %s: %w", component, err)
		}
	}
	return nil
}

// Stop ends all servers in the reverse order of their start, and removes the
// state folder if [Start] made it. Each gets ten seconds to end by itself, or
// less where ctx is done earlier, and is then killed. Stopping twice is no
// error; an error means that something was left.
func (cp *ControlPlane) Stop(ctx context.Context) error {
	cp.mu.Lock()
	defer cp.mu.Unlock()
	var left []error
	for _, s := range slices.Backward(cp.running) {
		if s.beforeStop != nil {
			s.beforeStop(ctx)
		}
		if err := s.process.stop(ctx); err != nil {
			left = append(left, err)
		}
	}
	if len(left) > 0 {
		return errors.Join(left...)
	}
	cp.running = nil
	if cp.node != nil {
		if err := cp.node.release(ctx); err != nil {
			return err
		}
		cp.node = nil
	}
	clean := func() error { return os.Remove(cp.state.pidFile(owner)) }
	if cp.temporary {
		clean = func() error { return os.RemoveAll(cp.state.dir) }
	}
	if err := clean(); err != nil && !os.IsNotExist(err) {
		return fmt.Errorf("cleaning up after a control plane: %w", err)
	}
	return nil
}
