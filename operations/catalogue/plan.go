package catalogue

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/stategraft/stategraft/api/node"
	api "github.com/stategraft/stategraft/api/v1alpha1"
)

// abandoned is how old a backup is that has not finished before it is taken for one
// that never will.
const abandoned = 24 * time.Hour

// where is a backup in the storage: its prefix, or the namespace where that is empty,
// and its name.
type where struct{ prefix, namespace, name string }

func at(namespace, prefix, name string) where {
	if prefix != "" {
		namespace = ""
	}
	return where{prefix, namespace, name}
}

// whereOf is where the data of a Backup are, or will be.
func whereOf(b *api.Backup) where {
	switch {
	case b.Spec.Existing != nil:
		return at(b.Namespace, b.Spec.Existing.Prefix, b.Spec.Existing.Name)
	case b.Status.Name != "":
		return at(b.Namespace, b.Status.Prefix, b.Status.Name)
	}
	return where{}
}

// facts are what a plan follows from.
type facts struct {
	namespace, prefix string
	listing           Listing
	objects           []*api.Backup   // of all namespaces, as they are now
	before            map[where]bool  // those that had an object when the listing began, or have been deleted since
	names             map[string]bool // of our own making: those that Backups not accepted yet will have
	absent            map[types.UID]time.Time
	nodes             map[string]bool // of the cluster, as far as they are known
	room              int             // for objects in the namespace
	make              bool            // objects of what is found
	now               time.Time
}

// plan is what to do about one cluster.
type plan struct {
	creates []creation // the newest first
	looks   []*look    // at what objects are there for, the newest first
	marks   []mark
	absent  map[types.UID]time.Time // since when objects lack their data
	doc     Document
}

// creation is an object to be made of a backup.
type creation struct {
	summary node.Summary
	object  *api.Backup
}

// look is a Found object whose backup is to be looked into, or any that was Missing.
type look struct {
	summary node.Summary
	object  *api.Backup
}

// planOf says what a listing means for the objects.
func planOf(f facts) plan {
	p := plan{absent: map[types.UID]time.Time{}}
	p.doc.Prefix, p.doc.Failed = f.prefix, f.listing.Failed
	if f.listing.Failed != "" {
		return p
	}
	there := make(map[string]*node.Summary, len(f.listing.Backups))
	for i := range f.listing.Backups {
		s := &f.listing.Backups[i]
		there[s.Name] = s
		if s.Complete {
			p.doc.Complete++
		}
	}
	p.doc.Backups = len(there)
	p.presence(f, there)
	if f.make {
		p.create(f)
	}
	newest := func(a, b *look) int { return b.summary.Started.Compare(a.summary.Started) }
	slices.SortStableFunc(p.looks, newest)
	return p
}

// create makes objects of what has none. Ours get their names before others, so that
// they come back as what they were called.
func (p *plan) create(f facts) {
	known, taken := f.known()
	list := slices.Clone(f.listing.Backups)
	slices.SortStableFunc(list, func(a, b node.Summary) int {
		return cmp.Or(b.Started.Compare(a.Started), cmp.Compare(b.Name, a.Name))
	})
	var fresh []node.Summary
	unfit := ""
	for _, s := range list {
		key := at(f.namespace, f.prefix, s.Name)
		other := known[key]
		switch {
		case other != nil && other.Namespace == f.namespace: // it has one
		case other != nil && !twin(other, s):
			p.doc.Elsewhere++
		case other == nil && f.before[key], f.names[s.Name]: // it was deleted meanwhile, or is about to be
		case !fit(f.prefix, s.Name):
			unfit = s.Name
			p.doc.Left++
		default:
			fresh = append(fresh, s)
		}
	}
	if len(fresh) > f.room {
		p.doc.Left += len(fresh) - max(f.room, 0)
		fresh = fresh[:max(f.room, 0)]
		p.doc.Message = fmt.Sprintf("there are too many Backups in the namespace: the oldest of the storage get no object until there are fewer. Delete objects, which keeps the data where deletionPolicy is Keep, or have retention delete backups (%d are left out)", p.doc.Left)
	} else if unfit != "" {
		p.doc.Message = fmt.Sprintf("%d backups get no object, as it cannot name them, such as %q", p.doc.Left, unfit)
	}
	named := map[string]string{}
	for _, ours := range []bool{true, false} {
		for _, s := range fresh {
			if _, is := api.ParseStorageName(s.Name); is != ours {
				continue
			}
			for _, apart := range []bool{false, true} {
				if name := api.ObjectName(f.prefix, s.Name, apart); !taken[name] {
					named[s.Name], taken[name] = name, true
					break
				}
			}
		}
	}
	for _, s := range fresh {
		if name := named[s.Name]; name != "" {
			b := object(f.namespace, name, f.prefix, s.Name)
			if !slices.ContainsFunc(s.Nodes, func(n string) bool { return f.nodes[n] }) {
				// Another cluster of Kubernetes may have the database's other datacenter, and a
				// schedule of the same name. Retention here leaves what has no label.
				delete(b.Labels, api.LabelSchedule)
			}
			p.creates = append(p.creates, creation{s, b})
		}
	}
}

// known are the objects of what is in the storage, that of the own namespace first, and
// the names that are taken in it.
func (f facts) known() (map[where]*api.Backup, map[string]bool) {
	known, taken := map[where]*api.Backup{}, map[string]bool{}
	for _, b := range f.objects {
		key := whereOf(b)
		if known[key] == nil || b.Namespace == f.namespace {
			known[key] = b
		}
		if b.Namespace == f.namespace {
			taken[b.Name] = true
		}
	}
	return known, taken
}

// twin tells whether an object of another namespace, found below the same prefix under
// the same name, is of another backup: the same prefix in another bucket.
func twin(b *api.Backup, s node.Summary) bool {
	return b.Found() && b.Status.Started != nil && !b.Status.Started.Time.Equal(s.Started.Truncate(time.Second))
}
