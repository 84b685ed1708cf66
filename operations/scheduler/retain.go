package scheduler

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/schedule/retention"
	"github.com/stategraft/stategraft/workload"
)

const (
	deletedLimit = 50 // as the CustomResourceDefinition has it
	retryHeld    = time.Minute
	// retryListing is when the storage is looked at again that held retention back.
	retryListing = 5 * time.Minute
)

// removal is a Backup that is deleted with its data.
type removal struct {
	backup   *api.Backup
	decision retention.Decision
	keeper   *api.Backup // the newest complete one, which has to be there still
}

// pass is a look at what there is to delete.
type pass struct {
	now       time.Time
	prefix    string
	policy    retention.Policy
	elsewhere int // Backups of the schedule below other prefixes

	stock    *stock
	result   *retention.Result // nil where there is nothing to decide about
	would    int               // to be deleted, as far as that is known without the storage
	held     retention.Hold
	waits    string
	removing *removal
}

// survey decides with what is known without the storage. Ask tells whether it has to be
// looked at, as something may be to go.
func survey(s *api.BackupSchedule, w *world, a asked, now time.Time) (p *pass, ask bool) {
	p = &pass{now: now}
	prefix, known := w.cluster(s)
	if !known || s.Spec.Suspend || w.latest(s) == nil {
		return p, false // what others of its name have made is not for its rules before it is known to be of its cluster
	}
	p.prefix = prefix
	for _, b := range w.own {
		if b.Status.Name != "" && b.Status.Prefix != prefix {
			p.elsewhere++
		}
	}
	if a.policy != nil {
		p.policy = *a.policy
	}
	p.stock = w.take(s, prefix, nil, now)
	trims := len(w.spare(s, p.stock, nil)) > 0
	if a.policy == nil {
		return p, trims
	}
	before := retention.Keep(retention.Storage{Items: p.stock.items, Listed: now}, p.policy, now)
	p.result, p.would = &before, len(before.Would())
	if p.would == 0 {
		return p, trims
	}
	p.held, p.waits = w.holds(s, prefix, before)
	return p, p.held == ""
}

// decide decides with a listing of the storage.
func (p *pass) decide(s *api.BackupSchedule, w *world, a asked, listing Listing) {
	p.stock = w.take(s, p.prefix, &listing, p.now)
	if a.policy == nil {
		return
	}
	r := retention.Keep(retention.Storage{Items: p.stock.items, Listed: listing.Listed, Failed: listing.Failed}, p.policy, p.now)
	p.result = &r
	if p.would == 0 || len(r.Would()) == 0 && !ofListing[r.Held] {
		return
	}
	if p.held, p.waits = r.Held, r.Waits; p.held != "" {
		return
	}
	if deletes := r.Deletes(); len(deletes) > 0 {
		p.removing = p.removal(deletes[0])
	}
}

// removal is that of the first there is to delete: one at a time.
func (p *pass) removal(d retention.Decision) *removal {
	m := &removal{backup: p.stock.own[d.Name], decision: d}
	for _, other := range p.result.Decisions {
		if slices.Contains(other.Reasons, retention.KeptNewest) {
			m.keeper = p.stock.own[other.Name]
		}
	}
	if m.backup == nil || m.keeper == nil {
		return nil // not by these rules: each has a newest one that is kept
	}
	return m
}

// retain writes into the step what retention does.
func (st *step) retain(s *api.BackupSchedule, w *world, p *pass) {
	for _, b := range w.own { // marked to be deleted, and then not deleted
		if _, ok := b.Annotations[api.AnnotationExpiring]; ok && b.DeletionTimestamp == nil && !w.marked[b.UID] && (p.removing == nil || p.removing.backup.UID != b.UID) {
			st.keep = append(st.keep, b)
		}
	}
	st.retained(s, w, p)
	switch {
	case p.result == nil:
		st.status.Retention = nil
		if s.Spec.Suspend {
			st.status.Retention = s.Status.Retention.DeepCopy()
		}
		return
	case ofListing[p.held] || p.held == retention.NameUnsafe:
		st.look(p.now.Add(retryListing))
	case p.held != "":
		st.look(p.now.Add(retryHeld))
	}
	st.remove = p.removing
	st.record(s, w, p)
}

// record writes what was decided. That something is deleted is written before it is; if
// it comes to nothing, it is taken out again.
func (st *step) record(s *api.BackupSchedule, w *world, p *pass) {
	var was api.RetentionStatus
	if s.Status.Retention != nil {
		was = *s.Status.Retention.DeepCopy()
	}
	is := api.RetentionStatus{Decided: was.Decided, DryRun: p.result.DryRun, Kept: kept(p.result), Held: string(p.held), Waiting: workload.Clip(p.waits, messageLimit)}
	switch {
	case p.result.DryRun && p.held != "" && was.DryRun:
		is.Deleted = was.Deleted
	case p.result.DryRun && p.held == "":
		is.Deleted = st.rehearsed(p, &was)
	case !p.result.DryRun && !was.DryRun:
		is.Deleted = slices.DeleteFunc(was.Deleted, func(d api.RetentionDecision) bool {
			b := p.stock.own[d.Name]
			return b != nil && !w.going(b)
		})
	}
	if m := p.removing; m != nil {
		is.Deleted = append([]api.RetentionDecision{told(m.backup, m.decision)}, is.Deleted...)
	}
	if len(is.Deleted) > deletedLimit {
		is.Deleted = is.Deleted[:deletedLimit]
	}
	if len(is.Deleted) == 0 {
		is.Deleted = nil
	}
	if p.removing != nil || is.Decided == nil || !same(&was, &is) {
		is.Decided = new(stamp(p.now))
	}
	st.status.Retention = &is
}

// rehearsed are those that a dry run would delete; of new ones an event tells.
func (st *step) rehearsed(p *pass, was *api.RetentionStatus) (list []api.RetentionDecision) {
	for _, d := range p.result.Would() {
		b := p.stock.own[d.Name]
		if b == nil {
			continue
		}
		if len(list) == deletedLimit { // the status has room for those that would go first
			break
		}
		known := was.DryRun && slices.ContainsFunc(was.Deleted, func(o api.RetentionDecision) bool { return o.Name == d.Name })
		if !known {
			st.tell(corev1.EventTypeNormal, eventWould, "dryRun: Backup "+b.Name+" would be "+d.Message, b)
		}
		list = append(list, told(b, d))
	}
	slices.Reverse(list)
	return list
}

// told is a decision as the status has it.
func told(b *api.Backup, d retention.Decision) api.RetentionDecision {
	return api.RetentionDecision{Backup: b.Name, Name: d.Name, When: stampOrNil(d.When), Bytes: b.Status.Bytes,
		Reason: string(d.Reasons[0]), Message: workload.Clip(d.Message, messageLimit)}
}

// kept counts the Backups of the schedule that stay.
func kept(r *retention.Result) (n int32) {
	for _, d := range r.Decisions {
		if d.Own && !d.Delete && (d.State == retention.Complete || d.State == retention.Incomplete) {
			n++
		}
	}
	return n
}

func same(a, b *api.RetentionStatus) bool {
	return fmt.Sprint(a.DryRun, a.Kept, a.Held, a.Waiting) == fmt.Sprint(b.DryRun, b.Kept, b.Held, b.Waiting) &&
		slices.EqualFunc(a.Deleted, b.Deleted, func(x, y api.RetentionDecision) bool { return x.Name == y.Name && x.Message == y.Message })
}
