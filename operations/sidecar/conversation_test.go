package sidecar

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"

	"github.com/stategraft/stategraft/api/medusa"
	"github.com/stategraft/stategraft/certs"
	"github.com/stategraft/stategraft/operations/sidecar/sidecartest"
	"github.com/stategraft/stategraft/patches"
)

// TestMedusaOnlyTheNamespacesOwn is TestOnlyTheNamespacesOwn for gRPC.
func TestMedusaOnlyTheNamespacesOwn(t *testing.T) {
	t.Parallel()
	a, other := authority(t), authority(t)
	c, n := New(a), sidecartest.Node{Name: "c-0", Storage: sidecartest.NewStorage("c-0")}
	for name, p := range map[string]sidecartest.Pair{
		"another namespace's": pair(t, a.Value, "other"),
		"another authority's": pair(t, other.Value, "ring"),
	} {
		if _, err := c.Medusa(t.Context(), startMedusa(t, "127.0.0.24", p, n).Pod("ring", "c-0")); !errors.Is(err, ErrUnreachable) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	plain := startMedusa(t, "127.0.0.24", sidecartest.Pair{}, n).Pod("ring", "c-0")
	plain.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{MountPath: "/etc/stategraft/grpc-tls"}}
	if _, err := c.Medusa(t.Context(), plain); !errors.Is(err, ErrUnreachable) {
		t.Errorf("in the clear: got %v", err)
	}
	secured := startMedusa(t, "127.0.0.24", pair(t, a.Value, "ring"), n)
	if _, err := New(nil).Medusa(t.Context(), secured.Pod("ring", "c-0")); !errors.Is(err, certs.ErrNoAuthority) || !errors.Is(err, ErrUnreachable) {
		t.Errorf("without an authority: got %v", err)
	}
	if _, err := c.Medusa(t.Context(), &corev1.Pod{}); !errors.Is(err, ErrNoService) {
		t.Errorf("without a sidecar: got %v", err)
	}
}

// TestMedusaAskedAgain: a certificate that Medusa no longer admits is made anew.
func TestMedusaAskedAgain(t *testing.T) {
	t.Parallel()
	a, next := authority(t), authority(t)
	trusted := []*x509.Certificate{a.Value.Signer.Certificate, next.Value.Signer.Certificate}
	a.Value.Trusted = trusted
	c := New(a)
	s := startMedusa(t, "127.0.0.25", pair(t, a.Value, "ring"), sidecartest.Node{Name: "c-0", Storage: sidecartest.NewStorage("c-0")})
	pod := s.Pod("ring", "c-0")
	converse(t, c, pod)
	a.Value = certs.Authority{Signer: next.Value.Signer, Trusted: trusted}
	k := c.transports.byNamespace["ring"]
	k.authority, k.made = digest(a.Value), time.Now().Add(-time.Hour)
	if err := s.Replace(pair(t, next.Value, "ring")); err != nil {
		t.Fatal(err)
	}
	converse(t, c, pod)
	if c.transports.byNamespace["ring"] == k {
		t.Error("the certificate is the same")
	}
}

// TestMedusaPatience: one that is connected to and says nothing costs a limit, and a
// caller that gives up gets away at once.
func TestMedusaPatience(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.26:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	pod := (&sidecartest.Medusa{IP: "127.0.0.26", Port: listener.Addr().(*net.TCPAddr).Port}).Pod("ring", "c-0")
	begun := time.Now()
	if _, err := New(nil).Medusa(t.Context(), pod); !errors.Is(err, ErrUnreachable) || time.Since(begun) > time.Minute {
		t.Errorf("got %v after %v", err, time.Since(begun))
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := New(nil).Medusa(ctx, pod); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, ErrUnreachable) || strings.Contains(err.Error(), "no answer within") {
		t.Errorf("got %v", err)
	}
}

