// Package sidecartest has sidecars for tests of what asks them: Medusa simulated behind
// its real gRPC service (medusa.go, process.go, storage.go), and the agent's own
// server (agent/nodeserver), on an address of the loopback network, with answers of
// the test's.
package sidecartest

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stategraft/stategraft/agent/nodeserver"
	"github.com/stategraft/stategraft/api/node"
	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/certs"
	"github.com/stategraft/stategraft/patches"
)

// Backend makes the answers. They are asked for by several goroutines. Without
// Report it is an empty one, without the others there is no such path.
type Backend struct {
	Report  func(context.Context) (node.Report, error)
	Backups func(ctx context.Context, prefix string) (node.Backups, error)
	Backup  func(ctx context.Context, prefix, name string) (node.Backup, error)
	// Contents and Discard are those of nodeserver.Config, with its errors.
	Contents func(ctx context.Context, prefix, name, of string) (node.Contents, error)
	Discard  func(ctx context.Context, prefix, name string) (node.Discarded, error)
	// Replay is that of Anna's.
	Replay func(ctx context.Context, r node.ReplayRequest) (node.Replay, error)
}

// Pair is the content of Secret stategraft-grpc. The zero value is none: the sidecar
// serves in the clear.
type Pair struct{ Cert, Key, CA []byte }

// Issue makes the pair of a namespace's sidecars, as the controller does.
func Issue(authority certs.Authority, namespace string) (Pair, error) {
	issued, err := certs.Issue(authority.Signer, certs.Template{
		CommonName: "stategraft-grpc", Names: []string{api.GRPCServerName(namespace)}, Usage: x509.ExtKeyUsageServerAuth, Validity: time.Hour,
	}, time.Now())
	if err != nil {
		return Pair{}, fmt.Errorf("make a sidecar's pair: %w", err)
	}
	return Pair{issued.CertPEM, issued.KeyPEM, authority.Bundle()}, nil
}

// Authority is a source of certificates. Its value is changed by the test, between
// questions.
type Authority struct {
	Value certs.Authority
}

// NewAuthority makes one of its own.
func NewAuthority() (*Authority, error) {
	ca, err := certs.NewCA(24*time.Hour, time.Now())
	if err != nil {
		return nil, err
	}
	return &Authority{certs.Authority{Signer: ca, Trusted: []*x509.Certificate{ca.Certificate}}}, nil
}

// Authority implements certs.Source.
func (a *Authority) Authority(context.Context) (certs.Authority, error) { return a.Value, nil }

// Server is a sidecar that runs.
type Server struct {
	IP   string
	Port int

	dir  string // of the pair; empty without
	end  context.CancelFunc
	done chan struct{}
}

// startLimit is how long a server may need to listen.
const startLimit = time.Minute

// Start starts a sidecar at an address such as 127.0.0.7 and, where port is 0, at a
// port that is free there. It listens when Start returns.
func Start(ip string, port int, pair Pair, backend Backend) (*Server, error) {
	if port == 0 {
		listener, err := listen(ip)
		if err != nil {
			return nil, fmt.Errorf("find a port: %w", err)
		}
		port = listener.Addr().(*net.TCPAddr).Port
		listener.Close()
	}
	s := &Server{IP: ip, Port: port, done: make(chan struct{})}
	if pair.Cert != nil {
		dir, err := os.MkdirTemp("", "sidecartest-*")
		if err != nil {
			return nil, fmt.Errorf("make room for the pair: %w", err)
		}
		s.dir = dir
		if err := s.Replace(pair); err != nil {
			return nil, errors.Join(err, os.RemoveAll(dir))
		}
	}
	if backend.Report == nil {
		backend.Report = func(context.Context) (node.Report, error) { return node.Report{}, nil }
	}
	ctx, cancel := context.WithCancel(context.Background())
	s.end = cancel
	go func() {
		defer close(s.done)
		nodeserver.Run(ctx, nodeserver.Config{
			Address: ip, Port: port, TLSDir: s.dir,
			Report: backend.Report, Backups: backend.Backups, Backup: backend.Backup, Contents: backend.Contents, Discard: backend.Discard, Replay: backend.Replay,
			Log: slog.New(slog.DiscardHandler),
		})
	}()
	if err := s.await(); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

func (s *Server) await() error {
	var err error
	for deadline := time.Now().Add(startLimit); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		var conn net.Conn
		if conn, err = net.Dial("tcp", net.JoinHostPort(s.IP, strconv.Itoa(s.Port))); err == nil {
			conn.Close()
			return nil
		}
	}
	return fmt.Errorf("the sidecar does not listen: %w", err)
}

