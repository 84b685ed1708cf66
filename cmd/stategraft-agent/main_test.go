package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stategraft/stategraft/agent/event"
	"github.com/stategraft/stategraft/agent/files"
	"github.com/stategraft/stategraft/agent/medusa"
)

const (
	// patience is how long is waited for what a process is to do on a busy machine.
	patience = time.Minute
	// atOnce is how long one may take there that ends at once. It is told from one that
	// waits for something, as for a backup that runs, by that it takes no 20 seconds.
	atOnce = stopLimit * 3 / 4
)

func TestMain(m *testing.M) {
	if os.Getenv("STATEGRAFT_TEST_AGENT") != "" {
		main()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// agent is this program as a container runs it, with only these variables.
func agent(t *testing.T, env []string, args ...string) *exec.Cmd {
	t.Helper()
	command := exec.Command("/proc/self/exe", args...)
	command.Env = append(env, "STATEGRAFT_TEST_AGENT=1", "STATEGRAFT_ROOT="+t.TempDir(), "PATH="+os.Getenv("PATH"))
	return command
}

func TestPodConfig(t *testing.T) {
	for name, value := range map[string]string{
		"POD_NAMESPACE": "ns", "STATEGRAFT_CLUSTER": "demo", "STATEGRAFT_DATA_MOUNT": "/var/lib/cassandra", "STATEGRAFT_DATA_DIRECTORY": "/var/lib/cassandra/data",
		"STATEGRAFT_CQL_PORT": "9042", "STATEGRAFT_GRPC_PORT": "", "STATEGRAFT_SNAPSHOT_PORT": "9188", "STATEGRAFT_OWNER": "999:998", "STATEGRAFT_POLL": "soon",
	} {
		t.Setenv(name, value)
	}
	var out bytes.Buffer
	log := event.New(&out, &event.Secrets{}, "test")
	c, err := podConfig(log)
	if err != nil {
		t.Fatal(err)
	}
	if c.Pod.CQLPort != 9042 || c.Pod.GRPCPort != 50051 || c.Pod.SnapshotPort != 9188 || c.Owner != (files.Owner{Set: true, UID: 999, GID: 998}) || c.Pod.Cluster != "demo" {
		t.Errorf("%+v", c)
	}
	if c.Poll != 2*time.Second || !strings.Contains(out.String(), "STATEGRAFT_POLL") {
		t.Errorf("poll %v, log %s", c.Poll, out.String())
	}
	for name, value := range map[string]string{"STATEGRAFT_CQL_PORT": "x", "STATEGRAFT_OWNER": "root"} {
		t.Setenv(name, value)
		if _, err := podConfig(log); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s=%s: %v", name, value, err)
		}
		t.Setenv(name, "")
	}
}

// TestStaysUp: what belongs to a running pod neither ends with a wrong
// environment, nor in an image with nothing in it, and ends at once when asked.
func TestStaysUp(t *testing.T) {
	for _, c := range []struct {
		name string
		env  []string
		args []string
	}{
		{"pod", []string{"STATEGRAFT_CQL_PORT=x"}, []string{"pod"}},
		{"snapshot-server", []string{"STATEGRAFT_SNAPSHOT_PORT=x"}, []string{"snapshot-server"}},
		{"serve", []string{"STATEGRAFT_DATABASE_FIRST=0s"}, []string{"medusa", "serve"}},
		{"serve, Anna without her program", nil, []string{"anna", "serve"}},
		{"serve, wrong port", []string{"STATEGRAFT_NODE_PORT=x"}, []string{"medusa", "serve"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			command := agent(t, c.env, c.args...)
			out, err := command.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := command.Start(); err != nil {
				t.Fatal(err)
			}
			// The first line says what is wrong, in JSON.
			var line map[string]any
			if err := json.NewDecoder(out).Decode(&line); err != nil || line["level"] != "ERROR" {
				t.Errorf("%v, %v", line, err)
			}
			if err := command.Process.Signal(syscall.SIGTERM); err != nil {
				t.Errorf("it has ended: %v", err)
			}
			start := time.Now()
			if err := command.Wait(); err != nil {
				t.Errorf("it ended with %v", err)
			}
			if took := time.Since(start); took > atOnce {
				t.Errorf("it took %v", took)
			}
		})
	}
}

// TestFailsClosed: what stands before a database ends with an error where it
// cannot do its work, and says why in one JSON line.
func TestFailsClosed(t *testing.T) {
	for _, c := range []struct {
		env  []string
		args []string
		want string
	}{
		{[]string{"STATEGRAFT_OWNER=x"}, []string{"setup"}, "STATEGRAFT_OWNER"},
		{nil, []string{"medusa", "restore"}, "no backup is named"},
		{[]string{"STATEGRAFT_BACKUP=b1", "STATEGRAFT_DATA_MOUNT=/nowhere"}, []string{"medusa", "restore"}, "/nowhere"},
		{[]string{"STATEGRAFT_BACKUP=b1"}, []string{"anna", "restore"}, "has no stategraft-anna"},
		{nil, []string{"nonsense"}, "unknown command"},
	} {
		out, err := agent(t, c.env, c.args...).CombinedOutput()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != 1 || !strings.Contains(string(out), c.want) {
			t.Errorf("%v: %v, %s", c.args, err, out)
		}
	}
}

// TestHoldBack: Medusa lets the database start first, and does without it in the
// end.
func TestHoldBack(t *testing.T) {
	var out bytes.Buffer
	log := event.New(&out, &event.Secrets{}, "test")
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := listener.Addr().(*net.TCPAddr).Port
	holdBack(t.Context(), port, time.Hour, log)
	if !strings.Contains(out.String(), "the database is there") {
		t.Errorf("%s", out.String())
	}
	listener.Close()
	out.Reset()
	holdBack(t.Context(), port, 10*time.Millisecond, log)
	if !strings.Contains(out.String(), "started all the same") {
		t.Errorf("%s", out.String())
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	holdBack(ended, port, time.Hour, log)
}

// TestPrepareWaitsForThePair writes the configuration as the agent's container does,
// with TLS and without: Medusa waits for the pair where it needs one.
func TestPrepareWaitsForThePair(t *testing.T) {
	t.Setenv("STATEGRAFT_MEDUSA_PYTHON", "/bin/true")
	for name, c := range map[string]struct {
		tls   string
		waits bool
	}{"on": {"on", true}, "nothing said": {"", true}, "off": {"off", false}} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			for key, value := range map[string]string{"STATEGRAFT_ROOT": root, "STATEGRAFT_GRPC_TLS": c.tls, "STATEGRAFT_SNAPSHOT_PORT": "9188", "STATEGRAFT_DATA_MOUNT": "/data"} {
				t.Setenv(key, value)
			}
			places := places()
			err := errors.Join(os.MkdirAll(places.User, 0o755), os.MkdirAll(places.Medusa, 0o755),
				os.WriteFile(filepath.Join(places.User, "medusa.ini"), []byte("[storage]\nstorage_provider = s3\nbucket_name = b\n"), 0o600))
			if err != nil {
				t.Fatal(err)
			}
			command := agent(t, nil, "setup")
			command.Env = append(os.Environ(), "STATEGRAFT_TEST_AGENT=1")
			if out, err := command.CombinedOutput(); err != nil {
				t.Fatalf("%v, %s", err, out)
			}
			_, err = prepare(places, "")
			if waits := errors.Is(err, medusa.ErrNotServed); waits != c.waits || !waits && err != nil {
				t.Errorf("%v, want to wait %v", err, c.waits)
			}
			if text, err := os.ReadFile(filepath.Join(private(), "medusa.ini")); err != nil || strings.Contains(string(text), places.GRPCTLS) != c.waits {
				t.Errorf("%v\n%s", err, text)
			}
		})
	}
}

func TestPrepareWaitsForTheCQLSecret(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("STATEGRAFT_MEDUSA_PYTHON", "/bin/true")
	places := files.Places{Medusa: dir, Storage: dir}
	if _, err := prepare(places, filepath.Join(dir, "cql")); err == nil || !strings.Contains(err.Error(), "stategraft.io/cql-secret") {
		t.Errorf("%v", err)
	}
	if _, err := prepare(places, ""); err == nil || strings.Contains(err.Error(), "cql") {
		t.Errorf("%v", err)
	}
}
