package sidecartest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/stategraft/stategraft/api/medusa"
)

// process is a run of a simulated Medusa. What it has heard of goes with it.
type process struct {
	medusa.UnimplementedMedusaServer
	node   Node
	exit   func() // ends the process
	ctx    context.Context
	cancel context.CancelFunc
	server *grpc.Server
	done   chan struct{} // nobody is served any more
	jobs   sync.WaitGroup
	busy   atomic.Int32 // jobs that wait for nothing

	mutex sync.Mutex
	heard map[string]*job // nil until the first; a job is nil that was begun before
}

// job is a backup that this process has begun.
type job struct {
	done chan struct{}
	err  error // once done
}

func (j *job) running() bool {
	if j == nil {
		return false
	}
	select {
	case <-j.done:
		return false
	default:
		return true
	}
}

// hear registers a backup (medusa/backup_manager.py).
func (p *process) hear(name string, j *job, anew bool) *job {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.heard == nil {
		p.heard = map[string]*job{}
	}
	if known, ok := p.heard[name]; ok && !anew {
		return known
	}
	p.heard[name] = j
	return j
}

// AsyncBackup agrees to everything that has a name, also to what there is already or
// what runs; the trouble comes later.
func (p *process) AsyncBackup(_ context.Context, r *medusa.BackupRequest) (*medusa.BackupResponse, error) {
	if r.GetName() == "" {
		return nil, status.Error(codes.Internal, "Failed to create async backup: No backup name supplied")
	}
	if p.ctx.Err() != nil {
		return nil, status.Error(codes.Unavailable, "it ends")
	}
	worked, err := p.node.Storage.work(r.GetName(), p.node.Name, p.node.Alone)
	if err != nil {
		return nil, err
	}
	j := &job{done: make(chan struct{})}
	p.hear(r.GetName(), j, true)
	p.jobs.Add(1)
	p.busy.Add(1)
	go func() {
		defer p.jobs.Done()
		defer p.busy.Add(-1)
		defer close(j.done)
		defer worked()
		j.err = p.backUp(r.GetName(), r.GetMode() == medusa.BackupRequest_FULL)
	}()
	return &medusa.BackupResponse{BackupName: r.GetName(), Status: medusa.StatusType_IN_PROGRESS}, nil
}

func (p *process) backUp(name string, full bool) error {
	switch there, err := p.node.Storage.part(name, p.node.Name); {
	case err != nil:
		return err
	case there != nil:
		return fmt.Errorf("backup %s already exists", name)
	}
	w := p.node.Work(name, full)
	if err := p.wait(w.Before, w.Begin); err != nil {
		return err
	}
	if w.NeverBegins {
		return errors.New("the database does not answer")
	}
	if err := p.node.Storage.begin(name, p.node.Name, full); err != nil {
		return err
	}
	defer p.node.Storage.end(p.node.Name)
	if err := p.wait(w.Takes, w.End); err != nil {
		return err
	}
	if w.Fails {
		return errors.New("the snapshot fails")
	}
	return p.node.Storage.finish(name, p.node.Name, w)
}

// wait waits for so long, and then until the channel is closed, if there is one.
func (p *process) wait(d time.Duration, until <-chan struct{}) error {
	if d <= 0 && until == nil {
		return p.ctx.Err()
	}
	p.busy.Add(-1)
	defer p.busy.Add(1)
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-p.ctx.Done():
	case <-timer.C:
	}
	if until != nil {
		select {
		case <-p.ctx.Done():
		case <-until:
		}
	}
	return p.ctx.Err()
}

// BackupStatus knows nothing of what has not begun. What was begun by a process from
// before and has not finished has failed.
func (p *process) BackupStatus(_ context.Context, r *medusa.BackupStatusRequest) (*medusa.BackupStatusResponse, error) {
	part, err := p.node.Storage.part(r.GetBackupName(), p.node.Name)
	if err != nil {
		return nil, uncaught(err.Error())
	}
	if part == nil {
		return nil, status.Errorf(codes.NotFound, "backup <%s> does not exist", r.GetBackupName())
	}
	const format = "2006-01-02 15:04:05"
	answer := &medusa.BackupStatusResponse{StartTime: part.Started.Format(format), Status: medusa.StatusType_FAILED}
	if !part.Finished.IsZero() {
		answer.FinishTime = part.Finished.Format(format)
	}
	switch j := p.hear(r.GetBackupName(), nil, false); {
	case j.running():
		answer.Status = medusa.StatusType_IN_PROGRESS
	case j != nil && j.err != nil:
	case !part.Finished.IsZero():
		answer.Status = medusa.StatusType_SUCCESS
	}
	return answer, nil
}

