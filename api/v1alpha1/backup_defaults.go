package v1alpha1

import "time"

// Found tells whether the backup was in the storage before the object.
func (b *Backup) Found() bool { return b.Spec.Existing != nil }

// Keeps tells whether the data stay when the object is deleted.
func (b *Backup) Keeps() bool {
	return b.Spec.Pinned || b.Spec.DeletionPolicy != DeletionDelete
}

// TypeOrDefault is the type, of a spec that asks for a backup.
func (s *BackupSpec) TypeOrDefault() BackupType {
	if s.Type == "" {
		return DefaultBackupType
	}
	return s.Type
}

// TimeoutOrDefault is how long all may take.
func (s *BackupSpec) TimeoutOrDefault() time.Duration {
	if s.Timeout == nil {
		return DefaultBackupTimeout
	}
	return s.Timeout.Duration
}

// RetriesOrDefault is how often a pod that failed is tried again.
func (s *BackupSpec) RetriesOrDefault() int32 {
	if s.Retries == nil {
		return DefaultBackupRetries
	}
	return *s.Retries
}

// HistoryOrDefault is how many runs are told of.
func (s *BackupScheduleSpec) HistoryOrDefault() int {
	if s.HistoryLimit == nil {
		return DefaultHistoryLimit
	}
	return int(*s.HistoryLimit)
}

// FailedHistoryOrDefault is how many Backups that are not complete stay.
func (s *BackupScheduleSpec) FailedHistoryOrDefault() int {
	if s.FailedHistoryLimit == nil {
		return DefaultFailedHistoryLimit
	}
	return int(*s.FailedHistoryLimit)
}
