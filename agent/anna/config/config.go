// Package config reads what users say of Anna in a ConfigMap, renders of it what each
// process reads, and tells what the nodes of a cluster are called. Anna reads its file
// once, with yaml-cpp: of a key that is there twice it takes the first, and plain NULL
// is no string (hydro-project/anna src/kvs/server.cpp); Cloudburst reads its own with
// PyYAML, which takes the last. What is rendered is the same to both.
package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// The names of the files, in the ConfigMap and in the directory conf of each process.
const (
	File           = "anna-config.yml"
	FileCloudburst = "cloudburst-config.yml"
)

// The roles of processes: values of STATEGRAFT_ROLE, and cache, which stands beside
// executors in their pods.
const (
	RoleMemory     = "memory"
	RoleDisk       = "ebs" // Anna's name of its disk tier
	RoleRouting    = "routing"
	RoleMonitoring = "monitoring"
	RoleBenchmark  = "benchmark"
	RoleCache      = "cache"
	RoleExecutor   = "executor"
	RoleScheduler  = "scheduler"
)

// Config is a user's anna-config.yml, checked.
type Config struct {
	Disk        string // "ebs": where the disk tier keeps its files
	Threads     Threads
	Replication Replication
	Capacities  Capacities
	Policy      Policy
	Options     Options // the section stategraft
	// Warnings are traps in what Anna would take: a sentence each.
	Warnings []string

	anna       *section // all of the file
	cloudburst *section // cloudburst-config.yml beside it, or nil
}

// Threads are the threads of each process of a kind; the same on all nodes of a cluster.
type Threads struct{ Memory, Disk, Routing, Benchmark int }

// Of is the number of threads of a data node's role, 0 for another role.
func (t Threads) Of(role string) int {
	switch role {
	case RoleMemory:
		return t.Memory
	case RoleDisk:
		return t.Disk
	}
	return 0
}

// Replication is how many nodes of each tier hold a key, and how many threads in a node.
type Replication struct{ Memory, Disk, Minimum, Local int }

// Capacities are in GB.
type Capacities struct{ Memory, Disk int }

// Policy is what the monitor does of itself.
type Policy struct{ Elasticity, SelectiveReplication, Tiering bool }

// Options are what the section stategraft says. Anna does not look at it.
type Options struct {
	Services Services
	// Domain is that of the cluster's names; empty is what the pod's resolver says.
	Domain string
	// DepartAfter is how long a node has been gone before the others are told.
	DepartAfter time.Duration
	SafeJoin    bool
	// ResponsePort is where the sidecar takes answers; addresses of keys come to the
	// next one.
	ResponsePort int
}

// Services are the headless Services by which nodes find each other, and that of the
// management: a name in the pod's namespace, NAME.NAMESPACE, or a whole name. Empty
// means that there is none.
type Services struct{ Memory, Disk, Routing, Monitoring, Scheduler, Executor, Management string }

// DefaultOptions are those of a file without a section stategraft.
func DefaultOptions() Options {
	return Options{
		Services: Services{
			Memory: "anna-memory", Disk: "anna-ebs", Routing: "anna-routing", Monitoring: "anna-monitoring",
			Scheduler: "cloudburst-scheduler", Executor: "cloudburst-executor", Management: "hydro-management",
		},
		DepartAfter:  time.Minute,
		SafeJoin:     true,
		ResponsePort: 6980,
	}
}

// ErrNoFile says that the directory has no anna-config.yml. It comes with the defaults.
var ErrNoFile = errors.New("no " + File)

// Load reads anna-config.yml, and cloudburst-config.yml where there is one, of a
// ConfigMap's directory. The errors name what is wrong, with the line, and what to do.
func Load(dir string) (*Config, error) {
	text, err := os.ReadFile(filepath.Join(dir, File))
	if errors.Is(err, fs.ErrNotExist) {
		c := &Config{Options: DefaultOptions(), anna: &section{}}
		if err := c.loadCloudburst(dir); err != nil {
			return c, err
		}
		return c, fmt.Errorf("%w in the ConfigMap: give it that key, with the sections threads, capacities and replication; annotation stategraft.io/config-map names the ConfigMap", ErrNoFile)
	}
	if err != nil {
		return nil, fmt.Errorf("read the configuration: %w", err)
	}
	c, err := Parse(text)
	if err != nil {
		return nil, err
	}
	return c, c.loadCloudburst(dir)
}

func (c *Config) loadCloudburst(dir string) error {
	text, err := os.ReadFile(filepath.Join(dir, FileCloudburst))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the configuration: %w", err)
	}
	c.cloudburst, err = parse(FileCloudburst, text)
	return err
}
