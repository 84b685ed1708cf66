package backup

import (
	"strings"
	"time"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/workload"
)

// giveUp ends pods that are not there, or do not answer, when nobody else is waited
// for any more.
func (c *course) giveUp() {
	absent := map[string]bool{}
	var last time.Time // when the last of the others was done
	for i := range c.status.Pods {
		at := &c.status.Pods[i]
		s := c.w.pods[at.Name]
		switch {
		case at.Phase.Final():
			if at.Finished != nil && at.Finished.After(last) {
				last = at.Finished.Time
			}
		case at.Phase == api.PodBackupChecking && c.w.unknown != "" && !c.w.nobody:
			return // what it has in the storage is not known: that is waited for
		case s.sight == absentSight || s.sight == silentSight && at.Phase == api.PodBackupWaiting:
			absent[at.Name] = true
		case s.sight == silentSight && at.Phase == api.PodBackupChecking:
			absent[at.Name] = true
		case !cancelled(c.b):
			return
		case s.sight == silentSight:
			absent[at.Name] = true
		}
	}
	for i := range c.status.Pods {
		at := &c.status.Pods[i]
		if s := c.w.pods[at.Name]; absent[at.Name] && c.patience(s, last) <= 0 {
			at.Finished = stamp(c.now)
			if s.sight == absentSight {
				at.Phase, at.Message = api.PodBackupGone, "it vanished before it was complete, and has not come back"
				if at.Tries == 0 {
					at.Message = "it was not there, and has not come"
				}
				continue
			}
			c.fail(at, "its sidecar does not answer: "+s.why)
		}
	}
}

// patience is how long a pod that is not there, or does not answer, is still waited
// for.
func (c *course) patience(s seen, last time.Time) time.Duration {
	limit := c.w.limit
	switch {
	case cancelled(c.b) && s.sight == absentSight:
		return 0
	case cancelled(c.b):
		limit, last = cancelPatience, time.Time{}
	case s.sight == silentSight:
		limit *= silentTimes
	}
	from := s.since
	if last.After(from) {
		from = last
	}
	return from.Add(limit).Sub(c.now)
}

// turn asks the next pods to begin, as many as there is room for. The try is written
// down before its sidecar is asked.
func (c *course) turn() {
	if cancelled(c.b) {
		c.letGo()
		return
	}
	if c.b.Spec.Suspend || c.w.busy != "" {
		return
	}
	room := c.room()
	for i := range c.status.Pods {
		at := &c.status.Pods[i]
		s := c.w.pods[at.Name]
		if room == 0 {
			return
		}
		if at.Phase != api.PodBackupWaiting || s.sight != idleSight || c.now.Before(nextTry(at)) {
			continue
		}
		switch {
		case s.leaving:
			at.Message = "is being deleted, and the next is waited for"
			continue
		case s.reported && s.prefix != c.status.Prefix:
			c.fail(at, "its backups go below "+prefixText(s.prefix)+" now, and this backup below "+prefixText(c.status.Prefix))
			continue
		}
		at.Phase, at.UID, at.Message = api.PodBackupRunning, s.uid, ""
		at.Tries, at.Started, at.Finished = at.Tries+1, stamp(c.now), nil
		c.begin = append(c.begin, at.Name)
		room--
	}
}

// room is how many pods may begin.
func (c *course) room() int {
	room := int(c.b.Spec.Parallel)
	if room == 0 {
		return len(c.status.Pods)
	}
	for i := range c.status.Pods {
		if c.status.Pods[i].Phase == api.PodBackupRunning {
			room--
		}
	}
	return max(room, 0)
}

// letGo ends the pods of a cancelled Backup that do not run.
func (c *course) letGo() {
	for i := range c.status.Pods {
		at := &c.status.Pods[i]
		switch {
		case at.Phase == api.PodBackupWaiting && at.Tries == 0:
			c.fail(at, "the Backup was cancelled before its turn came")
		case at.Phase == api.PodBackupWaiting:
			c.fail(at, "the Backup was cancelled before it was complete")
		case at.Phase == api.PodBackupChecking && c.w.unknown != "":
			c.fail(at, "the Backup was cancelled before the storage could be asked for it: "+c.w.unknown)
		}
	}
}

// nextTry is when a pod that failed may be tried again: after 10, 30, 90 seconds, and
// so on up to five minutes. One that refused for something else is asked after 10. One
// whose storage refuses it is after 10 seconds, then three minutes: its tries are over at
// once, and a key or a right that was just given is not known everywhere for minutes.
func nextTry(at *api.PodBackup) time.Time {
	if at.Finished == nil {
		return time.Time{}
	}
	wait := 10 * time.Second
	for range min(max(at.Tries-1, 0), 4) {
		wait *= 3
	}
	if at.Tries > 1 && strings.Contains(at.Message, refuses) {
		wait = max(wait, refusedFor)
	}
	return at.Finished.Add(min(wait, 5*time.Minute))
}

// describe takes over what the storage says of the whole from a part.
func (c *course) describe(version, kind string) {
	if version != "" && (c.status.Database == "" || olderVersion(version, c.status.Database)) {
		c.status.Database = workload.Clip(version, 63)
	}
	if kind == string(api.BackupFull) || kind == string(api.BackupDifferential) {
		c.status.Type = api.BackupType(kind)
	}
}
