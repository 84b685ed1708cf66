package process

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stategraft/stategraft/agent/anna/wire"
	"github.com/stategraft/stategraft/test/annanode/zmtp"
)

const (
	asProgram = "ANNANODE_TEST_PROGRAM" // run as this program, not as a test
	inside    = "ANNANODE_TEST_NETWORK" // in a network of its own
)

func TestMain(m *testing.M) {
	if args := os.Getenv(asProgram); args != "" {
		os.Exit(Run(context.Background(), strings.Fields(args), slog.New(slog.NewTextHandler(os.Stderr, nil))))
	}
	os.Exit(m.Run())
}

// patience is how long is waited for what takes moments on an idle machine.
const patience = time.Minute

// program is one that runs.
type program struct {
	cmd  *exec.Cmd
	done chan error
	mu   sync.Mutex
	text bytes.Buffer
}

func (p *program) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.Write(b)
}

// all is everything that it has written so far.
func (p *program) all() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.String()
}

func (p *program) says(what string) bool { return strings.Contains(p.all(), what) }

// code waits until the program ends.
func (p *program) code(t *testing.T) int {
	t.Helper()
	select {
	case err := <-p.done:
		if exit := new(exec.ExitError); errors.As(err, &exit) {
			return exit.ExitCode()
		}
		return 0
	case <-time.After(patience):
		t.Fatalf("%v does not end: %s", p.cmd.Env[len(p.cmd.Env)-1], p.all())
		return -1
	}
}

func start(t *testing.T, args, file, config string, env ...string) *program {
	t.Helper()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "conf"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "conf", file), []byte(config), 0o644); err != nil {
		t.Fatal(err)
	}
	p := &program{cmd: exec.Command(os.Args[0]), done: make(chan error, 1)}
	p.cmd.Dir, p.cmd.Stderr = dir, p
	p.cmd.Env = append(append(os.Environ(), env...), asProgram+"="+args)
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { p.done <- p.cmd.Wait() }()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		if t.Failed() {
			t.Logf("%s:\n%s", args, p.all())
		}
	})
	return p
}

const base = `
ebs: /nowhere
capacities: {memory-cap: 1, ebs-cap: 1}
threads: {memory: 1, ebs: 1, routing: 1, benchmark: 1}
replication: {memory: 1, ebs: 0, minimum: 1, local: 1}
policy: {elasticity: false, selective-rep: false, tiering: false}
`

func server(mgmt string) string {
	return base + "server:\n  seed_ip: 127.0.0.1\n  public_ip: localhost\n  private_ip: localhost\n  mgmt_ip: " + mgmt +
		"\n  monitoring: [127.0.0.1]\n  routing: [127.0.0.1]\n" +
		"server: {seed_ip: appended.twice}\n"
}

func TestWrongStart(t *testing.T) {
	for _, c := range []struct {
		name, args, config string
		env                []string
		code               int
	}{
		{"plain NULL", "anna-kvs", server("NULL"), nil, exitAborted},
		{"no section", "anna-route", base, nil, exitAborted},
		{"argument", "anna-kvs conf/anna-config.yml", server(`"NULL"`), nil, exitUsage},
		{"server type", "anna-kvs", server(`"NULL"`), []string{"SERVER_TYPE=disk"}, 1},
		{"no name", "anna", "", nil, 1},
		{"another script", "python3 other.py", "", nil, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := start(t, c.args, "anna-config.yml", c.config, c.env...).code(t); got != c.code {
				t.Errorf("exit code %d, want %d", got, c.code)
			}
		})
	}
}

