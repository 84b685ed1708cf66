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
	return &Busy{Kind: c.kind, Who: c.who}
}

// first is the Busy of who does not have the turn yet.
func (c *claim) first() *Busy {
	busy := c.busy()
	if busy != nil {
		busy.First = true
	}
	return busy
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
	awaited map[types.UID]time.Time // since when those keep others that have not come yet; of who has come long ago
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
	for uid := range t.awaited {
		if o.ended(claim{kind: Backup, uid: uid}) {
			delete(t.awaited, uid)
		}
	}
}

func (t *turns) wait(me claim, asked, now time.Time) {
	t.waiting[me.uid] = waiter{me, asked, now}
	t.awaited[me.uid] = time.Time{}
}

func (t *turns) give(me claim) {
	t.held, t.last = &me, me.kind
	delete(t.waiting, me.uid)
	if _, was := t.awaited[me.uid]; was {
		t.awaited[me.uid] = time.Time{}
	}
}

// awaits tells whether somebody has kept others and not come: who comes next is not to
// wait for it once more.
func (t *turns) awaits() bool {
	for _, since := range t.awaited {
		if !since.IsZero() {
			return true
		}
	}
	return false
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
	return a.order(b) < 0
}

// order is by when what they are for was asked for, then by name: nothing else may
// decide, as who comes first to ask is chance.
func (w waiter) order(other waiter) int {
	return cmp.Or(w.asked.Compare(other.asked), cmp.Compare(w.who.Namespace, other.who.Namespace), cmp.Compare(w.who.Name, other.who.Name), cmp.Compare(w.uid, other.uid))
}
