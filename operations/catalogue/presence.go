package catalogue

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stategraft/stategraft/api/node"
	api "github.com/stategraft/stategraft/api/v1alpha1"
)

const (
	// apart is how long a backup is not in the storage before that is believed, in two
	// listings in a row or more.
	apart = time.Minute
	// again is how old status.Listed becomes.
	again = 24 * time.Hour
)

// The reasons of the condition Stored.
const (
	reasonListed = "Listed" // the storage has it
	reasonGone   = "Gone"   // and now has not, or not all of it
	reasonNever  = "NotFound"
)

// mark is what a listing alone says of an object.
type mark struct {
	object  *api.Backup
	missing bool // else it is there
	reason  string
	message string
}

// presence goes through the objects of the cluster in the namespace.
func (p *plan) presence(f facts, there map[string]*node.Summary) {
	var lacking []*api.Backup
	found, expected := 0, 0
	for _, b := range f.objects {
		if b.Namespace != f.namespace || b.DeletionTimestamp != nil {
			continue
		}
		key := whereOf(b)
		if key.name == "" || key != at(f.namespace, f.prefix, key.name) {
			continue
		}
		s := there[key.name]
		if stored(b) {
			expected++
			if s != nil {
				found++
			}
		}
		switch {
		case b.Found() && !b.Status.Phase.Final(): // not looked into yet
			if s != nil {
				p.looks = append(p.looks, &look{*s, b})
			} else {
				lacking = append(lacking, b)
			}
		case !b.Status.Phase.Final() || b.Status.Phase == api.BackupPlanned: // its controller's
		case b.Status.Phase == api.BackupMissing:
			p.missing(b, s)
		case s != nil && (b.Status.Phase != api.BackupComplete || whole(b, s)):
			p.there(b, s, f)
		case stored(b):
			lacking = append(lacking, b)
		}
	}
	if expected > 0 && found == 0 {
		// Somebody may have emptied it. More likely it is another bucket, or credentials
		// that see nothing.
		p.doc.Failed = fmt.Sprintf("the storage shows none of the %d backups that have to be there, so what it shows is not believed: is it the right bucket, and does medusa.ini have the right prefix? Where they are gone indeed, delete the Backups", expected)
		lacking = slices.DeleteFunc(lacking, stored)
	}
	for _, b := range lacking {
		p.lack(b, there[whereOf(b).name], f)
	}
}

// whole tells whether a listing shows all of a Backup that was complete. One that was made
// here may be of some nodes of its cluster only: of the others the token map tells, and
// for their sake the storage calls it incomplete.
func whole(b *api.Backup, s *node.Summary) bool {
	if s.Complete || b.Found() {
		return s.Complete
	}
	return len(b.Status.Pods) > 0 && !slices.ContainsFunc(b.Status.Pods, func(p api.PodBackup) bool {
		return p.Phase == api.PodBackupComplete && !slices.Contains(s.Nodes, p.StorageNode())
	})
}

// stored tells whether the storage has had something of a Backup, by its status. Of one
// that is missing it has no more.
func stored(b *api.Backup) bool {
	switch b.Status.Phase {
	case api.BackupComplete, api.BackupPartial:
		return true
	case api.BackupFailed, api.BackupCancelled:
		return b.Status.Objects > 0 || b.Found()
	}
	return false
}

// there is about an object whose backup is in the storage.
func (p *plan) there(b *api.Backup, s *node.Summary, f facts) {
	switch {
	case b.Found() && b.Status.Phase != api.BackupComplete && changed(b, s):
		p.looks = append(p.looks, &look{*s, b})
	case b.Status.Listed == nil || f.listing.Listed.Sub(b.Status.Listed.Time) >= again || !meta.IsStatusConditionTrue(b.Status.Conditions, api.ConditionStored):
		p.marks = append(p.marks, mark{object: b, reason: reasonListed, message: "the storage has it"})
	}
}

// changed tells whether an incomplete backup may have become more.
func changed(b *api.Backup, s *node.Summary) bool {
	for _, name := range s.Nodes {
		if at := b.Status.Pod(name); at == nil || at.Phase == api.PodBackupGone {
			return true
		}
	}
	return s.Complete && slices.ContainsFunc(b.Status.Pods, func(at api.PodBackup) bool { return at.Finished == nil && at.Tokens > 0 })
}

// missing is about one whose data had gone: they may have come back, of which only a
// look into them tells.
func (p *plan) missing(b *api.Backup, s *node.Summary) {
	lacks := func(at api.PodBackup) bool { return at.Phase != api.PodBackupComplete }
	if s != nil && (whole(b, s) || len(b.Status.Pods) == 0 || slices.ContainsFunc(b.Status.Pods, lacks)) {
		p.looks = append(p.looks, &look{*s, b})
		return
	}
	p.doc.Missing++
}

// lack is about one that is not in the storage, or not all of it. It is not believed at
// once.
func (p *plan) lack(b *api.Backup, s *node.Summary, f facts) {
	if b.Status.Finished != nil && !b.Status.Finished.Time.Before(f.listing.Listed) {
		return // the listing is older
	}
	since, ok := f.absent[b.UID]
	if !ok {
		since = f.listing.Listed
	}
	if f.listing.Listed.Sub(since) < apart {
		p.absent[b.UID] = since
		return
	}
	m := mark{object: b, missing: true, reason: reasonGone, message: "the storage has nothing of it any more, and nobody asked for that here"}
	switch {
	case s != nil:
		m.message = "the storage has it no longer as a whole: parts of it have gone, and nobody asked for that here"
	case b.Status.Phase == "":
		m.reason = reasonNever
		m.message = fmt.Sprintf("the storage has no backup %s below prefix %q", b.Spec.Existing.Name, b.Spec.Existing.Prefix)
	}
	p.marks = append(p.marks, m)
	p.doc.Missing++
}

// apply writes a mark into a status, and nothing else.
func (m *mark) apply(b *api.Backup, listed time.Time) {
	stored := metav1.Condition{Type: api.ConditionStored, Status: metav1.ConditionTrue, Reason: m.reason, Message: m.message, ObservedGeneration: b.Generation, LastTransitionTime: metav1.NewTime(listed.Truncate(time.Second))}
	if m.missing {
		stored.Status = metav1.ConditionFalse
		b.Status.Phase = api.BackupMissing
		if b.Found() {
			b.Status.ObservedGeneration, b.Status.Origin, b.Status.Message = b.Generation, api.BackupFound, m.message
		}
	} else {
		b.Status.Listed = new(metav1.NewTime(listed.Truncate(time.Second)))
	}
	meta.SetStatusCondition(&b.Status.Conditions, stored)
}
