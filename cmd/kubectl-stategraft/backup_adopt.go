package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/ask/adopt"
	"github.com/stategraft/stategraft/operations/ask/backup"
)

// adoptable are the pods of a Backup that are there, and how they stand.
func (f *backupFlags) adoptable(ctx context.Context, t *terminal, at *reached, of api.BackupPods) (*adopting, []corev1.Pod, []adopt.Pod, error) {
	limited, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	pods, err := backup.Live(limited, at, at.namespace, of)
	if err != nil {
		return nil, nil, nil, interrupted(ctx, err)
	}
	a := &adopting{t: t, at: at, output: f.output, timeout: f.adoptTimeout}
	looked, err := a.look(ctx, pods)
	return a, pods, looked, err
}

// adoptFirst gives the pods of a Backup that have no sidecar theirs. Where one cannot be
// given any the Backup could not be complete, and is not made.
func (f *backupFlags) adoptFirst(ctx context.Context, t *terminal, at *reached, of api.BackupPods) error {
	a, pods, looked, err := f.adoptable(ctx, t, at, of)
	if err != nil {
		return err
	}
	var without []corev1.Pod
	var lacking []adopt.Pod
	for i := range looked {
		if lacks(&looked[i]) {
			without, lacking = append(without, pods[i]), append(lacking, looked[i])
		}
	}
	if len(lacking) == 0 {
		return nil
	}
	if cannot := adopt.Cannot(lacking); len(cannot) > 0 {
		for i := range cannot {
			fmt.Fprintf(t.err, "pod/%s %s\n", cannot[i].Name, cannot[i].Line())
		}
		return notBackedUp(t, cannot)
	}
	written, errs := a.write(ctx, without, lacking)
	if len(errs) > 0 {
		return joined(errs)
	}
	after, err := a.follow(ctx, written)
	if err != nil {
		return fmt.Errorf("nothing was backed up: %w", err)
	}
	if cannot := adopt.Cannot(after); len(cannot) > 0 {
		return notBackedUp(t, cannot)
	}
	return nil
}

// lacks tells whether a pod has to have a sidecar before the Backup can be complete; one
// that keeps no data need not.
func lacks(p *adopt.Pod) bool { return !p.Has() && p.State != adopt.StateNeedless }

func notBackedUp(t *terminal, cannot []adopt.Pod) error {
	fmt.Fprintf(t.err, "error: nothing was backed up: %s cannot be adopted; without --adopt the other pods can be, and the backup is not complete\n", strings.Join(adopt.Names(cannot), ", "))
	return errNotBackedUp
}

// planAdopting shows which pods would be adopted first, and tells whether all that lack a
// sidecar would be, and whether there is one to plan the Backup with already.
func (f *backupFlags) planAdopting(ctx context.Context, t *terminal, at *reached, of api.BackupPods) (adopted []string, plannable bool, err error) {
	_, _, looked, err := f.adoptable(ctx, t, at, of)
	if err != nil {
		return nil, false, err
	}
	plannable = len(looked) == 0 || slices.ContainsFunc(looked, func(p adopt.Pod) bool { return p.Has() })
	lacking := slices.DeleteFunc(looked, func(p adopt.Pod) bool { return !lacks(&p) })
	if len(lacking) == 0 {
		return nil, plannable, nil
	}
	out := t.out
	if f.output != "" {
		out = t.err
	}
	if err := adopt.WritePlan(out, at.namespace, lacking, false); err != nil {
		return nil, false, err
	}
	fmt.Fprintln(out)
	if cannot := adopt.Cannot(lacking); len(cannot) > 0 {
		return nil, false, notBackedUp(t, cannot)
	}
	return adopt.Names(lacking), plannable, nil
}
