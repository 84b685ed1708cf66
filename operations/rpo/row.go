package rpo

import (
	"cmp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/workload"
)

// Input is what Rows goes by. Nothing of it is changed.
type Input struct {
	Pods []Pod
	// Namespaces are the annotations of namespaces, by their name.
	Namespaces map[string]map[string]string
	Backups    []api.Backup
	Schedules  []api.BackupSchedule
	// Selected are the names of the pods that the selector of a schedule selects, for
	// pods that come without their labels; nil where all have them.
	Selected map[types.NamespacedName][]string
	Now      time.Time
}

// Reason is why a pod is behind, or could not be otherwise, in a word.
type Reason string

// The reasons, a closed set. A row that is Behind has one of the first three.
const (
	ReasonTooOld    Reason = "TooOld"    // the last complete backup is older than the RPO
	ReasonNoBackup  Reason = "NoBackup"  // there is none, for longer than the RPO
	ReasonNoSidecar Reason = "NoSidecar" // which goes before the other two
	ReasonAwaited   Reason = "Awaited"   // there is none yet, nor ought there to be
	ReasonNoRPO     Reason = "NoRPO"     // it may be however old
	ReasonWithin    Reason = "WithinRPO"
)

// Row is a pod that ought to be backed up, and how that stands.
type Row struct {
	Namespace, Pod string
	// Workload is the name of what controls the pod, WorkloadKind its kind; the pod
	// itself where nothing does.
	Workload, WorkloadKind string
	Owner                  Owner
	Kind                   workload.Kind // of its database
	Sidecar                Sidecar
	SidecarReason          string // why it is missing or degraded, in a word

	// Last is the newest complete Backup that the pod is in, nil where there is none;
	// LastStarted when its part was begun, by which its age counts: what was written
	// later is not in it. LastFinished and Bytes are of the pod's part.
	Last                      *api.Backup
	LastStarted, LastFinished time.Time
	Bytes                     int64
	// Age is that of Last; 0 where there is none.
	Age time.Duration

	// Schedules are those that back the pod up; Next when the first of them is due
	// next, zero where that is not known.
	Schedules []string
	Next      time.Time

	// Verified is when the pod's data were last restored on trial, nil for never;
	// VerifiedResult what came of it: it may be that of a trial that goes on.
	Verified       *time.Time
	VerifiedResult api.VerificationResult

	// RPO is how old the last complete backup may be, 0 for whatever; RPOFrom says
	// where that comes from; RPOBad names annotations that cannot be read.
	RPO     time.Duration
	RPOFrom string
	RPOBad  []BadRPO
	// Behind says that it is older, or was never made in so long.
	Behind bool
	Reason Reason
	Why    string // in a sentence; empty where all is well
}

// BadRPO is an annotation api.AnnotationRPO that cannot be read: on the pod, or on its
// namespace.
type BadRPO struct {
	OfNamespace bool
	Value       string
}

// Rows says of each pod how its backups stand, in the order of namespaces, workloads
// and pods. It is pure: the controller and the command line tell the same.
//
// A backup counts where its phase is Complete, as with a part that is missing a cluster
// cannot be restored from it. The age is reckoned from the beginning of the pod's part.
func Rows(in Input) []Row {
	parts := partsOf(in.Backups, in.Now)
	covers := newCovers(in)
	rows := make([]Row, 0, len(in.Pods))
	for i := range in.Pods {
		rows = append(rows, rowOf(in, &in.Pods[i], parts, covers))
	}
	slices.SortFunc(rows, func(a, b Row) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Workload, b.Workload), cmp.Compare(a.WorkloadKind, b.WorkloadKind),
			cmp.Compare(len(a.Pod), len(b.Pod)), cmp.Compare(a.Pod, b.Pod)) // db-2 before db-10
	})
	return rows
}

func rowOf(in Input, pod *Pod, parts map[types.NamespacedName]*history, covers *covers) Row {
	row := Row{Namespace: pod.Namespace, Pod: pod.Name, Workload: pod.Owner.Name, WorkloadKind: pod.Owner.Kind, Owner: pod.Owner,
		Kind: pod.Kind, Sidecar: pod.Sidecar, SidecarReason: pod.Reason}
	h := parts[types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}]
	if h == nil {
		h = &history{}
	}
	last := h.last()
	if last.backup != nil {
		row.Last, row.LastStarted, row.LastFinished, row.Bytes = last.backup, last.started, last.finished, last.pod.Bytes
		row.Age = max(in.Now.Sub(last.started), 0)
	}
	row.Verified, row.VerifiedResult = h.verified()
	of := covers.of(pod)
	for _, s := range of {
		row.Schedules = append(row.Schedules, s.Name)
		if next := s.Status.Next; next != nil && !s.Spec.Suspend && (row.Next.IsZero() || next.Time.Before(row.Next)) {
			row.Next = next.Time
		}
	}
	limit := limitOf(in, pod, of, covers)
	row.RPO, row.RPOFrom, row.RPOBad = limit.rpo, limit.from, limit.bad
	judge(&row, in.Now, pod, h, limit)
	return row
}
