package adopt

import (
	"slices"

	"github.com/stategraft/stategraft/workload"
)

// Reason says in one word why a pod is not adopted now. The set is closed: metrics are
// labelled by it, and docs/adopt.md explains each.
type Reason string

// The reasons of adoption, beside those of workload, which hold for pods that run as they do
// for pods that are created.
const (
	ReasonNotAsked       Reason = "not-asked"        // nobody asks for it, or the pod says never
	ReasonNotRunning     Reason = "not-running"      // its phase is another
	ReasonNotReady       Reason = "not-ready"        // the database has trouble enough
	ReasonBeingDeleted   Reason = "being-deleted"    //
	ReasonRestorePending Reason = "restore-pending"  // it is created anew for that, and injected then
	ReasonOldKubelet     Reason = "old-kubelet"      // its node's is older than ephemeral containers
	ReasonWindows        Reason = "windows"          // its node runs another system than Linux
	ReasonNodePressure   Reason = "node-pressure"    // its node is short of memory, disk or processes
	ReasonNodeNotReady   Reason = "node-not-ready"   // its node's kubelet does not answer, or is not known
	ReasonNoPair         Reason = "no-pair"          // the namespace has no Secret api.SecretGRPC yet
	ReasonWaits          Reason = "waits-for-others" // as many pods as may be are being adopted
	ReasonBackingOff     Reason = "backing-off"      // its containers ended; new ones are added later
	ReasonExhausted      Reason = "exhausted"        // as many containers as may be have been added
	ReasonRefused        Reason = "refused"          // the API server does not take the containers
)

// own are those of this package.
var own = []Reason{
	ReasonNotAsked, ReasonNotRunning, ReasonNotReady, ReasonBeingDeleted, ReasonRestorePending, ReasonOldKubelet, ReasonWindows,
	ReasonNodePressure, ReasonNodeNotReady, ReasonNoPair, ReasonWaits, ReasonBackingOff, ReasonExhausted, ReasonRefused,
}

// Reasons lists the closed set: those of workload, then those of this package.
var Reasons = func() (all []Reason) {
	for _, r := range workload.Reasons {
		all = append(all, Reason(r))
	}
	return append(all, own...)
}()

// Wanted tells whether the pod's owner would want to know of the reason, as something that
// does not go away by itself.
func (r Reason) Wanted() bool {
	switch r {
	case ReasonOldKubelet, ReasonWindows, ReasonNodePressure, ReasonExhausted, ReasonRefused:
		return true
	}
	return !slices.Contains(own, r) && workload.Reason(r).Wanted()
}
