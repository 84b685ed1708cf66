package check

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"

	api "github.com/stategraft/stategraft/api/v1alpha1"
)

// endedBackup is how a Backup ended, and of what it was.
type endedBackup struct {
	namespace, name, schedule string
	phase                     api.BackupPhase
	message                   string
	began                     time.Time
	pods                      []string // and their nodes' names; none of one that was refused
	spec                      *api.BackupPods
}

// endedBackups are how they ended: of those that are complete the newest of the same pods,
// as there may be ten thousands.
type endedBackups struct {
	complete map[string]endedBackup
	failed   []endedBackup
}

// add takes what ended well or badly. What was found and is not complete nobody has asked
// for here: it may be another's that still runs.
func (all *endedBackups) add(b *api.Backup) {
	bad := b.Status.Phase == api.BackupFailed || b.Status.Phase == api.BackupPartial
	if b.DeletionTimestamp != nil || !bad && b.Status.Phase != api.BackupComplete || bad && b.Found() {
		return
	}
	o := endedBackup{namespace: b.Namespace, name: b.Name, schedule: b.Labels[api.LabelSchedule], phase: b.Status.Phase, began: beginning(b), spec: b.Spec.Pods}
	for i := range b.Status.Pods {
		at := &b.Status.Pods[i]
		o.pods = append(o.pods, at.Name)
		if !bad && at.StorageNode() != at.Name {
			o.pods = append(o.pods, at.StorageNode())
		}
	}
	if bad {
		o.message = b.Status.Message
		all.failed = append(all.failed, o)
		return
	}
	if all.complete == nil {
		all.complete = map[string]endedBackup{}
	}
	key := fmt.Sprintf("%s %v %v", o.namespace, slices.Sorted(slices.Values(o.pods)), workloadOf(o.spec))
	if last, ok := all.complete[key]; !ok || last.began.Before(o.began) {
		all.complete[key] = o
	}
}

// judge finds those that failed, and that nothing has made up for: of the same pods the
// newest alone.
func (all *endedBackups) judge() (findings []Finding) {
	complete := slices.Collect(maps.Values(all.complete))
	for _, o := range all.failed {
		later := func(other endedBackup) bool { return other.madeUpFor(o) }
		if slices.ContainsFunc(complete, later) || slices.ContainsFunc(all.failed, later) {
			continue
		}
		command := func(what string) string {
			return fmt.Sprintf("kubectl stategraft backup %s %s -n %s", what, o.name, o.namespace)
		}
		next := "make another under another name"
		if o.schedule != "" {
			next = fmt.Sprintf("wait for the next run of BackupSchedule %s", o.schedule)
		}
		remedy := fmt.Sprintf("%s; settle that and %s, or delete this one: %s", command("show"), next, command("delete"))
		findings = append(findings, finding(Warn, o.namespace+"/"+o.name, "is %s, and no newer backup of its pods is complete: %s", o.phase, o.message).With("%s", remedy))
	}
	slices.SortFunc(findings, func(a, b Finding) int { return strings.Compare(a.Subject, b.Subject) })
	return findings
}

// madeUpFor tells whether it was begun after another, and of all of its pods, or of all
// that their StatefulSet had then: it may have fewer since.
func (o endedBackup) madeUpFor(other endedBackup) bool {
	if o.namespace != other.namespace || cmp.Or(o.began.Compare(other.began), strings.Compare(o.name, other.name)) <= 0 {
		return false
	}
	if of := setOf(other.spec); of != "" && of == setOf(o.spec) {
		return true
	}
	wanted := other.pods
	if len(wanted) == 0 && other.spec != nil {
		wanted = other.spec.Names
	}
	if len(wanted) > 0 {
		return !slices.ContainsFunc(wanted, func(name string) bool { return !slices.Contains(o.pods, name) })
	}
	if o.spec == nil || other.spec == nil {
		return false
	}
	if of := workloadOf(other.spec); of != "" {
		return workloadOf(o.spec) == of
	}
	return equality.Semantic.DeepEqual(o.spec, other.spec)
}

// setOf is the StatefulSet all of whose pods a Backup is about; empty where that is no
// StatefulSet: of others nobody knows which pods they are to have.
func setOf(pods *api.BackupPods) string {
	if pods == nil || pods.Workload == nil || cmp.Or(pods.Workload.Kind, "StatefulSet") != "StatefulSet" {
		return ""
	}
	return pods.Workload.Name
}

func workloadOf(pods *api.BackupPods) string {
	if pods == nil || pods.Workload == nil {
		return ""
	}
	return pods.Workload.Name
}
