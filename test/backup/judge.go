package backup

import (
	"fmt"
	"slices"

	api "github.com/stategraft/stategraft/api/v1alpha1"
)

// Judge holds what a Backup says against what the storage has.
func (r *Ring) Judge(b *api.Backup, ends ...api.BackupPhase) error {
	if !slices.Contains(ends, b.Status.Phase) {
		return fmt.Errorf("it is %s, want one of %v: %s %+v", b.Status.Phase, ends, b.Status.Message, b.Status.Pods)
	}
	parts := r.Storage.Parts(b.Status.Name)
	complete := 0
	for _, p := range b.Status.Pods {
		part := parts[p.Name]
		there := !part.Finished.IsZero() && part.Objects > 0
		if p.Phase == api.PodBackupComplete {
			complete++
			if !there || p.Objects != part.Objects || p.Bytes != part.Bytes {
				return fmt.Errorf("pod %s is complete with %d objects, the storage has %+v", p.Name, p.Objects, part)
			}
		}
		if !p.Phase.Final() && p.Phase != api.PodBackupWaiting && b.Status.Phase != api.BackupCancelled {
			return fmt.Errorf("pod %s is %s in a Backup that is %s", p.Name, p.Phase, b.Status.Phase)
		}
	}
	switch {
	case b.Status.Phase == api.BackupComplete && complete != r.Size,
		b.Status.Phase == api.BackupPartial && (complete == 0 || complete == r.Size),
		b.Status.Phase == api.BackupFailed && complete > 0:
		return fmt.Errorf("it is %s, and %d of %d pods are complete", b.Status.Phase, complete, r.Size)
	case b.Status.Finished == nil || b.Status.Message == "":
		return fmt.Errorf("it is %s at %v: %q", b.Status.Phase, b.Status.Finished, b.Status.Message)
	}
	if o := r.Storage.Overlaps(); len(o) > 0 {
		return fmt.Errorf("backups of a node overlap: %v", o)
	}
	if d := r.Storage.Damaged(); len(d) > 0 {
		return fmt.Errorf("damaged: %v", d)
	}
	return nil
}
