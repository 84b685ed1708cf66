package annotated

import (
	"context"

	api "github.com/stategraft/stategraft/api/v1alpha1"
)

// orphans deletes what was made for clusters that have gone. Pods alone may be gone for a
// while: what makes them says whether they come back.
func (l *look) orphans(ctx context.Context) error {
	for i := range l.schedules {
		s := &l.schedules[i]
		if !isAnnotated(s) || s.DeletionTimestamp != nil || l.claimed[s.Name] || l.kept[s.Name] {
			l.memory.present(s.UID)
			continue
		}
		comes, err := l.comesBack(ctx, s)
		if err != nil {
			return err
		}
		if comes {
			l.memory.present(s.UID)
			continue
		}
		if left := absentFor - l.memory.absent(s.UID, l.now()); left > 0 {
			l.soon(left)
			continue
		}
		if err := l.write.delete(ctx, s, nil, "its pods have gone, and what made them"); err != nil {
			return err
		}
	}
	return nil
}

// comesBack tells whether what makes the pods of a BackupSchedule is still there, and
// makes pods that can be backed up.
func (l *look) comesBack(ctx context.Context, s *api.BackupSchedule) (bool, error) {
	pods := s.Spec.Template.Spec.Pods
	if pods == nil || pods.Workload == nil || kindOf(pods.Workload) != "StatefulSet" {
		return false, nil
	}
	return l.hasSet(ctx, pods.Workload.Name)
}
