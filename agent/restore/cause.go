package restore

import (
	"errors"
	"regexp"

	"github.com/stategraft/stategraft/api/node"
)

// blamed is a failure that is the backup's.
type blamed struct {
	error
	cause node.Cause
}

func (b blamed) Unwrap() error { return b.error }

// blame says that a failure is the backup's.
func blame(cause node.Cause, err error) error { return blamed{err, cause} }

// CauseOf is the cause of a failed run.
func CauseOf(err error) node.Cause {
	var b blamed
	if errors.As(err, &b) {
		return b.cause
	}
	return node.CauseNone
}

// gone is what the storages' clients say of an object that is not there, in the line
// that Medusa logs before it says of every failed download that the object does not
// exist (botocore's ClientError, aiohttp's ClientResponseError).
var gone = regexp.MustCompile(`\((404|NoSuchKey)\)|\b404, message=`)

// medusaFailed is a failed run of Medusa with what it said last and the last error that
// it has logged.
func medusaFailed(said, logged string, err error) error {
	if missing.MatchString(said) && (logged == "" || gone.MatchString(logged)) {
		return blame(node.CauseLost, err)
	}
	return err
}

var missing = regexp.MustCompile(`\bObjectDoesNotExistError\b`)
