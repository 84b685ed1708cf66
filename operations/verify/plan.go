package verify

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/schedule"
)

const (
	defaultTimeout = 6 * time.Hour
	defaultNodes   = 1
)

// timeout is how long a verification may take.
func timeout(v *api.BackupVerify) time.Duration {
	if v.Timeout == nil || v.Timeout.Duration <= 0 {
		return defaultTimeout
	}
	return v.Timeout.Duration
}

// wanted is of how many nodes, of those that there are.
func wanted(v *api.BackupVerify, nodes int) int {
	n := defaultNodes
	if v.Nodes != nil {
		n = int(*v.Nodes)
	}
	if n <= 0 || n > nodes {
		return nodes
	}
	return n
}

// due tells when the next verification is due, by what the status says. One that was
// noted for another expression, or for none, counts from now: of what was missed,
// however much it is, one is made up for.
func due(s *api.BackupSchedule, cron *schedule.Cron, now time.Time) time.Time {
	noted := s.Status.NextVerification
	next := cron.Next(now)
	if noted != nil && noted.Time.Before(next) && cron.Next(noted.Add(-time.Minute)).Equal(noted.Time) {
		return noted.Time
	}
	return next
}

// ofSchedule are the Backups of a schedule, by its label.
func ofSchedule(all []api.Backup, s *api.BackupSchedule) (own []*api.Backup) {
	for i := range all {
		if b := &all[i]; b.Namespace == s.Namespace && b.Labels[api.LabelSchedule] == s.Name {
			own = append(own, b)
		}
	}
	return own
}

// clockSlack is how far clocks may be apart: what is noted of later than that is of one
// that was wrong.
const clockSlack = time.Hour

func future(t, now time.Time) bool { return t.After(now.Add(clockSlack)) }

// running tells whether a Backup is being restored on trial.
func running(b *api.Backup) bool {
	return b.Status.Verified != nil && b.Status.Verified.Result == api.VerificationRunning
}

// pick is the Backup to verify: the newest that is complete, and there; nil for none.
func pick(own []*api.Backup) (newest *api.Backup) {
	for _, b := range own {
		if b.Status.Phase != api.BackupComplete || b.DeletionTimestamp != nil || len(b.Status.Pods) == 0 ||
			meta.IsStatusConditionFalse(b.Status.Conditions, api.ConditionStored) {
			continue
		}
		if newest == nil || began(b).After(began(newest)) || began(b).Equal(began(newest)) && b.Name > newest.Name {
			newest = b
		}
	}
	return newest
}

func began(b *api.Backup) time.Time {
	if b.Status.Started != nil {
		return b.Status.Started.Time
	}
	return b.CreationTimestamp.Time
}

// latest is the verification that began last, of those of a schedule; nil for none.
func latest(own []*api.Backup) (of *api.Backup) {
	for _, b := range own {
		if v := b.Status.Verified; v == nil || v.Started == nil {
			continue
		} else if of == nil || v.Started.After(of.Status.Verified.Started.Time) {
			of = b
		}
	}
	return of
}

// nodesOf are the nodes of a Backup, by name.
func nodesOf(b *api.Backup) (nodes []string) {
	for i := range b.Status.Pods {
		nodes = append(nodes, b.Status.Pods[i].StorageNode())
	}
	slices.Sort(nodes)
	return slices.Compact(nodes)
}

// after is the node that follows another, in a circle: so each has its turn.
func after(nodes []string, last string) string {
	at, found := slices.BinarySearch(nodes, last)
	if found {
		at++
	}
	return nodes[at%len(nodes)]
}

// first is the node to begin with: the one after the last that was looked at for this
// schedule, of whichever Backup.
func first(b *api.Backup, own []*api.Backup) string {
	last := ""
	if of := latest(own); of != nil && len(of.Status.Verified.Nodes) > 0 {
		last = of.Status.Verified.Nodes[len(of.Status.Verified.Nodes)-1]
	}
	return after(nodesOf(b), last)
}

// begin is a verification that begins with a node.
func begin(node string, now time.Time) *api.Verification {
	at := metav1.NewTime(now.UTC().Truncate(time.Second))
	return &api.Verification{Result: api.VerificationRunning, Started: &at, Nodes: []string{node}}
}

// current is the node that a running verification is about.
func current(v *api.Verification) string {
	if len(v.Nodes) == 0 {
		return ""
	}
	return v.Nodes[len(v.Nodes)-1]
}

// NamePrefix is what the names of these pods begin with. The policy
// controller-creates.stategraft.io lets our controller create them.
const NamePrefix = "stategraft-verify-"

// podName is the name of the pod of the node that a verification is about now. It
// follows from the status alone. Another verification of the Backup has others.
func podName(b *api.Backup) string {
	v, started := b.Status.Verified, int64(0)
	if v.Started != nil {
		started = v.Started.Unix()
	}
	sum := sha256.Sum256([]byte(strings.Join([]string{b.Namespace, string(b.UID), fmt.Sprint(started), current(v)}, "/")))
	return NamePrefix + hex.EncodeToString(sum[:5])
}
