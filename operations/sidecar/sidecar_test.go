package sidecar

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/stategraft/stategraft/api/node"
	"github.com/stategraft/stategraft/certs"
	"github.com/stategraft/stategraft/operations/sidecar/sidecartest"
)

var _ Nodes = (*Client)(nil)

func authority(t *testing.T) *sidecartest.Authority {
	t.Helper()
	a, err := sidecartest.NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func pair(t *testing.T, a certs.Authority, namespace string) sidecartest.Pair {
	t.Helper()
	p, err := sidecartest.Issue(a, namespace)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func start(t *testing.T, ip string, p sidecartest.Pair, b sidecartest.Backend) *sidecartest.Server {
	t.Helper()
	s, err := sidecartest.Start(ip, 0, p, b)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// named answers its name.
func named(name string) sidecartest.Backend {
	return sidecartest.Backend{Report: func(context.Context) (node.Report, error) { return node.Report{Node: name}, nil }}
}

func TestAsks(t *testing.T) {
	t.Parallel()
	a := authority(t)
	backend := named("c-0")
	backend.Backups = func(_ context.Context, prefix string) (node.Backups, error) {
		if prefix == "bad" {
			return node.Backups{}, errors.New("list the backups: no route to storage")
		}
		return node.Backups{Prefix: "[" + prefix + "]", Backups: []node.Summary{{Name: "b1"}}}, nil
	}
	backend.Backup = func(_ context.Context, prefix, name string) (node.Backup, error) {
		return node.Backup{Summary: node.Summary{Name: name}, Prefix: prefix, Members: []node.Member{{Node: "c-0", Bytes: 7}}}, nil
	}
	for kind, p := range map[string]sidecartest.Pair{"TLS": pair(t, a.Value, "ring"), "clear": {}} {
		c, pod := New(a), start(t, "127.0.0.11", p, backend).Pod("ring", "c-0")
		if r, err := c.Report(t.Context(), pod); err != nil || r.Node != "c-0" {
			t.Errorf("%s: got %+v, %v", kind, r, err)
		}
		for _, prefix := range []string{"", ".", "a b&c"} {
			if b, err := c.Backups(t.Context(), pod, prefix); err != nil || b.Prefix != "["+prefix+"]" || len(b.Backups) != 1 {
				t.Errorf("%s: got %+v, %v", kind, b, err)
			}
		}
		if b, err := c.Backup(t.Context(), pod, "p", "b 1"); err != nil || b.Name != "b 1" || b.Prefix != "p" || b.Members[0].Bytes != 7 {
			t.Errorf("%s: got %+v, %v", kind, b, err)
		}
		var answered *AnswerError
		_, err := c.Backups(t.Context(), pod, "bad")
		if !errors.As(err, &answered) || answered.Status != 500 || answered.Message != "list the backups: no route to storage" || errors.Is(err, ErrUnreachable) ||
			err.Error() != "ask pod ring/c-0: list the backups: no route to storage" {
			t.Errorf("%s: got %v", kind, err)
		}
		// What only the restore container serves has no lookups.
		bare := start(t, "127.0.0.12", p, sidecartest.Backend{}).Pod("ring", "c-1")
		if _, err := c.Backups(t.Context(), bare, ""); !errors.As(err, &answered) || answered.Status != 404 {
			t.Errorf("%s: got %v", kind, err)
		}
	}
}

// TestFind: the container that runs is asked, over IPv6 too.
func TestFind(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*corev1.Pod)
		want   string
		err    error
	}{
		"serving": {func(*corev1.Pod) {}, "{stategraft-medusa stategraft-medusa 127.0.0.9:50061 false}", nil},
		"restoring": {func(p *corev1.Pod) {
			p.Status.ContainerStatuses = nil
			(&sidecartest.Server{IP: "fd00::7", Port: 7}).Dress(p, true)
		}, "{stategraft-restore stategraft-restore [fd00::7]:7 false}", nil},
		"with TLS": {func(p *corev1.Pod) {
			p.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{MountPath: "/etc/stategraft/grpc-tls"}}
		}, "{stategraft-medusa stategraft-medusa 127.0.0.9:50061 true}", nil},
		"both run": {func(p *corev1.Pod) { (&sidecartest.Server{IP: "127.0.0.9", Port: 7}).Dress(p, true) }, "{stategraft-medusa stategraft-medusa 127.0.0.9:50061 false}", nil},
		"ended": {func(p *corev1.Pod) {
			p.Status.ContainerStatuses[0].State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}
		}, "", ErrUnreachable},
		"no address yet":     {func(p *corev1.Pod) { p.Status.PodIP = "" }, "", ErrUnreachable},
		"no port":            {func(p *corev1.Pod) { p.Spec.Containers[0].Ports[0].Name = "medusa-grpc" }, "", ErrNoService},
		"another's port":     {func(p *corev1.Pod) { p.Spec.Containers[0].Name = "cassandra" }, "", ErrNoService},
		"without containers": {func(p *corev1.Pod) { p.Spec.Containers = nil }, "", ErrNoService},
	} {
		pod := (&sidecartest.Server{IP: "127.0.0.9", Port: node.DefaultPort}).Pod("ring", "c-0")
		c.change(pod)
		at, err := find(pod, nodeService)
		if !errors.Is(err, c.err) || err == nil && fmt.Sprint(at) != c.want {
			t.Errorf("%s: got %v, %v", name, at, err)
		}
	}
}

