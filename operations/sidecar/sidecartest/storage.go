package sidecartest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/stategraft/stategraft/agent/nodeserver"
	"github.com/stategraft/stategraft/api/medusa"
	"github.com/stategraft/stategraft/api/node"
)

// Storage is where a cluster's simulated Medusas keep their backups. It outlives them.
type Storage struct {
	// Clock is the time of what is stored; nil for time.Now.
	Clock func() time.Time

	mutex    sync.Mutex
	ring     []*medusa.BackupNode
	parts    map[string]map[string]*Part // by backup and node
	trouble  error
	rings    map[string][]*medusa.BackupNode // of the token maps, by backup
	working  map[string]int                  // how many backups a node is asked for and has not ended
	making   map[string]*node.Running        // the last of them
	running  map[string]int                  // how many of them have begun
	now      int                             // over all nodes
	most     int
	overlaps []string
	damaged  map[string]bool
}

// Part is a node's part in a backup.
type Part struct {
	Started, Finished time.Time // Finished is zero until then
	Full              bool
	Objects, Bytes    int64
	Contents          *node.Contents // what was counted; nil for nothing
}

// NewStorage makes an empty one of a cluster of these nodes, in one rack.
func NewStorage(nodes ...string) *Storage {
	s := &Storage{parts: map[string]map[string]*Part{}, rings: map[string][]*medusa.BackupNode{}, working: map[string]int{}, making: map[string]*node.Running{}, running: map[string]int{}, damaged: map[string]bool{}}
	for i, n := range nodes {
		s.ring = append(s.ring, &medusa.BackupNode{Host: n, Datacenter: "dc1", Rack: "r1", Tokens: []int64{int64(i) << 32}})
	}
	return s
}

// SetRing is the cluster as the database tells it to backups that begin from now on.
func (s *Storage) SetRing(ring ...*medusa.BackupNode) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.ring = ring
}

// SetTrouble has all that looks into the storage fail until it is nil again.
func (s *Storage) SetTrouble(err error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.trouble = err
}

// Put stores a part, as a backup from before would have.
func (s *Storage) Put(name, of string, p Part) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.put(name, of, p)
}

func (s *Storage) put(name, node string, p Part) {
	if s.parts[name] == nil {
		s.parts[name] = map[string]*Part{}
		s.rings[name] = s.ring
	}
	s.parts[name][node] = &p
}

// Names are those of the backups of which there is anything.
func (s *Storage) Names() []string {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return slices.Sorted(maps.Keys(s.parts))
}

// Parts are those of a backup, by node.
func (s *Storage) Parts(name string) map[string]Part {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	parts := map[string]Part{}
	for node, p := range s.parts[name] {
		parts[node] = *p
	}
	return parts
}

// Most is how many nodes were backed up at once.
func (s *Storage) Most() int {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.most
}

// Overlaps tells where two backups of a node ran at once, which Medusa does not keep
// anybody from, nor survives.
func (s *Storage) Overlaps() []string {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return slices.Clone(s.overlaps)
}

// Damaged are the backups that say that they are complete and are not: files were
// removed under them by a purge or a deletion (thelastpickle/cassandra-medusa#363), or
// because another's name is the beginning of theirs.
func (s *Storage) Damaged() []string {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return slices.Sorted(maps.Keys(s.damaged))
}

func (s *Storage) time() time.Time {
	if s.Clock != nil {
		return s.Clock()
	}
	return time.Now()
}

// part is a node's in a backup, or nil.
func (s *Storage) part(name, node string) (*Part, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if p := s.parts[name][node]; p != nil {
		found := *p
		return &found, s.trouble
	}
	return nil, s.trouble
}

// work counts what a node is asked for, and tells of it as Medusa's hooks do
// (agent/python/running.py). Where one at a time is done it is refused while there is
// another.
func (s *Storage) work(name, of string, alone bool) (done func(), err error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if r := s.making[of]; alone && r != nil {
		return nil, status.Errorf(codes.FailedPrecondition, "this node is busy with backup %s since %s", r.Name, r.Since.Format(time.RFC3339))
	}
	s.working[of]++
	s.making[of] = &node.Running{Name: name, Since: s.time().UTC().Truncate(time.Second), Phase: node.Preparing}
	return func() {
		s.mutex.Lock()
		defer s.mutex.Unlock()
		if s.working[of]--; s.working[of] == 0 {
			delete(s.making, of)
		}
	}, nil
}

