// Package restore has the controller of Restore objects: what was asked for once
// happens once, and no database starts without it.
//
//	types.go                                             what a Restore is judged by
//	spec, pods, accept, awaited, resolve, plan, racks,
//	topology, budget, describe .go                       whether and how it can be done; pure
//	course.go, begin.go, observe.go, finish.go,
//	cancel.go, say.go                                    the next step, a function of the object and its pods; pure
//	look.go                                              what a pod looks like; pure
//	anna.go, deal.go, replays.go, merge.go               what is different with Anna; pure, but for asking its sidecars
//	step.go, conditions.go                               what a step is made of
//	reconcile.go, gather.go, precheck.go, storage.go,
//	previous.go, cluster.go, run.go                      reading, and doing the step
//	sweep.go                                             pods that wait for a Restore that is not there
//	marks.go, label.go                                   the label on namespaces with Restores under way
//	throttle.go, events.go, metrics.go, restore.go       the rest, Add
//
// The controller may end at any instant: what is written to the object comes before
// the deed that it allows, and the next controller goes on from the object alone.
package restore

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/stategraft/stategraft/api/node"
	api "github.com/stategraft/stategraft/api/v1alpha1"
)

// Nodes asks pods what they know (operations/sidecar).
type Nodes interface {
	Report(ctx context.Context, pod *corev1.Pod) (node.Report, error)
	Backups(ctx context.Context, pod *corev1.Pod, prefix string) (node.Backups, error)
	Backup(ctx context.Context, pod *corev1.Pod, prefix, name string) (node.Backup, error)
}

// Lookuper makes a pod that looks into the storage where no sidecar answers
// (operations/lookup). Pod gives an error as long as it cannot be asked.
type Lookuper interface {
	Pod(ctx context.Context, like *corev1.Pod, owner *api.Restore) (*corev1.Pod, error)
	Remove(ctx context.Context, owner *api.Restore) error
}

// Replayer has nodes of Anna write the keys of a backup again (operations/sidecar).
type Replayer interface {
	Replay(ctx context.Context, pod *corev1.Pod, request node.ReplayRequest) (node.Replay, error)
}

// Options say how to restore.
type Options struct {
	Namespace string // Stategraft's own
	Nodes     Nodes
	Replays   Replayer         // nil for none: then Anna is not merged into, nor replayed once more
	Lookups   Lookuper         // nil for none
	Clock     func() time.Time // nil for time.Now
}

// Add adds the controller to the manager, which runs it on the leader. It waits for
// the CRD, and whatever keeps it from running keeps nothing else from it.
func Add(mgr manager.Manager, o Options) error {
	if o.Namespace == "" || o.Nodes == nil {
		return errors.New("restoring needs to know Stategraft's own namespace, and whom to ask about pods")
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	l := &live{reader: mgr.GetAPIReader(), writer: mgr.GetClient(), namespace: o.Namespace}
	tell := recorder{mgr.GetEventRecorder("stategraft-controller")}
	log := mgr.GetLogger().WithName("restore")
	r := &reconciler{cluster: l, nodes: o.Nodes, replays: o.Replays, lookups: o.Lookups, planner: realPlanner, tell: tell, clock: o.Clock,
		log: log, index: newIndex(), throttle: newThrottle(), checking: make(chan struct{}, checkers)}
	sweeps := &sweeper{cluster: l, candidates: cachedCandidates(mgr.GetCache()), tell: tell, clock: o.Clock, log: log}
	return mgr.Add(&runner{mgr: mgr, reconciler: r, sweeper: sweeps, log: log})
}
