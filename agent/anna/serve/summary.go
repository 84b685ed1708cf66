package serve

import (
	"maps"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/stategraft/stategraft/agent/anna/manifest"
	"github.com/stategraft/stategraft/agent/anna/store"
	"github.com/stategraft/stategraft/api/medusa"
	"github.com/stategraft/stategraft/api/node"
)

// gist is what is kept of a manifest: it does not change once it is written, and a list of
// many backups looks at one of each.
type gist struct {
	server manifest.Server
	nodes  []string
}

// grouped are the parts of one backup, by node.
type grouped struct {
	name  string
	parts map[string]store.Entry
}

// group puts the parts of each backup together, the oldest backup first.
func group(entries []store.Entry) []grouped {
	byName := map[string]grouped{}
	for _, e := range entries {
		g, ok := byName[e.Name]
		if !ok {
			g = grouped{e.Name, map[string]store.Entry{}}
			byName[e.Name] = g
		}
		g.parts[e.Node] = e
	}
	all := slices.Collect(maps.Values(byName))
	slices.SortFunc(all, func(a, b grouped) int {
		if c := a.started().Compare(b.started()); c != 0 {
			return c
		}
		if a.name < b.name {
			return -1
		}
		return 1
	})
	return all
}

func (g grouped) nodes() []string { return slices.Sorted(maps.Keys(g.parts)) }

// finished are the nodes whose parts are.
func (g grouped) finished() (nodes []string) {
	for _, n := range g.nodes() {
		if !g.parts[n].Finished.IsZero() {
			nodes = append(nodes, n)
		}
	}
	return nodes
}

func (g grouped) started() (first time.Time) {
	for _, e := range g.parts {
		if !e.Started.IsZero() && (first.IsZero() || e.Started.Before(first)) {
			first = e.Started
		}
	}
	return first
}

// summary is the backup in a list. The ring are the nodes that the cluster had.
func (g grouped) summary(ring []string) node.Summary {
	s := node.Summary{Name: g.name, Started: g.started(), Nodes: g.nodes(), Complete: len(ring) > 0}
	for _, n := range ring {
		e := g.parts[n]
		if e.Finished.IsZero() {
			s.Complete = false
		} else if e.Finished.After(s.Finished) {
			s.Finished = e.Finished
		}
	}
	if !s.Complete {
		s.Finished = time.Time{}
	}
	return s
}

// ring are the nodes that a backup is of, by what manifests say. A manifest knows the
// others by their private addresses; the node itself it knows by its pod's name, and where
// that is no part of the address it is what counts.
func ring(found map[string]gist) []string {
	called := map[string]string{}
	for name, g := range found {
		called[label(g.server.Private)] = name
	}
	nodes := map[string]bool{}
	for name, g := range found {
		nodes[name] = true
		for _, n := range g.nodes {
			if known, ok := called[n]; ok {
				n = known
			}
			nodes[n] = true
		}
	}
	return slices.Sorted(maps.Keys(nodes))
}

// label is what manifests call the pod of a private address: its first label, or all of it
// where it is an address of IP.
func label(private string) string {
	if net.ParseIP(private) != nil {
		return private
	}
	first, _, _ := strings.Cut(private, ".")
	return first
}

// member is a node's part. Its objects are its packs and the manifest itself: a node
// without a key has a backup too.
func member(m manifest.Manifest) node.Member {
	at := node.Member{
		Node: m.Node, Complete: true, Started: m.Started, Finished: m.Finished, Bytes: m.Bytes, Objects: len(m.Packs) + 1,
		Tables: len(m.ByLattice), Type: m.Mode, Keys: m.Keys,
	}
	if m.Missing.Count > 0 {
		at.Missing = &node.Missing{Count: m.Missing.Count}
		for _, key := range m.Missing.Keys {
			at.Missing.Keys = append(at.Missing.Keys, key.Key)
		}
	}
	return at
}

// contents are a manifest's counts, a table for each type of value.
func contents(m manifest.Manifest) node.Contents {
	c := node.Contents{Version: node.ContentsVersion, Tables: []node.Table{}}
	for _, lattice := range slices.Sorted(maps.Keys(m.ByLattice)) {
		c.Tables = append(c.Tables, node.Table{Table: lattice, Rows: m.ByLattice[lattice], Counted: true})
	}
	return c
}

// forMedusa is a backup as Medusa's service tells of it.
func forMedusa(b node.Backup) *medusa.BackupSummary {
	s := &medusa.BackupSummary{BackupName: b.Name, StartTime: b.Started.Unix(), TotalNodes: int32(len(b.Ring)), BackupType: manifest.Differential}
	for _, n := range slices.Sorted(maps.Keys(b.Ring)) {
		s.Nodes = append(s.Nodes, &medusa.BackupNode{Host: n})
		if m, ok := b.Member(n); ok && m.Complete {
			s.FinishedNodes++
		}
	}
	for _, m := range b.Members {
		if m.Type == manifest.Full {
			s.BackupType = m.Type
		}
		s.TotalSize, s.TotalObjects = s.TotalSize+m.Bytes, s.TotalObjects+int64(m.Objects)
	}
	if b.Complete {
		s.Status, s.FinishTime = medusa.StatusType_SUCCESS, b.Finished.Unix()
	}
	return s
}
