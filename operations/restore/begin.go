package restore

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stategraft/stategraft/api/node"
	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/workload"
)

// verdict is what came of the acceptance (names) or of the prechecks (the rest).
type verdict struct {
	problem *Problem
	names   []string
	kind    string // RestoreStatus.Kind
	looking bool   // a pod is being started to look into the storage

	pods     []api.PodRestore
	done     map[string]node.Done // of the pods whose volume remembers this very request
	message  string
	backup   string
	finished time.Time // the backup
	prefix   string
	undoID   string
}

// accept settles which pods the Restore is about, or says why it cannot be.
func accept(r *api.Restore, v *verdict, now time.Time) step {
	s := begin(r)
	s.status.ObservedGeneration = r.Generation
	s.status.ID = r.RequestID() // what is asked for may change until it is accepted
	switch resumed := !r.Spec.Suspend && s.reason(api.ConditionAccepted) == ReasonSuspended; {
	case r.Spec.Suspend: // for as long as one likes: it has begun nothing
		s.wait(r, api.ConditionAccepted, Problem{Reason: ReasonSuspended, Message: "suspended, before it began"}, now)
	case resumed:
		// The condition gets the time of now, from which the deadline counts.
		meta.RemoveStatusCondition(&s.status.Conditions, api.ConditionAccepted)
		s.wait(r, api.ConditionAccepted, Problem{Reason: ReasonResumed, Message: "is begun, having been suspended"}, now)
		s.after = time.Millisecond
	case now.After(deadline(r)):
		s.refuse(r, api.ConditionAccepted, Problem{Reason: ReasonDeadline, Message: "the deadline has passed before this Restore could begin" + because(r)}, now)
	case v == nil:
		s.after = quickPause
	case v.problem != nil && (v.problem.Wait || absentFor(r, v.problem, now)):
		s.wait(r, api.ConditionAccepted, *v.problem, now)
	case v.problem != nil:
		s.refuse(r, api.ConditionAccepted, *v.problem, now)
	default:
		s.settle(r, v.names, now)
	}
	return s
}

// comesBackIn is how long a pod that is asked for may not be there: it may be between
// its deletion and its return just then, or be applied together with the Restore.
const comesBackIn = 15 * time.Second

func absentFor(r *api.Restore, p *Problem, now time.Time) bool {
	if p.Reason != ReasonPodNotFound && p.Reason != ReasonNoPods {
		return false
	}
	c := meta.FindStatusCondition(r.Status.Conditions, api.ConditionAccepted)
	return now.Sub(r.CreationTimestamp.Time) < comesBackIn || c != nil && c.Reason == ReasonPodGoing
}

// kinAbsent tells whether a workload may seem smaller than it is for the same reason.
func kinAbsent(r *api.Restore, p *Problem, now time.Time) bool {
	return p.Reason == ReasonTopologyDiffers && r.Status.Started != nil && now.Sub(r.Status.Started.Time) < comesBackIn
}

func because(r *api.Restore) string {
	if r.Status.Message == "" {
		return ""
	}
	return " (" + r.Status.Message + ")"
}

// settle writes down the pods. From here on the spec holds.
func (s *step) settle(r *api.Restore, names []string, now time.Time) {
	s.hold = !r.Spec.DryRun && r.Spec.Mode != api.Merge // which holds no pod
	s.status.Phase, s.status.Started = api.RestoreChecking, new(metav1.NewTime(now))
	s.status.Pods = make([]api.PodRestore, 0, len(names))
	for _, name := range names {
		s.status.Pods = append(s.status.Pods, api.PodRestore{Name: name, Phase: api.PodPlanned})
	}
	message := fmt.Sprintf("%d pods: %s", len(names), few(names))
	if len(names) == 1 {
		message = "pod " + names[0]
	}
	s.status.Message = "is being checked before anything is touched"
	s.set(api.ConditionAccepted, true, ReasonAccepted, message, r.Generation, now)
	s.normal(eventAccepted, "accepted for "+message)
	s.count()
	s.after = time.Millisecond
}

