// Package adopt gives pods that ran before they could be injected their containers while they
// run, as ephemeral ones (annotation stategraft.io/adopt: running). Nothing of the database is
// started anew.
//
//	judge.go, reason.go                  whether a pod can be adopted now
//	plan.go, rounds.go, trouble.go       what is to be done next with one pod
//	slots.go                             how many are adopted at once
//	adopt.go                             Options, Add
//	pass.go, candidate.go                one look at all pods
//	add.go, label.go, tell.go, bad.go    what is done
//	failed.go                            and what if it cannot be
//	memory.go, lookups.go                what is kept in between
//	watch.go, slim.go                    which pods are watched, and how little of them is kept
//	server.go                            what the API server is asked for and told
//
// The first three lines are pure. All that decisions rest on is on the pods, so that whoever
// leads next decides alike: containers say when they were added and by what
// (patches/adoptnames.go), and their statuses what became of them.
//
// Pods are watched in the namespaces alone in which somebody asks for adoption. Where nobody
// does, no request is made but for one list of pods, as metadata, when this process begins to
// lead. Beside the watches there are at most ten requests a second.
package adopt

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/adopted"
	"github.com/stategraft/stategraft/operations/coverage"
	"github.com/stategraft/stategraft/webhook"
)

// Options say by what pods are judged, and how many are adopted at a time.
type Options struct {
	// Namespace is that of Stategraft, which is left alone.
	Namespace string
	// Config is the webhook's configuration; nil for the defaults.
	Config func() *webhook.Config
	// NativeSidecars tells whether the cluster has them; nil for yes.
	NativeSidecars func() bool
	// HeldBack finds the workloads that are held back; nil for none.
	HeldBack func(namespace, kind, name string) (api.HeldBack, bool)
	// Uncovered finds the pods that have no sidecar, of which some may ask by themselves; nil
	// for coverage.FindUncovered.
	Uncovered func() []coverage.Uncovered
	// Pair tells what api.SecretGRPC of a namespace holds, as a digest, empty where there is
	// none; nil for reading it from the API server now and then.
	Pair func(ctx context.Context, namespace string) (string, error)

	PerNode int // pods of a node that are being adopted; 0 for DefaultPerNode
	InAll   int // pods that are being adopted; 0 for DefaultInAll
	PerDay  int // times that containers are added to a pod within a day; 0 for DefaultPerDay

	Backoff  []time.Duration  // nil for DefaultBackoff
	Patience time.Duration    // how long a pod counts as being adopted; 0 for DefaultPatience
	Every    time.Duration    // how often all is looked at; 0 for DefaultEvery
	Clock    func() time.Time // nil for time.Now
}

const (
	// DefaultPatience is how long a pod whose containers do not come up keeps others on its
	// node and elsewhere, but for those of its own workload, from being adopted.
	DefaultPatience = 10 * time.Minute
	// DefaultEvery is how often the pods are looked at where nothing happens.
	DefaultEvery = 10 * time.Second
)

// defaults fills in what is left open, and says what cannot be.
func (o *Options) defaults() error {
	if o.Namespace == "" {
		return errors.New("adopting pods needs to know Stategraft's own namespace")
	}
	if o.PerNode < 0 || o.InAll < 0 || o.PerDay < 0 {
		return errors.New("how many pods are adopted at once, and how often within a day, takes 1 or more")
	}
	if o.Config == nil {
		defaults := webhook.DefaultConfig()
		o.Config = func() *webhook.Config { return defaults }
	}
	if o.NativeSidecars == nil {
		o.NativeSidecars = func() bool { return true }
	}
	if o.Uncovered == nil {
		o.Uncovered = coverage.FindUncovered
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	o.PerNode, o.InAll, o.PerDay = cmp.Or(o.PerNode, DefaultPerNode), cmp.Or(o.InAll, DefaultInAll), cmp.Or(o.PerDay, DefaultPerDay)
	o.Patience, o.Every = cmp.Or(o.Patience, DefaultPatience), cmp.Or(o.Every, DefaultEvery)
	return nil
}

// Add adds the controller to the manager, which runs it on the leader. The manager's cache has
// to have the injected pods, as heal.ByObject restricts them.
func Add(mgr manager.Manager, o Options) error {
	if err := o.defaults(); err != nil {
		return err
	}
	config := rest.CopyConfig(mgr.GetConfig())
	config.QPS, config.Burst, config.RateLimiter = requestsPerSecond, requestsAtOnce, nil
	core, err := corev1client.NewForConfigAndClient(config, mgr.GetHTTPClient())
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	s := &apiServer{core: core, read: mgr.GetAPIReader()}
	if o.Pair == nil {
		o.Pair = s.pair
	}
	c := &controller{Options: o, namespaces: mgr.GetCache(), server: s, events: mgr.GetEventRecorder("stategraft-controller"), decide: webhook.Adopt}
	c.begin()
	c.source = &watches{client: core, changed: c.kick, running: map[string]*watched{}}
	if err := c.listen(mgr.GetCache()); err != nil {
		return err
	}
	if err := mgr.Add(c); err != nil {
		return fmt.Errorf("adding to the manager: %w", err)
	}
	return nil
}

// begin has the controller know nothing.
func (c *controller) begin() {
	c.bad = bad{}
	c.changed, c.memories, c.nodes, c.pairs, c.alike = make(chan struct{}, 1), memories{}, nodes{}, pairs{}, templates{}
}

// listen has the manager's informers tell of namespaces, whose annotations may ask for
// adoption, and of pods that were adopted.
func (c *controller) listen(from cache.Cache) error {
	meta := &metav1.PartialObjectMetadata{}
	meta.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	namespaces, err := from.GetInformer(context.Background(), meta, cache.BlockUntilSynced(false))
	if err != nil {
		return fmt.Errorf("watching namespaces: %w", err)
	}
	if _, err := namespaces.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { c.kick() }, UpdateFunc: func(before, after any) {
			was, ok := before.(client.Object)
			is, too := after.(client.Object)
			if !ok || !too || was.GetResourceVersion() != is.GetResourceVersion() {
				c.kick()
			}
		},
	}); err != nil {
		return fmt.Errorf("watching namespaces: %w", err)
	}
	injected, err := from.GetInformer(context.Background(), &corev1.Pod{}, cache.BlockUntilSynced(false))
	if err != nil {
		return fmt.Errorf("watching injected pods: %w", err)
	}
	remember := func(object any) {
		if pod, ok := object.(*corev1.Pod); ok && adopted.Is(pod) {
			c.single.add(pod.Namespace)
		}
	}
	if _, err := injected.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: remember, UpdateFunc: func(_, after any) { remember(after) },
	}); err != nil {
		return fmt.Errorf("watching injected pods: %w", err)
	}
	return nil
}
