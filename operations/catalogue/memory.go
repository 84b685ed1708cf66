package catalogue

import (
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stategraft/stategraft/api/node"
	api "github.com/stategraft/stategraft/api/v1alpha1"
)

const (
	// goneFor is how long what was deleted for an object does not get another, however
	// old the listing of a storage that shows it: not all of them tell the truth at once.
	goneFor = 15 * time.Minute
	// madeFor is how long an object that was made is waited for.
	madeFor = 5 * time.Minute
)

// making is an object that is made, until the informer has it.
type making struct {
	namespace string
	at        time.Time
}

// breaks remembers a backup that could not be looked into, or forgets that.
func (c *Catalogue) breaks(key where, is bool) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if !is {
		delete(c.broken, key)
		return
	}
	now := c.now()
	for other, since := range c.broken {
		if now.Sub(since) > again {
			delete(c.broken, other)
		}
	}
	c.broken[key] = now
}

// last puts the backups last that could not be looked into the time before.
func (c *Catalogue) last(namespace string, tasks []look) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	broken := func(t look) int {
		_, is := c.broken[at(namespace, whereOf(t.object).prefix, t.summary.Name)]
		return truth(is)
	}
	slices.SortStableFunc(tasks, func(a, b look) int { return broken(a) - broken(b) })
}

// memory is what is remembered of a namespace.
type memory struct {
	owners  map[types.UID]bool                 // of pods that were asked, or tried to
	absent  map[string]map[types.UID]time.Time // by prefix: see plan
	listed  map[string]time.Time               // by prefix: the last time with success
	written time.Time                          // the ConfigMap
	// troubled is how many rounds in a row found a workload none of whose pods answers.
	troubled int
}

// prefixIndex is that of Backups by the prefix that their data are below.
const prefixIndex = "catalogue/prefix"

func prefixesOf(object client.Object) []string {
	b, ok := object.(*api.Backup)
	if !ok {
		return nil
	}
	if key := whereOf(b); key.prefix != "" {
		return []string{key.prefix}
	}
	return nil
}

// remember gives the memory of a namespace, which only its round uses, but for owners.
func (c *Catalogue) remember(namespace string) *memory {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.memory[namespace] == nil {
		c.memory[namespace] = &memory{owners: map[types.UID]bool{}, absent: map[string]map[types.UID]time.Time{}, listed: map[string]time.Time{}}
	}
	return c.memory[namespace]
}

// leave forgets a namespace.
func (c *Catalogue) leave(namespace string) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	delete(c.memory, namespace)
	for key := range c.listings {
		if key.Namespace == namespace {
			delete(c.listings, key)
		}
	}
	for uid, pod := range c.full {
		if pod.Namespace == namespace {
			delete(c.full, uid)
		}
	}
}

// knows tells whether the pods of an owner were asked before.
func (c *Catalogue) knows(namespace string, owner types.UID) bool {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	m := c.memory[namespace]
	return m != nil && m.owners[owner]
}

func (c *Catalogue) know(m *memory, groups []group) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	clear(m.owners)
	for _, g := range groups {
		m.owners[g.owner] = true
	}
}

// deleted notes an object that has gone.
func (c *Catalogue) deleted(b *api.Backup) {
	key := whereOf(b)
	c.mutex.Lock()
	defer c.mutex.Unlock()
	delete(c.making, key)
	if key.name != "" && !b.Keeps() { // else the data are there, and so will be an object
		c.gone[key] = c.now()
	}
}

// isMaking notes an object that is about to be made, unless it is for another namespace
// with the same prefix.
func (c *Catalogue) isMaking(key where, namespace string) bool {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if other, ok := c.making[key]; ok && other.namespace != namespace {
		return false
	}
	c.making[key] = making{namespace, c.now()}
	return true
}

// elsewhere tells whether another namespace with the same prefix has got an object
// since the plan was made.
func (c *Catalogue) elsewhere(ctx context.Context, key where, s node.Summary, namespace string) (bool, error) {
	if !c.shared(key.prefix, namespace) {
		return false, nil
	}
	all, err := c.read(ctx, namespace, []string{key.prefix})
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(all, func(b *api.Backup) bool { return whereOf(b) == key && b.Namespace != namespace && !twin(b, s) }), nil
}

func (c *Catalogue) shared(prefix, namespace string) bool {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	for key := range c.listings {
		if prefix != "" && key.Name == prefix && key.Namespace != namespace {
			return true
		}
	}
	return false
}

func (c *Catalogue) made(key where) bool {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	_, ok := c.making[key]
	return ok
}

// notMade notes that one was not made.
func (c *Catalogue) notMade(key where) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	delete(c.making, key)
}

// read are the objects of a namespace, and those of other namespaces below a prefix of
// its clusters. They are shared and not to be changed.
func (c *Catalogue) read(ctx context.Context, namespace string, prefixes []string) ([]*api.Backup, error) {
	var all []*api.Backup
	backups := c.world.Load().backups
	var list api.BackupList
	if err := backups.List(ctx, &list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("reading the Backups of namespace %s: %w", namespace, err)
	}
	for i := range list.Items {
		all = append(all, &list.Items[i])
	}
	for _, prefix := range prefixes {
		if prefix == "" {
			continue
		}
		var others api.BackupList
		if err := backups.List(ctx, &others, client.MatchingFields{prefixIndex: prefix}, client.UnsafeDisableDeepCopy); err != nil {
			return nil, fmt.Errorf("reading the Backups below a prefix: %w", err)
		}
		for i := range others.Items {
			if others.Items[i].Namespace != namespace {
				all = append(all, &others.Items[i])
			}
		}
	}
	return all, nil
}

// keys are where the data of objects are, and of those that were just made or deleted.
func (c *Catalogue) keys(all []*api.Backup) map[where]bool {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	now, keys := c.now(), map[where]bool{}
	for _, b := range all {
		key := whereOf(b)
		keys[key] = true
		delete(c.making, key) // the informer has it
	}
	for key, since := range c.making {
		if now.Sub(since.at) > madeFor {
			delete(c.making, key)
		} else {
			keys[key] = true
		}
	}
	for key, since := range c.gone {
		if now.Sub(since) > goneFor {
			delete(c.gone, key)
		} else {
			keys[key] = true
		}
	}
	return keys
}
