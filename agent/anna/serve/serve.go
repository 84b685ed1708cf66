// Package serve is the sidecar of a pod of Anna or Cloudburst. Beside a KVS node it speaks
// to the controllers as Medusa does beside Cassandra (api/medusa, api/node), and so backups,
// schedules and restores of Anna are those of Cassandra; it writes what the restore container
// has staged into the cluster again; and it keeps the cluster's lists of its nodes right.
//
//	serve.go     what runs, by the role of the pod
//	turn.go      one thing at a time, and what was interrupted
//	medusa.go    the answers of Medusa's service
//	backups.go   making a backup
//	grpc.go      listening for them
//	look.go      what the storage has, for api/node
//	summary.go   backups of many nodes as one
//	report.go    what the node tells of itself
//	shelf.go     the storage, opened anew when its configuration changes
//	replays.go   what is to be written again, and how far that is
//	replaying.go one replay
//	anna.go      the node itself: its client, its names, its peers
//	engine.go    what is done with it: backups, replays, healing
//	save.go      what the setup container saves for the healing
//	life.go      plain HTTP: handing the keys over before the end, metrics
//	metrics.go   the metrics
//	tidy.go      removing what a restore has kept
//	watch.go     whether the configuration has changed under the database
//	adopted.go   beside a node that runs already: backups, and nothing else
//	count.go     how many threads a node has whose file is not to be had
//	process.go   such a file, by the node's process
//
// Whatever is missing or wrong, it stays up and says so: the database must not become
// unready because of its backup.
package serve

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/stategraft/stategraft/agent/anna/config"
	"github.com/stategraft/stategraft/agent/anna/membership"
	"github.com/stategraft/stategraft/agent/anna/wire"
	"github.com/stategraft/stategraft/agent/event"
	"github.com/stategraft/stategraft/agent/files"
	"github.com/stategraft/stategraft/agent/nodeserver"
)

// Pod is what is known of the pod.
type Pod struct {
	Name, Namespace, IP string
	Cluster             string
	Kind, Role          string // anna or cloudburst; of package config
	DataDirectory       string // of the disk tier
	Grace               time.Duration
}

// Config is how the sidecar runs.
type Config struct {
	Pod     Pod
	Places  files.Places
	Config  string // directory of the ConfigMap with anna-config.yml
	Conf    string // directory of the file that the node was started with
	Private string // directory of the container's own, which outlives it

	Address            string        // to listen on; empty for all of the pod's
	Local              string        // where the pod's own processes are dialled; empty: 127.0.0.1
	GRPCPort, NodePort int           // 0: not served
	LifePort           int           // 0: not served
	ResponsePort       int           // where Anna's answers come to, and at the next; 0: as the ConfigMap says
	TidyAfter          time.Duration // how long the node has to serve until data from before a restore go; 0: they stay
	TLSDir             string        // empty: gRPC and the node's service are served in the clear

	// Adopted has the node be left as it is: it was started without us, so it is backed up
	// and told nothing.
	Adopted bool
	// Node is what the node was started with; nil: the file in Conf. Where that cannot be
	// known its error is fs.ErrNotExist.
	Node func() (*config.Effective, error)
	// Routing are routing nodes that the node was told of, for want of anything newer.
	Routing []string

	Resolver config.Resolver // nil: that of the system
	Secrets  *event.Secrets
	Log      *slog.Logger

	// Tests have their own.
	open   opener
	engine engine
	every  time.Duration // between looks; 0: those that comments say
	period time.Duration // of the node's reports; 0: Anna's
}

// Staged is where the restore container leaves backups, below Places.Shared.
func Staged(places files.Places) string { return filepath.Join(dir(places), "staged") }

// Saved is where the setup container leaves the keys of peers (package safejoin).
func Saved(places files.Places) string { return filepath.Join(dir(places), "saved") }

func dir(places files.Places) string { return filepath.Join(places.Shared, "anna") }

// holdsData tells whether the pod's role is one whose keys are backed up.
func (c Config) holdsData() bool {
	return c.Pod.Role == config.RoleMemory || c.Pod.Role == config.RoleDisk
}

// tier is that of a data node.
func (c Config) tier() wire.Tier {
	if c.Pod.Role == config.RoleDisk {
		return wire.Disk
	}
	return wire.Memory
}

// Run serves until the context ends, and no longer than a departure lasts that goes on
// then. It never ends before.
func Run(ctx context.Context, c Config) { New(c).Run(ctx) }

// Sidecar is one to be run.
type Sidecar struct{ *server }

// New makes one.
func New(c Config) Sidecar { return Sidecar{newServer(c)} }

// Run runs it; see the function of that name.
func (s Sidecar) Run(ctx context.Context) {
	var all sync.WaitGroup
	s.start(ctx, &all)
	<-ctx.Done()
	s.leaving.Wait()
	all.Wait()
}

// server is the sidecar.
type server struct {
	Config
	shelf   *shelf
	turn    *turn
	jobs    *jobs
	anna    *anna
	replays *replays
	watch   *watch
	gists   gists

	announcer *membership.Announcer // of data nodes
	departer  *membership.Departer  // of routing nodes

	leaving sync.WaitGroup // departures that are under way
}

func newServer(c Config) *server {
	if c.Secrets == nil {
		c.Secrets = &event.Secrets{}
	}
	if c.Adopted {
		c = c.adopted()
	}
	s := &server{Config: c, watch: newWatch(c)}
	s.anna = newAnna(c)
	if c.engine == nil {
		s.engine = s.anna
	}
	if !c.holdsData() {
		return s
	}
	if err := os.MkdirAll(c.Private, 0o700); err != nil {
		c.Log.Error("what runs cannot be written down", "error", err.Error())
	}
	s.shelf = newShelf(c)
	s.turn = newTurn(filepath.Join(c.Private, "running.json"), c.Log)
	s.jobs = newJobs(s)
	s.replays = newReplays(s)
	return s
}

// start starts what the role asks for.
func (s *server) start(ctx context.Context, all *sync.WaitGroup) {
	run := func(what string, do func(context.Context)) {
		all.Go(func() { s.forever(ctx, what, do) })
	}
	run("the watch over the configuration", s.watch.run)
	if s.LifePort > 0 {
		run("the life port", s.serveLife)
	}
	switch {
	case s.holdsData():
		s.jobs.start(ctx, all)
		run("the node's names and peers", s.anna.run)
		if s.GRPCPort > 0 {
			run("Medusa's service", s.serveGRPC)
		}
		if s.NodePort > 0 {
			run("the node's service", func(ctx context.Context) { nodeserver.Run(ctx, s.nodeConfig()) })
		}
		if s.Adopted {
			return
		}
		run("replays", s.replays.run)
		run("tidying up", s.tidy)
		s.announcer = s.anna.announcer()
		run("the watch over routing nodes", s.announcer.Run)
	case s.Pod.Role == config.RoleRouting && !s.Adopted:
		s.departer = s.anna.departer()
		run("the watch over nodes that are gone", s.departer.Run)
	}
}

// forever has a part run again that has ended or panicked: the others, and the pod, go on
// meanwhile.
func (s *server) forever(ctx context.Context, what string, do func(context.Context)) {
	for ctx.Err() == nil {
		err := guarded(func() { do(ctx) })
		if ctx.Err() != nil {
			return
		}
		s.Log.Error("a part of the sidecar has ended and is started again", "what", what, "error", err)
		wait(ctx, 10*time.Second)
	}
}

// wait waits; it is false where the context ends before.
func wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
