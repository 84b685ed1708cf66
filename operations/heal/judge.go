package heal

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	api "github.com/stategraft/stategraft/api/v1alpha1"
)

// action is what is to be done with a pod.
type action string

const (
	actNothing action = "nothing" // until it changes, or until at
	actMark    action = "mark"    // begin to count: set the condition to reason
	actHeal    action = "heal"    // patch the images of cures, hold the workload back
	actNote    action = "note"    // it was healed, and the condition does not say so yet
	actGiveUp  action = "give up" // there is nothing to patch: say so, hold back
	actClear   action = "clear"   // the trouble went away by itself: take the condition back
	actPlace   action = "place"   // it is Pending for too long: see whether that is our fault
	actReplace action = "replace" // it has never run: hold its workload back and delete it
	actRelease action = "release" // all of ours run as they should: hold back no longer
)

// verdict is what judge makes of a pod.
type verdict struct {
	action   action
	at       time.Time // when to judge again although nothing changed; zero for never
	reason   string    // of the condition, for mark
	troubles []trouble
	cures    []cure
}

// judge says what is to be done with a pod at a time, if something of ours may
// keep it from being Ready for as long as after.
//
// The clock of a trouble is the pod's own condition, so that it goes on where
// another leader takes over: first it is set, later the pod is healed.
//
//	condition (True)  | trouble, healable | trouble, nothing to patch | none
//	none              | mark              | mark                      | release, if all is as it should
//	a cause, lately   | wait              | wait                      | clear, once steady
//	a cause, too long | heal              | replace, give up          | clear, once steady
//	Healed, lately    | mark              | wait for the image        | –
//	Healed, long ago  | mark              | give up                   | –
//	NotHealed         | mark              | –                         | clear, once steady
//	Refused           | –                 | –                         | clear, once steady
//
// A condition from a time to come is set anew: the clock was set back.
//
// A container that idles while the condition still has a cause was healed by
// somebody who did not come to say so: that is noted.
//
// Nothing is done with a pod that is going, that is to be restored, or whose
// other containers are not all ready: it is not us then, or not us alone.
func judge(pod *corev1.Pod, now time.Time, after time.Duration) verdict {
	all := parts(pod)
	if finished(pod) || restorePending(pod, all) {
		return verdict{action: actNothing}
	}
	if pod.Spec.NodeName == "" {
		return judgePending(pod, now, after)
	}
	v := verdict{action: actNothing, troubles: troubles(all)}
	condition := degraded(pod)
	if len(v.troubles) == 0 {
		return judgeWell(pod, all, condition, now)
	}
	v.cures = cures(all, v.troubles)
	v.reason = reasonOf(v.troubles[0].cause)
	counting, healed := condition != nil && isCause(condition.Reason), condition != nil && condition.Reason == api.DegradedHealed
	switch {
	case condition != nil && condition.Reason == api.DegradedRefused: // so would it be again
		return v
	case !counting && len(v.cures) > 0, condition == nil, counting && condition.LastProbeTime.After(now.Add(after+time.Second)):
		v.action, v.at = actMark, now.Add(after)
		return v
	case counting && allIdle(all, v.troubles): // we were interrupted
		v.action = actNote
		return v
	case !counting && !healed: // nothing to patch, and that was said
		return v
	}
	v.at = condition.LastProbeTime.Add(after)
	if now.Before(v.at) {
		return v
	}
	v.at = time.Time{} // whatever changes next wakes us
	switch {
	case slices.ContainsFunc(v.troubles, trouble.blocks):
		if !begun(all) {
			v.action = actReplace
		}
	case !unhindered(all) || !slices.ContainsFunc(v.troubles, trouble.looping):
	case len(v.cures) > 0:
		v.action = actHeal
	default:
		v.action = actGiveUp
	}
	return v
}

// judgeWell is judge where none of our containers is in trouble at the moment.
func judgeWell(pod *corev1.Pod, all []part, condition *corev1.PodCondition, now time.Time) verdict {
	if slices.ContainsFunc(all, func(p part) bool { return idles(all, p) }) {
		if condition != nil && isCause(condition.Reason) { // we were interrupted
			return verdict{action: actNote}
		}
		return verdict{action: actNothing} // until the pod is replaced
	}
	if !slices.ContainsFunc(all, func(p part) bool { return p.own }) {
		return verdict{action: actNothing} // the label is a copy: see api.LabelInjected
	}
	if condition != nil {
		if at := steady(all); condition.Reason != api.DegradedImagePull && now.Before(at) {
			return verdict{action: actNothing, at: at}
		}
		if !running(all) {
			return verdict{action: actNothing} // being pulled again
		}
		return verdict{action: actClear}
	}
	if isReady(pod) && running(all) {
		return verdict{action: actRelease}
	}
	return verdict{action: actNothing}
}
