package rpo

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	api "github.com/stategraft/stategraft/api/v1alpha1"
)

// workloadKey is a workload of a namespace.
type workloadKey struct {
	namespace string
	owner     Owner
}

// byWorkload puts the rows of a workload together, in their order.
func byWorkload(rows []Row) (keys []workloadKey, of map[workloadKey][]*Row) {
	of = map[workloadKey][]*Row{}
	for i := range rows {
		key := workloadKey{rows[i].Namespace, rows[i].Owner}
		if of[key] == nil {
			keys = append(keys, key)
		}
		of[key] = append(of[key], &rows[i])
	}
	return keys, of
}

// bySchedule puts the rows together that a schedule backs up.
func bySchedule(rows []Row) map[types.NamespacedName][]*Row {
	of := map[types.NamespacedName][]*Row{}
	for i := range rows {
		for _, name := range rows[i].Schedules {
			key := types.NamespacedName{Namespace: rows[i].Namespace, Name: name}
			of[key] = append(of[key], &rows[i])
		}
	}
	return of
}

func behind(rows []*Row) (late []*Row) {
	for _, r := range rows {
		if r.Behind {
			late = append(late, r)
		}
	}
	return late
}

// ConditionWithinRPO is the condition of a BackupSchedule, False while the last complete
// backup of one of its pods is older than it may be.
const ConditionWithinRPO = "WithinRPO"

// The reasons of ConditionWithinRPO where it is not False: then it is that of the first
// pod that is behind.
const (
	reasonNoPods = "NoPods"
)

// conditionOf says whether the pods of a schedule are within their RPO. Its text changes
// with what is the case, and not with the time: it is written to the API server each time
// that it does.
func conditionOf(s *api.BackupSchedule, rows []*Row, now time.Time) metav1.Condition {
	c := metav1.Condition{Type: ConditionWithinRPO, ObservedGeneration: s.Generation, LastTransitionTime: metav1.NewTime(now)}
	late := behind(rows)
	awaited := 0
	for _, r := range rows {
		if r.Last == nil {
			awaited++
		}
	}
	switch {
	case len(rows) == 0:
		c.Status, c.Reason, c.Message = metav1.ConditionUnknown, reasonNoPods, "there are no pods that it backs up"
	case len(late) > 0:
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, string(late[0].Reason), fmt.Sprintf("%d of %s without a complete backup within the RPO of %s: %s", len(late), pods(len(rows)), short(late[0].RPO), names(late))
	case !slices.ContainsFunc(rows, func(r *Row) bool { return r.RPO > 0 }):
		c.Status, c.Reason, c.Message = metav1.ConditionUnknown, string(ReasonNoRPO), "its pods have no RPO"
	case awaited > 0:
		c.Status, c.Reason, c.Message = metav1.ConditionTrue, string(ReasonAwaited), fmt.Sprintf("the first complete backup of %d of %s is awaited", awaited, pods(len(rows)))
	default:
		c.Status, c.Reason, c.Message = metav1.ConditionTrue, string(ReasonWithin), "the last complete backup of each of its pods is within its RPO"
	}
	return c
}

// namesLimit is how many pods are named in a message.
const namesLimit = 5

func names(rows []*Row) string {
	var list []string
	for i, r := range rows {
		if i == namesLimit {
			list = append(list, fmt.Sprintf("and %d more", len(rows)-i))
			break
		}
		last := "none"
		if r.Last != nil {
			last = "last " + r.Last.Name
		}
		list = append(list, fmt.Sprintf("%s (%s, %s)", r.Pod, r.Reason, last))
	}
	return strings.Join(list, ", ")
}

func pods(n int) string {
	if n == 1 {
		return "1 pod"
	}
	return fmt.Sprintf("%d pods", n)
}
