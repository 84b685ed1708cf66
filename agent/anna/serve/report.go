package serve

import (
	"context"
	"fmt"

	"github.com/stategraft/stategraft/agent/anna/stage"
	"github.com/stategraft/stategraft/agent/files"
	"github.com/stategraft/stategraft/api/node"
)

// report is what the node tells of itself. The volume that matters is the pod's emptyDir,
// which a backup is staged on before it is written to the cluster: what is on the disk
// tier's own is told by the restore container, the only one that has it.
func (s *server) report(context.Context) (node.Report, error) {
	r := node.Report{Node: s.Pod.Name, Prefix: s.shelf.prefix()}
	var err error
	if r.Size, r.Free, err = files.Room(s.Places.Shared); err != nil {
		return r, fmt.Errorf("look at the pod's volume: %w", err)
	}
	// What the volume does not tell is left out: the restore container says what is wrong.
	r.Previous, _ = stage.Previous(s.Pod.DataDirectory)
	if r.Backup = s.turn.backup(); r.Backup != nil {
		r.BackupRunning = true
	}
	r.Busy, r.Failed = s.turn.busy(), s.jobs.failures()
	r.Replay = s.replays.last()
	r.Done = s.replays.done()
	r.Config = s.watch.get()
	r.Waiting = s.waiting()
	return r, nil
}

// waiting is why no backup could be made now.
func (s *server) waiting() string {
	if _, err := s.shelf.current(); err != nil {
		return s.Secrets.Hide(err.Error())
	}
	if err := s.engine.ready(); err != nil {
		return s.Secrets.Hide(err.Error())
	}
	return ""
}
