package annanode

import (
	"log/slog"
	"time"

	"github.com/stategraft/stategraft/agent/anna/wire"
)

// NoManagement is how a configuration says that there is no management server.
const NoManagement = "NULL"

// Config is what a node is started with. The zero value of what has a default is
// that default.
type Config struct {
	Tier wire.Tier // Memory, Disk or Routing

	// Public is what clients are told to dial, Private what peers dial and what is
	// hashed for the ring. A routing node has Private only.
	Public, Private string
	// Bind is the address to listen on, "" for all. Nodes of one machine need
	// distinct ones, see FreeHosts.
	Bind string

	Seed       string   // a routing node, asked for the members at start
	Routing    []string // told of this node
	Monitoring []string // told of this node
	Management string   // "" and "NULL" for none

	Threads     Threads
	Replication Replication

	// Root has the directories ebs_<tid> of the disk tier.
	Root string

	Report time.Duration // how often the keys are reported; 15 s
	Gossip time.Duration // how often changes go to the other replicas; 10 s

	// NoJoinDefect mends the join: all keys that a new node owns are sent to it.
	NoJoinDefect bool
	// Freeze stops a thread for good that is sent a new key while more than 1000
	// tuples are outstanding to it.
	Freeze bool

	Log *slog.Logger
}

// Threads is how many threads each process of a tier has; 1 by default.
type Threads struct{ Memory, Disk, Routing int }

// Replication is how many nodes of each tier keep a key, and how many threads of
// such a node. The zero value stands for 1 of memory, 0 of disk, 1 thread.
type Replication struct{ Memory, Disk, Local int }

func (c Config) withDefaults() Config {
	for _, n := range []*int{&c.Threads.Memory, &c.Threads.Disk, &c.Threads.Routing} {
		if *n == 0 {
			*n = 1
		}
	}
	if c.Replication.Memory == 0 && c.Replication.Disk == 0 {
		c.Replication.Memory = 1
	}
	if c.Replication.Local == 0 {
		c.Replication.Local = 1
	}
	if c.Report == 0 {
		c.Report = 15 * time.Second
	}
	if c.Gossip == 0 {
		c.Gossip = 10 * time.Second
	}
	if c.Management == NoManagement {
		c.Management = ""
	}
	if c.Public == "" {
		c.Public = c.Private
	}
	if c.Bind == "" {
		c.Bind = "*"
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c
}

// threads is how many this process has.
func (c *Config) threads() int {
	switch c.Tier {
	case wire.Disk:
		return c.Threads.Disk
	case wire.Routing:
		return c.Threads.Routing
	default:
		return c.Threads.Memory
	}
}

// factors are the replication factors of a key, by tier.
type factors struct{ global, local [wire.Routing]uint32 }

func (c *Config) factors() factors {
	var f factors
	f.global[wire.Memory], f.global[wire.Disk] = uint32(c.Replication.Memory), uint32(c.Replication.Disk)
	f.local[wire.Memory], f.local[wire.Disk] = uint32(c.Replication.Local), uint32(c.Replication.Local)
	return f
}
