package catalogue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stategraft/stategraft/api/node"
	"github.com/stategraft/stategraft/operations/kvs"
	"github.com/stategraft/stategraft/operations/sidecar"
	"github.com/stategraft/stategraft/workload"
)

const (
	// mostLooks and mostMarks are how many backups of a cluster a round looks into, and
	// how many objects it says again of that they are there.
	mostLooks = 200
	mostMarks = 200
	// lookers is how many pods of a cluster are asked at a time: each answers one
	// question after the other.
	lookers = 4
	// mostAsked is how many nodes are asked whether they are still at a backup.
	mostAsked = 10
	// mostBroken is how many backups in a row cannot be looked into until that is held to
	// be the storage's fault, and not theirs.
	mostBroken = 3
)

// act does what is planned for a cluster, and completes its document.
func (c *Catalogue) act(ctx context.Context, namespace string, l *looked) {
	slices.SortStableFunc(l.plan.marks, func(a, b mark) int { return truth(b.missing) - truth(a.missing) })
	for i := range l.plan.marks[:min(mostMarks, len(l.plan.marks))] {
		c.mark(ctx, &l.plan.marks[i], l.listing.Listed)
	}
	tasks := make([]look, 0, len(l.plan.looks)+len(l.plan.creates))
	for _, each := range l.plan.looks {
		tasks = append(tasks, *each)
	}
	for _, each := range l.plan.creates {
		tasks = append(tasks, look(each))
	}
	c.last(namespace, tasks)
	round := tasks[:min(mostLooks, len(tasks))]
	r := &looking{Catalogue: c, namespace: namespace, l: l, doc: &l.plan.doc, pending: len(tasks)}
	queue := make(chan look, len(round))
	for _, t := range round {
		queue <- t
	}
	close(queue)
	var all sync.WaitGroup
	for _, pod := range l.pods[:min(lookers, len(l.pods))] {
		all.Go(func() { r.work(ctx, pod, queue) })
	}
	all.Wait()
	l.moved = r.pending < len(tasks)
	if !r.ended { // they are looked into again with the next listing
		r.pending -= r.broken
		l.plan.doc.Left += r.left
	}
	l.plan.doc.Pending = r.pending
}

func truth(is bool) int {
	if is {
		return 1
	}
	return 0
}

// looking is a round's looking into backups of a cluster.
type looking struct {
	*Catalogue
	namespace string
	l         *looked

	mutex   sync.Mutex
	doc     *Document
	pending int
	broken  int  // backups that cannot be looked into
	left    int  // of them, without an object
	row     int  // of them, since one could be
	ended   bool // the storage is in trouble, or the API server
}

// work looks into one backup after another through a pod, until that or the storage
// does not answer.
func (r *looking) work(ctx context.Context, pod *corev1.Pod, queue <-chan look) {
	for t := range queue {
		if r.over() || ctx.Err() != nil {
			return
		}
		name := t.summary.Name
		has, err := r.nodes.Backup(ctx, pod, parameter(r.l.prefix), name)
		if other := r.other(pod); err == nil && len(has.Members) == 0 && other != nil {
			has, err = r.nodes.Backup(ctx, other, parameter(r.l.prefix), name)
		}
		switch {
		case errors.Is(err, sidecar.ErrUnreachable), errors.Is(err, sidecar.ErrNoService):
			r.forget(pod.UID)
			r.note(func() { r.doc.Message = "not all could be looked into: " + err.Error() })
			return
		case err != nil:
			if r.breaks(t, err); r.over() {
				return
			}
			continue
		}
		r.whole(t)
		if err := r.one(ctx, t, &has); err != nil {
			if ctx.Err() == nil {
				r.fail(err.Error())
			}
			return
		}
	}
}