// check goes by the prechecks: on to the pending list, or not.
func check(r *api.Restore, v *verdict, now time.Time) step {
	s := begin(r)
	s.status.ObservedGeneration = r.Generation
	switch {
	case now.After(deadline(r)):
		s.refuse(r, api.ConditionPrechecked, Problem{Reason: ReasonDeadline, Message: "the deadline has passed before a pod was touched" + because(r)}, now)
	case r.Spec.Suspend:
		s.wait(r, api.ConditionPrechecked, Problem{Reason: ReasonSuspended, Message: "suspended, before a pod was touched"}, now)
	case v == nil:
		s.after = quickPause
	case v.problem != nil && (v.problem.Wait || kinAbsent(r, v.problem, now)):
		s.wait(r, api.ConditionPrechecked, *v.problem, now)
		if v.looking {
			s.status.Phase, s.after = api.RestoreChecking, 2*time.Second
		}
	case v.problem != nil:
		s.refuse(r, api.ConditionPrechecked, *v.problem, now)
	default:
		s.plan(r, v, now)
	}
	return s
}

// plan takes over the plan, and with it names the pods that must not start unrestored.
func (s *step) plan(r *api.Restore, v *verdict, now time.Time) {
	s.forgotten = true
	s.status.Pods, s.status.Backup, s.status.Prefix, s.status.UndoID, s.status.Kind = v.pods, v.backup, v.prefix, v.undoID, v.kind
	if !v.finished.IsZero() {
		s.status.BackupFinished = new(metav1.NewTime(v.finished))
	}
	var pending []string
	for i := range s.status.Pods {
		at := &s.status.Pods[i]
		if done, ok := v.done[at.Name]; ok {
			already(at, done)
		}
		if at.Phase == api.PodRestored {
			continue
		}
		at.Phase = api.PodPlanned
		pending = append(pending, at.Name)
	}
	s.count()
	message := v.message
	if r.Spec.DryRun {
		s.set(api.ConditionPrechecked, true, ReasonPlanned, message, r.Generation, now)
		s.status.Phase = api.RestorePlanned
		s.ended(ReasonPlanned, message, r.Generation, now)
		s.normal(eventPlanned, "a dry run, nothing is touched: "+message)
		s.free = held(r)
		return
	}
	s.set(api.ConditionPrechecked, true, ReasonPassed, message, r.Generation, now)
	if r.Spec.Mode == api.Merge {
		s.merges(r, message, now)
		return
	}
	s.status.Phase, s.status.Pending = api.RestoreStopping, pending
	s.status.Message = workload.Clip(message, messageLimit)
	s.after = time.Millisecond
	if len(pending) == 0 { // the next step says that it is complete
		return
	}
	s.hold = true
	s.status.Probe = probeName(r, pending)
	s.set(api.ConditionStopping, true, ReasonDeleting, "pods are stopped, to be restored when they come back", r.Generation, now)
	s.normal(eventChecked, message)
}

// already marks a pod whose volume remembers the request: it is not touched again.
func already(at *api.PodRestore, done node.Done) {
	at.Phase, at.Previous = api.PodRestored, done.Previous
	at.Bytes, at.BytesTotal = done.Bytes, done.Bytes
	stamp(&at.Started, done.Started)
	stamp(&at.Finished, done.Finished)
	at.Message = "was restored by this request before"
	if !done.Finished.IsZero() {
		at.Message = "was restored by this request at " + done.Finished.UTC().Format(time.RFC3339)
	}
}

// probeName is new with each pending list, so that it is not refused by an older one.
func probeName(r *api.Restore, pending []string) string {
	sum := sha256.Sum256([]byte(string(r.UID) + "\n" + strings.Join(pending, "\n")))
	return "stategraft-probe-" + hex.EncodeToString(sum[:6])
}

// refuse ends a Restore that has touched nothing.
func (s *step) refuse(r *api.Restore, kind string, p Problem, now time.Time) {
	s.set(kind, false, p.Reason, p.Message, r.Generation, now)
	s.fail(p.Reason, p.Message, r.Generation, now)
	s.free = held(r)
}

// wait has it tried again: soon at first, then less often.
func (s *step) wait(r *api.Restore, kind string, p Problem, now time.Time) {
	if s.reason(kind) != p.Reason {
		s.say = append(s.say, saying{kind: corev1.EventTypeNormal, reason: eventWaiting, message: p.Reason + ": " + p.Message})
	}
	s.status.Phase, s.status.Message = api.RestoreWaiting, workload.Clip(p.Message, messageLimit)
	s.set(kind, false, p.Reason, p.Message, r.Generation, now)
	_, since := condition(&s.status, kind)
	s.after = min(max(now.Sub(since)/10, 5*time.Second), 30*time.Second)
}

func (s *step) reason(kind string) string {
	for _, c := range s.status.Conditions {
		if c.Type == kind {
			return c.Reason
		}
	}
	return ""
}
