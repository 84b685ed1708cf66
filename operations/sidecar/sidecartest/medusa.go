package sidecartest

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"net"
	"strconv"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stategraft/stategraft/api/medusa"
	"github.com/stategraft/stategraft/api/node"
	"github.com/stategraft/stategraft/patches"
)

// Work is how a backup of a node goes.
type Work struct {
	Before time.Duration // until it begins; Medusa knows nothing of it meanwhile
	Takes  time.Duration
	// Objects and Bytes are what is in it. A database whose snapshot was empty has
	// none, and Medusa calls it a success.
	Objects, Bytes int64
	Fails          bool // at its end
	NeverBegins    bool // Medusa gives up after Before, and tells nobody
	// Begin and End, where they are not nil, are closed by the test: it begins, and is
	// over, no sooner.
	Begin, End <-chan struct{}
	Contents   *node.Contents // what is counted; nil for nothing
}

// Node is a simulated Medusa's.
type Node struct {
	Name    string
	Storage *Storage
	// Work says how a backup goes; nil for one of ten objects that takes no time.
	Work func(name string, full bool) Work
	// MaxCount is max_backup_count of the medusa.ini: what a purge leaves.
	MaxCount int
	// Alone has it refuse a backup while it makes one, as the agent's hooks do
	// (agent/python/running.py). Else there is an image whose Python cannot be run.
	Alone bool
	// Lost tells of a deletion that its caller is cut off in the midst of it, with nothing
	// deleted yet; nil for none.
	Lost func(name string) bool
}

// Medusa is a sidecar that runs a simulated Medusa: the real gRPC service with
// upstream's answers, quirks included (medusa/service/grpc/server.py of 0.30).
type Medusa struct {
	IP   string
	Port int

	node    Node
	mutex   sync.Mutex
	pair    Pair
	process *process // nil while it does not run
	calls   map[string]int
}

// Address is the i-th of many addresses of the loopback network.
func Address(i int) string { return fmt.Sprintf("127.20.%d.%d", i/250, i%250+1) }

// StartMedusa starts one at an address such as 127.0.0.7 and, where port is 0, at a
// port that is free there.
func StartMedusa(ip string, port int, pair Pair, of Node) (*Medusa, error) {
	if of.Work == nil {
		of.Work = func(string, bool) Work { return Work{Objects: 10, Bytes: 10 << 10} }
	}
	m := &Medusa{IP: ip, Port: port, node: of, pair: pair, calls: map[string]int{}}
	if err := m.Run(); err != nil {
		return nil, err
	}
	return m, nil
}

// Run starts the process. It listens when Run returns.
func (m *Medusa) Run() error {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	if m.process != nil {
		return nil
	}
	options := []grpc.ServerOption{grpc.ReadBufferSize(4 << 10), grpc.WriteBufferSize(4 << 10), grpc.UnaryInterceptor(m.count)}
	if m.pair.Cert != nil {
		config, err := m.pair.server()
		if err != nil {
			return err
		}
		options = append(options, grpc.Creds(credentials.NewTLS(config)))
	}
	listener, err := m.listen()
	if err != nil {
		return fmt.Errorf("listen as Medusa: %w", err)
	}
	m.Port = listener.Addr().(*net.TCPAddr).Port
	ctx, cancel := context.WithCancel(context.Background())
	p := &process{node: m.node, exit: m.Kill, ctx: ctx, cancel: cancel, server: grpc.NewServer(options...), done: make(chan struct{})}
	medusa.RegisterMedusaServer(p.server, p)
	grpc_health_v1.RegisterHealthServer(p.server, health.NewServer())
	go func() {
		defer close(p.done)
		_ = p.server.Serve(listener) // ends with Stop
	}()
	m.process = p
	return nil
}

// listen takes the port that it had, for whoever knows the pod asks there.
func (m *Medusa) listen() (net.Listener, error) {
	if m.Port == 0 {
		return listen(m.IP)
	}
	return net.Listen("tcp", net.JoinHostPort(m.IP, strconv.Itoa(m.Port)))
}

// Settled tells whether each backup that it was asked for is over, or is at what its Work
// has it wait for: nothing changes before that has passed.
func (m *Medusa) Settled() bool {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	return m.process == nil || m.process.busy.Load() == 0
}

// Kill ends the process: backups stop where they are, and nobody listens.
func (m *Medusa) Kill() {
	m.mutex.Lock()
	p := m.process
	m.process = nil
	m.mutex.Unlock()
	if p == nil {
		return
	}
	p.cancel()
	p.server.Stop()
	<-p.done
	p.jobs.Wait()
}

// Close is Kill, for good.
func (m *Medusa) Close() { m.Kill() }

// Restart ends the process and starts another, which knows nothing of before.
func (m *Medusa) Restart() error {
	m.Kill()
	return m.Run()
}

// Replace restarts it with another pair.
func (m *Medusa) Replace(pair Pair) error {
	m.mutex.Lock()
	m.pair = pair
	m.mutex.Unlock()
	return m.Restart()
}

// Calls are how many there were, by method, such as BackupStatus.
func (m *Medusa) Calls() map[string]int {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	return maps.Clone(m.calls)
}

func (m *Medusa) count(ctx context.Context, request any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	for i := len(info.FullMethod) - 1; i >= 0; i-- {
		if info.FullMethod[i] == '/' {
			m.mutex.Lock()
			m.calls[info.FullMethod[i+1:]]++
			m.mutex.Unlock()
			break
		}
	}
	return next(ctx, request)
}

// server is TLS as Medusa does it: read when it starts, and clients must show theirs.
func (p Pair) server() (*tls.Config, error) {
	pair, err := tls.X509KeyPair(p.Cert, p.Key)
	if err != nil {
		return nil, fmt.Errorf("read the pair: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(p.CA) {
		return nil, errors.New("the pair's authority holds no certificate")
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool}, nil
}

// Dress gives a pod what it takes to be asked at this Medusa, beside what Server.Dress
// gives. Both have one address.
func (m *Medusa) Dress(pod *corev1.Pod) {
	var c *corev1.Container
	for i := range pod.Spec.Containers {
		if pod.Spec.Containers[i].Name == patches.ContainerMedusa {
			c = &pod.Spec.Containers[i]
		}
	}
	if c == nil {
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: patches.ContainerMedusa, Image: "x"})
		c = &pod.Spec.Containers[len(pod.Spec.Containers)-1]
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{
			Name: patches.ContainerMedusa, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
		})
		if m.pair.Cert != nil {
			c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: patches.VolumeGRPCTLS, MountPath: patches.DirGRPCTLS, ReadOnly: true})
		}
	}
	expose(c, patches.PortMedusa, m.Port)
	pod.Status.PodIP = m.IP
}

// Pod is a pod that is asked at this Medusa.
func (m *Medusa) Pod(namespace, name string) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	m.Dress(pod)
	return pod
}
