package rpo

import (
	"cmp"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/schedule"
	"github.com/stategraft/stategraft/workload"
)

// covers finds the schedules of a pod.
type covers struct {
	in        Input
	schedules map[string][]*api.BackupSchedule // by namespace
	selectors map[*api.BackupSchedule]labels.Selector
	// made are the pods of the newest Backup of a schedule that was accepted.
	made map[*api.BackupSchedule]map[string]bool
	gaps map[[2]string]time.Duration
}

func newCovers(in Input) *covers {
	c := &covers{in: in, schedules: map[string][]*api.BackupSchedule{}, selectors: map[*api.BackupSchedule]labels.Selector{},
		made: map[*api.BackupSchedule]map[string]bool{}, gaps: map[[2]string]time.Duration{}}
	newest := map[types.NamespacedName]*api.Backup{}
	for i := range in.Backups {
		b := &in.Backups[i]
		key := types.NamespacedName{Namespace: b.Namespace, Name: b.Labels[api.LabelSchedule]}
		if key.Name == "" || len(b.Status.Pods) == 0 || b.Status.Origin != api.BackupMade {
			continue
		}
		if n := newest[key]; n == nil || n.CreationTimestamp.Before(&b.CreationTimestamp) {
			newest[key] = b
		}
	}
	for i := range in.Schedules {
		s := &in.Schedules[i]
		c.schedules[s.Namespace] = append(c.schedules[s.Namespace], s)
		pods := s.Spec.Template.Spec.Pods
		if pods == nil || pods.Selector == nil {
			c.wide(s, newest[types.NamespacedName{Namespace: s.Namespace, Name: s.Name}])
			continue
		}
		if selector, err := metav1.LabelSelectorAsSelector(pods.Selector); err == nil && !selector.Empty() {
			c.selectors[s] = selector
		}
		c.made[s] = map[string]bool{}
		for _, name := range in.Selected[types.NamespacedName{Namespace: s.Namespace, Name: s.Name}] {
			c.made[s][name] = true
		}
		if b := newest[types.NamespacedName{Namespace: s.Namespace, Name: s.Name}]; b != nil && in.Selected == nil {
			for j := range b.Status.Pods {
				c.made[s][b.Status.Pods[j].Name] = true
			}
		}
	}
	for _, all := range c.schedules {
		slices.SortFunc(all, func(a, b *api.BackupSchedule) int { return cmp.Compare(a.Name, b.Name) })
	}
	return c
}

// wide notes which pods a schedule has backed up beside those that it names: the rest of
// a cluster of Anna.
func (c *covers) wide(s *api.BackupSchedule, newest *api.Backup) {
	if newest == nil {
		return
	}
	c.made[s] = map[string]bool{}
	for i := range newest.Status.Pods {
		c.made[s][newest.Status.Pods[i].Name] = true
	}
}

// of are the schedules that back a pod up, by name.
func (c *covers) of(pod *Pod) (found []*api.BackupSchedule) {
	for _, s := range c.schedules[pod.Namespace] {
		if s.DeletionTimestamp == nil && c.covered(s, pod) {
			found = append(found, s)
		}
	}
	return found
}

func (c *covers) covered(s *api.BackupSchedule, pod *Pod) bool {
	pods := s.Spec.Template.Spec.Pods
	switch {
	case pods == nil:
		return false
	case pods.Workload != nil:
		kind := pods.Workload.Kind
		if kind == "" {
			kind = "StatefulSet"
		}
		return kind == pod.Owner.Kind && pods.Workload.Name == pod.Owner.Name || pod.Kind == workload.KindAnna && c.made[s][pod.Name]
	case pods.Selector != nil && pod.Labels != nil:
		selector := c.selectors[s]
		return selector != nil && selector.Matches(labels.Set(pod.Labels))
	case pods.Selector != nil:
		return c.made[s][pod.Name]
	}
	return slices.Contains(pods.Names, pod.Name) || pod.Kind == workload.KindAnna && c.made[s][pod.Name]
}

// How far ahead the runs of a schedule are looked at, beyond which there is still one
// more, and how many at most: those of each minute.
const (
	gapAhead = 8 * 24 * time.Hour
	gapRuns  = 8 * 24 * 60
)

// gap is the longest time between two runs of a schedule in the next days; 0 where the
// schedule cannot be read.
func (c *covers) gap(s *api.BackupSchedule) time.Duration {
	key := [2]string{s.Spec.Schedule, s.Spec.TimeZone}
	if known, ok := c.gaps[key]; ok {
		return known
	}
	c.gaps[key] = longest(s.Spec.Schedule, s.Spec.TimeZone, c.in.Now)
	return c.gaps[key]
}

func longest(text, zone string, now time.Time) (gap time.Duration) {
	cron, err := schedule.Parse(text, zone)
	if err != nil {
		return 0
	}
	run := cron.Next(now)
	for range gapRuns {
		next := cron.Next(run)
		gap, run = max(gap, next.Sub(run)), next
		if run.Sub(now) > gapAhead {
			break
		}
	}
	return gap
}
