// Package setup prepares a pod of Anna or Cloudburst before its processes start: it
// renders the file that each of them reads, of the user's ConfigMap, of the names behind
// the headless Services and of what the pod knows of itself, and makes the directories
// that Anna does not. It runs once for each start of the pod; a container that is started
// again finds the same file, with whatever its start script appended, of which Anna
// heeds nothing (package config).
package setup

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/stategraft/stategraft/agent/anna/config"
	"github.com/stategraft/stategraft/agent/anna/wire"
	"github.com/stategraft/stategraft/agent/files"
)

// Setup is what a pod needs before its processes start.
type Setup struct {
	Pod      Pod
	Renders  []Render
	Config   string // directory of the ConfigMap; one that is not there is empty
	Info     string // directory with public-address, where Pod.Exposed
	Resolv   string // resolv.conf
	Owner    files.Owner
	Resolver config.Resolver
	Log      *slog.Logger
	Times    Times

	// Members asks a routing node whom it knows; Listens tells whether somebody takes
	// connections. nil: nobody is asked.
	Members func(ctx context.Context, host string) (wire.Membership, error)
	Listens func(ctx context.Context, host string, port int) bool
}

// Pod is what the pod knows of itself.
type Pod struct {
	Kind, Role      string // values of STATEGRAFT_KIND and STATEGRAFT_ROLE
	Name, Namespace string
	Subdomain       string // the headless Service that gives the pod its name; may be empty
	Address         string // of the pod; with hostNetwork the host's
	HostNetwork     bool
	Exposed         bool   // the public address is another, and has to be waited for
	DataDir         string // where the data volume is mounted; empty without one
	MemoryLimit     int64  // of the database's container in bytes, 0 where it is not known
}

// Render is a file to write for a container.
type Render struct {
	Container string `json:"container"`
	Kind      string `json:"kind"` // anna, cache or cloudburst
	Role      string `json:"role"`
	Dir       string `json:"dir"` // of the file, in this container
	ThreadID  string `json:"threadID,omitempty"`
}

// The kinds of Render.
const (
	KindAnna       = "anna"
	KindCache      = "cache"
	KindCloudburst = "cloudburst"
)

// Times are how long is waited; the zero value waits for nothing twice.
type Times struct {
	Ask     time.Duration // between two questions to the DNS
	Say     time.Duration // between two lines that say what is waited for
	Settle  time.Duration // a list of names has to have been the same for
	Settled time.Duration // but no longer than this
	Name    time.Duration // for the pod's own name, at most
}

// DefaultTimes are for pods.
var DefaultTimes = Times{Ask: time.Second, Say: 15 * time.Second, Settle: 3 * time.Second, Settled: 15 * time.Second, Name: 45 * time.Second}

// Run prepares the pod. An error means that the pod's processes could not start: it names
// what is wrong and what to do. Without a file to render only warnings come of the
// ConfigMap: the pod's own commands may know better.
func (s *Setup) Run(ctx context.Context) error {
	conf, err := config.Load(s.Config)
	switch {
	case err == nil, errors.Is(err, config.ErrNoFile) && !s.needs():
	case len(s.Renders) > 0:
		return err
	default:
		s.Log.Warn("the configuration is left to the pod's own commands, which may not start with it", "error", err)
	}
	if conf == nil {
		conf = &config.Config{Options: config.DefaultOptions()}
	}
	s.warn(conf)
	if conf.Options.Domain == "" {
		text, _ := os.ReadFile(s.Resolv) // without one the usual domain is taken
		conf.Options.Domain = config.DomainOf(text)
	}
	if s.Pod.Role == config.RoleDisk {
		err := s.directories(conf)
		switch {
		case err == nil:
		case len(s.Renders) > 0:
			return err // Anna would start, and lose every write without a word
		default:
			s.Log.Warn("the disk tier's directories are left to the pod's own commands; without them Anna loses what is written there", "error", err)
		}
	}
	if len(s.Renders) == 0 {
		return nil
	}
	node, err := s.node(ctx, conf)
	if err != nil {
		return err
	}
	for _, render := range s.Renders {
		if err := s.render(conf, render, node); err != nil {
			return fmt.Errorf("container %s: %w", render.Container, err)
		}
	}
	return nil
}

// needs tells whether a file without content is too little: Cloudburst can do without.
func (s *Setup) needs() bool {
	return s.Pod.Kind != KindCloudburst || slices.ContainsFunc(s.Renders, func(r Render) bool { return r.Kind != KindCloudburst })
}

// render writes one file in one step, so that a start script that waits for it never
// sees a half.
func (s *Setup) render(conf *config.Config, r Render, node config.Node) error {
	role := r.Role
	if r.Kind == KindCache {
		role = config.RoleCache
	}
	name, write := config.File, conf.Anna
	if r.Kind == KindCloudburst {
		name, write = config.FileCloudburst, conf.Cloudburst
		if r.ThreadID != "" {
			id, err := strconv.Atoi(r.ThreadID)
			if err != nil || id < 0 {
				return fmt.Errorf("THREAD_ID is %q; write a whole number from 0", r.ThreadID)
			}
			node.ThreadID = id
		}
	}
	text, err := write(role, node)
	if err != nil {
		return err
	}
	if err := files.MakeDir(r.Dir, 0o755, s.Owner); err != nil {
		return err
	}
	path := filepath.Join(r.Dir, name)
	if old, err := os.ReadFile(path); err == nil && string(old) == string(text) {
		return nil
	}
	if err := files.Write(path, text, 0o644, s.Owner); err != nil {
		return err
	}
	s.Log.Info("configuration written", "container", r.Container, "role", role, "file", path)
	return nil
}

// wait waits, unless the context ends.
func (s *Setup) wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}