// TestIPv6 asks a pod that has no other address.
func TestIPv6(t *testing.T) {
	t.Parallel()
	a := authority(t)
	s, err := sidecartest.Start("::1", 0, pair(t, a.Value, "ring"), named("six"))
	if err != nil {
		t.Skip("no IPv6 here: ", err)
	}
	defer s.Close()
	if r, err := New(a).Report(t.Context(), s.Pod("ring", "c-0")); err != nil || r.Node != "six" {
		t.Errorf("got %+v, %v", r, err)
	}
}

// TestPatience: a pod that does not answer costs its limit, and a caller that gives up
// gets away at once.
func TestPatience(t *testing.T) {
	t.Parallel()
	asked, ended := make(chan struct{}), make(chan struct{})
	s := start(t, "127.0.0.17", sidecartest.Pair{}, sidecartest.Backend{
		Report: func(ctx context.Context) (node.Report, error) { <-ctx.Done(); return node.Report{}, ctx.Err() },
		Backups: func(ctx context.Context, _ string) (node.Backups, error) {
			defer close(ended)
			close(asked)
			<-ctx.Done()
			return node.Backups{}, ctx.Err()
		},
	})
	c, pod := New(nil), s.Pod("ring", "c-0")
	begun := time.Now()
	if _, err := c.Report(t.Context(), pod); !errors.Is(err, ErrUnreachable) || !strings.Contains(err.Error(), "no answer within 5s") || time.Since(begun) > time.Minute {
		t.Errorf("got %v after %v", err, time.Since(begun))
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-asked; cancel() }()
	begun = time.Now()
	if _, err := c.Backups(ctx, pod, ""); !errors.Is(err, context.Canceled) || time.Since(begun) > lookupLimit/2 {
		t.Errorf("got %v after %v", err, time.Since(begun))
	}
	<-ended // the sidecar does not go on for nobody
	s.Close()
	if _, err := c.Report(t.Context(), pod); !errors.Is(err, ErrUnreachable) {
		t.Errorf("nobody there: got %v", err)
	}
}

// TestStrangeAnswers: what is not ours at that address is told, and leads nowhere.
func TestStrangeAnswers(t *testing.T) {
	t.Parallel()
	var elsewhere atomic.Bool
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere.Store(true) }))
	defer other.Close()
	var answer atomic.Pointer[http.HandlerFunc]
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { (*answer.Load())(w, r) }))
	defer server.Close()
	host := server.Listener.Addr().(*net.TCPAddr)
	pod := (&sidecartest.Server{IP: host.IP.String(), Port: host.Port}).Pod("ring", "c-0")
	c := New(nil)
	for want, how := range map[string]http.HandlerFunc{
		"the sidecar answers 404 Not Found":    http.NotFound,
		"the sidecar answers 302 Found":        func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, other.URL, http.StatusFound) },
		"more than 1048576 bytes":              func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, strings.Repeat(" ", 2<<20)) },
		"read the answer: invalid character":   func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") },
		"read the answer: unexpected end of J": func(http.ResponseWriter, *http.Request) {},
	} {
		answer.Store(&how)
		if _, err := c.Report(t.Context(), pod); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	if elsewhere.Load() {
		t.Error("a redirect is followed")
	}
}
