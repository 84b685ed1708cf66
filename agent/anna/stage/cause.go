package stage

import (
	"errors"

	"github.com/stategraft/stategraft/agent/anna/pack"
	"github.com/stategraft/stategraft/agent/anna/store"
	"github.com/stategraft/stategraft/api/node"
)

const (
	causeNoBackup   = node.CauseNoBackup
	causeUnfinished = node.CauseUnfinished
	causeLost       = node.CauseLost
)

// blamed is a failure that is the backup's.
type blamed struct {
	error
	cause node.Cause
}

func (b blamed) Unwrap() error { return b.error }

// blame says that a failure is the backup's.
func blame(cause node.Cause, err error) error { return blamed{err, cause} }

// blameStore says so where the storage did.
func blameStore(err error) error {
	if errors.Is(err, store.ErrDamaged) || errors.Is(err, pack.ErrDamaged) {
		return blame(causeLost, err)
	}
	return err
}

// CauseOf is the cause of a failure of this package; none where it is not the backup's.
func CauseOf(err error) node.Cause {
	var b blamed
	if errors.As(err, &b) {
		return b.cause
	}
	return node.CauseNone
}
