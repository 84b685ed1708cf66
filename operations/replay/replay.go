// Package replay lets a restored node of Anna be Ready when its keys are written again.
// Such a pod has a readiness gate (patches/), which nobody else sets: the pod itself has
// no access to the API server.
//
//	judge.go   what the condition is to be; pure
//	run.go     which pods are looked at, and how often
//	write.go   the condition and its event
//	replay.go  Add
package replay

import (
	"context"
	"errors"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/stategraft/stategraft/api/node"
)

// Nodes asks pods what they know (operations/sidecar).
type Nodes interface {
	Report(ctx context.Context, pod *corev1.Pod) (node.Report, error)
}

// Options say how pods are followed.
type Options struct {
	Nodes Nodes
	Every time.Duration    // between two looks; 0 for DefaultEvery
	Clock func() time.Time // nil for time.Now
}

// DefaultEvery is how soon after its keys are written a pod is Ready, at the most.
const DefaultEvery = 5 * time.Second

// Add adds it to a manager whose cache has the injected pods as heal.ByObject restricts it.
func Add(mgr manager.Manager, o Options) error {
	if o.Nodes == nil {
		return errors.New("following replays needs to know whom to ask about pods")
	}
	if o.Every <= 0 {
		o.Every = DefaultEvery
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	return mgr.Add(&runner{
		cached: mgr.GetCache(), live: mgr.GetAPIReader(), writer: mgr.GetClient(), events: mgr.GetEventRecorder("stategraft-controller"),
		nodes: o.Nodes, every: o.Every, clock: o.Clock, log: mgr.GetLogger().WithName("replay"), without: map[types.UID]bool{},
	})
}

// runner looks at pods on the leader.
type runner struct {
	cached client.Reader // injected pods, without much of them
	live   client.Reader
	writer client.StatusClient
	events events.EventRecorder
	nodes  Nodes
	every  time.Duration
	clock  func() time.Time
	log    logr.Logger

	// without are pods that have no such gate: it is settled when a pod is made.
	without map[types.UID]bool
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (*runner) NeedLeaderElection() bool { return true }
