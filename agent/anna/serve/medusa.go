package serve

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/stategraft/stategraft/agent/anna/store"
	"github.com/stategraft/stategraft/api/medusa"
)

// service answers as Medusa does (medusa/service/grpc/server.py), without its quirks: what
// runs is told from the first moment, a busy node refuses, and a deletion knows every
// backup. What the answers mean is told in operations/sidecar.
type service struct {
	medusa.UnimplementedMedusaServer
	*server
}

// timeFormat is that of Medusa's times. Ours are in UTC.
const timeFormat = "2006-01-02 15:04:05"

// refuse makes an error one that the controllers understand: FailedPrecondition is of a
// node that is busy, NotFound of a backup that is not known. Unavailable is never ours: it
// is of a sidecar that does not answer.
func (s service) refuse(err error) error {
	code := codes.Internal
	switch {
	case errors.Is(err, errBusy):
		code = codes.FailedPrecondition
	case errors.Is(err, store.ErrExists):
		code = codes.AlreadyExists
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		code = codes.DeadlineExceeded
	}
	return status.Error(code, s.Secrets.Hide(err.Error()))
}

// named refuses what is no name of a backup: it is a part of objects' names.
func named(name string) error {
	switch {
	case name == "":
		return status.Error(codes.InvalidArgument, "no backup is named")
	case strings.ContainsAny(name, "/\x00") || name == "." || name == ".." || len(name) > 512:
		return status.Errorf(codes.InvalidArgument, "%.100q is no name of a backup", name)
	}
	return nil
}

func (s service) AsyncBackup(ctx context.Context, r *medusa.BackupRequest) (*medusa.BackupResponse, error) {
	if err := named(r.GetName()); err != nil {
		return nil, err
	}
	if err := s.jobs.begin(ctx, r.GetName(), r.GetMode() == medusa.BackupRequest_FULL, nil); err != nil {
		return nil, s.refuse(err)
	}
	return &medusa.BackupResponse{BackupName: r.GetName(), Status: medusa.StatusType_IN_PROGRESS}, nil
}

func (s service) Backup(ctx context.Context, r *medusa.BackupRequest) (*medusa.BackupResponse, error) {
	if err := named(r.GetName()); err != nil {
		return nil, err
	}
	ended := make(chan error, 1)
	if err := s.jobs.begin(ctx, r.GetName(), r.GetMode() == medusa.BackupRequest_FULL, func(err error) { ended <- err }); err != nil {
		return nil, s.refuse(err)
	}
	select {
	case err := <-ended:
		if err != nil {
			return nil, s.refuse(err)
		}
		return &medusa.BackupResponse{BackupName: r.GetName(), Status: medusa.StatusType_SUCCESS}, nil
	case <-ctx.Done():
		return nil, s.refuse(ctx.Err()) // it goes on
	}
}

// BackupStatus is of this node's part. What this process has given up, or one before it was
// at when it ended, has failed, also where the storage has nothing of it yet.
func (s service) BackupStatus(ctx context.Context, r *medusa.BackupStatusRequest) (*medusa.BackupStatusResponse, error) {
	name := r.GetBackupName()
	if err := named(name); err != nil {
		return nil, err
	}
	if running := s.turn.backup(); running != nil && running.Name == name {
		return &medusa.BackupStatusResponse{StartTime: running.Since.UTC().Format(timeFormat), Status: medusa.StatusType_IN_PROGRESS}, nil
	}
	there, m, err := s.jobs.state(ctx, name)
	if err != nil {
		return nil, s.refuse(err)
	}
	answer := &medusa.BackupStatusResponse{Status: medusa.StatusType_FAILED}
	switch {
	case there == complete:
		answer.Status, answer.StartTime, answer.FinishTime = medusa.StatusType_SUCCESS, m.Started.UTC().Format(timeFormat), m.Finished.UTC().Format(timeFormat)
	case there == absent && s.jobs.why(name) == "" && !s.turn.broken(name):
		return nil, status.Errorf(codes.NotFound, "backup <%s> does not exist", name)
	}
	return answer, nil
}

