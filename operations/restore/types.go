package restore

import (
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"

	"github.com/stategraft/stategraft/api/node"
	api "github.com/stategraft/stategraft/api/v1alpha1"
)

// Facts are what a Restore is judged by, gathered by the reconciler: what the API
// server has, and what the pods and the storage have told. Nothing here reads a
// clock or asks anybody.
type Facts struct {
	Restore  *api.Restore
	Labelled bool // the namespace has stategraft.io/inject: enabled

	Pods    []*corev1.Pod // named or selected
	Kin     []*corev1.Pod // all pods of their owners, Pods included
	Missing []string      // named, and not there
	// Awaited would be selected, and are not there yet: their StatefulSets are to have
	// them. Settled without them, a workload would be restored in part, and its other
	// nodes come up beside it without data.
	Awaited []string
	// Added are nodes of Anna that were not asked for, and belong to the cluster; Late are
	// those that have come since the pods were settled.
	Added []string
	Late  []*corev1.Pod
	// Sets are the StatefulSets that own Pods, by name, others perhaps among them; of
	// owners of other kinds nothing is known.
	Sets map[string]*appsv1.StatefulSet

	Others []api.Restore // of the namespace; Restore itself may be among them

	Reports map[string]node.Report // by pod
	Silent  map[string]error       // by pod: why there is no report

	Backups *node.Backups // below the prefix of the source
	Backup  *node.Backup  // the one that was resolved; nil for an undo

	Budgets []policyv1.PodDisruptionBudget // of the namespace
	Earlier *api.Restore                   // the one to undo; nil where there is none
	Now     time.Time
}

// Problem is why a Restore cannot go on.
type Problem struct {
	Reason  string // as of a condition
	Message string // names the thing and the remedy
	Wait    bool   // it may pass by itself
}

// Error makes a Problem an error, for logs and wrapping.
func (p *Problem) Error() string { return p.Reason + ": " + p.Message }