// other is a pod of the other kind of database below the same prefix; nil for none. A
// backup of the one the other does not see.
func (r *looking) other(pod *corev1.Pod) *corev1.Pod {
	if i := slices.IndexFunc(r.l.pods, func(p *corev1.Pod) bool { return kvs.Of(p) != kvs.Of(pod) }); i >= 0 {
		return r.l.pods[i]
	}
	return nil
}

// breaks notes a backup that cannot be looked into. It comes last from now on, so that
// it keeps no other.
func (r *looking) breaks(t look, err error) {
	r.Catalogue.breaks(at(r.namespace, r.l.prefix, t.summary.Name), true)
	r.note(func() {
		r.broken, r.row = r.broken+1, r.row+1
		r.left += truth(t.object.UID == "")
		if r.row >= mostBroken {
			r.ended, r.doc.Failed = true, fmt.Sprintf("the storage cannot be looked into: %v", err)
			return
		}
		r.doc.Message = fmt.Sprintf("backup %s cannot be looked into: %v", workload.Short(t.summary.Name), err)
	})
}

func (r *looking) whole(t look) {
	r.Catalogue.breaks(at(r.namespace, r.l.prefix, t.summary.Name), false)
	r.note(func() { r.row = 0 })
}

// one takes over what the storage has of a backup. What is not written because somebody
// was quicker stays pending.
func (r *looking) one(ctx context.Context, t look, has *node.Backup) error {
	switch {
	case len(has.Members) == 0: // it has gone since it was listed
		r.note(func() { r.pending-- })
		return nil
	case !has.Complete && r.running(ctx, r.namespace, has):
		r.note(func() { r.pending--; r.doc.Running++ })
		return nil
	}
	made := t.object.UID == ""
	var err error
	if made {
		key := whereOf(t.object)
		there, failed := r.elsewhere(ctx, key, t.summary, r.namespace)
		if failed != nil {
			return failed
		}
		if there || !r.isMaking(key, r.namespace) {
			r.note(func() { r.pending--; r.doc.Elsewhere++ })
			return nil
		}
		err = r.create(ctx, t.object, has, r.l.listing.Listed)
	} else {
		err = r.refill(ctx, t.object, has, r.l.listing.Listed)
	}
	switch {
	case apierrors.IsInvalid(err): // it would be the next time, too
		r.note(func() { r.pending--; r.doc.Left++; r.doc.Message = err.Error() })
	case err != nil && !passing(err):
		return err
	case err == nil:
		r.note(func() { r.pending--; r.doc.New += truth(made) })
	}
	return nil
}

func (r *looking) note(do func()) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	do()
}

func (r *looking) over() (ended bool) {
	r.note(func() { ended = r.ended })
	return ended
}

func (r *looking) fail(why string) {
	r.note(func() { r.ended, r.doc.Failed = true, why })
}

// running tells whether somebody still makes a backup. The nodes that have not finished
// are asked; one that cannot be asked is taken to be at it, for a day.
func (c *Catalogue) running(ctx context.Context, namespace string, has *node.Backup) bool {
	if has.Started.IsZero() || c.now().Sub(has.Started) > abandoned {
		return false
	}
	for i, name := range unfinished(has) {
		if i == mostAsked {
			return true
		}
		slim := &corev1.Pod{}
		if err := c.world.Load().slim.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, slim); err != nil || !speaks(slim) {
			return true
		}
		pod, err := c.whole(ctx, slim)
		if err != nil {
			return true
		}
		report, err := c.nodes.Report(ctx, pod)
		if err != nil {
			c.forget(pod.UID)
			return true
		}
		if report.BackupRunning && (report.Backup == nil || report.Backup.Name == has.Name) {
			return true
		}
	}
	return false
}

// unfinished are the nodes of a backup that have begun and not finished.
func unfinished(has *node.Backup) []string {
	var names []string
	for _, m := range has.Members {
		if !m.Complete {
			names = append(names, m.Node)
		}
	}
	slices.SortFunc(names, strings.Compare)
	return names
}
