// Package backup has the controller of Backup objects: it has pods backed up, looks
// whether the storage has what they say, and deletes the data of a Backup that goes.
//
//	facts.go, pods.go, accept.go       whether and of which pods; pure
//	course.go, observe.go, turn.go,
//	finish.go                          the next step, a function of the object and of what its pods tell; pure
//	delete.go                          what becomes of one that is deleted; pure
//	step.go, conditions.go, text.go    what a step is made of
//	reconcile.go, gather.go, ask.go,
//	check.go, deeds.go, remove.go      reading and asking, and doing the step
//	notes.go, cluster.go, sidecars.go  what is kept in memory, the API server, the pods
//	events.go, metrics.go, add.go      the rest
//
// The controller may end at any instant: what is written to the object comes before
// the deed that it allows, and the next controller goes on from the object alone.
package backup

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stategraft/stategraft/api/node"
	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/claims"
	"github.com/stategraft/stategraft/operations/sidecar"
)

// Sidecars asks pods (operations/sidecar).
type Sidecars interface {
	Report(ctx context.Context, pod *corev1.Pod) (node.Report, error)
	// Backup is what the storage holds of a backup, by way of a pod.
	Backup(ctx context.Context, pod *corev1.Pod, prefix, name string) (node.Backup, error)
	// Discard removes the pod's own part of a backup that is not complete, or holds
	// nothing. One that is not there is discarded.
	Discard(ctx context.Context, pod *corev1.Pod, prefix, name string) error
	Medusa(ctx context.Context, pod *corev1.Pod) (*sidecar.Medusa, error)
}

// Remover deletes the data of a backup by way of the cluster's pods, and looks whether
// they are gone (operations/removal).
type Remover interface {
	Remove(ctx context.Context, b *api.Backup, pods []corev1.Pod) error
}

// Turns are whose turn it is at the storage of a cluster (operations/claims). Take
// gives an error as long as it is another's; to take what one has is fine.
type Turns interface {
	Take(ctx context.Context, of claims.Cluster, kind claims.Kind, who types.NamespacedName, uid types.UID) error
	Release(of claims.Cluster, uid types.UID)
}

// Options say how to back up.
type Options struct {
	Namespace string // Stategraft's own
	Sidecars  Sidecars
	// Turns are made anew with the informers of the Group.
	Turns   func(cached client.Reader) Turns
	Remover Remover
	// AbsentLimit is how long a pod that is not there is waited for once all others are
	// done; 0 for ten minutes.
	AbsentLimit time.Duration
	// Conversations is how many pods are asked at a time; 0 for 64.
	Conversations int
	Clock         func() time.Time // nil for time.Now
}

// The defaults of Options.
const (
	defaultAbsentLimit   = 10 * time.Minute
	defaultConversations = 64
)
