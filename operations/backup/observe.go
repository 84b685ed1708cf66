package backup

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/adopted"
	"github.com/stategraft/stategraft/operations/kvs"
	"github.com/stategraft/stategraft/patches"
	"github.com/stategraft/stategraft/workload"
)

const (
	// settleFor is how long after it was asked a sidecar may know nothing of a backup.
	settleFor = 20 * time.Second
	// silentTimes is how many times longer a pod is waited for that is there and does
	// not answer than one that is not: it may go on uploading.
	silentTimes = 3
	// cancelPatience is how long a pod that does not answer is waited for once the
	// backup is cancelled.
	cancelPatience = time.Minute
)

// observe takes over what was seen of a pod.
func (c *course) observe(at *api.PodBackup, s seen) {
	if s.reported && s.node != "" {
		at.Node = ""
		if s.node != at.Name {
			at.Node = s.node
		}
	}
	switch at.Phase {
	case api.PodBackupRunning:
		c.observeRun(at, s)
	case api.PodBackupWaiting:
		c.observeWait(at, s)
	}
	if at.Phase == api.PodBackupChecking {
		c.check(at)
	}
}

// observeRun looks after a pod whose sidecar was asked.
func (c *course) observeRun(at *api.PodBackup, s seen) {
	same := s.uid == at.UID
	switch s.sight {
	case absentSight:
		at.Phase, at.Message = api.PodBackupWaiting, "is gone, and is waited for"
	case silentSight:
		c.note(at, "does not answer: ", s.why)
		if !same || c.now.Sub(s.since) >= c.w.limit {
			at.Phase = api.PodBackupWaiting // its turn is the next one's
		}
	case troubledSight:
		c.troubled(at, s)
	case runningSight:
		at.UID, at.Message = s.uid, ""
	case succeededSight:
		at.UID, at.Phase, at.Message = s.uid, api.PodBackupChecking, ""
	case failedSight:
		c.failed(at, givenUp(at, s))
	case busySight:
		if s.instead != "" {
			if same && !cancelled(c.b) { // it never began
				at.Phase, at.Tries, at.Started, at.Finished = api.PodBackupWaiting, at.Tries-1, nil, stamp(c.now)
				at.Message = quote("waits for its sidecar: ", s.instead)
				return
			}
			c.forgotten(at, s, same, s.instead)
			return
		}
		if same && (s.busyWith == "" || s.busyWith == c.status.Name) {
			if s.said == "" {
				at.Message = ""
			} else {
				c.note(at, "has stored nothing yet, and ", s.trouble.text())
			}
			return
		}
		c.forgotten(at, s, same, "its sidecar makes another backup instead")
	case idleSight:
		c.forgotten(at, s, same, gaveUp(at, s))
	}
}

// logOf is the container of a pod that makes the backup, as kubectl logs is told it.
func logOf(pod *corev1.Pod) string {
	if kvs.Of(pod) {
		return adopted.Name(pod, patches.ContainerAgent)
	}
	return adopted.Name(pod, patches.ContainerMedusa)
}

// forgotten is for a pod that knows nothing of the backup that it was asked for.
func (c *course) forgotten(at *api.PodBackup, s seen, same bool, why string) {
	switch {
	case !same:
		c.failed(at, "it was created anew meanwhile")
	case s.refused && s.asked && s.sight == idleSight:
		c.failed(at, why) // nothing more can come of this try
	case at.Started != nil && c.now.Sub(at.Started.Time) < settleFor:
		if s.said != "" {
			c.note(at, unasked, s.said)
		}
	case !s.asked && s.sight == idleSight && !cancelled(c.b):
		c.begin = append(c.begin, at.Name) // who wrote the try down may have ended before it asked
	default:
		c.failed(at, why)
	}
}

// observeWait looks whether a pod that waits has something of the backup already, of
// an earlier try. Whether it is asked is for turn to say.
func (c *course) observeWait(at *api.PodBackup, s seen) {
	if s.stuck != "" {
		c.fail(at, "what it has in the storage of an earlier try cannot be removed: "+s.stuck)
		return
	}
	switch s.sight {
	case absentSight:
		at.Message = "is not there, and is waited for"
	case silentSight:
		c.note(at, "does not answer: ", s.why)
	case troubledSight:
		c.troubled(at, s)
	case busySight:
		if s.instead != "" {
			at.Message = quote("waits for its sidecar: ", s.instead)
			return
		}
		if at.Tries > 0 && (s.busyWith == c.status.Name || s.busyWith == "" && s.uid == at.UID) {
			at.UID, at.Phase, at.Message = s.uid, api.PodBackupRunning, ""
			return
		}
		at.Message = "waits for another backup that its sidecar makes"
		if s.busyWith != "" {
			at.Message = "waits for backup " + workload.Short(s.busyWith) + ", which its sidecar makes"
		}
	case runningSight:
		at.UID, at.Phase, at.Message = s.uid, api.PodBackupRunning, ""
	case succeededSight:
		at.UID, at.Phase, at.Message = s.uid, api.PodBackupChecking, ""
	case failedSight:
		switch {
		case c.spent(at):
			c.fail(at, givenUp(at, s))
		case !c.b.Spec.Suspend && !cancelled(c.b):
			c.discard = append(c.discard, at.Name)
		}
	case idleSight:
		if c.spent(at) {
			c.fail(at, "nothing of it is in the storage, and it was tried as often as spec.retries says")
		}
	}
}

