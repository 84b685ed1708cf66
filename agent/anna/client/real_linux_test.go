package client_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stategraft/stategraft/agent/anna/client"
	"github.com/stategraft/stategraft/agent/anna/wire"
)

const (
	programs = "STATEGRAFT_ANNA"         // a directory with anna-kvs and anna-route
	inside   = "STATEGRAFT_ANNA_NETWORK" // set in the process that has a network of its own
)

// TestWithAnna is the same talk with Anna itself, where STATEGRAFT_ANNA names a
// directory of its programs: one routing and one memory node with two threads each, on
// the loopback of a network of its own, since their ports are fixed. It needs root.
func TestWithAnna(t *testing.T) {
	dir := os.Getenv(programs)
	if dir == "" {
		t.Skip(programs + " names no directory with Anna's programs")
	}
	if os.Getenv(inside) == "" {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestWithAnna$", "-test.v")
		cmd.Env = append(os.Environ(), inside+"=yes")
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
		out, err := cmd.CombinedOutput()
		t.Log(string(out))
		if err != nil {
			t.Fatal(err)
		}
		return
	}
	if out, err := exec.CommandContext(t.Context(), "ip", "link", "set", "lo", "up").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	anna(t, filepath.Join(dir, "anna-route"), "routing: {ip: 127.0.0.1, monitoring: []}")
	anna(t, filepath.Join(dir, "anna-kvs"), `server: {seed_ip: 127.0.0.1, public_ip: 127.0.0.1, private_ip: 127.0.0.1, mgmt_ip: "NULL", monitoring: [], routing: [127.0.0.1]}`)
	c, err := client.New(context.Background(), client.Options{
		Listen: "127.0.0.1:6980", Advertise: "127.0.0.1", Routing: []string{"127.0.0.1"}, RoutingThreads: 2,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for end := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
		if m, err := c.Members(t.Context()); err == nil && len(m.Of(wire.Memory)) == 1 {
			break
		}
		if time.Now().After(end) {
			t.Fatal("the node has not joined")
		}
	}
	talk(t, c, 2, 20000)
}

func anna(t *testing.T, program, section string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "nice", program)
	cmd.Dir = t.TempDir()
	cmd.Env = append(os.Environ(), "SERVER_TYPE=memory")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	conf := filepath.Join(cmd.Dir, "conf")
	if err := os.Mkdir(conf, 0o755); err != nil {
		t.Fatal(err)
	}
	text := `ebs: ./
capacities: {memory-cap: 1, ebs-cap: 1}
threads: {memory: 2, ebs: 1, routing: 2, benchmark: 1}
replication: {memory: 1, ebs: 0, minimum: 1, local: 1}
policy: {elasticity: false, selective-rep: false, tiering: false}
` + section + "\n"
	if err := os.WriteFile(filepath.Join(conf, "anna-config.yml"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
}
