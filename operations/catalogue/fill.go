package catalogue

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stategraft/stategraft/api/node"
	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/workload"
)

// mostPods is how many a status may list.
const mostPods = 1000

// fill writes what the storage has of a backup into the status of a Found object. What
// others write is left as it is.
func fill(b *api.Backup, has *node.Backup, listed time.Time) {
	s := &b.Status
	s.ObservedGeneration, s.Origin = b.Generation, api.BackupFound
	s.Name, s.Prefix = b.Spec.Existing.Name, b.Spec.Existing.Prefix
	s.Pods = parts(has)
	s.Bytes, s.Objects, s.Database, s.Type = 0, 0, "", api.BackupDifferential
	s.Started, s.Finished = stamp(has.Started), stamp(has.Finished)
	complete := 0
	for i := range has.Members {
		m := &has.Members[i]
		if m.Type == string(api.BackupFull) {
			s.Type = api.BackupFull
		}
		if m.Version != "" && (s.Database == "" || older(m.Version, s.Database)) {
			s.Database = workload.Short(m.Version)
		}
		if has.Finished.IsZero() && !m.Finished.IsZero() && (s.Finished == nil || m.Finished.After(s.Finished.Time)) {
			s.Finished = stamp(m.Finished)
		}
	}
	for i := range s.Pods {
		if s.Pods[i].Phase == api.PodBackupComplete {
			complete++
			s.Bytes, s.Objects = s.Bytes+s.Pods[i].Bytes, s.Objects+s.Pods[i].Objects
		}
	}
	missing := int64(0)
	for i := range s.Pods {
		missing += s.Pods[i].Missing
	}
	s.Progress = api.BackupProgress{Pods: fmt.Sprintf("%d/%d", complete, len(s.Pods)), Size: sizeText(s.Bytes)}
	s.Phase, s.Message = outcome(s, has, complete)
	if s.Phase == api.BackupComplete && missing > 0 {
		s.Phase, s.Message = api.BackupPartial, fmt.Sprintf("found in the storage: it lacks %d keys that its nodes listed", missing)
	}
	if len(s.Pods) > mostPods {
		s.Pods = s.Pods[:mostPods]
	}
	s.Listed = stamp(listed)
	conditions(b, listed)
}

// outcome is the phase of a backup that is over, and what there is to say.
func outcome(s *api.BackupStatus, has *node.Backup, complete int) (api.BackupPhase, string) {
	switch {
	case complete == 0:
		return api.BackupFailed, "found in the storage: no node has finished its part with something in it"
	case complete < len(s.Pods):
		return api.BackupPartial, fmt.Sprintf("found in the storage: %d of %d nodes have finished their parts", complete, len(s.Pods))
	case !has.Complete || s.Finished == nil:
		return api.BackupPartial, "found in the storage: which nodes belong to it cannot be told, as its token map is not there"
	case len(s.Pods) > mostPods:
		return api.BackupPartial, fmt.Sprintf("found in the storage: it has %d nodes, more than an object tells of", len(s.Pods))
	}
	return api.BackupComplete, "found in the storage"
}

// parts are the nodes that have part in a backup, or should, by name.
func parts(has *node.Backup) []api.PodBackup {
	names := map[string]bool{}
	for i := range has.Members {
		names[has.Members[i].Node] = true
	}
	for name := range has.Ring {
		names[name] = true
	}
	pods := make([]api.PodBackup, 0, len(names))
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if name == "" || len(name) > 253 {
			continue
		}
		pods = append(pods, part(has, name))
	}
	return pods
}

