package simulated

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/stategraft/stategraft/api/node"
)

// Catalogue is what the storage of a namespace holds.
type Catalogue struct {
	mu      sync.Mutex
	backups []node.Backup
}

// Prefix is that of the storage of every namespace.
const Prefix = "simulated"

// Add puts a backup into the storage, of nodes that have finished; of those in
// unfinished only the beginning is there, of those in missing nothing, though the
// token map names them.
func (c *Catalogue) Add(name string, finished time.Time, nodes, unfinished, missing []string) {
	b := node.Backup{Prefix: Prefix, Ring: map[string]node.Ring{}}
	b.Name, b.Started, b.Complete = name, finished.Add(-time.Minute).UTC(), len(unfinished)+len(missing) == 0
	b.Nodes = slices.Sorted(slices.Values(append(slices.Clone(nodes), unfinished...)))
	if len(unfinished) == 0 {
		b.Finished = finished.UTC()
	}
	for _, n := range b.Nodes {
		m := node.Member{Node: n, Started: b.Started, Bytes: 3 << 20, Objects: 30, Tables: 3, Version: "5.0.4", Type: "differential"}
		if m.Complete = !slices.Contains(unfinished, n); m.Complete {
			m.Finished = finished.UTC()
		}
		b.Members = append(b.Members, m)
	}
	all := slices.Sorted(slices.Values(append(slices.Clone(b.Nodes), missing...)))
	for i, n := range all {
		b.Ring[n] = node.Ring{Tokens: []string{fmt.Sprint(i * 1000)}, Datacenter: "dc1", Rack: "r1"}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.backups = append(c.backups, b)
	slices.SortFunc(c.backups, func(a, b node.Backup) int { return a.Started.Compare(b.Started) })
}

func (c *Catalogue) list() node.Backups {
	c.mu.Lock()
	defer c.mu.Unlock()
	list := node.Backups{Prefix: Prefix}
	for _, b := range c.backups {
		list.Backups = append(list.Backups, b.Summary)
	}
	return list
}

func (c *Catalogue) find(name string) (node.Backup, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, b := range c.backups {
		if b.Name == name {
			return b, true
		}
	}
	return node.Backup{}, false
}

// member finds a node's part in a backup, complete.
func (c *Catalogue) member(backup, of string) (node.Member, error) {
	b, ok := c.find(backup)
	if !ok {
		return node.Member{}, fmt.Errorf("there is no backup %s in the storage", backup)
	}
	m, ok := b.Member(of)
	if !ok || !m.Complete {
		return node.Member{}, fmt.Errorf("backup %s has nothing complete of node %s", backup, of)
	}
	return m, nil
}
