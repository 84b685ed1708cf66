// Package catalogue has the controller that looks what the storage holds: for each
// backup there is a Backup object, also after the loss of all objects, and of what has
// gone from the storage its object says so.
//
//	plan.go, presence.go, names.go  what a listing means for the objects; pure
//	fill.go                         the status of a backup that was found; pure
//	document.go                     what the ConfigMap of a namespace says
//	find.go, pods.go                the clusters of a namespace, and whom to ask about them
//	listing.go                      listings, and who else may have them
//	sync.go, look.go, effects.go    one round of a namespace: asking, and writing
//	memory.go                       what is remembered from one round to the next
//	run.go, metrics.go              the rest
//
// An object is made when its backup was looked into, with a status that says what is
// in it; where the controller ends between the two, the next round fills it. A Backup is
// deleted nowhere here.
package catalogue

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stategraft/stategraft/api/node"
	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/objects"
)

// Nodes asks pods what they know (operations/sidecar).
type Nodes interface {
	Report(ctx context.Context, pod *corev1.Pod) (node.Report, error)
	Backups(ctx context.Context, pod *corev1.Pod, prefix string) (node.Backups, error)
	Backup(ctx context.Context, pod *corev1.Pod, prefix, name string) (node.Backup, error)
}

// What counts where Options say nothing.
const (
	// DefaultEvery is how often the storage of each cluster is listed.
	DefaultEvery = 10 * time.Minute
	// DefaultMost is how many Backups there are made to be in a namespace.
	DefaultMost = 2000
)

// Options say how to look.
type Options struct {
	Namespace string // Stategraft's own
	Nodes     Nodes
	Every     time.Duration    // 0 for DefaultEvery
	Most      int              // 0 for DefaultMost
	Clock     func() time.Time // nil for time.Now
	// Catalogue is the one that others ask too (New); nil for one of its own.
	Catalogue *Catalogue
}

// Catalogue knows what the storage of each cluster holds. It may be used by several
// goroutines at once.
type Catalogue struct {
	own   string
	nodes Nodes
	every time.Duration
	most  int
	now   func() time.Time
	log   logr.Logger

	world atomic.Pointer[world] // nil until it runs

	mutex    sync.Mutex
	listings map[types.NamespacedName]*listings // by namespace and prefix
	full     map[types.UID]*corev1.Pod          // that answer
	memory   map[string]*memory                 // by namespace
	gone     map[where]time.Time                // data that were deleted for an object, and when that had gone
	making   map[where]making
	broken   map[where]time.Time // what could not be looked into, and when
}

// world is what the cluster is read and written by.
type world struct {
	backups    client.Reader // an informer's
	configMaps client.Reader // an informer's
	namespaces client.Reader // an informer's, of metadata
	slim       client.Reader // an informer's, of injected pods
	live       client.Reader
	writer     client.Client
	tell       func(b *api.Backup, reason, note string) // a warning
}

// New makes a Catalogue, which knows nothing before it was added and runs.
func New(o Options) (*Catalogue, error) {
	if o.Namespace == "" || o.Nodes == nil {
		return nil, errors.New("the catalogue of backups needs to know Stategraft's own namespace, and whom to ask about the storage")
	}
	c := &Catalogue{own: o.Namespace, nodes: o.Nodes, every: o.Every, most: o.Most, now: o.Clock, log: logr.Discard(),
		listings: map[types.NamespacedName]*listings{}, full: map[types.UID]*corev1.Pod{}, memory: map[string]*memory{},
		gone: map[where]time.Time{}, making: map[where]making{}, broken: map[where]time.Time{}}
	if c.every == 0 {
		c.every = DefaultEvery
	}
	if c.most == 0 {
		c.most = DefaultMost
	}
	if c.now == nil {
		c.now = time.Now
	}
	return c, nil
}

// Add adds the controller to the Group.
func Add(g *objects.Group, o Options) error {
	c := o.Catalogue
	if c == nil {
		var err error
		if c, err = New(o); err != nil {
			return err
		}
	}
	c.log = g.Manager.GetLogger().WithName("catalogue")
	g.Add(func(ctx context.Context, cached cache.Cache) ([]objects.Runner, error) {
		return c.runners(ctx, g.Manager, cached)
	})
	return nil
}
