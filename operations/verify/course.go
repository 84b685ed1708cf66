package verify

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stategraft/stategraft/api/node"
	api "github.com/stategraft/stategraft/api/v1alpha1"
)

// kind is what a step is.
type kind int

const (
	wait   kind = iota // the pod goes on
	create             // the pod is to be made
	write              // the status says what came of it; then the pod goes
)

// step is what comes next for a verification that runs.
type step struct {
	kind    kind
	message string            // of wait
	limit   time.Duration     // of create: how long the pod may live
	status  *api.BackupStatus // of write: what it is then
}

// course is the next step: a function of the Backup, what its schedule asks for (nil for
// nothing any more) and the pod (nil for none).
func course(b *api.Backup, spec *api.BackupVerify, pod *corev1.Pod, now time.Time) step {
	if spec == nil {
		return end(b, ReasonNotWanted, "its schedule is not there any more, or asks for no verification", now)
	}
	if ofAnna(b) {
		return end(b, ReasonNotSupported, "a backup of Anna is not restored on trial: its keys are written into a running cluster, so that it would take a whole one of its own. What a restore fetches is verified by its checksums before a node starts", now)
	}
	o := outcome{message: "there is no pod yet"}
	if pod != nil {
		if !metav1.IsControlledBy(pod, b) {
			return end(b, ReasonNotStarted, fmt.Sprintf("pod %s is somebody else's; delete it", pod.Name), now)
		}
		o = look(pod, now)
	}
	left := timeout(spec)
	if b.Status.Verified.Started != nil {
		left -= max(0, now.Sub(b.Status.Verified.Started.Time)) // a clock may have been ahead
	}
	switch {
	case o.result != nil:
		return step{kind: write, status: fold(b, spec, o.result, now)}
	case o.over:
		return end(b, o.reason, o.message, now)
	case left <= 0:
		return end(b, ReasonTimedOut, fmt.Sprintf("it did not end within %v: %s", timeout(spec), o.message), now)
	case pod == nil:
		return step{kind: create, limit: left}
	}
	return step{kind: wait, message: o.message}
}

// ofAnna tells whether a Backup has keys: Anna's alone have.
func ofAnna(b *api.Backup) bool {
	return slices.ContainsFunc(b.Status.Pods, func(p api.PodBackup) bool { return p.Keys > 0 })
}

// mostDifferences is how many the status has room for.
const mostDifferences = 20

// fold adds what was found in a node. It goes on with the next one, if there is to be
// one and all was well so far; else the verification is over.
func fold(b *api.Backup, spec *api.BackupVerify, r *node.Verified, now time.Time) *api.BackupStatus {
	status := b.Status.DeepCopy()
	v := status.Verified
	v.Tables = max(v.Tables, int32(r.Tables)) // each node has some of the rows of all
	v.SSTables += r.SSTables
	v.Rows += r.Rows
	if r.Compared == 0 {
		v.Uncompared++
	}
	for _, d := range r.Differences {
		if len(v.Differences) < mostDifferences {
			v.Differences = append(v.Differences, api.TableDifference{Node: current(v), Table: d.Table, Want: d.Want, Have: d.Have})
		}
	}
	if nodes := nodesOf(b); r.Sound() && len(v.Nodes) < wanted(spec, len(nodes)) {
		v.Message = fmt.Sprintf("node %s is as it should be", current(v))
		v.Nodes = append(v.Nodes, after(nodes, current(v)))
		return status
	}
	reason := ReasonPassed
	switch {
	case len(r.Problems)+r.MoreProblems > 0:
		reason = ReasonDamaged
	case !r.Sound():
		reason = ReasonDiffers
	case v.Uncompared > 0:
		reason = ReasonPassedUncompared
	}
	finish(b, status, reason, tell(v, r), now)
	return status
}

// tell says what was found in a sentence.
func tell(v *api.Verification, r *node.Verified) string {
	var parts []string
	parts = append(parts, r.Problems...)
	if r.MoreProblems > 0 {
		parts = append(parts, fmt.Sprintf("%d problems more", r.MoreProblems))
	}
	if n := len(r.Differences) + r.MoreDifferences; n > 0 {
		text := fmt.Sprintf("%d tables do not have the rows that they had", n)
		if len(r.Differences) > 0 {
			d := r.Differences[0]
			text += fmt.Sprintf(": %s has %d, and had %d", d.Table, d.Have, d.Want)
		}
		parts = append(parts, text)
	}
	if len(parts) > 0 {
		return clean(fmt.Sprintf("node %s: %s", current(v), strings.Join(parts, "; ")))
	}
	how := map[string]string{node.CountedByScan: "all rows were read", node.CountedByStatistics: "rows by the SSTables' own statistics", node.NotCounted: "rows were not counted"}[r.Method]
	text := fmt.Sprintf("%d SSTables of %d nodes are whole; %s", v.SSTables, len(v.Nodes), how)
	switch {
	case v.Uncompared == 0:
		text += fmt.Sprintf(", and %d tables have what they had when the backup was made", r.Compared)
	case int(v.Uncompared) == len(v.Nodes):
		text += ", and compared with nothing"
	default:
		text += fmt.Sprintf(", and those of %d nodes compared with nothing", v.Uncompared)
	}
	if len(r.Notes) > 0 {
		text += "; " + strings.Join(r.Notes, "; ")
	}
	return clean(text)
}

// result is what a reason means.
func result(reason string) (api.VerificationResult, metav1.ConditionStatus) {
	switch {
	case reason == ReasonPassed, reason == ReasonPassedUncompared:
		return api.VerificationPassed, metav1.ConditionTrue
	case slices.Contains([]string{ReasonDiffers, ReasonDamaged, ReasonNotRestored}, reason):
		return api.VerificationFailed, metav1.ConditionFalse
	}
	return api.VerificationUnknown, metav1.ConditionUnknown
}

// end is a verification that is over without a result of the pod's.
func end(b *api.Backup, reason, message string, now time.Time) step {
	status := b.Status.DeepCopy()
	finish(b, status, reason, clean(message), now)
	return step{kind: write, status: status}
}

func finish(b *api.Backup, status *api.BackupStatus, reason, message string, now time.Time) {
	at := metav1.NewTime(now.UTC().Truncate(time.Second))
	v := status.Verified
	var condition metav1.ConditionStatus
	v.Result, condition = result(reason)
	v.Finished, v.Message = &at, message
	meta.SetStatusCondition(&status.Conditions, metav1.Condition{Type: api.ConditionVerified, Status: condition, Reason: reason, Message: message,
		ObservedGeneration: b.Generation, LastTransitionTime: at})
}
