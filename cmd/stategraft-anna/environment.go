package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/stategraft/stategraft/agent/anna/config"
	"github.com/stategraft/stategraft/agent/anna/serve"
	"github.com/stategraft/stategraft/agent/event"
	"github.com/stategraft/stategraft/agent/files"
)

// rooted is a path of the pod. STATEGRAFT_ROOT puts it somewhere else, to try the program
// outside one.
func rooted(path string) string { return os.Getenv("STATEGRAFT_ROOT") + path }

func places() files.Places { return files.Standard(os.Getenv("STATEGRAFT_ROOT")) }

// logger makes the log of a part, with the secrets that must not be in it.
func logger(part string) (*slog.Logger, *event.Secrets) {
	secrets := &event.Secrets{}
	return event.New(os.Stdout, secrets, part), secrets
}

// signals gives a context that ends when the container is asked to.
func signals() (context.Context, context.CancelFunc) {
	return signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
}

// dirConfig is where the ConfigMap with anna-config.yml is mounted (patches.DirConfig).
const dirConfig = "/etc/stategraft/config"

func configDir() string { return rooted(dirConfig) }

// serveConfig reads what the webhook tells the sidecar (patches/kvs.go). What is wrong is
// an error for each variable; the rest is served without it.
func serveConfig(log *slog.Logger, secrets *event.Secrets) (serve.Config, []error) {
	c := serve.Config{
		Pod: serve.Pod{
			Name: os.Getenv("POD_NAME"), Namespace: os.Getenv("POD_NAMESPACE"), IP: os.Getenv("POD_IP"),
			Cluster: os.Getenv("STATEGRAFT_CLUSTER"), Kind: os.Getenv("STATEGRAFT_KIND"), Role: os.Getenv("STATEGRAFT_ROLE"),
			DataDirectory: os.Getenv("STATEGRAFT_DATA_DIRECTORY"),
		},
		Places: places(), Config: configDir(), Conf: confDir(), Private: rooted("/tmp/stategraft"),
		Secrets: secrets, Log: log,
	}
	var wrong []error
	for name, to := range map[string]*int{"STATEGRAFT_GRPC_PORT": &c.GRPCPort, "STATEGRAFT_NODE_PORT": &c.NodePort, "STATEGRAFT_LIFE_PORT": &c.LifePort, "STATEGRAFT_RESPONSE_PORT": &c.ResponsePort} {
		value, err := number(name)
		if err != nil || value < 0 || value > 65535 {
			wrong = append(wrong, fmt.Errorf("%s is %q and no port: it is done without", name, os.Getenv(name)))
			continue
		}
		*to = value
	}
	grace, err := number("STATEGRAFT_GRACE")
	if err != nil {
		wrong = append(wrong, err)
	}
	c.Pod.Grace = time.Duration(grace) * time.Second
	if text := os.Getenv("STATEGRAFT_TIDY_AFTER"); text != "" {
		if c.TidyAfter, err = time.ParseDuration(text); err != nil || c.TidyAfter < 0 {
			wrong = append(wrong, fmt.Errorf("STATEGRAFT_TIDY_AFTER is %q and no duration like 24h: data from before a restore stay", text))
			c.TidyAfter = 0
		}
	}
	// Without a word it is on: what is left out must not open a port to everybody.
	if os.Getenv("STATEGRAFT_GRPC_TLS") != "off" {
		c.TLSDir = c.Places.GRPCTLS
	}
	if c.Pod.Name == "" {
		wrong = append(wrong, fmt.Errorf("POD_NAME is empty: the node has no name in backups, and none is made"))
		c.GRPCPort = 0
	}
	switch c.Pod.Role {
	case config.RoleMemory, config.RoleDisk, config.RoleRouting, config.RoleMonitoring, config.RoleExecutor, config.RoleScheduler, config.RoleBenchmark, config.RoleCache, "":
	default:
		wrong = append(wrong, fmt.Errorf("STATEGRAFT_ROLE is %q, which this agent does not know: it stands idle", c.Pod.Role))
	}
	return c, wrong
}

// confDir is where the file is that the node was started with, as this container sees it.
func confDir() string {
	if dir := os.Getenv("STATEGRAFT_CONF_DIR"); dir != "" {
		return rooted(dir)
	}
	return ""
}

// number reads a variable that the webhook sets, or gives 0 where it is not set.
func number(name string) (int, error) {
	text := os.Getenv(name)
	if text == "" {
		return 0, nil
	}
	value, err := strconv.Atoi(text)
	if err != nil {
		return 0, fmt.Errorf("read %s: %w", name, err)
	}
	return value, nil
}

// boundMemory has the garbage collector know how much memory the container has. GOMEMLIMIT,
// which the runtime reads itself, says it better.
func boundMemory() {
	if os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	for _, path := range []string{"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"} {
		text, err := os.ReadFile(filepath.Clean(path))
		if err != nil {
			continue
		}
		limit, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
		if err == nil && limit > 0 && limit < 1<<50 { // what has no limit says max, or a number that no machine has
			debug.SetMemoryLimit(limit / 10 * 9)
		}
		return
	}
}
