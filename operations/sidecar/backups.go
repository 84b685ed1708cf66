package sidecar

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/stategraft/stategraft/api/medusa"
	"github.com/stategraft/stategraft/patches"
)

// ErrForgotten says that Medusa knows no backup of the name. After it was asked for one
// that means: not begun yet (while the database does not answer, for more than six
// minutes), or given up before it began, or asked for before Medusa was restarted.
// Medusa does not tell these apart. api/node does: BackupRunning is of the first only.
var ErrForgotten = errors.New("the sidecar knows no such backup")

// ErrExists says that the node has a part in a backup of the name already.
var ErrExists = errors.New("there is a backup of this name already")

// ErrBusy says that this node makes a backup, deletes one or purges, and does not do two
// of these at once: ask again.
var ErrBusy = errors.New("the node is busy with another backup or deletion")

// ErrNotDeleted says that Medusa did not delete what it was asked to: the backup runs,
// or something of it is still there.
var ErrNotDeleted = errors.New("the backup is not deleted")

// ErrUnanswered says that a sidecar was asked to delete, and has not answered: it may go
// on deleting, for as long as that takes. No backup may begin meanwhile.
var ErrUnanswered = errors.New("the sidecar may go on deleting")

// Phase is how far a backup is.
type Phase string

// The phases. Silent is a Medusa that answers and does not say.
const (
	Running   Phase = "running"
	Succeeded Phase = "succeeded"
	Failed    Phase = "failed"
	Silent    Phase = "silent"
)

func phase(s medusa.StatusType) Phase {
	switch s {
	case medusa.StatusType_IN_PROGRESS:
		return Running
	case medusa.StatusType_SUCCESS:
		return Succeeded
	case medusa.StatusType_FAILED:
		return Failed
	}
	return Silent
}

// Taken is a backup as the index of the storage has it, of all nodes.
type Taken struct {
	Name     string
	Started  time.Time
	Finished time.Time // zero where a node has not
	Full     bool
	Nodes    []Place // of the token map
	Done     int     // how many of them have finished
	Bytes    int64
	Objects  int64
}

// Place is a node's place in the ring.
type Place struct {
	Node, Datacenter, Rack string
	Tokens                 []int64
}

// Missing tells what a backup lacks to be one, or nothing. Medusa calls one of no
// objects a success. The objects are counted together: that each node has some, only
// api/node tells.
func (t Taken) Missing() string {
	switch {
	case len(t.Nodes) == 0:
		return "it names no node"
	case t.Done < len(t.Nodes):
		return fmt.Sprintf("%d of its %d nodes have not finished", len(t.Nodes)-t.Done, len(t.Nodes))
	case t.Finished.IsZero():
		return "it has not finished"
	case t.Objects == 0:
		return "nothing is in it"
	}
	return ""
}

// Begin asks for a backup of this node, and does not wait for it. One that exists is
// ErrExists: Medusa would agree, and then call the one that is there failed. Whoever
// was not answered does not know whether it began. While Status does not know it, ask a
// second time only if api/node says that none runs: two would run at once, and nothing
// in Medusa keeps them apart.
func (m *Medusa) Begin(ctx context.Context, name string, full bool) error {
	switch p, err := m.Status(ctx, name); {
	case err == nil:
		return fmt.Errorf("%s: %w: %s is %s", m.who, ErrExists, name, p)
	case !errors.Is(err, ErrForgotten):
		return err
	}
	mode := medusa.BackupRequest_DIFFERENTIAL
	if full {
		mode = medusa.BackupRequest_FULL
	}
	return m.call(ctx, callLimit, func(ctx context.Context) error {
		answer, err := m.calls.AsyncBackup(ctx, &medusa.BackupRequest{Name: name, Mode: mode})
		if err == nil && phase(answer.GetStatus()) != Running {
			return status.Errorf(codes.Internal, "Medusa begins no backup: its status is %s", answer.GetStatus())
		}
		return err
	})
}

// Status is how far this node's part of a backup is. One that a restart of Medusa has
// interrupted has failed.
func (m *Medusa) Status(ctx context.Context, name string) (p Phase, err error) {
	err = m.call(ctx, callLimit, func(ctx context.Context) error {
		answer, err := m.calls.BackupStatus(ctx, &medusa.BackupStatusRequest{BackupName: name})
		p = phase(answer.GetStatus())
		return err
	})
	if err != nil {
		return Silent, err
	}
	return p, nil
}

