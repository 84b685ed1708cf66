package rpo

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	api "github.com/stategraft/stategraft/api/v1alpha1"
)

// part is a pod's part in a Backup.
type part struct {
	backup            *api.Backup
	pod               *api.PodBackup
	started, finished time.Time
}

// newer tells whether a part is of later data than another.
func (p part) newer(other part) bool {
	if other.backup == nil || !p.started.Equal(other.started) {
		return other.backup == nil || p.started.After(other.started)
	}
	return p.backup.Name > other.backup.Name
}

// history is what Backups tell of one pod's name.
type history struct {
	made  part // the newest Backup that was made of it, whatever came of it: where its data go
	whole []part
	// partial is the newest whose part of the pod is complete, but the Backup is not.
	partial part
	since   time.Time // when one was first tried
	trials  []trial
}

// trial is a restore on trial of the pod's data.
type trial struct {
	prefix string
	result *api.Verification
}

// clockSlack is how far clocks may be apart. A part that was begun later than that was
// made by a clock that was wrong: how old it is nobody knows, and it is not to hide for
// as long that none is made.
const clockSlack = time.Hour

// partsOf sorts Backups by the pods that they are of.
func partsOf(backups []api.Backup, now time.Time) map[types.NamespacedName]*history {
	all := map[types.NamespacedName]*history{}
	for i := range backups {
		b := &backups[i]
		for j := range b.Status.Pods {
			key := types.NamespacedName{Namespace: b.Namespace, Name: b.Status.Pods[j].Name}
			h := all[key]
			if h == nil {
				h = &history{}
				all[key] = h
			}
			h.add(b, &b.Status.Pods[j], now)
		}
	}
	return all
}

// add takes a Backup in.
func (h *history) add(b *api.Backup, pod *api.PodBackup, now time.Time) {
	if b.Status.Name == "" || b.Status.Phase == api.BackupPlanned {
		return // of a dry run
	}
	p := part{backup: b, pod: pod, started: first(pod.Started, b.Status.Started, pod.Finished, b.Status.Finished), finished: first(pod.Finished, b.Status.Finished)}
	if !p.started.IsZero() && (h.since.IsZero() || p.started.Before(h.since)) {
		h.since = p.started
	}
	if b.Status.Origin == api.BackupMade && p.newer(h.made) {
		h.made = p
	}
	switch going := b.DeletionTimestamp != nil && !b.Keeps(); {
	case going || pod.Phase != api.PodBackupComplete || p.started.IsZero() || p.started.After(now.Add(clockSlack)):
	case b.Status.Phase == api.BackupComplete:
		h.whole = append(h.whole, p)
	case b.Status.Phase.Final() && b.Status.Phase != api.BackupMissing && p.newer(h.partial):
		h.partial = p
	}
	if v := b.Status.Verified; v != nil && tried(v, pod) {
		h.trials = append(h.trials, trial{b.Status.Prefix, v})
	}
}

// last is the newest complete one. Where Backups were made of the pod, those of another
// prefix are of another cluster with pods of the same names, which somebody means to
// restore from here.
func (h *history) last() (newest part) {
	for _, p := range h.whole {
		if h.ours(p.backup.Status.Prefix) && p.newer(newest) {
			newest = p
		}
	}
	return newest
}

func (h *history) ours(prefix string) bool {
	return h.made.backup == nil || h.made.backup.Status.Prefix == prefix
}

// verified is the latest restore on trial of the pod's data.
func (h *history) verified() (*time.Time, api.VerificationResult) {
	var at time.Time
	var newest *api.Verification
	for _, t := range h.trials {
		when := first(t.result.Finished, t.result.Started)
		if h.ours(t.prefix) && (newest == nil || when.After(at)) {
			at, newest = when, t.result
		}
	}
	if newest == nil || at.IsZero() {
		return nil, ""
	}
	return &at, newest.Result
}

// tried tells whether the pod's data were restored: of a large cluster each time those
// of other nodes are.
func tried(v *api.Verification, pod *api.PodBackup) bool {
	for _, node := range v.Nodes {
		if node == pod.StorageNode() || node == pod.Name {
			return true
		}
	}
	return len(v.Nodes) == 0
}