func part(has *node.Backup, name string) api.PodBackup {
	ring := has.Ring[name]
	p := api.PodBackup{Name: name, Phase: api.PodBackupGone, Datacenter: ring.Datacenter, Rack: ring.Rack, Tokens: int32(len(ring.Tokens)), Message: "the backup has nothing of this node"}
	m, ok := has.Member(name)
	if !ok {
		return p
	}
	p.Started, p.Finished = stamp(m.Started), stamp(m.Finished)
	switch {
	case !m.Complete:
		p.Phase, p.Message = api.PodBackupFailed, "it has not finished"
	case m.Objects <= 0:
		p.Phase, p.Message = api.PodBackupFailed, "there is nothing in it"
	default:
		p.Phase, p.Message = api.PodBackupComplete, ""
		p.Objects, p.Bytes, p.Tables, p.Keys = int64(m.Objects), m.Bytes, int32(m.Tables), m.Keys
		if m.Missing != nil && m.Missing.Count > 0 {
			p.Missing, p.Message = m.Missing.Count, workload.Clip(fmt.Sprintf("lacks %d keys that the node listed: %s", m.Missing.Count, strings.Join(m.Missing.Keys, ", ")), 300)
		}
	}
	return p
}

// conditions follow from the phase.
func conditions(b *api.Backup, now time.Time) {
	set := func(kind string, is bool, reason, message string) {
		c := metav1.Condition{Type: kind, Status: metav1.ConditionFalse, Reason: reason, Message: message, ObservedGeneration: b.Generation, LastTransitionTime: metav1.NewTime(now.Truncate(time.Second))}
		if is {
			c.Status = metav1.ConditionTrue
		}
		meta.SetStatusCondition(&b.Status.Conditions, c)
	}
	whole := b.Status.Phase == api.BackupComplete
	set(api.ConditionAccepted, true, "Found", "it was in the storage")
	set(api.ConditionCompleted, whole, string(b.Status.Phase), b.Status.Message)
	set(api.ConditionFailed, !whole, string(b.Status.Phase), b.Status.Message)
	set(api.ConditionStored, true, reasonListed, "the storage has it")
}

// restored puts a Backup that was made here, and whose data have come back, into the
// phase that its pods tell. It does nothing where they have not.
func restored(b *api.Backup, has *node.Backup, listed time.Time) bool {
	complete, missing := 0, false
	for i := range b.Status.Pods {
		missing = missing || b.Status.Pods[i].Missing > 0
		if b.Status.Pods[i].Phase != api.PodBackupComplete {
			continue
		}
		m, ok := has.Member(b.Status.Pods[i].StorageNode())
		if !ok || !m.Complete || m.Objects == 0 {
			return false
		}
		complete++
	}
	switch {
	case complete == 0:
		return false
	case complete == len(b.Status.Pods) && b.Status.Finished != nil && !missing:
		b.Status.Phase = api.BackupComplete
	default:
		b.Status.Phase = api.BackupPartial
	}
	m := mark{reason: reasonListed, message: "the storage has it again"}
	m.apply(b, listed)
	return true
}

// stamp is a time as the API server keeps it.
func stamp(at time.Time) *metav1.Time {
	if at.IsZero() {
		return nil
	}
	return new(metav1.NewTime(at.UTC().Truncate(time.Second)))
}

// older compares versions such as 4.1.10 and 5.0-beta1 by their numbers.
func older(a, b string) bool {
	x, y := strings.FieldsFunc(a, notDigit), strings.FieldsFunc(b, notDigit)
	for i := range min(len(x), len(y)) {
		n, errN := strconv.Atoi(x[i])
		m, errM := strconv.Atoi(y[i])
		if errN == nil && errM == nil && n != m {
			return n < m
		}
	}
	return cmp.Less(len(x), len(y))
}

func notDigit(r rune) bool { return r < '0' || r > '9' }

// sizeText writes a number of bytes as kubectl get shows it, such as 1.4GiB.
func sizeText(bytes int64) string {
	value, unit := float64(bytes), "B"
	for _, next := range []string{"KiB", "MiB", "GiB", "TiB"} {
		if value < 1024 {
			break
		}
		value, unit = value/1024, next
	}
	if unit == "B" {
		return fmt.Sprintf("%d%s", bytes, unit)
	}
	return fmt.Sprintf("%.1f%s", value, unit)
}
