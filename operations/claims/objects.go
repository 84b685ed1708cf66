package claims

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/stategraft/stategraft/api/v1alpha1"
)

// The indexes of Backups: those from which a turn follows, by cluster; those that have not
// begun, by namespace; and all by UID.
// There may be tens of thousands of Backups, and a turn is asked for twice a minute by
// each that waits.
const (
	indexActive = "claims/active"
	indexComing = "claims/coming"
	indexUID    = "claims/uid"
)

func activeOf(o client.Object) []string {
	b, ok := o.(*api.Backup)
	if !ok || implied(b) == "" {
		return nil
	}
	cluster, ok := Of(b)
	if !ok {
		return nil
	}
	return []string{cluster.key().text()}
}

func comingOf(o client.Object) []string {
	if b, ok := o.(*api.Backup); ok && coming(b) {
		return []string{b.Namespace}
	}
	return nil
}

func uidOf(o client.Object) []string { return []string{string(o.GetUID())} }

func (c Cluster) text() string {
	if c.Prefix == "" {
		return "namespace/" + c.Namespace
	}
	return "prefix/" + c.Prefix
}

// index makes the indexes, where the informer can have some, and tells whether it did.
func index(cached client.Reader) bool {
	to, ok := cached.(client.FieldIndexer)
	if !ok {
		return false
	}
	ctx := context.Background() // of memory: nothing to wait for
	return to.IndexField(ctx, &api.Backup{}, indexActive, activeOf) == nil && to.IndexField(ctx, &api.Backup{}, indexComing, comingOf) == nil &&
		to.IndexField(ctx, &api.Backup{}, indexUID, uidOf) == nil
}

// objects are the informers' at one time, as far as they have to do with a cluster.
// They are not changed.
type objects struct {
	key      Cluster
	active   []*api.Backup             // those of the cluster from which a turn follows
	byUID    map[types.UID]*api.Backup // those that want it
	restores []api.Restore             // all
	within   func(namespace string) ([]*api.Backup, error)
	coming   func(namespace string) ([]*api.Backup, error) // those of within that have not begun
}

// read reads what concerns a cluster, and who wants its turn or has it.
func (c *Claims) read(ctx context.Context, key Cluster, t *turns, me types.UID) (*objects, error) {
	o := &objects{key: key, byUID: map[types.UID]*api.Backup{}}
	wanted := map[types.UID]bool{}
	if me != "" {
		wanted[me] = true
	}
	if t != nil {
		if t.held != nil {
			wanted[t.held.uid] = true
		}
		for uid := range t.waiting {
			wanted[uid] = true
		}
		for uid := range t.awaited {
			wanted[uid] = true
		}
	}
	active, err := c.list(ctx, client.MatchingFields{indexActive: key.text()})
	if err != nil {
		return nil, err
	}
	all := active
	if c.indexed {
		for uid := range wanted {
			found, err := c.list(ctx, client.MatchingFields{indexUID: string(uid)})
			if err != nil {
				return nil, err
			}
			all = append(all, found...)
		}
	}
	for _, b := range active {
		if cluster, ok := Of(b); ok && cluster.key() == key && implied(b) != "" {
			o.active = append(o.active, b)
			wanted[b.UID] = true
		}
	}
	for _, b := range all {
		if wanted[b.UID] {
			o.byUID[b.UID] = b
		}
	}
	var restores api.RestoreList
	if err := c.cached.List(ctx, &restores, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("reading which restores run: %w", err)
	}
	o.restores = restores.Items
	o.within = c.namespaces(ctx)
	o.coming = func(namespace string) ([]*api.Backup, error) {
		list, err := c.list(ctx, client.MatchingFields{indexComing: namespace})
		return slices.DeleteFunc(list, func(b *api.Backup) bool { return b.Namespace != namespace || !coming(b) }), err
	}
	return o, nil
}

// namespaces gives the Backups of namespaces, each read once.
func (c *Claims) namespaces(ctx context.Context) func(string) ([]*api.Backup, error) {
	read := map[string][]*api.Backup{}
	return func(namespace string) ([]*api.Backup, error) {
		if all, ok := read[namespace]; ok {
			return all, nil
		}
		list, err := c.backups(ctx, client.InNamespace(namespace))
		if err != nil {
			return nil, err
		}
		var all []*api.Backup
		for _, b := range list {
			if b.Namespace == namespace {
				all = append(all, b)
			}
		}
		read[namespace] = all
		return all, nil
	}
}

// list reads the Backups of an index, or all where there is none.
func (c *Claims) list(ctx context.Context, by client.ListOption) ([]*api.Backup, error) {
	if !c.indexed {
		return c.backups(ctx)
	}
	return c.backups(ctx, by)
}

func (c *Claims) backups(ctx context.Context, by ...client.ListOption) ([]*api.Backup, error) {
	var list api.BackupList
	if err := c.cached.List(ctx, &list, append(by, client.UnsafeDisableDeepCopy)...); err != nil {
		return nil, fmt.Errorf("reading which backups run: %w", err)
	}
	all := make([]*api.Backup, len(list.Items))
	for i := range list.Items {
		all[i] = &list.Items[i]
	}
	return all, nil
}
