package rpo

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/workload"
)

// limit is how old the last complete backup of a pod may be.
type limit struct {
	rpo  time.Duration
	from string // in words
	bad  []BadRPO
	// since is from when on it could be kept to: that of a schedule not before it was made.
	since     time.Time
	annotated bool
	suspended string // the schedule that it is of, where that is suspended
}

// gapsAllowed is how many of its longest gaps a schedule may be behind where no
// annotation says how many: a run that failed is made up for by the next.
const gapsAllowed = 2

// limitOf finds the RPO of a pod: its own annotation, its namespace's, or what follows
// from the tightest of its schedules. One that is suspended counts: that it was
// forgotten is just what is to be told.
func limitOf(in Input, pod *Pod, schedules []*api.BackupSchedule, c *covers) (l limit) {
	if pod.HasRPO {
		if rpo, err := api.ParseRPO(pod.RPO); err == nil {
			return limit{rpo: rpo, from: "the pod", annotated: true}
		}
		l.bad = append(l.bad, BadRPO{Value: pod.RPO})
	}
	if text, ok := in.Namespaces[pod.Namespace][api.AnnotationRPO]; ok {
		if rpo, err := api.ParseRPO(text); err == nil {
			return limit{rpo: rpo, from: "the namespace", bad: l.bad, annotated: true}
		}
		l.bad = append(l.bad, BadRPO{OfNamespace: true, Value: text})
	}
	for _, s := range schedules {
		rpo := gapsAllowed * c.gap(s)
		if rpo <= 0 || l.rpo > 0 && rpo >= l.rpo {
			continue
		}
		l.rpo, l.from, l.since, l.suspended = rpo, "the BackupSchedule "+s.Name, s.CreationTimestamp.Time, ""
		if s.Spec.Suspend {
			l.suspended = s.Name
		}
	}
	return l
}

// judge says whether a pod is behind, and why.
func judge(row *Row, now time.Time, pod *Pod, h *history, l limit) {
	since := latest(row.LastStarted, l.since)
	if row.Last == nil {
		since = latest(earliest(pod.Created, h.since), l.since)
	}
	row.Behind = l.rpo > 0 && now.Sub(since) > l.rpo
	switch {
	case pod.Sidecar == SidecarMissing:
		row.Reason, row.Why = ReasonNoSidecar, "it has no sidecar ("+pod.Reason+"), so it is not backed up"
	case row.Behind && row.Last == nil:
		row.Reason, row.Why = ReasonNoBackup, fmt.Sprintf("it has had no complete backup for %s, and %s asks for one in %s", short(now.Sub(since)), l.from, short(l.rpo))
	case row.Behind:
		row.Reason, row.Why = ReasonTooOld, fmt.Sprintf("its last complete backup, %s, is %s old, and %s allows %s", row.Last.Name, short(row.Age), l.from, short(l.rpo))
	case row.Last == nil && l.rpo == 0 && len(row.Schedules) == 0:
		row.Reason, row.Why = ReasonNoRPO, "no BackupSchedule backs it up; annotate its namespace with "+api.AnnotationBackupSchedule+", or make one"
	case row.Last == nil:
		row.Reason, row.Why = ReasonAwaited, "its first backup is awaited"
	case l.rpo == 0:
		row.Reason = ReasonNoRPO
	default:
		row.Reason = ReasonWithin
	}
	more(row, pod, h, l)
}

// more adds what explains it.
func more(row *Row, pod *Pod, h *history, l limit) {
	if row.Behind && l.suspended != "" {
		row.Why += "; the BackupSchedule " + l.suspended + " is suspended"
	}
	if row.Behind && pod.Sidecar == SidecarDegraded {
		row.Why += "; its sidecar is degraded (" + pod.Reason + ")"
	}
	if p := h.partial; row.Behind && p.backup != nil && p.started.After(row.LastStarted) {
		row.Why += fmt.Sprintf("; it is in the Backup %s, which is %s", p.backup.Name, p.backup.Status.Phase)
	}
	for _, bad := range row.RPOBad {
		where := "the pod"
		if bad.OfNamespace {
			where = "the namespace"
		}
		if row.Why != "" {
			row.Why += "; "
		}
		row.Why += fmt.Sprintf("annotation %s of %s is %q: %v", api.AnnotationRPO, where, workload.Short(bad.Value), api.ErrRPO)
	}
}

// short is a length of time as kubectl tells it.
func short(d time.Duration) string { return duration.HumanDuration(d) }

func first(times ...*metav1.Time) time.Time {
	for _, t := range times {
		if t != nil && !t.IsZero() {
			return t.Time
		}
	}
	return time.Time{}
}

func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// earliest leaves out what is not known.
func earliest(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