// givenUp says that a sidecar has given the backup up, and why where it tells.
func givenUp(at *api.PodBackup, s seen) string {
	if s.why != "" {
		return quote("its sidecar has given the backup up: ", s.why)
	}
	return "its sidecar has given the backup up; its log tells why (" + logs(at, s) + ")"
}

// check compares what a sidecar has said with what the storage has.
func (c *course) check(at *api.PodBackup) {
	if c.w.stored == nil {
		if c.w.unknown == "" {
			at.Message = ""
		} else {
			c.note(at, c.w.what(), c.w.unknown)
		}
		return
	}
	name := at.StorageNode()
	if twin := c.twin(at); twin != "" {
		c.fail(at, "its node is called "+workload.Short(name)+" in backups, as that of pod "+twin+" is: their data overwrite each other there. Give each its own [storage] fqdn in medusa.ini")
		return
	}
	m, ok := c.w.stored.Member(name)
	switch {
	case !ok:
		c.lacking(at, "its sidecar says that it is done, and the storage has nothing of node "+workload.Short(name))
	case !m.Complete:
		c.lacking(at, "its sidecar says that it is done, and in the storage it is not complete")
	case m.Objects == 0:
		c.lacking(at, "nothing is in it: its sidecar says that it is done, and the storage has no object of it")
	default:
		at.Phase, at.Message = api.PodBackupComplete, ""
		at.Objects, at.Bytes, at.Tables, at.Keys = int64(m.Objects), m.Bytes, int32(m.Tables), m.Keys
		if m.Missing != nil && m.Missing.Count > 0 {
			at.Missing, at.Message = m.Missing.Count, quote(fmt.Sprintf("lacks %s that the node listed: ", counted(int(m.Missing.Count), "key")), strings.Join(m.Missing.Keys, ", "))
		}
		if !m.Started.IsZero() {
			at.Started = stamp(c.past(m.Started))
		}
		at.Finished = stamp(c.past(m.Finished))
		ring := c.w.stored.Ring[name]
		at.Datacenter, at.Rack, at.Tokens = ring.Datacenter, ring.Rack, int32(len(ring.Tokens))
		c.describe(m.Version, m.Type)
	}
}

// twin is another pod whose node has the same name in backups.
func (c *course) twin(at *api.PodBackup) string {
	for i := range c.status.Pods {
		if other := &c.status.Pods[i]; other.Name != at.Name && other.Tries > 0 && other.StorageNode() == at.StorageNode() {
			return other.Name
		}
	}
	return ""
}

// past is a time of a node's clock, which may be ahead of ours, or tell nothing.
func (c *course) past(t time.Time) time.Time {
	if t.IsZero() || t.After(c.now) {
		return c.now
	}
	return t
}

// lacking is a failure of which there is something in the storage, which goes before
// the next try.
func (c *course) lacking(at *api.PodBackup, why string) {
	c.failed(at, why)
	if at.Phase == api.PodBackupWaiting {
		c.discard = append(c.discard, at.Name)
	}
}

// spent tells whether a pod has been tried as often as it may.
func (c *course) spent(at *api.PodBackup) bool { return at.Tries > c.b.Spec.RetriesOrDefault() }

// failed ends a try.
func (c *course) failed(at *api.PodBackup, why string) {
	if c.spent(at) || cancelled(c.b) {
		c.fail(at, why)
		return
	}
	at.Phase, at.Finished = api.PodBackupWaiting, stamp(c.now)
	at.Message = quote(fmt.Sprintf("is tried again after try %d: ", at.Tries), why)
	c.retried++
	c.warn(eventPodFailing, "pod "+at.Name+" "+at.Message)
}

// fail ends a pod.
func (c *course) fail(at *api.PodBackup, why string) {
	at.Phase, at.Finished, at.Message = api.PodBackupFailed, stamp(c.now), workload.Clip(line(why), podLimit)
}

// what says what is in doubt.
func (d doubt) what() string {
	if d.unreached {
		return "no sidecar answers that could tell what the storage has: "
	}
	return "the storage does not answer: "
}

// note writes down what is in the way. The words may be others at each look, and each
// change is written: they are renewed now and then.
func (c *course) note(at *api.PodBackup, what, said string) {
	if c.w.renew || !strings.HasPrefix(at.Message, what) {
		at.Message = quote(what, said)
	}
}

// quote puts what somebody else has said behind what it is.
func quote(what, said string) string {
	return workload.Clip(what+orElse(line(said), "it does not say why"), podLimit)
}
