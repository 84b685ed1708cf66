package config

import (
	"fmt"
	"path"
)

// most is the number of threads that a process can have: its ports are the bases, 50
// apart (include/kvs_threads.hpp), plus the thread's number.
const most = 50

// largest is the number of GB whose kB still fit Anna's unsigned numbers
// (src/kvs/server.cpp multiplies by 1,000,000).
const largest = 4294

// Parse reads the text of an anna-config.yml.
func Parse(text []byte) (*Config, error) {
	root, err := parse(File, text)
	if err != nil {
		return nil, err
	}
	c := &Config{Options: DefaultOptions(), anna: root}
	for _, read := range []func() error{c.parseThreads, c.parseReplication, c.parseCapacities, c.parsePolicy, c.parseDisk, c.parseOptions} {
		if err := read(); err != nil {
			return nil, err
		}
	}
	return c, c.check()
}

func (c *Config) parseThreads() error {
	s, err := c.anna.section("threads")
	if err != nil {
		return err
	}
	remedy := fmt.Sprintf("write a whole number from 1 to %d, the same for all nodes of the cluster", most)
	if c.Threads.Memory, err = s.number("memory", 1, most, remedy); err != nil {
		return err
	}
	if c.Threads.Disk, err = s.number("ebs", 1, most, remedy); err != nil {
		return err
	}
	if c.Threads.Routing, err = s.number("routing", 1, most, remedy); err != nil {
		return err
	}
	if s.find("benchmark") == nil { // only anna-bench reads it
		return nil
	}
	c.Threads.Benchmark, err = s.number("benchmark", 1, most, remedy)
	return err
}

func (c *Config) parseReplication() error {
	s, err := c.anna.section("replication")
	if err != nil {
		return err
	}
	r := &c.Replication
	if r.Memory, err = s.number("memory", 0, 1000, "write how many memory nodes hold each key, no more than there are"); err != nil {
		return err
	}
	if r.Disk, err = s.number("ebs", 0, 1000, "write how many disk nodes hold each key, no more than there are; 0 leaves the disk tier empty"); err != nil {
		return err
	}
	if r.Local, err = s.number("local", 1, most, "write how many threads of a node hold each key: 1, unless few keys are very hot"); err != nil {
		return err
	}
	if s.find("minimum") == nil { // only the monitor reads it
		r.Minimum = r.Memory + r.Disk
		return nil
	}
	r.Minimum, err = s.number("minimum", 1, 1000, "write the sum of memory and ebs: the monitor takes no key below it")
	return err
}

func (c *Config) parseCapacities() error {
	s, err := c.anna.section("capacities")
	if err != nil {
		return err
	}
	remedy := fmt.Sprintf("write a whole number of GB from 0 to %d, below the limit of the containers", largest)
	if c.Capacities.Memory, err = s.number("memory-cap", 0, largest, remedy); err != nil {
		return err
	}
	c.Capacities.Disk, err = s.number("ebs-cap", 0, largest, fmt.Sprintf("write a whole number of GB from 0 to %d, below the size of the volumes", largest))
	return err
}

func (c *Config) parsePolicy() error {
	s, err := c.anna.section("policy")
	if err != nil {
		return err
	}
	if c.Policy.Elasticity, err = s.boolean("elasticity", false); err != nil {
		return err
	}
	if c.Policy.SelectiveReplication, err = s.boolean("selective-rep", false); err != nil {
		return err
	}
	c.Policy.Tiering, err = s.boolean("tiering", false)
	return err
}

func (c *Config) parseDisk() error {
	text, ok, err := c.anna.word("ebs")
	if err != nil || !ok {
		return err
	}
	c.Disk = text
	if !path.IsAbs(text) {
		c.warn("ebs: %s is below the directory in which Anna runs, which goes with the container; write the path where the volume is mounted, such as /ebs", text)
	}
	return nil
}

func (c *Config) warn(format string, args ...any) {
	c.Warnings = append(c.Warnings, fmt.Sprintf(format, args...))
}

// check looks at what is right each by itself and wrong together.
func (c *Config) check() error {
	r, t := c.Replication, c.Threads
	switch least := min(t.Memory, t.Disk); {
	case r.Memory+r.Disk == 0:
		return fmt.Errorf("%s: replication.memory and replication.ebs are 0: no node would hold a key; write 1 for at least one of them", File)
	case r.Local > least:
		return fmt.Errorf("%s: replication.local is %d, more than the %d threads of a node, which then look for one more for ever; write at most %d",
			File, r.Local, least, least)
	case c.Policy.SelectiveReplication && r.Minimum < r.Memory:
		return fmt.Errorf("%s: replication.minimum is %d, less than memory, %d: the monitor would ask for four thousand million copies on disk; write %d",
			File, r.Minimum, r.Memory, r.Memory+r.Disk)
	}
	if r.Memory == 0 {
		c.warn("replication.memory is 0: keys are on disk when they are acknowledged; a memory node is needed even so, for what Anna knows of its keys")
	}
	if c.Policy.Elasticity {
		c.warn("policy.elasticity is true: the monitor asks the management to add and remove nodes, and nothing does so here; scale the StatefulSets, or let the cloud")
	}
	if c.Policy.SelectiveReplication && r.Disk > 0 && r.Minimum < r.Memory+r.Disk {
		c.warn("policy.selective-rep is true and replication.minimum below %d: the monitor deletes the copies on disk of keys that are not read often", r.Memory+r.Disk)
	}
	if c.Policy.Tiering && r.Memory > 0 {
		c.warn("policy.tiering is true: the monitor moves keys between the tiers; a copy in each (replication.ebs: 1, tiering: false) loses less")
	}
	for _, name := range processSections {
		if c.anna.find(name) != nil {
			c.warn("section %s: what a node says of itself is rendered for each node, and stands before this; keep the section out", name)
		}
	}
	return nil
}

// processSections are those that differ from node to node.
var processSections = []string{"server", "routing", "monitoring", "user"}
