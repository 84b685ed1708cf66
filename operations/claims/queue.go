package claims

import (
	"cmp"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// claim is who wants the turn, or has it.
type claim struct {
	kind Kind
	who  types.NamespacedName
	uid  types.UID
}

func (c claim) takesTurn() bool { return c.kind == Backup || c.kind == Deletion || c.kind == Purge }

func (c *claim) busy() *Busy {
	if c == nil {
		return nil
	}
	return &Busy{c.kind, c.who}
}

// waiter is one in the line: since when what it is for was asked for, and when it last
// came.
type waiter struct {
	claim
	asked time.Time
	seen  time.Time
}

// turns are those of a cluster.
type turns struct {
	held    *claim
	last    Kind // whose turn was the latest
	waiting map[types.UID]waiter
}

// sweep forgets who is gone: a holder whose Backup is no more, or is over, and who has
// not asked for long.
func (t *turns) sweep(o *objects, now time.Time) {
	if t.held != nil && o.ended(*t.held) {
		t.held = nil
	}
	for uid, w := range t.waiting {
		if now.Sub(w.seen) > 3*AskAgain || o.ended(w.claim) {
			delete(t.waiting, uid)
		}
	}
}

func (t *turns) wait(me claim, asked, now time.Time) {
	t.waiting[me.uid] = waiter{me, asked, now}
}

func (t *turns) give(me claim) {
	t.held, t.last = &me, me.kind
	delete(t.waiting, me.uid)
}

// next is who comes before me, or nil: the kinds alternate, so that neither a row of
// backups nor one of deletions keeps the other for ever, and of a kind the one comes
// first that was asked for first.
func (t *turns) next(me claim, asked time.Time) *claim {
	first := waiter{claim: me, asked: asked}
	for _, w := range t.waiting {
		if t.before(w, first) {
			first = w
		}
	}
	if first.uid == me.uid {
		return nil
	}
	return &first.claim
}

func (t *turns) before(a, b waiter) bool {
	if again := a.kind == t.last; again != (b.kind == t.last) {
		return !again
	}
	if n := cmp.Or(a.asked.Compare(b.asked), cmp.Compare(a.who.Namespace, b.who.Namespace), cmp.Compare(a.who.Name, b.who.Name)); n != 0 {
		return n < 0
	}
	return a.uid < b.uid
}
