package workload

// Verdict says what is to happen with a pod.
type Verdict string

// The three verdicts. Refuse is for a pod that asked for a restore which it
// cannot be given; nothing else is ever refused.
const (
	Inject Verdict = "inject"
	Skip   Verdict = "skip"
	Refuse Verdict = "refuse"
)

// Reason says in one word why a pod is not injected. The set is closed: metrics
// are labelled by it, docs/reasons.md explains each, and a test compares the two.
type Reason string

// The reasons, in the order in which they are looked for.
const (
	ReasonMirrorPod            Reason = "mirror-pod"
	ReasonNamespaceNotLabelled Reason = "namespace-not-labelled"
	ReasonOptedOut             Reason = "opted-out"
	ReasonUnsupportedOS        Reason = "unsupported-os"
	ReasonJobOwned             Reason = "job-owned"
	ReasonNotADatabase         Reason = "not-a-database"
	ReasonAmbiguousContainer   Reason = "ambiguous-container"
	ReasonAlreadyHasBackup     Reason = "already-has-backup"
	ReasonRunsToCompletion     Reason = "runs-to-completion"
	ReasonDataNotOnVolume      Reason = "data-not-on-volume"
	ReasonNoStableIdentity     Reason = "no-stable-identity"
	ReasonUnsupportedUID       Reason = "unsupported-uid"
	ReasonNothingToRestore     Reason = "nothing-to-restore"
	ReasonCannotRestore        Reason = "cannot-restore"
	ReasonBadAnnotation        Reason = "bad-annotation"
	ReasonPortConflict         Reason = "port-conflict"
	ReasonNameConflict         Reason = "name-conflict"
	ReasonQuotaExceeded        Reason = "quota-exceeded"
	ReasonHeldBack             Reason = "held-back"
	ReasonNoData               Reason = "no-data"  // adoption alone: a pod that keeps no data
	ReasonSubPath              Reason = "sub-path" // adoption alone: Kubernetes forbids such mounts there
	ReasonAlreadyInjected      Reason = "already-injected"
	ReasonUnreadablePod        Reason = "unreadable-pod"
	ReasonNotAPodCreation      Reason = "not-a-pod-creation"
	ReasonInternalError        Reason = "internal-error"
)

// Reasons lists the closed set.
var Reasons = []Reason{
	ReasonMirrorPod, ReasonNamespaceNotLabelled, ReasonOptedOut, ReasonUnsupportedOS, ReasonJobOwned,
	ReasonNotADatabase, ReasonAmbiguousContainer, ReasonAlreadyHasBackup, ReasonRunsToCompletion,
	ReasonDataNotOnVolume, ReasonNoStableIdentity, ReasonUnsupportedUID, ReasonNothingToRestore,
	ReasonCannotRestore, ReasonBadAnnotation, ReasonPortConflict, ReasonNameConflict, ReasonQuotaExceeded, ReasonHeldBack,
	ReasonNoData, ReasonSubPath, ReasonAlreadyInjected, ReasonUnreadablePod, ReasonNotAPodCreation, ReasonInternalError,
}

// Decision is what recognition makes of a pod: the one value that the webhook,
// the command line, metrics, warnings, audit annotations and events share.
//
//	verdict | reason  | workload
//	inject  | empty   | whole
//	skip    | one     | as far as known; empty Kind where the pod is no database
//	refuse  | one     | as for skip; only for a pod that asks for a restore
type Decision struct {
	Verdict  Verdict
	Reason   Reason
	Message  string // a sentence for people: what was seen, and what would settle it
	Workload Workload
	Warnings []string
}

func skip(reason Reason, message string) Decision {
	return Decision{Verdict: Skip, Reason: reason, Message: message}
}

// Wanted tells whether a pod that is skipped for the reason is one that its
// owner would want to know of: it looks like a database and goes without backup.
func (r Reason) Wanted() bool {
	switch r {
	case ReasonAmbiguousContainer, ReasonDataNotOnVolume, ReasonNoStableIdentity, ReasonUnsupportedUID,
		ReasonUnsupportedOS, ReasonBadAnnotation, ReasonPortConflict, ReasonNameConflict, ReasonQuotaExceeded,
		ReasonHeldBack, ReasonSubPath, ReasonNothingToRestore, ReasonCannotRestore, ReasonUnreadablePod, ReasonInternalError:
		return true
	}
	return false
}