// Backup is what the storage has of one backup of the cluster.
func (m *Medusa) Backup(ctx context.Context, name string) (t Taken, err error) {
	err = m.call(ctx, lookupLimit, func(ctx context.Context) error {
		answer, err := m.calls.GetBackup(ctx, &medusa.GetBackupRequest{BackupName: name})
		if err != nil && strings.Contains(err.Error(), "The backup "+name+" does not exist") {
			return status.Error(codes.NotFound, status.Convert(err).Message()) // medusa/storage get_cluster_backup, as INTERNAL
		}
		t = taken(answer.GetBackup())
		return err
	})
	if err != nil {
		return Taken{}, err
	}
	return t, nil
}

// Backups are all backups of the cluster. Medusa reads every manifest there is for it,
// and finds that an index without a token map is an error; api/node lists the names
// at far less cost.
func (m *Medusa) Backups(ctx context.Context) (list []Taken, err error) {
	err = m.call(ctx, lookupLimit, func(ctx context.Context) error {
		answer, err := m.calls.GetBackups(ctx, &medusa.GetBackupsRequest{})
		for _, b := range answer.GetBackups() {
			list = append(list, taken(b))
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return list, nil
}

// whole tells whether a sidecar knows the backups of the whole cluster, and not of its
// own node alone: Anna's agent does.
func (m *Medusa) whole() bool { return m.at.container == patches.ContainerAgent }

// Delete deletes a backup, of all nodes, through one that has a part in it; any other
// is ErrForgotten, but one of Anna. Medusa goes by what the objects' names begin with: with b1 it
// deletes b10 too. So the caller sees to it that there is no such name.
func (m *Medusa) Delete(ctx context.Context, name string) error {
	// Medusa deletes only what it has heard of since it was started. It hears of a
	// backup when it is asked how far that is.
	p, err := m.Status(ctx, name)
	if err != nil && !(m.whole() && errors.Is(err, ErrForgotten)) {
		return err
	}
	if err == nil && p == Running {
		return fmt.Errorf("%s: %w: %s runs", m.who, ErrNotDeleted, name)
	}
	var answer *medusa.DeleteBackupResponse
	if err := m.call(ctx, removeLimit, func(ctx context.Context) (err error) {
		answer, err = m.calls.DeleteBackup(ctx, &medusa.DeleteBackupRequest{Name: name})
		return err
	}); errors.Is(err, ErrUnreachable) {
		return fmt.Errorf("%w: %w", ErrUnanswered, err)
	} else if err != nil {
		return err
	}
	// A success of Medusa's is UNKNOWN, and a failure an answer like others.
	if s := phase(answer.GetStatus()); s != Silent && s != Succeeded {
		return fmt.Errorf("%s: %w: the status of the deletion of %s is %s", m.who, ErrNotDeleted, name, answer.GetStatus())
	}
	switch _, err = m.Status(ctx, name); {
	case err == nil:
		return fmt.Errorf("%s: %w: Medusa says so, and %s is still there", m.who, ErrNotDeleted, name)
	case errors.Is(err, ErrForgotten):
		return nil
	}
	return err
}

// Purged is what a purge has removed.
type Purged struct {
	Backups, Objects int
	Bytes            int64
	Kept             int // objects that nothing needs, too young to go
}

// Purge has this node's Medusa remove what max_backup_age and max_backup_count of its
// medusa.ini let go, and the files that no backup refers to any more. A backup that
// runs refers to files that a purge takes for unneeded: never both. A purge that fails
// ends Medusa's process, which is ErrUnreachable here.
func (m *Medusa) Purge(ctx context.Context) (p Purged, err error) {
	err = m.call(ctx, removeLimit, func(ctx context.Context) error {
		answer, err := m.calls.PurgeBackups(ctx, &medusa.PurgeBackupsRequest{})
		p = Purged{int(answer.GetNbBackupsPurged()), int(answer.GetNbObjectsPurged()), answer.GetTotalPurgedSize(), int(answer.GetTotalObjectsWithinGcGrace())}
		return err
	})
	if err != nil {
		return Purged{}, err
	}
	return p, nil
}

func taken(b *medusa.BackupSummary) Taken {
	t := Taken{
		Name: b.GetBackupName(), Started: at(b.GetStartTime()), Finished: at(b.GetFinishTime()), Full: b.GetBackupType() == "full",
		Done: int(b.GetFinishedNodes()), Bytes: b.GetTotalSize(), Objects: b.GetTotalObjects(),
	}
	for _, n := range b.GetNodes() {
		t.Nodes = append(t.Nodes, Place{n.GetHost(), n.GetDatacenter(), n.GetRack(), n.GetTokens()})
	}
	return t
}

// at is a time of Medusa's, which has 0 for none.
func at(seconds int64) time.Time {
	if seconds == 0 {
		return time.Time{}
	}
	return time.Unix(seconds, 0).UTC()
}
