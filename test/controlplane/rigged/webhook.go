package rigged

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/stategraft/stategraft/certs"
	"github.com/stategraft/stategraft/webhook"
)

const (
	loopback   = "127.0.0.1"
	readyLimit = time.Minute      // how long the webhook may take to be ready
	stopGrace  = 10 * time.Second // how long it may take to end by itself
)

// Webhook is the webhook's process. It can be stopped and started again, on the
// same port, as a Deployment does it behind a Service.
type Webhook struct {
	CA         []byte // PEM, signs its serving certificate
	ConfigFile string // path of its configuration file

	program    string
	kubeconfig string
	certDir    string
	port       int
	metrics    int
	health     int

	mu      sync.Mutex
	log     bytes.Buffer // everything that every process wrote
	process *exec.Cmd
	done    chan struct{} // closed when process has ended
}

// URL is where the API server calls.
func (w *Webhook) URL() string { return "https://" + address(w.port) + webhook.Path }

// MetricsURL is where its metrics are read.
func (w *Webhook) MetricsURL() string { return "http://" + address(w.metrics) + "/metrics" }

// Client is an HTTP client that trusts the webhook's certificate, and speaks
// HTTP/2 to it, as the API server does.
func (w *Webhook) Client() *http.Client {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(w.CA)
	return &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS13}, ForceAttemptHTTP2: true}}
}

func (r *Rig) startWebhook(ctx context.Context, config string) error {
	pair, err := certs.SelfSigned([]string{loopback}, 24*time.Hour)
	if err != nil {
		return fmt.Errorf("making the webhook's certificate: %w", err)
	}
	w := &Webhook{CA: pair.CA, ConfigFile: filepath.Join(r.dir, "config.yaml"), certDir: filepath.Join(r.dir, "certs"),
		program: r.Program("stategraft")}
	if err := pair.Write(w.certDir); err != nil {
		return err
	}
	if config == "" { // the defaults, in a file that can be changed
		config = "apiVersion: " + webhook.ConfigVersion + "\nkind: " + webhook.ConfigKind + "\n"
	}
	if err := os.WriteFile(w.ConfigFile, []byte(config), 0o600); err != nil {
		return fmt.Errorf("writing the webhook's configuration: %w", err)
	}
	if w.kubeconfig, err = r.account(ctx); err != nil {
		return err
	}
	// A port that was free may be taken before the webhook gets to it.
	const attempts = 3
	for attempt := 1; ; attempt++ {
		if err := w.pickPorts(); err != nil {
			return err
		}
		err := w.Start(ctx)
		if err == nil {
			r.Webhook = w
			return nil
		}
		if attempt == attempts || !strings.Contains(err.Error(), "address already in use") {
			return err
		}
	}
}

// Start starts the process and waits until it is ready.
func (w *Webhook) Start(ctx context.Context) error {
	if w.Running() {
		return errors.New("starting the webhook: it runs already")
	}
	cmd := exec.Command(w.program, "webhook",
		"--kubeconfig", w.kubeconfig, "--cert-dir", w.certDir, "--config", w.ConfigFile,
		"--host", loopback, "--port", strconv.Itoa(w.port),
		"--metrics-bind-address", address(w.metrics), "--health-probe-bind-address", address(w.health))
	cmd.Stdout, cmd.Stderr = (*logWriter)(w), (*logWriter)(w)
	cmd.SysProcAttr = childAttributes()
	done, started := make(chan struct{}), make(chan error)
	go func() {
		// The thread that starts the child is kept until it ends, as the kernel
		// ends the child with that thread (prctl(2), PR_SET_PDEATHSIG).
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait()
			close(done)
		}
	}()
	if err := <-started; err != nil {
		return fmt.Errorf("starting the webhook: %w", err)
	}
	w.mu.Lock()
	w.process, w.done = cmd, done
	w.mu.Unlock()
	client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	ctx, cancel := context.WithTimeoutCause(ctx, readyLimit, fmt.Errorf("not done within %s", readyLimit))
	defer cancel()
	err := poll(ctx, "the webhook to be ready", func() (bool, error) {
		select {
		case <-done:
			return false, fmt.Errorf("the webhook ended (%s)", cmd.ProcessState)
		default:
		}
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address(w.health)+"/readyz", nil)
		if err != nil {
			return false, err
		}
		response, err := client.Do(request)
		if err != nil {
			return false, nil // not listening yet
		}
		_ = response.Body.Close()
		return response.StatusCode == http.StatusOK, nil
	})
	if err != nil {
		return errors.Join(fmt.Errorf("%w; the last lines of its log:\n%s", err, w.tail()), w.Stop(context.WithoutCancel(ctx)))
	}
	return nil
}

// Running tells whether the process runs.
func (w *Webhook) Running() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.process == nil {
		return false
	}
	select {
	case <-w.done:
		return false
	default:
		return true
	}
}

// Stop ends the process: politely, and by force after ten seconds or once ctx
// is done. Stopping twice is no error.
func (w *Webhook) Stop(ctx context.Context) error {
	if !w.Running() {
		return nil
	}
	w.mu.Lock()
	process, done := w.process.Process, w.done
	w.mu.Unlock()
	_ = process.Signal(syscall.SIGTERM)
	select {
	case <-done:
		return w.endedWell()
	case <-ctx.Done():
	case <-time.After(stopGrace):
	}
	_ = process.Kill()
	select {
	case <-done:
		return fmt.Errorf("the webhook (process %d) had to be killed: it did not end within %s", process.Pid, stopGrace)
	case <-time.After(stopGrace):
		return fmt.Errorf("the webhook (process %d) does not end", process.Pid)
	}
}

// endedWell looks at how the process ended when it was asked to.
func (w *Webhook) endedWell() error {
	w.mu.Lock()
	state := w.process.ProcessState
	w.mu.Unlock()
	if strings.Contains(w.Log(), "WARNING: DATA RACE") {
		return fmt.Errorf("the webhook has a data race; its log:\n%s", w.Log())
	}
	if !state.Success() {
		return fmt.Errorf("the webhook ended badly (%s); the last lines of its log:\n%s", state, w.tail())
	}
	return nil
}

func (w *Webhook) pickPorts() error {
	for _, port := range []*int{&w.port, &w.metrics, &w.health} {
		l, err := net.Listen("tcp", address(0))
		if err != nil {
			return fmt.Errorf("finding a free port: %w", err)
		}
		defer func() { _ = l.Close() }() // at the end, so that none is answered twice
		*port = l.Addr().(*net.TCPAddr).Port
	}
	return nil
}

func address(port int) string { return net.JoinHostPort(loopback, strconv.Itoa(port)) }
