package annotated

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/rpo"
	"github.com/stategraft/stategraft/operations/schedule"
	wl "github.com/stategraft/stategraft/workload"
)

// fault is a value of an annotation that cannot be followed. The one before counts on.
type fault struct {
	key, value, text string
	over             bool // another stands in its place, or none
}

// passing is a bad value that a watch has told of. It may be replaced before the namespace
// is looked at, and is told of all the same.
type passing struct {
	key, value, where string
	owner             rpo.Owner // zero for the namespace's
}

// faultOf tells why a value cannot be followed; nil where it can.
func faultOf(key, text, where string, over bool) *fault {
	var err error
	switch key {
	case api.AnnotationBackupSchedule:
		_, err = schedule.Parse(text, "")
	case api.AnnotationRetain:
		_, err = api.ParseRetain(text)
	}
	if err == nil {
		return nil
	}
	verb := "is"
	if over {
		verb = "was"
	}
	return &fault{key, text, fmt.Sprintf("annotation %s of %s %s %q: %v", key, where, verb, wl.Short(text), err), over}
}

// faults are the bad values that a cluster has now.
func (c cluster) faults(namespace map[string]string) (all []fault) {
	for _, key := range read {
		v, ok := c.value(key, namespace)
		if !ok {
			continue
		}
		if f := faultOf(key, v.text, v.where, false); f != nil {
			all = append(all, *f)
		}
	}
	return all
}

// backed tells whether the pods of a cluster can be backed up by annotation.
func (c cluster) backed() bool {
	return !slices.ContainsFunc(c, func(w workload) bool { return !w.stores() || fleeting(w.owner) })
}

// passed are the bad values that a cluster has had since the last look.
func (l *look) passed(c cluster) (all []fault) {
	for _, p := range l.passing {
		v, has := c.value(p.key, l.annotations)
		switch {
		case has && v.text == p.value: // it has it still
			continue
		case p.owner != rpo.Owner{} && !c.has(p.owner), p.owner == rpo.Owner{} && has && !v.wide:
			continue // it is not its own
		}
		all = append(all, *faultOf(p.key, p.value, p.where, true))
	}
	return all
}

// tellBad tells a cluster, and the BackupSchedule that goes on, of bad values.
func (l *look) tellBad(c cluster, existing []*api.BackupSchedule, all []fault) {
	about := c.reference(l.namespace)
	for _, f := range all {
		if l.memory.first(memoryKey(about), f) {
			var on *api.BackupSchedule
			if len(existing) > 0 {
				on = existing[0]
			}
			l.write.say(about, corev1.EventTypeWarning, eventBad, f.text+f.comesTo(on))
		}
		if len(existing) > 0 {
			l.tellBadOn(existing[0], f)
		}
	}
}

func (l *look) tellBadOn(s *api.BackupSchedule, f fault) {
	if about := referenceOf(s); l.memory.first(memoryKey(about), f) {
		l.write.say(about, corev1.EventTypeWarning, eventBad, f.text+f.comesTo(s))
	}
}

// comesTo says what a bad value comes to, with the BackupSchedule that there is or nil.
func (f *fault) comesTo(s *api.BackupSchedule) string {
	switch {
	case f.over:
		return "; it was not followed"
	case s == nil:
		return "; no BackupSchedule is made or changed"
	}
	return fmt.Sprintf("; BackupSchedule %s stays as it is: %s; %s", s.Name, s.Spec.Schedule, keeps(s))
}

// tellUnknown tells workloads of which it is not known which cluster they are of.
func (l *look) tellUnknown(unknown []workload) {
	for _, w := range unknown {
		var existing []*api.BackupSchedule
		for i := range l.schedules {
			if s := &l.schedules[i]; isAnnotated(s) && samePods(s.Spec.Template.Spec.Pods, podsOf(w)) {
				existing = append(existing, s)
			}
		}
		c := cluster{w}
		l.tellBad(c, existing, append(l.passed(c), c.faults(l.annotations)...))
	}
}

// tellWithoutPods tells BackupSchedules whose pods are not there of bad values of the
// namespace: nobody else can be.
func (l *look) tellWithoutPods() {
	all := append(l.passed(nil), cluster(nil).faults(l.annotations)...)
	for i := range l.schedules {
		s := &l.schedules[i]
		if !isAnnotated(s) || s.DeletionTimestamp != nil || l.claimed[s.Name] || l.kept[s.Name] {
			continue
		}
		if len(all) == 0 {
			l.memory.mended(memoryKey(referenceOf(s)))
		}
		for _, f := range all {
			l.tellBadOn(s, f)
		}
	}
}

func memoryKey(about corev1.ObjectReference) string {
	return about.Namespace + "/" + about.Kind + "/" + about.Name + "/" + string(about.UID)
}

func referenceOf(s *api.BackupSchedule) corev1.ObjectReference {
	return corev1.ObjectReference{APIVersion: api.GroupVersion.String(), Kind: "BackupSchedule", Namespace: s.Namespace, Name: s.Name, UID: s.UID}
}

// passingLimit bounds how many bad values of a namespace wait to be told, and how many are
// known to be told of a workload: beyond it some may not be told, or twice.
const passingLimit = 64

// see keeps the bad values of a pod or a namespace for the next look.
func (m *memory) see(object client.Object) {
	p, in := passing{where: "the namespace"}, object.GetName()
	if object.GetNamespace() != "" {
		p.where, p.owner, in = "pod "+object.GetName(), rpo.OwnerOf(object), object.GetNamespace()
	}
	for _, key := range read {
		text, ok := object.GetAnnotations()[key]
		if !ok || faultOf(key, text, "", false) == nil {
			continue
		}
		p.key, p.value = key, text
		m.wait(in, p)
	}
}

func (m *memory) wait(in string, p passing) {
	m.mu.Lock()
	defer m.mu.Unlock()
	same := func(o passing) bool { return o.key == p.key && o.value == p.value && o.owner == p.owner }
	all, ok := m.passing[in]
	if len(all) >= passingLimit || !ok && len(m.passing) >= toldLimit || slices.ContainsFunc(all, same) {
		return
	}
	m.passing[in] = append(all, p)
}

// take gives what waits to be told in a namespace.
func (m *memory) take(in string) []passing {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := m.passing[in]
	delete(m.passing, in)
	return all
}

// first tells whether a bad value has not been told of an object yet.
func (m *memory) first(of string, f fault) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, ok := m.bad[of]; !ok && len(m.bad) >= toldLimit {
		clear(m.bad)
	}
	if m.bad[of] == nil || len(m.bad[of]) >= passingLimit {
		m.bad[of] = map[string]bool{}
	}
	it := f.key + "=" + f.value
	if m.bad[of][it] {
		return false
	}
	m.bad[of][it] = true
	return true
}

// mended forgets what was told of objects: a value that is bad again is news.
func (m *memory) mended(of ...string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, key := range of {
		delete(m.bad, key)
	}
}

// keys are those of a cluster and its BackupSchedules.
func (l *look) keys(c cluster, existing []*api.BackupSchedule) []string {
	keys := []string{memoryKey(c.reference(l.namespace))}
	for _, s := range existing {
		keys = append(keys, memoryKey(referenceOf(s)))
	}
	return keys
}
