package kvs

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stategraft/stategraft/agent/anna/client"
	"github.com/stategraft/stategraft/agent/anna/store"
	"github.com/stategraft/stategraft/test/annanode"
)

// childEnv has this test binary run something else than tests, in a process of its own.
const childEnv = "STATEGRAFT_KVS_CHILD"

func TestMain(m *testing.M) {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	switch os.Getenv(childEnv) {
	case "":
		os.Exit(m.Run())
	case "cluster":
		child(ctx, serveCluster)
	case "sidecar":
		child(ctx, serveSidecar)
	}
}

// child runs until the context or the standard input ends: so it does not outlive who
// started it.
func child(ctx context.Context, run func(ctx context.Context, given string, tell func(any)) error) {
	ctx, cancel := context.WithCancel(ctx)
	in := bufio.NewReader(os.Stdin)
	given, err := in.ReadString('\n')
	if err != nil {
		fmt.Fprintln(os.Stderr, "reading what to run:", err)
		os.Exit(1)
	}
	go func() { _, _ = in.ReadString('\n'); cancel() }()
	tell := func(v any) { _ = json.NewEncoder(os.Stdout).Encode(v) }
	if err := run(ctx, given, tell); err != nil && ctx.Err() == nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// spawn starts a child, gives it what it needs, and reads what it tells first. It ends
// with the test.
func spawn(t *testing.T, kind string, env []string, given, told any) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(append(os.Environ(), childEnv+"="+kind), env...)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatalf("starting a %s: %v", kind, err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait()
	})
	if err := json.NewEncoder(in).Encode(given); err != nil {
		t.Fatalf("telling a %s what to run: %v", kind, err)
	}
	if err := json.NewDecoder(out).Decode(told); err != nil {
		t.Fatalf("reading what a %s tells: %v", kind, err)
	}
	return cmd
}

// wish is a cluster that is asked for.
type wish struct {
	Memory, Threads int
	Report          time.Duration // 0: as often as Anna
}

// cluster are nodes in a process of their own.
type cluster struct {
	Routing []string `json:"routing"`
	Memory  []string `json:"memory"`
}

func serveCluster(ctx context.Context, given string, tell func(any)) error {
	var w wish
	if err := json.Unmarshal([]byte(given), &w); err != nil {
		return fmt.Errorf("reading the cluster's configuration: %w", err)
	}
	c, err := annanode.StartCluster(ctx, annanode.ClusterConfig{Routing: 1, Memory: w.Memory, Report: w.Report, Freeze: true,
		Threads: annanode.Threads{Memory: w.Threads}})
	if err != nil {
		return err
	}
	defer c.Close()
	told := cluster{Routing: c.RoutingHosts()}
	for _, n := range c.Nodes {
		told.Memory = append(told.Memory, n.Server().Public)
	}
	tell(told)
	<-ctx.Done()
	return nil
}

// start starts a cluster, whose threads stop for good when more is asked of them than
// Anna's stand.
func start(t *testing.T, w wish) (c cluster) {
	t.Helper()
	spawn(t, "cluster", nil, w, &c)
	return c
}

func full() bool { return os.Getenv(ScaleEnv) == "full" }

// scale is one of two sizes.
func scale(everyDay, whole int) int {
	if full() {
		return whole
	}
	return everyDay
}

// connect makes a client of the sidecar's kind.
func connect(t *testing.T, routing []string, threads int) *client.Client {
	t.Helper()
	hosts, err := annanode.FreeHosts(1)
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(t.Context(), client.Options{Listen: hosts[0] + ":6980", Advertise: hosts[0], Routing: routing, RoutingThreads: threads})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// bare makes a plain one.
func bare(t *testing.T) *Bare {
	t.Helper()
	hosts, err := annanode.FreeHosts(1)
	if err != nil {
		t.Fatal(err)
	}
	b, err := NewBare(hosts[0], 6980)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	return b
}

// shelf is a storage in a folder.
func shelf(t *testing.T) (*store.Store, string) {
	t.Helper()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "bucket"), 0o755); err != nil {
		t.Fatal(err)
	}
	s, err := store.Open(t.Context(), store.Config{Kind: store.Local, BasePath: dir, Bucket: "bucket", Prefix: "kvs"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s, filepath.Join(dir, "bucket")
}

// peak is the most memory that a process has had, in bytes.
func peak(pid int) (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, fmt.Errorf("reading the memory of a process: %w", err)
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kb, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			return kb << 10, err
		}
	}
	return 0, errors.New("the system does not tell the memory of a process")
}

// figure logs what was measured, where the commands that show it find it.
func figure(t *testing.T, format string, args ...any) {
	t.Helper()
	t.Logf("figure: "+format, args...)
}

func rate(n int, took time.Duration) string {
	return fmt.Sprintf("%.0f keys/s", float64(n)/took.Seconds())
}
