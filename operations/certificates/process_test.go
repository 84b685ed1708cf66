package certificates_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// process is the program under test, as one of its processes.
type process struct {
	metrics, health string // addresses

	mu   sync.Mutex
	log  bytes.Buffer
	cmd  *exec.Cmd
	done chan struct{}
}

// Write takes the process's output.
func (p *process) Write(text []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.Write(text)
}

// lines of the log that hold the text.
func (p *process) lines(text string) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var found []string
	for line := range strings.Lines(p.log.String()) {
		if strings.Contains(line, text) {
			found = append(found, line)
		}
	}
	return found
}

// start runs the program with the rights of a ServiceAccount, and waits until it
// is ready.
func (r *rig) start(t *testing.T, account string, args ...string) *process {
	t.Helper()
	p := &process{metrics: freeAddress(t), health: freeAddress(t), done: make(chan struct{})}
	p.cmd = exec.Command(r.program, append(args, "--namespace", home, "--kubeconfig", r.kubeconfig(t, account),
		"--metrics-bind-address", p.metrics, "--health-probe-bind-address", p.health)...)
	p.cmd.Stdout, p.cmd.Stderr, p.cmd.SysProcAttr = p, p, childAttributes()
	started := make(chan error)
	go func() {
		// The kernel ends the child with the thread that started it (prctl(2)).
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := p.cmd.Start()
		started <- err
		if err == nil {
			_ = p.cmd.Wait()
			close(p.done)
		}
	}()
	if err := <-started; err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.stop(t)
		if t.Failed() {
			t.Logf("the log of %q:\n%s", args, tail(p.log.String()))
		}
	})
	await(t, args[0]+" to be ready", func() bool {
		select {
		case <-p.done:
			t.Fatalf("%s ended: %s\n%s", args[0], p.cmd.ProcessState, tail(p.log.String()))
		default:
		}
		status, _ := get("http://" + p.health + "/readyz")
		return status == http.StatusOK
	})
	return p
}

// tail is the end of a log, without the lines that say nothing here.
func tail(log string) string {
	lines := slices.DeleteFunc(strings.Split(log, "\n"), func(line string) bool {
		return strings.Contains(line, `"msg":"pod decided"`) || strings.Contains(line, "healthz check failed")
	})
	return strings.Join(lines[max(0, len(lines)-60):], "\n")
}

// stop asks it to end, and waits. Twice is no error.
func (p *process) stop(t *testing.T) {
	t.Helper()
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
		if !p.cmd.ProcessState.Success() {
			t.Errorf("it ended badly: %s", p.cmd.ProcessState)
		}
	case <-time.After(time.Minute):
		_ = p.cmd.Process.Kill()
		<-p.done
		t.Error("it had to be killed")
	}
}

// metric answers the value of a metric with its labels, as text; empty where
// there is none.
func (p *process) metric(t *testing.T, name string) string {
	t.Helper()
	_, text := get("http://" + p.metrics + "/metrics")
	for line := range strings.Lines(text) {
		if value, found := strings.CutPrefix(line, name+" "); found {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

func get(url string) (int, string) {
	response, err := http.Get(url) //nolint:gosec // an address of our own
	if err != nil {
		return 0, err.Error()
	}
	defer func() { _ = response.Body.Close() }()
	text, _ := io.ReadAll(response.Body)
	return response.StatusCode, string(text)
}

// freeAddress is one that is free, and stays so until a process takes it: its port is
// none of those that a system gives to connections and to whoever asks for any.
func freeAddress(t *testing.T) string {
	t.Helper()
	for range 100 {
		address := net.JoinHostPort("127.0.0.1", strconv.Itoa(10000+rand.IntN(20000)))
		if l, err := net.Listen("tcp", address); err == nil {
			_ = l.Close()
			return address
		}
	}
	t.Fatal("no port of a hundred is free")
	return ""
}

// kubeconfig writes one for a ServiceAccount.
func (r *rig) kubeconfig(t *testing.T, account string) string {
	t.Helper()
	seconds := int64(24 * 60 * 60)
	token, err := r.client.CoreV1().ServiceAccounts(home).CreateToken(t.Context(), account,
		&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	rest := r.Config()
	config := clientcmdapi.NewConfig()
	config.Clusters["rig"] = &clientcmdapi.Cluster{Server: rest.Host, CertificateAuthorityData: rest.CAData}
	config.AuthInfos["rig"] = &clientcmdapi.AuthInfo{Token: token.Status.Token}
	config.Contexts["rig"] = &clientcmdapi.Context{Cluster: "rig", AuthInfo: "rig"}
	config.CurrentContext = "rig"
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		t.Fatal(err)
	}
	return path
}

// mount keeps a Secret in a folder as the kubelet does, which sees a change a
// while after it was made.
func (r *rig) mount(t *testing.T, secret string, delay time.Duration) string {
	t.Helper()
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	t.Cleanup(func() { cancel(); <-done })
	go func() {
		defer close(done)
		version, have := 0, map[string][]byte{}
		for ctx.Err() == nil {
			got, err := r.client.CoreV1().Secrets(home).Get(ctx, secret, metav1.GetOptions{})
			if err == nil && len(got.Data["tls.crt"]) > 0 && !bytes.Equal(got.Data["tls.crt"], have["tls.crt"]) {
				wait(ctx, delay)
				version++
				have = got.Data
				if err := swap(dir, version, have); err != nil {
					t.Errorf("mounting: %v", err)
				}
			}
			wait(ctx, 100*time.Millisecond)
		}
	}()
	return dir
}

func wait(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// swap replaces all files at once (k8s.io/kubernetes/pkg/volume/util/atomic_writer.go).
func swap(dir string, version int, data map[string][]byte) error {
	folder := func(v int) string { return fmt.Sprintf("..version_%d", v) }
	if err := os.Mkdir(filepath.Join(dir, folder(version)), 0o700); err != nil {
		return err
	}
	for name, text := range data {
		if err := os.WriteFile(filepath.Join(dir, folder(version), name), text, 0o600); err != nil {
			return err
		}
		if version == 1 {
			if err := os.Symlink(filepath.Join("..data", name), filepath.Join(dir, name)); err != nil {
				return err
			}
		}
	}
	if err := os.Symlink(folder(version), filepath.Join(dir, "..data_tmp")); err != nil {
		return err
	}
	if err := os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")); err != nil {
		return err
	}
	return os.RemoveAll(filepath.Join(dir, folder(version-1)))
}
