package heal

import (
	"regexp"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"

	api "github.com/stategraft/stategraft/api/v1alpha1"
)

// longestPlacing is the longest time between two looks at one Pending pod.
const longestPlacing = time.Hour

// judgePending is judge for a pod that has no node. The scheduler's condition
// tells since when it finds none: the pod is looked at after that time, after
// twice, four times, … as long: nodes come and go without the pod changing.
func judgePending(pod *corev1.Pod, now time.Time, after time.Duration) verdict {
	v := verdict{action: actNothing}
	c := conditionOf(pod, corev1.PodScheduled)
	if c == nil || c.Status != corev1.ConditionFalse || c.Reason != corev1.PodReasonUnschedulable {
		return v // not looked at yet, or gated
	}
	if pod.Status.NominatedNodeName != "" || pod.Annotations[api.AnnotationHeldBack] == api.HeldBackIgnore {
		return v // room is being made for it; or it is to stay as it is
	}
	if _, ok := parseUnschedulable(c.Message); !ok {
		return v // not for want of what our containers take
	}
	since := c.LastTransitionTime.Time
	if v.at = since.Add(after); now.Before(v.at) {
		return v
	}
	v.action, v.at = actPlace, nextPlacing(since, now, after)
	return v
}

// nextPlacing is the first time after now of since + after × 2ⁿ.
func nextPlacing(since, now time.Time, after time.Duration) time.Time {
	wait := max(after, time.Second)
	for since.Add(wait).Compare(now) <= 0 && wait < longestPlacing {
		wait *= 2
	}
	if at := since.Add(wait); at.After(now) {
		return at
	}
	return now.Add(longestPlacing)
}

// unschedulable is what the scheduler said.
type unschedulable struct {
	nodes int // that there are
	short int // of them, at least, that lack what containers of ours take
}

// The scheduler's message is "0/3 nodes are available: 1 Insufficient cpu, 2
// Insufficient memory. …": each reason with the number of its nodes, of which one
// may have several (k8s.io/kubernetes pkg/scheduler/framework/types.go, FitError).
var (
	nodesPattern = regexp.MustCompile(`^0/(\d+) nodes are available`)
	shortPattern = regexp.MustCompile(`(\d+) Insufficient (?:cpu|memory|ephemeral-storage)\b`)
)

// parseUnschedulable reads the message; ok says that some node lacks what our
// containers take. A message of another form says nothing.
func parseUnschedulable(message string) (u unschedulable, ok bool) {
	total := nodesPattern.FindStringSubmatch(message)
	if total == nil {
		return u, false
	}
	var err error
	if u.nodes, err = strconv.Atoi(total[1]); err != nil {
		return u, false
	}
	for _, match := range shortPattern.FindAllStringSubmatch(message, -1) {
		if n, err := strconv.Atoi(match[1]); err == nil {
			u.short = max(u.short, n)
		}
	}
	return u, u.short > 0
}
