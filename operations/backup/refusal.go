package backup

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/kvs"
	"github.com/stategraft/stategraft/operations/sidecar"
	"github.com/stategraft/stategraft/patches"
)

const (
	// blameAfter is how long after it was asked a sidecar may be at a backup of which
	// nothing is in the storage before the storage is asked for it.
	blameAfter = 30 * time.Second
	// blameLimit is how long that may take, and blameWait how long it may wait for its
	// turn: the other pods of the Backup wait meanwhile.
	blameLimit = 20 * time.Second
	blameWait  = 5 * time.Second
	// blamers is how many pods are asked for it at a time, over all Backups: a storage
	// that does not answer would take all conversations (defaultConversations).
	blamers = 16
	// refusedFor is how long after its second try one that is refused waits.
	refusedFor = 3 * time.Minute
)

// How what a storage says begins.
const (
	refuses = "the storage refuses its sidecar: "
	unasked = "its storage cannot be asked: "
)

// trouble is what a pod's storage answers instead of what it was asked for.
type trouble struct {
	said    string // empty for none
	refused bool   // for good, until somebody corrects it: credentials, rights, the bucket
}

// text is what a status says of it.
func (t trouble) text() string {
	if t.refused {
		return refuses + t.said
	}
	return unasked + t.said
}

// refusals are what storages' clients say of credentials that are wrong or have no rights,
// of none at all, and of a bucket that is not there: botocore, azure, aiohttp, and the
// agent itself (agent/python, reason). Medusa takes the 403 of S3 for "there is no such
// object", and so knows nothing of a backup that it could not begin.
var refusals = regexp.MustCompile(`InvalidAccessKeyId|SignatureDoesNotMatch|AccessDenied|InvalidToken|ExpiredToken|TokenRefreshRequired|` +
	`AuthenticationFailed|AuthorizationFailure|AuthorizationPermissionMismatch|ClientAuthenticationError|` +
	`NoSuchBucket|ContainerNotFound|NoCredentialsError|PartialCredentialsError|CredentialRetrievalError|` +
	`holds no credentials|no attribute 'access_key'|\((401|403)\)|\b(401|403), message=`)

// troubleOf is what an error says of the storage.
func troubleOf(err error) trouble {
	said := line(err.Error())
	var answered *sidecar.AnswerError
	var called *sidecar.CallError
	switch {
	case errors.As(err, &answered):
		said = line(answered.Message)
	case errors.As(err, &called):
		said = line(called.Message)
	}
	if _, cause, ok := strings.Cut(said, " up: "); ok && strings.HasPrefix(said, "look backup ") {
		said = cause
	}
	if strings.Contains(said, "no attribute 'access_key'") {
		said = "the storage Secret holds no credentials that can be read"
	}
	return trouble{said, refusals.MatchString(said)}
}

// blame asks the storage why a sidecar has nothing of the backup that it was asked for,
// once while it is at it and once when it has given up: Medusa does not tell, and Anna's
// sidecar does. For a backup that goes well nothing is asked.
func (r *reconciler) blame(ctx context.Context, b *api.Backup, at *api.PodBackup, p *note, s seen) trouble {
	given := s.sight == idleSight
	late := s.sight == busySight && (s.busyWith == "" || s.busyWith == b.Status.Name) && at.Started != nil && r.clock().Sub(at.Started.Time) >= blameAfter
	if at.Phase != api.PodBackupRunning || p.uid != at.UID || p.try != at.Tries || kvs.Of(p.pod) || !given && !late {
		return trouble{}
	}
	if p.blamed == at.Tries && (p.given || !given) {
		return p.blame
	}
	if p.blamed != at.Tries {
		p.blame = trouble{} // of a try before
	}
	if !r.blames(ctx) {
		return p.blame // the storage is asked next time
	}
	defer func() { <-r.blaming }()
	ctx, cancel := context.WithTimeoutCause(ctx, blameLimit, fmt.Errorf("no answer within %v", blameLimit))
	defer cancel()
	_, err := r.ask.Backup(ctx, p.pod, storagePrefix(b.Status.Prefix), b.Status.Name)
	p.blamed, p.given, p.blame = at.Tries, given, trouble{}
	switch {
	case err == nil:
	case ctx.Err() != nil:
		p.blame.said = context.Cause(ctx).Error()
	case errors.Is(err, sidecar.ErrUnreachable), errors.Is(err, sidecar.ErrNoService):
		p.blamed = 0 // nothing is known
	default:
		p.blame = troubleOf(err)
	}
	return p.blame
}

// blames takes a place among those who ask, if there is one soon enough.
func (r *reconciler) blames(ctx context.Context) bool {
	if ctx.Err() != nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, blameWait)
	defer cancel()
	select {
	case r.blaming <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

// refuses notes since when a pod's storage has refused it.
func (p *note) refuses(s *seen, now time.Time) {
	switch {
	case s.sight != troubledSight || !s.refused:
		p.refused = time.Time{}
	case p.refused.IsZero():
		p.refused = now
	}
	s.refusedSince = p.refused
}

// troubled looks after a pod whose sidecar answers, and not how far the backup is. What
// refuses for as long as a pod that is not there is waited for does not get better by
// itself; what does not answer is waited for.
func (c *course) troubled(at *api.PodBackup, s seen) {
	if s.refused && c.now.Sub(s.refusedSince) >= c.w.limit {
		c.fail(at, s.trouble.text())
		return
	}
	if s.refused {
		c.note(at, refuses, s.said)
		return
	}
	c.note(at, "its sidecar does not get at the storage: ", s.why)
}

// gaveUp is why a sidecar has nothing of the backup any more.
func gaveUp(at *api.PodBackup, s seen) string {
	if s.said != "" {
		return s.trouble.text()
	}
	return orElse(s.why, "its sidecar gave the backup up before it began, as when its database does not answer, or was started anew; its log tells why ("+logs(at, s)+")")
}

// logs is the command that shows what the container has said that makes the backup.
func logs(at *api.PodBackup, s seen) string {
	return "kubectl logs " + at.Name + " -c " + orElse(s.log, patches.ContainerMedusa)
}
