package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/stategraft/stategraft/test/cluster"
	"github.com/stategraft/stategraft/webhook"
)

// TestProcesses runs both processes beside a real API server.
func TestProcesses(t *testing.T) {
	if os.Getenv(cluster.EnabledEnv) != "1" {
		t.Skipf("needs a real control plane: set %s=1", cluster.EnabledEnv)
	}
	dir := t.TempDir()
	cp, err := cluster.Start(t.Context(), cluster.Options{Dir: dir, Log: t.Output()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cp.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	client, err := kubernetes.NewForConfig(cp.Config())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "stategraft"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	kubeconfig := cluster.KubeconfigPath(dir)
	t.Run("drain", func(t *testing.T) { drains(t, kubeconfig) })
	t.Run("asked twice", func(t *testing.T) { endsAtOnce(t, kubeconfig) })
	t.Run("orders", func(t *testing.T) { ordersAppear(t, cp.Config(), kubeconfig) })
	t.Run("leader", func(t *testing.T) { leaders(t, client, kubeconfig) })
}

// hook is a webhook's process and a client that trusts it.
type hook struct {
	*child
	url    string
	client *http.Client
}

func startHook(t *testing.T, kubeconfig, drain string) *hook {
	t.Helper()
	certDir := filepath.Join(t.TempDir(), "certs")
	address := freeAddress(t)
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	c := run(t, kubeconfig, "webhook", "--host", host, "--port", port, "--cert-dir", certDir, "--drain", drain, "--namespace", "stategraft")
	until(t, "the process to say that it waits", func() bool {
		return status("http://"+c.health+"/healthz") == http.StatusOK && status("http://"+c.health+"/readyz") == http.StatusInternalServerError
	})
	pair := selfSigned(t, host)
	if err := pair.Write(certDir); err != nil {
		t.Fatal(err)
	}
	until(t, "the webhook to be ready", c.ready)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pair.CA)
	return &hook{c, "https://" + address + webhook.Path, &http.Client{Timeout: limit,
		Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: true}}}
}

// ask sends a request that is answered with an error of ours.
func (h *hook) ask() error {
	response, err := h.client.Post(h.url, "application/json", strings.NewReader("{}"))
	if err != nil {
		return err
	}
	return response.Body.Close()
}

// drains: not ready at once, answering all the while, then an end in peace. What happens
// is judged as long as the drain cannot be over yet: on a busy machine that says less, and
// nothing wrong.
func drains(t *testing.T, kubeconfig string) {
	const drain = 10 * time.Second
	h := startHook(t, kubeconfig, drain.String())
	if err := h.ask(); err != nil {
		t.Fatal(err)
	}
	asked := time.Now()
	h.signal(t)
	over := func() bool { return time.Since(asked) >= drain }
	for h.ready() {
		if over() {
			t.Fatalf("ready all the while that it drains, %s", drain)
		}
	}
	answered := 0
	for time.Since(asked) < drain/2 {
		if err := h.ask(); err == nil {
			answered++
		} else if !over() {
			t.Fatalf("%s after SIGTERM: %v", time.Since(asked), err)
		}
		time.Sleep(10 * time.Millisecond)
	}
	select {
	case <-h.done:
		if !over() {
			t.Errorf("ended before the drain of %s was over", drain)
		}
	default:
	}
	await(t, "the end", h.done)
	if !h.cmd.ProcessState.Success() {
		t.Errorf("it ended badly: %s", h.cmd.ProcessState)
	}
	t.Logf("%d requests answered while draining", answered)
}

func endsAtOnce(t *testing.T, kubeconfig string) {
	h := startHook(t, kubeconfig, "1h")
	h.signal(t)
	until(t, "the webhook to be unready", func() bool { return status("http://"+h.health+"/readyz") == http.StatusInternalServerError })
	h.signal(t)
	await(t, "the end", h.done)
	if h.cmd.ProcessState.ExitCode() != 1 {
		t.Errorf("ended with %s, want exit status 1", h.cmd.ProcessState)
	}
}

// leaders: both controllers are ready, one leads, and gives its lease up when it ends, so
// that the other one follows at once and not when the lease is over.
func leaders(t *testing.T, client kubernetes.Interface, kubeconfig string) {
	start := func() *child {
		c := run(t, kubeconfig, "controller", "--namespace", "stategraft")
		until(t, "the controller to be ready", c.ready)
		return c
	}
	first := start()
	until(t, "the first one to lead", func() bool { return first.leads(t) })
	leader := func() string {
		lease, err := client.CoordinationV1().Leases("stategraft").Get(t.Context(), "stategraft-controller", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if lease.Spec.HolderIdentity == nil {
			return ""
		}
		return *lease.Spec.HolderIdentity
	}
	before := leader()
	if before == "" {
		t.Error("nobody has the lease, so this test shows nothing")
	}
	second := start()
	if second.leads(t) {
		t.Error("both lead")
	}
	first.signal(t)
	await(t, "the first one to end", first.done)
	if now := leader(); now == before {
		t.Errorf("it has ended, and keeps the lease: %s", now)
	}
	if !first.cmd.ProcessState.Success() {
		t.Errorf("it ended badly: %s", first.cmd.ProcessState)
	}
	until(t, "the second one to lead", func() bool { return second.leads(t) })
}
