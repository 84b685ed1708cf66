package main

import (
	"encoding/json"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stategraft/stategraft/agent/event"
	"github.com/stategraft/stategraft/test/ports"
)

// patience is how long is waited for what a process does at once on an idle machine.
const patience = time.Minute

func TestMain(m *testing.M) {
	if os.Getenv("STATEGRAFT_TEST_ANNA") != "" {
		main()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// anna is this program as a container runs it, with only these variables, below a root of
// its own.
func anna(t *testing.T, root string, env []string, args ...string) *exec.Cmd {
	t.Helper()
	must(t, os.MkdirAll(filepath.Join(root, "stategraft"), 0o755))
	command := exec.Command("/proc/self/exe", args...)
	command.Env = append(env, "STATEGRAFT_TEST_ANNA=1", "STATEGRAFT_ROOT="+root, "PATH="+os.Getenv("PATH"))
	return command
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func freePort(t *testing.T) string {
	t.Helper()
	port, err := ports.Row(1)
	must(t, err)
	return strconv.Itoa(port)
}

// lines are what a program writes.
type lines struct {
	mutex sync.Mutex
	text  strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.text.String()
}

// TestStaysUp: the sidecar neither ends with a wrong environment nor with none, in any
// role, and ends at once when asked.
func TestStaysUp(t *testing.T) {
	for name, env := range map[string][]string{
		"nothing said":  nil,
		"wrong ports":   {"STATEGRAFT_ROLE=memory", "POD_NAME=m-0", "STATEGRAFT_GRPC_PORT=x", "STATEGRAFT_NODE_PORT=99999", "STATEGRAFT_LIFE_PORT=-1", "STATEGRAFT_GRACE=soon"},
		"an IPv6 pod":   {"STATEGRAFT_ROLE=memory", "POD_NAME=m-0", "POD_IP=fd00::7", "POD_NAMESPACE=hydro"},
		"another role":  {"STATEGRAFT_ROLE=poet"},
		"routing":       {"STATEGRAFT_ROLE=routing", "POD_NAME=r-0", "POD_NAMESPACE=hydro"},
		"an executor":   {"STATEGRAFT_KIND=cloudburst", "STATEGRAFT_ROLE=executor"},
		"no such place": {"STATEGRAFT_ROLE=ebs", "POD_NAME=e-0", "POD_IP=127.0.0.1", "STATEGRAFT_CONF_DIR=/nowhere", "STATEGRAFT_DATA_DIRECTORY=/nowhere"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			port := freePort(t)
			if !slices.ContainsFunc(env, func(e string) bool { return strings.HasPrefix(e, "STATEGRAFT_LIFE_PORT") }) {
				env = append(env, "STATEGRAFT_LIFE_PORT="+port)
			}
			command := anna(t, t.TempDir(), env, "serve")
			var out lines
			command.Stdout, command.Stderr = &out, &out
			must(t, command.Start())
			if slices.Contains(env, "STATEGRAFT_LIFE_PORT="+port) {
				deadline := time.Now().Add(patience)
				for {
					conn, err := net.Dial("tcp", "127.0.0.1:"+port)
					if err == nil {
						conn.Close()
						break
					}
					if time.Now().After(deadline) {
						t.Error("the life port is not served")
						break
					}
					time.Sleep(20 * time.Millisecond)
				}
			} else {
				// It says what is wrong once it has begun, and goes on.
				for deadline := time.Now().Add(patience); out.String() == ""; time.Sleep(20 * time.Millisecond) {
					if time.Now().After(deadline) {
						t.Error("it says nothing")
						break
					}
				}
			}
			if err := command.Process.Signal(syscall.SIGTERM); err != nil {
				t.Errorf("it has ended: %v", err)
			}
			start := time.Now()
			if err := command.Wait(); err != nil {
				t.Errorf("it ended with %v: %s", err, out.String())
			}
			if took := time.Since(start); took > patience/4 { // not the grace of half a minute
				t.Errorf("it took %v", took)
			}
			for line := range strings.Lines(out.String()) {
				var object map[string]any
				if err := json.Unmarshal([]byte(line), &object); err != nil {
					t.Errorf("line %q is not JSON", line)
				}
			}
		})
	}
}

// TestFailsClosed: what stands before a node ends with an error where it cannot do its
// work, and says why.
func TestFailsClosed(t *testing.T) {
	for _, c := range []struct {
		env  []string
		args []string
		want string
	}{
		{nil, []string{"restore"}, "no backup is named"},
		{[]string{"STATEGRAFT_BACKUP=b1", "POD_NAME=m-0"}, []string{"restore"}, "medusa.ini"},
		{[]string{"STATEGRAFT_RENDER=x"}, []string{"setup"}, "STATEGRAFT_RENDER"},
		{[]string{"STATEGRAFT_OWNER=root"}, []string{"setup"}, "STATEGRAFT_OWNER"},
		{nil, []string{"management"}, "POD_NAMESPACE"},
		{nil, []string{"status"}, "STATEGRAFT_LIFE_PORT"},
		{nil, []string{"nonsense"}, "unknown command"},
	} {
		root := t.TempDir()
		message := filepath.Join(root, "dev", "termination-log")
		must(t, os.MkdirAll(filepath.Dir(message), 0o755))
		must(t, os.WriteFile(message, nil, 0o600))
		out, err := anna(t, root, c.env, c.args...).CombinedOutput()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != 1 || !strings.Contains(string(out), c.want) {
			t.Errorf("%v: %v, %s", c.args, err, out)
		}
		if last, err := os.ReadFile(message); err != nil || c.args[0] != "status" && c.args[0] != "nonsense" && !strings.Contains(string(last), c.want) {
			t.Errorf("%v: its last word is %q, %v", c.args, last, err)
		}
	}
}

// TestSetup: a pod that needs nothing written starts, and what it was started with is
// noted.
func TestSetup(t *testing.T) {
	root := t.TempDir()
	config := filepath.Join(root, "etc", "stategraft", "config")
	must(t, os.MkdirAll(config, 0o755))
	must(t, os.WriteFile(filepath.Join(config, "anna-config.yml"), []byte("threads: {memory: 1}\n"), 0o600))
	for range 2 {
		out, err := anna(t, root, []string{"STATEGRAFT_KIND=anna", "STATEGRAFT_ROLE=routing", "POD_NAMESPACE=hydro"}, "setup").CombinedOutput()
		if err != nil {
			t.Fatalf("%v, %s", err, out)
		}
	}
	if _, err := os.Stat(filepath.Join(root, "stategraft", "anna", "config.json")); err != nil {
		t.Error(err)
	}
}

// TestServeConfig: a name that is missing closes the service that would need it, and nothing
// else.
func TestServeConfig(t *testing.T) {
	for name, value := range map[string]string{
		"STATEGRAFT_ROOT": "/r", "POD_NAME": "m-0", "POD_NAMESPACE": "hydro", "POD_IP": "10.0.0.1", "STATEGRAFT_CLUSTER": "anna", "STATEGRAFT_ROLE": "memory",
		"STATEGRAFT_GRPC_PORT": "50051", "STATEGRAFT_NODE_PORT": "50061", "STATEGRAFT_LIFE_PORT": "6982", "STATEGRAFT_GRACE": "45", "STATEGRAFT_CONF_DIR": "/conf", "STATEGRAFT_RESPONSE_PORT": "7990",
	} {
		t.Setenv(name, value)
	}
	log := event.New(os.Stderr, &event.Secrets{}, "test")
	c, wrong := serveConfig(log, nil)
	if len(wrong) > 0 || c.GRPCPort != 50051 || c.NodePort != 50061 || c.LifePort != 6982 || c.ResponsePort != 7990 || c.Pod.Grace != 45*time.Second || c.Conf != "/r/conf" || c.TLSDir != "/r/etc/stategraft/grpc-tls" {
		t.Errorf("%+v, %v", c, wrong)
	}
	t.Setenv("STATEGRAFT_GRPC_TLS", "off")
	t.Setenv("POD_NAME", "")
	if c, wrong := serveConfig(log, nil); len(wrong) != 1 || c.GRPCPort != 0 || c.NodePort != 50061 || c.TLSDir != "" {
		t.Errorf("%+v, %v", c, wrong)
	}
}
