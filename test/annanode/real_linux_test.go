package annanode

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stategraft/stategraft/agent/anna/wire"
)

const (
	realPrograms = "STATEGRAFT_ANNA"         // a directory with anna-kvs and anna-route
	realInside   = "STATEGRAFT_ANNA_NETWORK" // set in the process that has a network of its own
	realHost     = "10.77.255.1"             // routing and the client
)

// TestRealAnna holds the conversations with Anna itself, where STATEGRAFT_ANNA names
// a directory of its programs. They bind fixed ports on all addresses, so the test
// runs itself in a network of its own, and each KVS node in another: it needs root.
func TestRealAnna(t *testing.T) {
	dir := os.Getenv(realPrograms)
	if dir == "" {
		t.Skip(realPrograms + " names no directory with Anna's programs")
	}
	if os.Getenv(realInside) == "" {
		inside := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestRealAnna$", "-test.v", "-test.timeout=30m")
		inside.Env = append(os.Environ(), realInside+"=yes")
		inside.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
		out, err := inside.CombinedOutput()
		t.Log(string(out))
		if err != nil {
			t.Fatal(err)
		}
		return
	}
	run(t, "ip", "link", "set", "lo", "up")
	run(t, "ip", "addr", "add", realHost+"/32", "dev", "lo")
	if err := os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, s := range scenarios {
		t.Run(s.name, func(t *testing.T) {
			w := newRealWorld(t, dir, s.spec)
			s.talk(t, w, newTalker(t, w.client()))
		})
	}
}

func run(t *testing.T, args ...string) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), args[0], args[1:]...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %v: %s", args, err, out)
	}
}

type realWorld struct {
	programs, dir string
	spec          spec
	nodes         int
}

func newRealWorld(t *testing.T, programs string, s spec) world {
	w := &realWorld{programs: programs, dir: t.TempDir(), spec: s}
	w.start(t, "route", exec.CommandContext(t.Context(), filepath.Join(w.programs, "anna-route")),
		"routing: {ip: "+realHost+", monitoring: []}")
	return w
}

func (w *realWorld) routing() string   { return realHost }
func (w *realWorld) client() string    { return realHost }
func (w *realWorld) root() string      { return filepath.Join(w.dir, "ebs") }
func (w *realWorld) settle(*testing.T) { time.Sleep(11 * time.Second) }

// told cannot ask a thread of Anna.
func (w *realWorld) told(*testing.T, wire.Server, int, wire.Server, bool) {
	time.Sleep(500 * time.Millisecond)
}

func (w *realWorld) config(section string) string {
	r := w.spec.replication
	return fmt.Sprintf(`
ebs: %s
capacities: {memory-cap: 1, ebs-cap: 1}
threads: {memory: %d, ebs: %d, routing: %d, benchmark: 1}
replication: {memory: %d, ebs: %d, minimum: 1, local: %d}
policy: {elasticity: false, selective-rep: false, tiering: false}
%s
`, w.root(), w.spec.threads.Memory, w.spec.threads.Disk, w.spec.threads.Routing, r.Memory, r.Disk, r.Local, section)
}

// start runs a program in a directory of its own, and kills it at the end.
func (w *realWorld) start(t *testing.T, name string, cmd *exec.Cmd, section string) {
	t.Helper()
	cmd.Dir = filepath.Join(w.dir, name)
	if err := os.MkdirAll(filepath.Join(cmd.Dir, "conf"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(cmd.Dir, "conf", "anna-config.yml"), []byte(w.config(section)), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = io.Discard
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			for _, log := range []string{"log_0.txt", "log_1.txt"} {
				text, _ := os.ReadFile(filepath.Join(cmd.Dir, log))
				t.Logf("%s: %s\n%.2000s", name, log, text)
			}
		}
	})
}

func (w *realWorld) add(t *testing.T, tier wire.Tier) wire.Server {
	t.Helper()
	w.nodes++
	name := "kvs" + strconv.Itoa(w.nodes)
	ip, gateway := fmt.Sprintf("10.77.%d.2", w.nodes), fmt.Sprintf("10.77.%d.1", w.nodes)
	// The shell waits in its new network until that has a wire out of it.
	cmd := exec.CommandContext(t.Context(), "unshare", "-n", "sh", "-c", "echo ready; read line; exec nice -n 5 "+filepath.Join(w.programs, "anna-kvs"))
	cmd.Env = append(os.Environ(), "SERVER_TYPE="+map[wire.Tier]string{wire.Memory: "memory", wire.Disk: "ebs"}[tier])
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	w.start(t, name, cmd, fmt.Sprintf(`server: {seed_ip: %s, public_ip: %s, private_ip: %s, mgmt_ip: "NULL", monitoring: [], routing: [%s]}`, realHost, ip, ip, realHost))
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "ready\n" {
		t.Fatal(line, err)
	}
	pid := strconv.Itoa(cmd.Process.Pid)
	within := func(args ...string) { run(t, append([]string{"nsenter", "-t", pid, "-n"}, args...)...) }
	run(t, "ip", "link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", pid)
	run(t, "ip", "addr", "add", gateway+"/30", "dev", name)
	run(t, "ip", "link", "set", name, "up")
	t.Cleanup(func() {
		_ = exec.Command("ip", "link", "del", name).Run() // gone with the other end, in time
	})
	within("ip", "link", "set", "lo", "up")
	within("ip", "addr", "add", ip+"/30", "dev", "eth0")
	within("ip", "link", "set", "eth0", "up")
	within("ip", "route", "add", "default", "via", gateway)
	if _, err := io.WriteString(in, "go\n"); err != nil {
		t.Fatal(err)
	}
	server := wire.Server{Public: ip, Private: ip}
	eventually(t, name+" has joined", func() bool {
		return strings.Contains(fmt.Sprint(servers(t, nil, w, tier)), ip)
	})
	time.Sleep(500 * time.Millisecond) // until the peers know, too
	return server
}
