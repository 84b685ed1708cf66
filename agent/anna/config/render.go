package config

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"

	"go.yaml.in/yaml/v3"
)

// Node is what a process has to know of itself and of the others.
type Node struct {
	Public, Private string   // of a data node; Private is every process's own address
	Seed            string   // a routing node
	Routing         []string // routing nodes
	Monitoring      []string // monitors
	Management      string   // the management's name; empty where there is none
	RoutingService  string   // one name for all routing nodes: what caches and clients dial
	Schedulers      []string // what executors tell of themselves
	Scheduler       string   // one name for all schedulers: what a benchmark dials
	ThreadID        int      // of a Cloudburst process
}

// NoManagement is how Anna is told that there is no management: the word, in quotes.
const NoManagement = "NULL"

// end is the end of a YAML document, of which a file may have several, and Anna reads the
// first: upstream's entry point appends a section at each start of the container
// (dockerfiles/start-anna.sh), with texts of web servers in it where the instance metadata
// are not Amazon's. Tried with yaml-cpp 0.7.
const end = "...\n"

// Anna renders anna-config.yml for a process. It is the same for the same node, no key is
// in it twice, and every string is in quotes. What is appended to it changes nothing.
func (c *Config) Anna(role string, node Node) ([]byte, error) {
	if err := c.can(role); err != nil {
		return nil, err
	}
	m := &mapping{}
	if c.Disk != "" {
		m.set("ebs", quoted(c.Disk))
	}
	m.set("capacities", c.known("capacities", "memory-cap", c.Capacities.Memory, "ebs-cap", c.Capacities.Disk))
	threads := []any{"memory", c.Threads.Memory, "ebs", c.Threads.Disk, "routing", c.Threads.Routing}
	if c.Threads.Benchmark > 0 {
		threads = append(threads, "benchmark", c.Threads.Benchmark)
	}
	m.set("threads", c.known("threads", threads...))
	r := c.Replication
	m.set("replication", c.known("replication", "memory", r.Memory, "ebs", r.Disk, "minimum", r.Minimum, "local", r.Local))
	p := c.Policy
	m.set("policy", c.known("policy", "elasticity", p.Elasticity, "selective-rep", p.SelectiveReplication, "tiering", p.Tiering))
	name, own := process(role, node)
	m.set(name, c.known(name, own...))
	for _, pair := range c.anna.pairs {
		if pair.key != SectionOptions && !slices.Contains(processSections, pair.key) {
			m.set(pair.key, plain(pair.value))
		}
	}
	text, err := m.text(fmt.Sprintf("# %s of this node, made by Stategraft of the ConfigMap. Anna reads nothing below the three dots.\n", role))
	return append(text, end...), err
}

// process is the section that differs from node to node, and its name.
func process(role string, n Node) (string, []any) {
	management := n.Management
	if management == "" {
		management = NoManagement
	}
	switch role {
	case RoleRouting:
		return "routing", []any{"ip", n.Private, "monitoring", n.Monitoring}
	case RoleMonitoring:
		return "monitoring", []any{"mgmt_ip", management, "ip", n.Private}
	case RoleBenchmark:
		return "user", []any{"ip", n.Private, "monitoring", n.Monitoring, "routing", n.Routing}
	case RoleCache:
		return "user", []any{"ip", n.Private, "routing-elb", n.RoutingService}
	}
	return "server", []any{"seed_ip", n.Seed, "public_ip", n.Public, "private_ip", n.Private,
		"mgmt_ip", management, "monitoring", n.Monitoring, "routing", n.Routing}
}

// can tells what a role misses in the file.
func (c *Config) can(role string) error {
	switch {
	case len(c.anna.pairs) == 0:
		return ErrNoFile
	case role == RoleDisk && c.Disk == "":
		return fmt.Errorf("%s: ebs is missing; write the directory where the disk tier's volume is mounted, such as /ebs", File)
	case role == RoleBenchmark && c.Threads.Benchmark == 0:
		return fmt.Errorf("%s: threads.benchmark is missing; write a whole number from 1 to %d", File, most)
	}
	switch role {
	case RoleMemory, RoleDisk, RoleRouting, RoleMonitoring, RoleBenchmark, RoleCache:
		return nil
	}
	return fmt.Errorf("role %q is none of Anna's", role)
}

