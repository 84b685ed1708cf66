// Package claims says who may touch the storage of a cluster now. Medusa keeps nothing
// apart: a deletion in the midst of a backup takes files that the backup refers to
// (thelastpickle/cassandra-medusa#363), and two backups of a node at once destroy each
// other.
//
//	claims.go   Claims: take, release, who has the turn
//	queue.go    who is next
//	awaited.go  who is older, and has not come to ask yet
//	implied.go  what the objects say of turns that were taken before this process
//	readers.go  whom restores keep away
//	objects.go  what is read of the informers
//
// A turn is kept in memory, and follows from the objects as well, so that a controller
// that starts anew knows of what goes on.
package claims

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/stategraft/stategraft/api/v1alpha1"
)

// Kind is what the storage is touched for.
type Kind string

// The kinds. A Backup, a Deletion and a Purge take turns; a Restore and a Verify only
// read, and keep others from what they read.
const (
	Backup   Kind = "Backup"
	Deletion Kind = "Deletion"
	Purge    Kind = "Purge"
	Restore  Kind = "Restore"
	Verify   Kind = "Verify"
)

// Cluster is whose storage it is. Two namespaces with one prefix are one cluster.
// Without a prefix, the namespace tells them apart.
type Cluster struct{ Prefix, Namespace string }

func (c Cluster) key() Cluster {
	if c.Prefix != "" {
		return Cluster{Prefix: c.Prefix}
	}
	return Cluster{Namespace: c.Namespace}
}

// Of is the cluster of a Backup; ok is false while that is not settled.
func Of(b *api.Backup) (of Cluster, ok bool) {
	switch {
	case b.Status.Name != "":
		return Cluster{b.Status.Prefix, b.Namespace}, true
	case b.Spec.Existing != nil:
		return Cluster{b.Spec.Existing.Prefix, b.Namespace}, true
	}
	return Cluster{}, false
}

// Busy says who has the turn, or comes first.
type Busy struct {
	Kind  Kind
	Who   types.NamespacedName
	First bool // it does not have the turn yet, and comes first
}

func (b *Busy) Error() string {
	switch {
	case b.First && b.Kind == Backup:
		return fmt.Sprintf("backup %s of the same cluster was asked for before, and goes first", b.Who)
	case b.First && b.Kind == Deletion:
		return fmt.Sprintf("the deletion of backup %s of the same cluster goes first", b.Who)
	case b.First:
		return fmt.Sprintf("a purge of the same cluster's storage goes first, for %s", b.Who)
	}
	switch b.Kind {
	case Backup:
		return fmt.Sprintf("backup %s of the same cluster runs", b.Who)
	case Deletion:
		return fmt.Sprintf("the deletion of backup %s of the same cluster runs", b.Who)
	case Purge:
		return fmt.Sprintf("a purge of the same cluster's storage runs, for %s", b.Who)
	case Restore:
		return fmt.Sprintf("restore %s of the same cluster runs", b.Who)
	}
	return fmt.Sprintf("backup %s is being restored on trial", b.Who)
}

// IsBusy gives the Busy of an error.
func IsBusy(err error) (*Busy, bool) {
	var busy *Busy
	return busy, errors.As(err, &busy)
}

// AskAgain is how often who waits has to ask at the least: who has not asked for three
// times as long does not wait any more, and keeps nobody.
const AskAgain = time.Minute

// Claims are the turns of all clusters. They may be used by several goroutines at once.
type Claims struct {
	cached  client.Reader
	indexed bool
	now     func() time.Time

	mutex sync.Mutex
	turns map[Cluster]*turns
	known map[string]known // by namespace
}

// New makes Claims that read Backups and Restores from an informer, and ask nothing
// else. The informer is given the indexes that they use, where it can have any.
func New(cached client.Reader) *Claims {
	return &Claims{cached: cached, indexed: index(cached), now: time.Now, turns: map[Cluster]*turns{}, known: map[string]known{}}
}

// Take gives the turn, or says in a *Busy who has it, or comes first. Another error
// says that the objects cannot be read, which gives no turn either. To take what one
// has is fine. Who is a Backup, but for a Purge and a Restore. What is not released ends
// with its Backup: when that is gone, or over.
//
// Who is refused waits in line, and has to ask again within AskAgain.
func (c *Claims) Take(ctx context.Context, of Cluster, kind Kind, who types.NamespacedName, uid types.UID) error {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	key, me := of.key(), claim{kind: kind, who: who, uid: uid}
	t := c.turns[key]
	objects, err := c.read(ctx, key, t, uid)
	if err != nil {
		return err
	}
	if t == nil {
		t = &turns{waiting: map[types.UID]waiter{}, awaited: map[types.UID]time.Time{}}
		c.turns[key] = t
	}
	t.sweep(objects, c.now())
	busy, err := c.refuse(objects, t, me)
	if err != nil {
		return err
	}
	if busy != nil {
		if me.takesTurn() {
			t.wait(me, objects.asked(me, c.now()), c.now())
		}
		return busy
	}
	if me.takesTurn() {
		t.give(me)
	}
	return nil
}

func (c *Claims) refuse(objects *objects, t *turns, me claim) (*Busy, error) {
	if me.kind == Verify { // it reads what no other backup and no deletion of another changes
		for _, other := range []*claim{t.held, objects.holder("")} {
			if other != nil && other.kind == Deletion && other.who == me.who {
				return other.busy(), nil
			}
		}
		return nil, nil
	}
	if held := t.held; held != nil && held.uid != me.uid {
		return held.busy(), nil
	}
	if other := objects.holder(me.uid); other != nil && !(objects.holds(me) && objects.before(me, *other)) {
		return other.busy(), nil
	}
	if reader, err := objects.reader(me); reader != nil || err != nil {
		return reader.busy(), err
	}
	if !me.takesTurn() || t.held != nil || objects.holds(me) {
		return nil, nil
	}
	if first := t.next(me, objects.asked(me, c.now())); first != nil {
		return first.first(), nil
	}
	older, err := c.awaited(objects, t, me, c.now())
	return older.first(), err
}

// Release gives the turn back, or leaves the line. Who has neither may call it too.
func (c *Claims) Release(of Cluster, uid types.UID) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	key := of.key()
	t := c.turns[key]
	if t == nil {
		return
	}
	delete(t.waiting, uid)
	if t.held != nil && t.held.uid == uid {
		t.held = nil
	}
	if t.held == nil && len(t.waiting) == 0 && !t.awaits() {
		delete(c.turns, key)
	}
}

// Holder tells who has the turn, if anybody.
func (c *Claims) Holder(of Cluster) (Kind, types.NamespacedName, bool) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	key := of.key()
	t := c.turns[key]
	objects, err := c.read(context.Background(), key, t, "") // of memory: nothing to wait for
	if t != nil && err == nil {
		t.sweep(objects, c.now())
	}
	if t != nil && t.held != nil {
		return t.held.kind, t.held.who, true
	}
	if err == nil {
		if other := objects.holder(""); other != nil {
			return other.kind, other.who, true
		}
	}
	return "", types.NamespacedName{}, false
}
