package rpo

import (
	"fmt"
	"testing"
	"time"

	api "github.com/stategraft/stategraft/api/v1alpha1"
)

// many is 200 clusters of five pods with a schedule and so many Backups each.
func many(backups int) Input {
	in := Input{Now: now, Namespaces: map[string]map[string]string{}}
	for c := range 200 {
		ns := fmt.Sprintf("team-%03d", c)
		for p := range 5 {
			in.Pods = append(in.Pods, one(func(pod *Pod) { pod.Namespace, pod.Name = ns, fmt.Sprintf("db-%d", p) }))
		}
		in.Schedules = append(in.Schedules, scheduled("nightly", fmt.Sprintf("%d 3 * * *", c%60), func(s *api.BackupSchedule) { s.Namespace = ns }))
		for i := range backups {
			in.Backups = append(in.Backups, backup(fmt.Sprintf("b%d", i), time.Duration(i+1)*day, func(b *api.Backup) {
				b.Namespace = ns
				part := b.Status.Pods[0]
				b.Status.Pods = nil
				for p := range 5 {
					part.Name = fmt.Sprintf("db-%d", p)
					b.Status.Pods = append(b.Status.Pods, part)
				}
			}))
		}
	}
	return in
}

// Each pod of a large installation is found its own newest Backup.
func TestMany(t *testing.T) {
	rows := Rows(many(10))
	if len(rows) != 1000 {
		t.Fatalf("%d rows", len(rows))
	}
	for _, r := range rows {
		if r.Last == nil || r.Last.Namespace != r.Namespace || r.Last.Name != "b0" || r.Behind || len(r.Schedules) != 1 {
			t.Fatalf("%+v", r)
		}
	}
}

// BenchmarkRows is what is done every half a minute.
func BenchmarkRows(b *testing.B) {
	in := many(50)
	b.ReportAllocs()
	for b.Loop() {
		Rows(in)
	}
}
