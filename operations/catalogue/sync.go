package catalogue

import (
	"context"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/scope"
	"github.com/stategraft/stategraft/workload"
)

const (
	soon      = time.Second // where a round has left something
	afterFail = time.Minute
	// clustersAtOnce is how many clusters of a namespace are looked at at a time.
	clustersAtOnce = 4
	mostText       = 600
	// mostStrange is how many prefixes are listed that only objects tell of.
	mostStrange = 20
)

// looked is a cluster in a round.
type looked struct {
	cluster
	listing Listing
	pod     string
	make    bool // objects of what is found; else only objects that are there are filled
	plan    plan
	moved   bool // something of what there was to do is done
}

// Reconcile does a round of a namespace: it looks what the storage of each of its
// clusters holds, and says so in objects and in the ConfigMap.
func (c *Catalogue) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	namespace := request.Name
	about := &metav1.PartialObjectMetadata{}
	about.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	err := c.world.Load().namespaces.Get(ctx, client.ObjectKey{Name: namespace}, about)
	if client.IgnoreNotFound(err) != nil {
		return reconcile.Result{}, fmt.Errorf("reading namespace %s: %w", namespace, err)
	}
	if err != nil || !scope.Asks(about, c.own) || about.DeletionTimestamp != nil {
		c.leave(namespace)
		unmeasure(namespace)
		return reconcile.Result{}, nil
	}
	return c.round(ctx, namespace)
}

func (c *Catalogue) round(ctx context.Context, namespace string) (reconcile.Result, error) {
	// What is asked for from now on is answered by the next round.
	asked, err := c.configMap(ctx, namespace)
	if err != nil {
		return reconcile.Result{}, err
	}
	m := c.remember(namespace)
	found, troubles, err := c.find(ctx, namespace)
	if err != nil {
		return reconcile.Result{}, err
	}
	groups, err := c.groups(ctx, namespace)
	if err != nil {
		return reconcile.Result{}, err
	}
	c.know(m, groups)
	prefixes := prefixesOfAll(found)
	objects, err := c.read(ctx, namespace, prefixes)
	if err != nil {
		return reconcile.Result{}, err
	}
	before := c.keys(objects)
	clusters := with(found, objects, namespace)
	c.listAll(ctx, namespace, clusters)
	if objects, err = c.read(ctx, namespace, prefixes); err != nil {
		return reconcile.Result{}, err
	}
	names, err := c.podNames(ctx, namespace)
	if err != nil {
		return reconcile.Result{}, err
	}
	c.plan(m, namespace, clusters, objects, before, names)
	c.actAll(ctx, namespace, clusters)
	if ctx.Err() != nil {
		return reconcile.Result{}, fmt.Errorf("looking at the storage of namespace %s: %w", namespace, context.Cause(ctx))
	}
	documents := documentsOf(clusters, troubles)
	measure(namespace, documents)
	if err := c.publish(ctx, namespace, m, asked, documents); err != nil {
		// Not at once: the storage would be listed each time.
		c.log.Error(err, "what the storage holds is not told", "namespace", namespace)
		return reconcile.Result{RequeueAfter: afterFail}, nil
	}
	return reconcile.Result{RequeueAfter: c.next(namespace, m, clusters, troubles)}, nil
}

func prefixesOfAll(found []cluster) []string {
	var prefixes []string
	for _, each := range found {
		prefixes = append(prefixes, each.prefix)
	}
	return prefixes
}

// with are the clusters, and prefixes that no pod has, but objects that are not looked
// into yet: what another cluster has left in the same bucket.
func with(found []cluster, objects []*api.Backup, namespace string) []*looked {
	var all []*looked
	known := map[string]bool{}
	var pods []*corev1.Pod
	for _, each := range found {
		all = append(all, &looked{cluster: each, make: true})
		known[each.prefix], pods = true, append(pods, each.pods...)
	}
	strange := map[string]bool{}
	for _, b := range objects {
		if b.Namespace == namespace && b.Found() && b.DeletionTimestamp == nil && b.Status.Phase == "" && !known[b.Spec.Existing.Prefix] {
			strange[b.Spec.Existing.Prefix] = true
		}
	}
	for _, prefix := range slices.Sorted(maps.Keys(strange)) {
		if len(pods) > 0 && len(all)-len(found) < mostStrange {
			all = append(all, &looked{cluster: cluster{prefix: prefix, pods: pods}})
		}
	}
	return all
}

