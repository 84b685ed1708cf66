package scheduler

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/stategraft/stategraft/api/v1alpha1"
)

// memory is an API server, as far as the controller can tell: versions, finalizers,
// statuses apart. What is in it is never changed, but replaced.
type memory struct {
	objects map[string]client.Object
	version int
}

func newMemory() *memory { return &memory{objects: map[string]client.Object{}} }

func (m *memory) copy() *memory {
	return &memory{objects: maps.Clone(m.objects), version: m.version}
}

func id(o client.Object, key client.ObjectKey) string {
	switch o.(type) {
	case *api.Backup:
		return "backups/" + key.String()
	case *api.BackupSchedule:
		return "backupschedules/" + key.String()
	}
	return "restores/" + key.String()
}

func idOf(o client.Object) string { return id(o, client.ObjectKeyFromObject(o)) }

func (m *memory) put(o client.Object) {
	m.version++
	o.SetResourceVersion(strconv.Itoa(m.version))
	if o.GetDeletionTimestamp() != nil && len(o.GetFinalizers()) == 0 {
		delete(m.objects, idOf(o))
		return
	}
	m.objects[idOf(o)] = o.DeepCopyObject().(client.Object)
}

func (m *memory) Create(_ context.Context, o client.Object) error {
	if m.objects[idOf(o)] != nil {
		return apierrors.NewAlreadyExists(api.GroupVersion.WithResource("x").GroupResource(), o.GetName())
	}
	m.put(o)
	return nil
}

// current is what is there, in the version of o.
func (m *memory) current(o client.Object, version string) (client.Object, error) {
	at := m.objects[idOf(o)]
	switch {
	case at == nil || at.GetUID() != o.GetUID():
		return nil, apierrors.NewNotFound(api.GroupVersion.WithResource("x").GroupResource(), o.GetName())
	case version != "" && at.GetResourceVersion() != version:
		return nil, conflict("x", o.GetName())
	}
	return at, nil
}

// Update writes all but the status.
func (m *memory) Update(_ context.Context, o client.Object) error {
	at, err := m.current(o, o.GetResourceVersion())
	if err != nil {
		return err
	}
	switch o := o.(type) {
	case *api.Backup:
		o.Status = *at.(*api.Backup).Status.DeepCopy()
	case *api.BackupSchedule:
		o.Status = *at.(*api.BackupSchedule).Status.DeepCopy()
	}
	m.put(o)
	return nil
}

type statuses struct{ *memory }

func (m *memory) Status() statuses { return statuses{m} }

// Update writes the status alone.
func (m statuses) Update(_ context.Context, o client.Object) error {
	at, err := m.current(o, o.GetResourceVersion())
	if err != nil {
		return err
	}
	is := at.DeepCopyObject().(client.Object)
	switch o := o.(type) {
	case *api.Backup:
		is.(*api.Backup).Status = *o.Status.DeepCopy()
	case *api.BackupSchedule:
		is.(*api.BackupSchedule).Status = *o.Status.DeepCopy()
	case *api.Restore:
		is.(*api.Restore).Status = *o.Status.DeepCopy()
	}
	m.put(is)
	o.SetResourceVersion(is.GetResourceVersion())
	return nil
}

func (m *memory) Delete(_ context.Context, o client.Object) error { return m.deleteVersion(o, "") }

func (m *memory) deleteVersion(o client.Object, version string) error {
	at, err := m.current(o, version)
	if err != nil {
		return err
	}
	is := at.DeepCopyObject().(client.Object)
	is.SetDeletionTimestamp(new(metav1.NewTime(time.Unix(0, 0))))
	m.put(is)
	return nil
}

func (m *memory) Get(_ context.Context, key client.ObjectKey, o client.Object, _ ...client.GetOption) error {
	at := m.objects[id(o, key)]
	if at == nil {
		return apierrors.NewNotFound(api.GroupVersion.WithResource("x").GroupResource(), key.Name)
	}
	switch o := o.(type) {
	case *api.Backup:
		*o = *at.(*api.Backup).DeepCopy()
	case *api.BackupSchedule:
		*o = *at.(*api.BackupSchedule).DeepCopy()
	case *api.Restore:
		*o = *at.(*api.Restore).DeepCopy()
	}
	return nil
}

func (m *memory) List(_ context.Context, l client.ObjectList, opts ...client.ListOption) error {
	var o client.ListOptions
	o.ApplyOptions(opts)
	field := ""
	if o.FieldSelector != nil {
		field = o.FieldSelector.Requirements()[0].Value
	}
	for _, key := range slices.Sorted(maps.Keys(m.objects)) {
		at := m.objects[key]
		if o.Namespace != "" && at.GetNamespace() != o.Namespace || o.LabelSelector != nil && !o.LabelSelector.Matches(labelsOf(at)) ||
			field != "" && !slices.Contains(keysOf(at), field) {
			continue
		}
		switch l := l.(type) {
		case *api.BackupList:
			if at, ok := at.(*api.Backup); ok {
				l.Items = append(l.Items, *at.DeepCopy())
			}
		case *api.BackupScheduleList:
			if at, ok := at.(*api.BackupSchedule); ok {
				l.Items = append(l.Items, *at.DeepCopy())
			}
		case *api.RestoreList:
			if at, ok := at.(*api.Restore); ok {
				l.Items = append(l.Items, *at.DeepCopy())
			}
		}
	}
	return nil
}

type labelsMap map[string]string

func labelsOf(o client.Object) labelsMap { return o.GetLabels() }

func (l labelsMap) Has(key string) bool              { _, ok := l[key]; return ok }
func (l labelsMap) Get(key string) string            { return l[key] }
func (l labelsMap) Lookup(key string) (string, bool) { v, ok := l[key]; return v, ok }
