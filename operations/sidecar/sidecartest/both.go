package sidecartest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stategraft/stategraft/agent/nodeserver"
	"github.com/stategraft/stategraft/api/node"
)

// Both is what a pod of a database runs: Medusa, and the agent's service beside it,
// which tells of the same storage. The latter stays when the former is killed.
type Both struct {
	*Medusa
	Agent *Server
}

// StartBoth starts both at an address.
func StartBoth(ip string, pair Pair, of Node) (*Both, error) {
	m, err := StartMedusa(ip, 0, pair, of)
	if err != nil {
		return nil, err
	}
	agent, err := Start(ip, 0, pair, of.Backend())
	if err != nil {
		m.Close()
		return nil, err
	}
	return &Both{m, agent}, nil
}

// Close ends both.
func (b *Both) Close() {
	b.Medusa.Close()
	b.Agent.Close()
}

// Dress gives a pod what it takes to be asked by either.
func (b *Both) Dress(pod *corev1.Pod) {
	b.Agent.Dress(pod, false)
	b.Medusa.Dress(pod)
}

// Pod is a pod that is asked by either.
func (b *Both) Pod(namespace, name string) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	b.Dress(pod)
	return pod
}

// Backend tells of the node's storage what the agent would. There is one prefix only.
func (n Node) Backend() Backend {
	return Backend{
		Report: func(context.Context) (node.Report, error) {
			n.Storage.mutex.Lock()
			defer n.Storage.mutex.Unlock()
			r := node.Report{Node: n.Name, Size: 100 << 30, Free: 50 << 30, BackupRunning: n.Storage.working[n.Name] > 0}
			if running := n.Storage.making[n.Name]; running != nil {
				told := *running
				r.Backup = &told
			}
			return r, nil
		},
		Contents: func(_ context.Context, _, name, of string) (node.Contents, error) {
			if of == "" {
				of = n.Name
			}
			switch p, err := n.Storage.part(name, of); {
			case err != nil:
				return node.Contents{}, err
			case p == nil || p.Contents == nil:
				return node.Contents{}, fmt.Errorf("%w: backup %s of node %s", nodeserver.ErrNone, name, of)
			default:
				return *p.Contents, nil
			}
		},
		Discard: func(_ context.Context, _, name string) (node.Discarded, error) {
			return n.Storage.discard(name, n.Name)
		},
		Backups: func(_ context.Context, prefix string) (node.Backups, error) {
			n.Storage.mutex.Lock()
			defer n.Storage.mutex.Unlock()
			list := node.Backups{Prefix: prefix, Backups: []node.Summary{}}
			for _, name := range slices.Sorted(maps.Keys(n.Storage.parts)) {
				list.Backups = append(list.Backups, n.Storage.look(name).Summary)
			}
			slices.SortStableFunc(list.Backups, func(a, b node.Summary) int { return a.Started.Compare(b.Started) })
			return list, n.Storage.trouble
		},
		Backup: func(_ context.Context, prefix, name string) (node.Backup, error) {
			n.Storage.mutex.Lock()
			defer n.Storage.mutex.Unlock()
			b := n.Storage.look(name)
			b.Prefix = prefix
			return b, n.Storage.trouble
		},
	}
}

// look is a backup as the agent has it of the storage (agent/python/lookup.py). One
// that is not there has no members and no ring.
func (s *Storage) look(name string) node.Backup {
	b := node.Backup{Summary: node.Summary{Name: name, Nodes: []string{}}, Members: []node.Member{}, Ring: map[string]node.Ring{}}
	var last time.Time
	for _, n := range slices.Sorted(maps.Keys(s.parts[name])) {
		p := s.parts[name][n]
		m := node.Member{Node: n, Complete: !p.Finished.IsZero(), Started: p.Started, Finished: p.Finished, Bytes: p.Bytes, Objects: int(p.Objects), Version: "4.1.10", Type: "differential"}
		if p.Full {
			m.Type = "full"
		}
		b.Members, b.Nodes = append(b.Members, m), append(b.Nodes, n)
		if b.Started.IsZero() || p.Started.Before(b.Started) {
			b.Started = p.Started
		}
		if p.Finished.After(last) {
			last = p.Finished
		}
	}
	b.Complete = len(s.rings[name]) > 0
	for _, n := range s.rings[name] {
		r := node.Ring{Datacenter: n.GetDatacenter(), Rack: n.GetRack()}
		for _, t := range n.GetTokens() {
			r.Tokens = append(r.Tokens, strconv.FormatInt(t, 10))
		}
		b.Ring[n.GetHost()] = r
		p := s.parts[name][n.GetHost()]
		b.Complete = b.Complete && p != nil && !p.Finished.IsZero()
	}
	if b.Complete {
		b.Finished = last
	}
	return b
}