// Cloudburst renders cloudburst-config.yml for a process. A mgmt_ip that is null means a
// single machine (cloudburst/server/executor/server.py), so it is written only where no
// Service is named.
func (c *Config) Cloudburst(role string, node Node) ([]byte, error) {
	var own []any
	switch role {
	case RoleExecutor:
		own = []any{"thread_id", node.ThreadID, "scheduler_ips", node.Schedulers}
	case RoleScheduler:
		own = []any{"routing_address", node.RoutingService, "policy", c.policy()}
	case RoleBenchmark:
		own = []any{"cloudburst_address", node.Scheduler, "thread_id", node.ThreadID}
	default:
		return nil, fmt.Errorf("role %q is none of Cloudburst's", role)
	}
	m := &mapping{}
	m.set("ip", quoted(node.Private))
	if node.Management == "" {
		m.set("mgmt_ip", &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null", Value: "null"})
	} else {
		m.set("mgmt_ip", quoted(node.Management))
	}
	m.set(role, under(c.cloudburst, role, own...))
	if c.cloudburst != nil {
		for _, pair := range c.cloudburst.pairs {
			switch pair.key {
			case RoleExecutor, RoleScheduler, RoleBenchmark:
			default:
				m.set(pair.key, plain(pair.value))
			}
		}
	}
	return m.text(fmt.Sprintf("# %s of this pod, made by Stategraft.\n", role))
}

// policy is how the scheduler places functions: what the user says, or upstream's.
func (c *Config) policy() string {
	if c.cloudburst != nil {
		if s, err := c.cloudburst.section(RoleScheduler); err == nil {
			if policy, ok, err := s.word("policy"); ok && err == nil {
				return policy
			}
		}
	}
	return "locality"
}

// known is a section with the values that are known, and after them what else the user
// wrote there.
func (c *Config) known(name string, pairs ...any) *yaml.Node {
	return under(c.anna, name, pairs...)
}

func under(users *section, name string, pairs ...any) *yaml.Node {
	m := &mapping{}
	for i := 0; i+1 < len(pairs); i += 2 {
		m.set(pairs[i].(string), node(pairs[i+1]))
	}
	if users != nil && users.find(name) != nil {
		if s, err := users.section(name); err == nil { // what is no section is left out
			for _, pair := range s.pairs {
				m.set(pair.key, plain(pair.value))
			}
		}
	}
	return m.node()
}

// mapping is a section that is being written. Of a key that is set twice the first stays.
type mapping struct{ content []*yaml.Node }

func (m *mapping) set(key string, value *yaml.Node) {
	for i := 0; i < len(m.content); i += 2 {
		if m.content[i].Value == key {
			return
		}
	}
	m.content = append(m.content, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: key}, value)
}

func (m *mapping) node() *yaml.Node {
	return &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Content: m.content}
}

func (m *mapping) text(head string) ([]byte, error) {
	out := bytes.NewBufferString(head)
	encoder := yaml.NewEncoder(out)
	encoder.SetIndent(2)
	if err := encoder.Encode(m.node()); err != nil {
		return nil, fmt.Errorf("write the configuration: %w", err)
	}
	return out.Bytes(), encoder.Close()
}

func node(value any) *yaml.Node {
	switch v := value.(type) {
	case int:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!int", Value: strconv.Itoa(v)}
	case bool:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!bool", Value: strconv.FormatBool(v)}
	case []string:
		list := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq"}
		if len(v) == 0 {
			list.Style = yaml.FlowStyle
		}
		for _, entry := range v {
			list.Content = append(list.Content, quoted(entry))
		}
		return list
	}
	return quoted(value.(string))
}

// quoted is a string to every reader, NULL included.
func quoted(value string) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Style: yaml.DoubleQuotedStyle, Value: value}
}

// plain is a user's value without anchors and comments.
func plain(value *yaml.Node) *yaml.Node {
	copied := &yaml.Node{Kind: value.Kind, Tag: value.Tag, Value: value.Value, Style: value.Style}
	for _, c := range value.Content {
		copied.Content = append(copied.Content, plain(c))
	}
	return copied
}
