package coverage

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestLabelledSince(t *testing.T) {
	const label = `{"f:metadata":{"f:labels":{".":{},"f:stategraft.io/inject":{}}}}`
	at := func(hours int) *metav1.Time { return &metav1.Time{Time: created.Add(time.Duration(hours) * time.Hour)} }
	entry := func(hours int, fields string) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{Time: at(hours), FieldsV1: metav1.NewFieldsV1(fields)}
	}
	status := entry(1, label)
	status.Subresource = "status"
	for _, c := range []struct {
		what    string
		entries []metav1.ManagedFieldsEntry
		want    time.Time
	}{
		{"nobody knows", nil, created},
		{"label among others", []metav1.ManagedFieldsEntry{entry(1, `{"f:metadata":{"f:labels":{"f:app":{}}}}`), entry(3, label)}, at(3).Time},
		{"two have it", []metav1.ManagedFieldsEntry{entry(5, label), entry(3, label)}, at(3).Time},
		{"annotation of the name", []metav1.ManagedFieldsEntry{entry(3, `{"f:metadata":{"f:annotations":{"f:stategraft.io/inject":{}}}}`)}, created},
		{"another key", []metav1.ManagedFieldsEntry{entry(3, `{"f:metadata":{"f:labels":{"f:stategraft.io/injected":{}}}}`)}, created},
		{"of a subresource", []metav1.ManagedFieldsEntry{status}, created},
		{"without a time", []metav1.ManagedFieldsEntry{{FieldsV1: metav1.NewFieldsV1(label)}}, created},
		{"no fields", []metav1.ManagedFieldsEntry{{Time: at(3)}, entry(3, `[]`), entry(4, ``)}, created},
	} {
		namespace := &metav1.ObjectMeta{CreationTimestamp: metav1.Time{Time: created}, ManagedFields: c.entries}
		if got := LabelledSince(namespace); !got.Equal(c.want) {
			t.Errorf("%s: %v, want %v", c.what, got, c.want)
		}
	}
}