// deletionLimit is how long a deletion may go on whose caller has gone: the turn has to
// end at some time.
const deletionLimit = 30 * time.Minute

// DeleteBackup deletes the parts of all nodes, and what no other backup needs of them. One
// that is not there is deleted. Its caller may go: what has begun is done.
func (s service) DeleteBackup(ctx context.Context, r *medusa.DeleteBackupRequest) (*medusa.DeleteBackupResponse, error) {
	name := r.GetName()
	if err := named(name); err != nil {
		return nil, err
	}
	release, err := s.turn.take(aDeletion, name)
	if err != nil {
		return nil, s.refuse(err)
	}
	ended := make(chan error, 1)
	s.jobs.all.Go(func() {
		defer release()
		ctx, cancel := context.WithTimeout(s.jobs.ctx, deletionLimit)
		defer cancel()
		ended <- s.jobs.remove(ctx, name)
	})
	select {
	case err := <-ended:
		if err != nil {
			return nil, s.refuse(err)
		}
		return &medusa.DeleteBackupResponse{Name: name, Status: medusa.StatusType_SUCCESS}, nil
	case <-ctx.Done():
		return nil, s.refuse(ctx.Err())
	}
}

func (j *jobs) remove(ctx context.Context, name string) error {
	from, done, err := j.shelf.borrow(ctx, "")
	if err != nil {
		return err
	}
	defer done()
	objects, err := from.Delete(ctx, name)
	if err != nil {
		j.Log.Error("a backup cannot be deleted", "backup", name, "objects", objects, "error", j.Secrets.Hide(err.Error()))
		return fmt.Errorf("delete backup %s: %w", name, err)
	}
	j.note(name, nil)
	j.turn.forget(name)
	j.Log.Info("deleted a backup", "backup", name, "objects", objects)
	return nil
}

func (s service) GetBackup(ctx context.Context, r *medusa.GetBackupRequest) (*medusa.GetBackupResponse, error) {
	if err := named(r.GetBackupName()); err != nil {
		return nil, err
	}
	b, err := s.backup(ctx, "", r.GetBackupName())
	if err != nil {
		return nil, s.refuse(err)
	}
	if len(b.Members) == 0 {
		return nil, status.Errorf(codes.NotFound, "'The backup %s does not exist'", r.GetBackupName())
	}
	summary := forMedusa(b)
	return &medusa.GetBackupResponse{Backup: summary, Status: summary.Status}, nil
}

// GetBackups reads every manifest there is, as Medusa does; api/node lists the names at far
// less cost.
func (s service) GetBackups(ctx context.Context, _ *medusa.GetBackupsRequest) (*medusa.GetBackupsResponse, error) {
	list, err := s.backups(ctx, "")
	if err != nil {
		return nil, s.refuse(err)
	}
	answer := &medusa.GetBackupsResponse{OverallStatus: medusa.StatusType_SUCCESS}
	if len(list.Backups) == 0 {
		answer.OverallStatus = medusa.StatusType_UNKNOWN
	}
	for _, each := range list.Backups {
		b, err := s.backup(ctx, "", each.Name)
		if err != nil {
			return nil, s.refuse(err)
		}
		summary := forMedusa(b)
		if summary.Status == medusa.StatusType_IN_PROGRESS {
			answer.OverallStatus = summary.Status
		}
		answer.Backups = append(answer.Backups, summary)
	}
	return answer, nil
}

// PurgeBackups does nothing: what goes, and when, the controllers decide, and a deletion
// clears up behind itself.
func (s service) PurgeBackups(context.Context, *medusa.PurgeBackupsRequest) (*medusa.PurgeBackupsResponse, error) {
	return &medusa.PurgeBackupsResponse{}, nil
}
