package config

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"go.yaml.in/yaml/v3"

	"github.com/stategraft/stategraft/agent/anna/wire"
)

// Effective is what a process of Anna reads, as it reads it, whoever wrote the file.
// What the file does not say is zero.
type Effective struct {
	Self        wire.Server // of a data node: section server
	Threads     Threads
	Replication Replication
	Disk        string
	Seed        string
	Management  string // "NULL" is none
	Routing     []string
	Monitoring  []string
	IP          string // of a routing node or monitor
}

// ErrNoServer says that a file has no section server with both names.
var ErrNoServer = errors.New("no section server with public_ip and private_ip")

// Read reads the effective anna-config.yml of a directory. A file that is being written
// may be read in part: whoever waits for it asks again. No file is fs.ErrNotExist.
func Read(dir string) (*Effective, error) {
	text, err := os.ReadFile(filepath.Join(dir, File))
	if err != nil {
		return nil, fmt.Errorf("read the node's configuration: %w", err)
	}
	e, err := ReadText(text)
	if err != nil {
		return nil, fmt.Errorf("read the node's configuration: %w", err)
	}
	return e, nil
}

// ReadText is Read of a text.
func ReadText(text []byte) (*Effective, error) {
	var document yaml.Node
	if err := yaml.Unmarshal(text, &document); err != nil {
		return nil, err
	}
	if len(document.Content) == 0 {
		return &Effective{}, nil
	}
	root := document.Content[0]
	threads, replication := first(root, "threads"), first(root, "replication")
	e := &Effective{
		Threads: Threads{
			Memory: whole(threads, "memory"), Disk: whole(threads, "ebs"),
			Routing: whole(threads, "routing"), Benchmark: whole(threads, "benchmark"),
		},
		Replication: Replication{
			Memory: whole(replication, "memory"), Disk: whole(replication, "ebs"),
			Minimum: whole(replication, "minimum"), Local: whole(replication, "local"),
		},
		Disk: textOf(first(root, "ebs")),
	}
	for _, name := range processSections {
		e.process(first(root, name))
	}
	return e, nil
}

// process takes what a section of the process's own says; a file has one of them, or the
// first is what counts.
func (e *Effective) process(node *yaml.Node) {
	if node == nil {
		return
	}
	set := func(to *string, key string) {
		if *to == "" {
			*to = textOf(first(node, key))
		}
	}
	set(&e.Self.Public, "public_ip")
	set(&e.Self.Private, "private_ip")
	set(&e.Seed, "seed_ip")
	set(&e.Management, "mgmt_ip")
	set(&e.IP, "ip")
	if e.Routing == nil {
		e.Routing = texts(first(node, "routing"))
	}
	if e.Monitoring == nil {
		e.Monitoring = texts(first(node, "monitoring"))
	}
}

// Self is who the node says it is.
func Self(dir string) (wire.Server, error) {
	e, err := Read(dir)
	if err != nil {
		return wire.Server{}, err
	}
	if e.Self.Public == "" || e.Self.Private == "" {
		return wire.Server{}, fmt.Errorf("read the node's configuration: %w", ErrNoServer)
	}
	return e.Self, nil
}

// Member is the member of a tier whose private name has the address, for a pod whose
// configuration cannot be read.
func Member(ctx context.Context, r Resolver, members wire.Membership, tier wire.Tier, address string) (wire.Server, bool, error) {
	var failed error
	for _, server := range members.Of(tier) {
		all, err := Addresses(ctx, r, server.Private)
		if err != nil {
			failed = err
		}
		for _, a := range all {
			if a == address {
				return server, true, nil
			}
		}
	}
	return wire.Server{}, false, failed
}

// first is the value that yaml-cpp finds: the first of that key.
func first(node *yaml.Node, key string) *yaml.Node {
	for node != nil && node.Kind == yaml.AliasNode {
		node = node.Alias
	}
	if node == nil || node.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(node.Content); i += 2 {
		if node.Content[i].Value == key {
			return node.Content[i+1]
		}
	}
	return nil
}

func textOf(node *yaml.Node) string {
	for node != nil && node.Kind == yaml.AliasNode {
		node = node.Alias
	}
	if node == nil || node.Kind != yaml.ScalarNode || node.Tag == "!!null" {
		return ""
	}
	return node.Value
}

func texts(node *yaml.Node) []string {
	if node == nil || node.Kind != yaml.SequenceNode {
		return nil
	}
	var all []string
	for _, entry := range node.Content {
		if text := textOf(entry); text != "" {
			all = append(all, text)
		}
	}
	return all
}

func whole(node *yaml.Node, key string) int {
	n, _ := strconv.Atoi(textOf(first(node, key)))
	return n
}
