package main

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stategraft/stategraft/test/ports"
)

// asProgram has this test run as the program itself.
const asProgram = "STATEGRAFT_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) == "1" {
		main()
		return
	}
	os.Exit(m.Run())
}

// child is a process of the program.
type child struct {
	metrics, health string // addresses

	mu   sync.Mutex
	log  bytes.Buffer
	cmd  *exec.Cmd
	done chan struct{}
}

// Write takes its output.
func (c *child) Write(text []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.log.Write(text)
}

func run(t *testing.T, kubeconfig string, args ...string) *child {
	t.Helper()
	c := &child{metrics: freeAddress(t), health: freeAddress(t), done: make(chan struct{})}
	c.cmd = exec.Command(os.Args[0], append(args, "--kubeconfig", kubeconfig, "--metrics-bind-address", c.metrics, "--health-probe-bind-address", c.health)...)
	c.cmd.Env = append(os.Environ(), asProgram+"=1")
	c.cmd.Stdout, c.cmd.Stderr, c.cmd.SysProcAttr = c, c, childAttributes()
	started := make(chan error)
	go func() {
		// The kernel ends the child with the thread that started it (prctl(2)).
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := c.cmd.Start()
		started <- err
		if err == nil {
			_ = c.cmd.Wait()
			close(c.done)
		}
	}()
	if err := <-started; err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.cmd.Process.Kill()
		<-c.done
		if t.Failed() {
			t.Logf("the log of %q:\n%s", args, c.log.String())
		}
	})
	return c
}

func (c *child) signal(t *testing.T) {
	t.Helper()
	if err := c.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
}

func (c *child) ready() bool { return status("http://"+c.health+"/readyz") == http.StatusOK }

func (c *child) leads(t *testing.T) bool {
	t.Helper()
	_, text := fetch("http://" + c.metrics + "/metrics")
	return strings.Contains(text, "\nstategraft_leader 1\n")
}

func status(url string) int {
	got, _ := fetch(url)
	return got
}

func fetch(url string) (int, string) {
	client := http.Client{Timeout: 5 * time.Second}
	response, err := client.Get(url)
	if err != nil {
		return 0, err.Error()
	}
	defer func() { _ = response.Body.Close() }()
	text, _ := io.ReadAll(response.Body)
	return response.StatusCode, string(text)
}

func freeAddress(t *testing.T) string {
	t.Helper()
	port, err := ports.Row(1)
	if err != nil {
		t.Fatal(err)
	}
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
}

// until polls, and fails the test after some minutes.
func until(t *testing.T, what string, done func() bool) {
	t.Helper()
	end := time.Now().Add(3 * limit)
	for !done() {
		if time.Now().After(end) {
			t.Fatalf("waited in vain for %s", what)
		}
		time.Sleep(20 * time.Millisecond)
	}
}