// Replace gives the sidecar another pair, which it takes within about a second.
func (s *Server) Replace(pair Pair) error {
	for name, content := range map[string][]byte{"tls.crt": pair.Cert, "tls.key": pair.Key, "ca.crt": pair.CA} {
		if err := os.WriteFile(filepath.Join(s.dir, name), content, 0o600); err != nil {
			return fmt.Errorf("write the pair: %w", err)
		}
	}
	return nil
}

// Close ends the sidecar: nobody listens any more when it returns.
func (s *Server) Close() {
	s.end()
	<-s.done
	if s.dir != "" {
		_ = os.RemoveAll(s.dir)
	}
}

// Dress gives a pod what it takes to be asked at the server: the port, the pair's
// mount, its address, and a container that runs. While restoring that is the init
// container of the restore, else Medusa's.
func (s *Server) Dress(pod *corev1.Pod, restoring bool) {
	if restoring {
		s.dress(pod, patches.ContainerRestore, &pod.Spec.InitContainers, &pod.Status.InitContainerStatuses)
		return
	}
	s.dress(pod, patches.ContainerMedusa, &pod.Spec.Containers, &pod.Status.ContainerStatuses)
}

// DressAnna gives a pod what a node of Anna is asked at: the agent, as a native sidecar or
// as an ordinary container, of a role such as memory.
func (s *Server) DressAnna(pod *corev1.Pod, role string, native bool) {
	containers, statuses := &pod.Spec.Containers, &pod.Status.ContainerStatuses
	if native {
		containers, statuses = &pod.Spec.InitContainers, &pod.Status.InitContainerStatuses
	}
	s.dress(pod, patches.ContainerAgent, containers, statuses)
	if pod.Labels == nil {
		pod.Labels = map[string]string{}
	}
	pod.Labels[api.LabelInjected] = "anna"
	at := slices.IndexFunc(*containers, func(c corev1.Container) bool { return c.Name == patches.ContainerAgent })
	(*containers)[at].Env = append((*containers)[at].Env, corev1.EnvVar{Name: "STATEGRAFT_ROLE", Value: role})
}

func (s *Server) dress(pod *corev1.Pod, name string, containers *[]corev1.Container, statuses *[]corev1.ContainerStatus) {
	var c *corev1.Container
	for i := range *containers {
		if (*containers)[i].Name == name {
			c = &(*containers)[i]
		}
	}
	if c == nil {
		*containers = append(*containers, corev1.Container{Name: name, Image: "x"})
		c = &(*containers)[len(*containers)-1]
	}
	expose(c, node.PortName, s.Port)
	if s.dir != "" {
		c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: patches.VolumeGRPCTLS, MountPath: patches.DirGRPCTLS, ReadOnly: true})
	}
	pod.Status.PodIP = s.IP
	*statuses = append(*statuses, corev1.ContainerStatus{Name: name, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}})
}

// expose gives a container a port, in place of one of the name.
func expose(c *corev1.Container, name string, port int) {
	c.Ports = slices.DeleteFunc(c.Ports, func(p corev1.ContainerPort) bool { return p.Name == name })
	c.Ports = append(c.Ports, corev1.ContainerPort{Name: name, ContainerPort: int32(port), Protocol: corev1.ProtocolTCP})
}

// Pod is a pod that is asked at the server.
func (s *Server) Pod(namespace, name string) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	s.Dress(pod, false)
	return pod
}