func each(clusters []*looked, do func(*looked)) {
	turn := make(chan struct{}, clustersAtOnce)
	var all sync.WaitGroup
	for _, one := range clusters {
		all.Go(func() {
			turn <- struct{}{}
			defer func() { <-turn }()
			do(one)
		})
	}
	all.Wait()
}

func (c *Catalogue) listAll(ctx context.Context, namespace string, clusters []*looked) {
	each(clusters, func(l *looked) {
		l.listing, l.pod = c.listed(ctx, namespace, l.prefix, c.now(), func() ([]*corev1.Pod, string) { return l.pods, "" })
	})
}

// plan judges one cluster after another: what one takes of the room the next has not.
func (c *Catalogue) plan(m *memory, namespace string, clusters []*looked, objects []*api.Backup, before map[where]bool, podNames []string) {
	room, names := c.most, map[string]bool{}
	for _, b := range objects {
		if b.Namespace == namespace {
			room--
		}
		if !b.Found() && b.Status.Name == "" {
			names[b.StorageName()] = true
		}
	}
	for key := range c.keys(nil) { // made and deleted while the storage was listed
		before[key] = true
	}
	absent := map[string]map[types.UID]time.Time{}
	for _, l := range clusters {
		nodes := map[string]bool{}
		for _, name := range slices.Concat(podNames, l.nodes) {
			nodes[name] = true
		}
		l.plan = planOf(facts{namespace: namespace, prefix: l.prefix, nodes: nodes, listing: l.listing, objects: objects, before: before, names: names,
			absent: m.absent[l.prefix], room: room, make: l.make, now: c.now()})
		if l.plan.doc.Pod = l.pod; l.listing.Failed == "" {
			m.listed[l.prefix] = l.listing.Listed
		}
		l.plan.doc.Listed = m.listed[l.prefix]
		room -= len(l.plan.creates)
		absent[l.prefix] = l.plan.absent
	}
	m.absent = absent
}

func (c *Catalogue) actAll(ctx context.Context, namespace string, clusters []*looked) {
	each(clusters, func(l *looked) { c.act(ctx, namespace, l) })
}

func documentsOf(clusters []*looked, troubles []Document) []Document {
	var all []Document
	for _, l := range clusters {
		all = append(all, l.plan.doc)
	}
	all = append(all, troubles...)
	if len(all) == 0 {
		all = append(all, Document{Message: "no pod of a database runs in the namespace that has a sidecar: the storage is looked at through one. Start one that has the bucket of the backups in its medusa.ini"})
	}
	for i := range all {
		all[i].Failed, all[i].Message = workload.Clip(all[i].Failed, mostText), workload.Clip(all[i].Message, mostText)
	}
	return all
}

// next is when the namespace is looked at again. Not all at the same time.
func (c *Catalogue) next(namespace string, m *memory, clusters []*looked, troubles []Document) time.Duration {
	hash := fnv.New32a()
	hash.Write([]byte(namespace))
	wait := c.every + time.Duration(hash.Sum32()%1000)*c.every/10000
	for _, l := range clusters {
		switch d := &l.plan.doc; {
		case d.Pending > 0 && d.Failed == "" && l.moved:
			return soon
		case d.Pending > 0, l.listing.Failed != "":
			wait = min(wait, afterFail)
		}
	}
	// A workload may be broken for long, and each round lists the storage of all.
	if len(troubles) == 0 {
		m.troubled = 0
	} else {
		wait = min(wait, afterFail<<m.troubled)
		m.troubled = min(m.troubled+1, 4)
	}
	for _, absent := range m.absent {
		if len(absent) > 0 {
			wait = min(wait, apart+5*time.Second)
		}
	}
	return wait
}

// passing tells whether an error of a write goes away by itself: somebody else was
// quicker, or the namespace is being removed.
func passing(err error) bool {
	return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err) || apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause)
}