// TestFindMedusa: Medusa's container or the agent in its place, and neither the port
// of api/node nor the container of a restore.
func TestFindMedusa(t *testing.T) {
	t.Parallel()
	running := func(name string) []corev1.ContainerStatus {
		return []corev1.ContainerStatus{{Name: name, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
	}
	agent := []corev1.Container{{Name: patches.ContainerAgent, Ports: []corev1.ContainerPort{{Name: patches.PortAgent, ContainerPort: 9}}}}
	for name, c := range map[string]struct {
		change func(*corev1.Pod)
		want   string
		err    error
	}{
		"both ports": {func(p *corev1.Pod) { (&sidecartest.Server{IP: "127.0.0.9", Port: 7}).Dress(p, false) }, "{stategraft-medusa stategraft-medusa 127.0.0.9:50051 false}", nil},
		"with TLS": {func(p *corev1.Pod) {
			p.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{MountPath: "/etc/stategraft/grpc-tls"}}
		}, "{stategraft-medusa stategraft-medusa 127.0.0.9:50051 true}", nil},
		"an agent among init containers": {func(p *corev1.Pod) {
			p.Spec.Containers, p.Spec.InitContainers, p.Status.InitContainerStatuses = nil, agent, running(patches.ContainerAgent)
		}, "{stategraft-agent stategraft-agent 127.0.0.9:9 false}", nil},
		"an agent": {func(p *corev1.Pod) {
			p.Spec.Containers, p.Status.ContainerStatuses = agent, running(patches.ContainerAgent)
		}, "{stategraft-agent stategraft-agent 127.0.0.9:9 false}", nil},
		"ended":     {func(p *corev1.Pod) { p.Status.ContainerStatuses = nil }, "", ErrUnreachable},
		"node only": {func(p *corev1.Pod) { p.Spec.Containers[0].Ports[0].Name = "stategraft-node" }, "", ErrNoService},
		"nothing":   {func(p *corev1.Pod) { p.Spec.Containers = nil }, "", ErrNoService},
	} {
		pod := (&sidecartest.Medusa{IP: "127.0.0.9", Port: 50051}).Pod("ring", "c-0")
		c.change(pod)
		at, err := find(pod, medusaService)
		if !errors.Is(err, c.err) || err == nil && fmt.Sprint(at) != c.want {
			t.Errorf("%s: got %v, %v", name, at, err)
		}
	}
}

// TestManyMedusas backs up 1,000 pods of 200 clusters, a conversation for each
// question, as a controller would.
func TestManyMedusas(t *testing.T) {
	if testing.Short() {
		t.Skip("starts 1,000 servers")
	}
	const clusters, each = 200, 5
	a := authority(t)
	c := New(a)
	var pods []*corev1.Pod
	var storages []*sidecartest.Storage
	for i := range clusters {
		namespace := fmt.Sprintf("ring-%03d", i)
		p := pair(t, a.Value, namespace)
		storage := sidecartest.NewStorage("c-0", "c-1", "c-2", "c-3", "c-4")
		storages = append(storages, storage)
		for j := range each {
			name := fmt.Sprintf("c-%d", j)
			s := startMedusa(t, sidecartest.Address(i*each+j), p, sidecartest.Node{Name: name, Storage: storage})
			pods = append(pods, s.Pod(namespace, name))
		}
	}
	begun := time.Now()
	var group errgroup.Group
	group.SetLimit(50)
	ask := func(pod *corev1.Pod, what func(*Medusa) error) error {
		m, err := c.Medusa(t.Context(), pod)
		if err != nil {
			return err
		}
		return errors.Join(what(m), m.Close())
	}
	for _, pod := range pods {
		group.Go(func() error {
			err := ask(pod, func(m *Medusa) error { return m.Begin(t.Context(), "b-001", false) })
			for p := Running; err == nil && p != Succeeded; {
				err = ask(pod, func(m *Medusa) (err error) {
					p, err = m.Status(t.Context(), "b-001")
					if errors.Is(err, ErrForgotten) {
						p, err = Running, nil // not begun yet
					}
					return err
				})
				if p == Failed {
					return fmt.Errorf("%s/%s has failed", pod.Namespace, pod.Name)
				}
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		t.Error(err)
	}
	took := time.Since(begun)
	for i, s := range storages {
		if parts := s.Parts("b-001"); len(parts) != each || len(s.Overlaps()) != 0 {
			t.Errorf("cluster %d: %d parts, overlaps %v", i, len(parts), s.Overlaps())
		}
	}
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	t.Logf("%d pods in %v; %d MB of heap with the servers", len(pods), took.Round(time.Millisecond), memory.HeapAlloc>>20)
}

// TestAgreesToTwice is why Begin asks first: Medusa agrees to a backup that exists, and
// calls it failed from then on, until it is restarted.
func TestAgreesToTwice(t *testing.T) {
	t.Parallel()
	storage := sidecartest.NewStorage("c-0")
	s := startMedusa(t, "127.0.0.28", sidecartest.Pair{}, sidecartest.Node{Name: "c-0", Storage: storage})
	m := converse(t, New(nil), s.Pod("ring", "c-0"))
	if err := m.Begin(t.Context(), "b-001", false); err != nil {
		t.Fatal(err)
	}
	await(t, m, "b-001", Succeeded)
	if answer, err := m.calls.AsyncBackup(t.Context(), &medusa.BackupRequest{Name: "b-001"}); err != nil || answer.GetStatus() != medusa.StatusType_IN_PROGRESS {
		t.Errorf("got %v, %v", answer, err)
	}
	await(t, m, "b-001", Failed)
	if part := storage.Parts("b-001")["c-0"]; part.Finished.IsZero() || part.Objects == 0 {
		t.Errorf("the backup is not what it was: %+v", part)
	}
	if err := s.Restart(); err != nil {
		t.Fatal(err)
	}
	await(t, m, "b-001", Succeeded)
}