func (p *process) GetBackup(_ context.Context, r *medusa.GetBackupRequest) (*medusa.GetBackupResponse, error) {
	list, err := p.node.Storage.summaries(r.GetBackupName())
	if err == nil && len(list) != 1 {
		err = fmt.Errorf("'The backup %s does not exist'", r.GetBackupName())
	}
	if err != nil {
		return nil, status.Errorf(codes.Internal, "Failed to get backup due to error: %v", err)
	}
	return &medusa.GetBackupResponse{Backup: list[0], Status: list[0].Status}, nil
}

func (p *process) GetBackups(context.Context, *medusa.GetBackupsRequest) (*medusa.GetBackupsResponse, error) {
	list, err := p.node.Storage.summaries("")
	if err != nil {
		return nil, status.Errorf(codes.Internal, "Failed to get backups due to error: %v", err)
	}
	answer := &medusa.GetBackupsResponse{Backups: list, OverallStatus: medusa.StatusType_SUCCESS}
	if len(list) == 0 {
		answer.OverallStatus = medusa.StatusType_UNKNOWN
	}
	for _, b := range list {
		if b.Status == medusa.StatusType_IN_PROGRESS {
			answer.OverallStatus = b.Status
		}
	}
	return answer, nil
}

// DeleteBackup deletes only what the process has heard of, and of all nodes.
func (p *process) DeleteBackup(ctx context.Context, r *medusa.DeleteBackupRequest) (*medusa.DeleteBackupResponse, error) {
	if p.node.Lost != nil && p.node.Lost(r.GetName()) {
		go p.exit()
		<-ctx.Done() // until the connection is gone
		return nil, status.Error(codes.Unavailable, "it ends")
	}
	p.mutex.Lock()
	defer p.mutex.Unlock()
	answer := &medusa.DeleteBackupResponse{Name: r.GetName(), Status: medusa.StatusType_FAILED}
	if p.heard == nil {
		return answer, nil
	}
	j, ok := p.heard[r.GetName()]
	if !ok {
		return nil, uncaught("Unable to get status for backup id: " + r.GetName())
	}
	if j.running() {
		return answer, nil
	}
	if err := p.node.Storage.deleteAll(r.GetName()); err != nil {
		return nil, status.Errorf(codes.Internal, "deleting backups failed: %v", err)
	}
	delete(p.heard, r.GetName())
	answer.Status = medusa.StatusType_UNKNOWN
	return answer, nil
}

// PurgeBackups leaves this node's youngest. Where it fails the process ends.
func (p *process) PurgeBackups(ctx context.Context, _ *medusa.PurgeBackupsRequest) (*medusa.PurgeBackupsResponse, error) {
	answer, err := p.node.Storage.purge(p.node.Name, p.node.MaxCount)
	if err != nil {
		go p.exit()
		<-ctx.Done() // until the connection is gone
		return nil, status.Error(codes.Unavailable, "it ends")
	}
	return answer, nil
}

// uncaught is what a client of grpcio's gets of an exception.
func uncaught(message string) error {
	return status.Error(codes.Unknown, "Unexpected <class 'RuntimeError'>: "+message)
}

func (s *Storage) deleteAll(name string) error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.trouble != nil {
		return s.trouble
	}
	var nodes []string
	for node := range s.parts[name] {
		nodes = append(nodes, node)
	}
	if nodes == nil {
		return fmt.Errorf("'The backup %s does not exist'", name)
	}
	s.remove(name, nodes)
	return nil
}

func (s *Storage) purge(node string, keep int) (*medusa.PurgeBackupsResponse, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.trouble != nil {
		return nil, s.trouble
	}
	var names []string
	for name, parts := range s.parts {
		if parts[node] != nil {
			names = append(names, name)
		}
		if p := parts[node]; p != nil && p.Finished.IsZero() && s.running[node] > 0 {
			s.damaged[name] = true // also where no backup goes: the files are looked for
		}
	}
	slices.SortFunc(names, func(a, b string) int { return s.parts[a][node].Started.Compare(s.parts[b][node].Started) })
	answer := &medusa.PurgeBackupsResponse{}
	for keep > 0 && len(names) > keep {
		objects, bytes := s.remove(names[0], []string{node})
		answer.NbBackupsPurged, answer.NbObjectsPurged, answer.TotalPurgedSize = answer.NbBackupsPurged+1, answer.NbObjectsPurged+int32(objects), answer.TotalPurgedSize+bytes
		names = names[1:]
	}
	return answer, nil
}