// begin writes a part that has not finished, and finish that it has. end is for both.
func (s *Storage) begin(name, node string, full bool) error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.trouble != nil {
		return s.trouble
	}
	s.put(name, node, Part{Started: s.time(), Full: full})
	s.running[node]++
	if s.running[node] > 1 {
		s.overlaps = append(s.overlaps, fmt.Sprintf("%s of node %s", name, node))
	}
	s.now++
	s.most = max(s.most, s.now)
	return nil
}

func (s *Storage) end(node string) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.running[node]--
	s.now--
}

func (s *Storage) finish(name, node string, w Work) error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.trouble != nil {
		return s.trouble
	}
	if p := s.parts[name][node]; p != nil { // else it was deleted meanwhile
		p.Finished, p.Objects, p.Bytes, p.Contents = s.time(), w.Objects, w.Bytes, w.Contents
	}
	return nil
}

// discard removes a node's part that is not complete, as agent/python/discard.py does.
func (s *Storage) discard(name, of string) (d node.Discarded, err error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	d = node.Discarded{Node: of, Name: name}
	p := s.parts[name][of]
	switch {
	case s.working[of] > 0:
		return d, fmt.Errorf("%w: the service is busy: backup %s", nodeserver.ErrKept, s.making[of].Name)
	case s.trouble != nil:
		return d, s.trouble
	case p == nil:
		return d, nil
	case !p.Finished.IsZero() && p.Objects > 0:
		return d, fmt.Errorf("%w: backup %s: it is complete", nodeserver.ErrKept, name)
	}
	d.Objects = int(p.Objects) + 1
	if delete(s.parts[name], of); len(s.parts[name]) == 0 {
		delete(s.parts, name)
		delete(s.rings, name)
	}
	return d, nil
}

// remove deletes the nodes' objects that begin with a name, as a storage lists them,
// and what no finished backup refers to.
func (s *Storage) remove(name string, nodes []string) (objects, bytes int64) {
	for other, parts := range s.parts {
		for node, p := range parts {
			switch {
			case !slices.Contains(nodes, node):
			case strings.HasPrefix(other, name):
				if other != name {
					s.damaged[other] = true
				}
				objects, bytes = objects+p.Objects, bytes+p.Bytes
				delete(parts, node)
			case p.Finished.IsZero() && s.running[node] > 0:
				s.damaged[other] = true
			}
		}
		if len(parts) == 0 {
			delete(s.parts, other)
			delete(s.rings, other)
		}
	}
	return objects, bytes
}

// summaries are all backups, or the one of a name, as Medusa counts them.
func (s *Storage) summaries(only string) ([]*medusa.BackupSummary, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.trouble != nil {
		return nil, s.trouble
	}
	var list []*medusa.BackupSummary
	for _, name := range slices.Sorted(maps.Keys(s.parts)) {
		if only == "" || name == only {
			list = append(list, s.summary(name))
		}
	}
	return list, nil
}

func (s *Storage) summary(name string) *medusa.BackupSummary {
	b := &medusa.BackupSummary{BackupName: name, Nodes: s.rings[name], TotalNodes: int32(len(s.rings[name])), BackupType: "differential"}
	var finish int64
	for _, p := range s.parts[name] {
		if started := p.Started.Unix(); b.StartTime == 0 || started < b.StartTime {
			b.StartTime = started
		}
		if p.Full {
			b.BackupType = "full"
		}
		if !p.Finished.IsZero() {
			b.TotalObjects, b.TotalSize, finish = b.TotalObjects+p.Objects, b.TotalSize+p.Bytes, max(finish, p.Finished.Unix())
		}
	}
	for _, n := range s.rings[name] {
		if p := s.parts[name][n.GetHost()]; p != nil && !p.Finished.IsZero() {
			b.FinishedNodes++
		}
	}
	if b.FinishedNodes == b.TotalNodes && b.TotalNodes > 0 {
		b.FinishTime, b.Status = finish, medusa.StatusType_SUCCESS
	}
	return b
}