// TestPrograms runs one of each, in a network of its own: they bind fixed ports on
// all addresses.
func TestPrograms(t *testing.T) {
	if os.Getenv(inside) == "" {
		if os.Getuid() != 0 {
			t.Skip("needs root, for a network of its own")
		}
		again := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestPrograms$", "-test.v")
		again.Env = append(os.Environ(), inside+"=yes")
		again.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
		out, err := again.CombinedOutput()
		t.Log(string(out))
		if err != nil {
			t.Fatal(err)
		}
		return
	}
	if out, err := exec.CommandContext(t.Context(), "ip", "link", "set", "lo", "up").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	m := startManagement(t)
	report := "ANNANODE_REPORT=200ms"
	requests := "ANNANODE_REQUESTS=" + t.TempDir()

	kvs := start(t, "anna-kvs", "anna-config.yml", server("127.0.0.1"), report, "SERVER_TYPE=memory", "ANNANODE_STATS=127.0.0.1:9001")
	monitor := start(t, "anna-monitor", "anna-config.yml", base+"monitoring: {mgmt_ip: 127.0.0.1, ip: 127.0.0.1}\n")
	time.Sleep(200 * time.Millisecond) // without its seed the node waits
	if m.has("7000 restart:localhost") {
		t.Error("the node went on without its seed")
	}
	start(t, "anna-route", "anna-config.yml", base+"routing: {ip: 127.0.0.1, monitoring: [127.0.0.1]}\n")
	eventually(t, "the node asks for its count of joins", func() bool { return m.has("7000 restart:localhost") })
	eventually(t, "the node asks for executors", func() bool { return m.has("7002 tcp://localhost:7100") })
	eventually(t, "the monitor is told", func() bool {
		return monitor.says("join:MEMORY:localhost:localhost:7") && monitor.says("join:ROUTING:127.0.0.1:NULL")
	})

	start(t, "anna-cache", "anna-config.yml", base+"user: {ip: 127.0.0.1, routing-elb: 127.0.0.1}\n", requests, report)
	start(t, "python3 cloudburst/server/scheduler/server.py", "cloudburst-config.yml",
		"ip: wrong\nip: 127.0.0.1\nmgmt_ip: 127.0.0.1\nscheduler: {routing_address: anna-routing, policy: locality}\n",
		report, "ANNANODE_STATS=127.0.0.1:9002")
	executor := start(t, "python3 cloudburst/server/executor/server.py", "cloudburst-config.yml",
		"ip: 127.0.0.1\nmgmt_ip: 127.0.0.1\nexecutor: {thread_id: 2, scheduler_ips: [127.0.0.1]}\n", report, requests)
	eventually(t, "the executor reaches Anna through the cache", func() bool { return executor.says("the cache answers") })
	eventually(t, "the scheduler knows the executor", func() bool {
		var known []string
		readStats(t, "127.0.0.1:9002", &known)
		return slices.Equal(known, []string{"127.0.0.1:2"})
	})
	eventually(t, "the management server hears of all", func() bool { return m.has("7003") && m.has("7004") && m.has("7006") })
	if b, err := zmtp.Ask(t.Context(), endpoint("127.0.0.1", schedulerConnect), nil); err != nil || string(b) != "anna-routing" {
		t.Errorf("clients are told %q, %v", b, err)
	}

	tell(t, endpoint("127.0.0.1", executorDepart+2), "go")
	if code := executor.code(t); code != 1 {
		t.Errorf("the executor departs with code %d", code)
	}
	eventually(t, "the management server hears of it", func() bool { return m.has("7005 127.0.0.1") })
	tell(t, endpoint("127.0.0.1", wire.PortSelfDepart), endpoint("127.0.0.1", wire.PortDepartDone))
	if code := kvs.code(t); code != 0 {
		t.Errorf("the node departs with code %d", code)
	}
	if code := monitor.code(t); code != exitAborted {
		t.Errorf("the monitor survives a departed node, code %d", code)
	}
}

func readStats[T any](t *testing.T, at string, to *T) {
	r, err := http.Get("http://" + at + "/stats")
	if err != nil {
		return
	}
	defer func() { _ = r.Body.Close() }()
	if b, err := io.ReadAll(r.Body); err == nil {
		if err := json.Unmarshal(b, to); err != nil {
			t.Error(err)
		}
	}
}

func tell(t *testing.T, to, message string) {
	t.Helper()
	p := zmtp.NewPush(to)
	t.Cleanup(p.Close)
	if err := p.Send(t.Context(), []byte(message)); err != nil {
		t.Fatal(err)
	}
}

// managed is a management server: what came to it, as port and message.
type managed struct {
	mu  sync.Mutex
	all []string
}

func startManagement(t *testing.T) *managed {
	m := &managed{}
	note := func(port int, b []byte) {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.all = append(m.all, fmt.Sprintf("%d %s", port, b))
	}
	listen := func(l *zmtp.Listener, err error) {
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(l.Close)
	}
	listen(zmtp.Reply(endpoint("*", 7000), func(_ context.Context, b []byte) []byte { note(7000, b); return []byte("7") }))
	listen(zmtp.Reply(endpoint("*", 7004), func(_ context.Context, b []byte) []byte {
		note(7004, b)
		return appendText(nil, 1, "127.0.0.1")
	}))
	for _, port := range []int{7001, 7002, 7003, 7005, 7006} {
		listen(zmtp.Pull(endpoint("*", port), func(_ context.Context, b []byte) { note(port, b) }))
	}
	return m
}

func (m *managed) has(what string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.ContainsFunc(m.all, func(s string) bool { return strings.HasPrefix(s, what) })
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if ok() {
			return
		}
	}
	t.Fatal("never: " + what)
}
