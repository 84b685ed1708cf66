package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/ask"
	"github.com/stategraft/stategraft/operations/ask/backup"
)

// changeCommand is pin, unpin, cancel, suspend or resume.
func (f *backupFlags) changeCommand(change backup.Change) *cobra.Command {
	short := map[backup.Change]string{
		backup.Pin:     "Keep a Backup for good: no retention deletes it, and its data stay whoever deletes the object",
		backup.Unpin:   "Let retention and deletionPolicy decide about a Backup again",
		backup.Cancel:  "Give a Backup up: it begins no further pod, and is not complete unless all pods complete even so",
		backup.Suspend: "Begin no further pod; what runs is let finish, and the timeout goes on",
		backup.Resume:  "Go on with a suspended Backup",
	}
	long := map[backup.Change]string{
		backup.Cancel: `Gives Backups up: no further pod is begun. Pods that upload finish, and what they
uploaded stays. It is not complete then, unless all pods complete even so.

Exit status: 0 when somebody acts on it, 2 when nobody does, there is nothing to cancel,
the command line is wrong, no cluster answers or a right is lacking.`,
	}
	example := map[backup.Change]string{
		backup.Pin:     "  kubectl stategraft backup pin before-upgrade -n prod",
		backup.Unpin:   "  kubectl stategraft backup unpin before-upgrade -n prod",
		backup.Cancel:  "  kubectl stategraft backup cancel before-upgrade -n prod\n  kubectl stategraft backup wait before-upgrade -n prod      # what came of it",
		backup.Suspend: "  kubectl stategraft backup suspend before-upgrade -n prod\n  kubectl stategraft backup resume before-upgrade -n prod    # goes on",
		backup.Resume:  "  kubectl stategraft backup resume before-upgrade -n prod",
	}
	return &cobra.Command{
		Use:               string(change) + " NAME...",
		Short:             short[change],
		Long:              long[change],
		Example:           example[change],
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: f.completeBackups(func(b *api.Backup) bool { return change.Possible(b) == nil && change.Already(b) == "" }),
		RunE: func(command *cobra.Command, args []string) error {
			return here(command, func(ctx context.Context, t *terminal) error {
				return f.changeAll(ctx, t, change, args)
			})
		},
	}
}

// changeAll changes each; of a cancellation it says what came of it.
func (f *backupFlags) changeAll(ctx context.Context, t *terminal, change backup.Change, args []string) error {
	one := func(name string) (*reached, *api.Backup, error) { return f.change(ctx, t, change, name) }
	if change != backup.Cancel {
		return changeEach(ctx, args, one, nil)
	}
	return changeEach(ctx, args, one, func(at *reached, b *api.Backup, until time.Time) error {
		return backupCancelled(ctx, t, at, b, until)
	})
}

// change asks for a change. It gives the Backup with the status from before; nil where
// it was so already.
func (f *backupFlags) change(ctx context.Context, t *terminal, change backup.Change, arg string) (*reached, *api.Backup, error) {
	at, b, err := f.get(ctx, arg)
	if err != nil {
		return nil, nil, err
	}
	if err := change.Possible(b); err != nil {
		return nil, nil, err
	}
	if already := change.Already(b); already != "" {
		fmt.Fprintf(t.out, "%s %s\n", nameOf(b), already)
		return at, nil, nil
	}
	limited, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	before := b.Status.DeepCopy()
	if err := change.Apply(limited, at, b); err != nil {
		return nil, nil, interrupted(ctx, err)
	}
	b.Status = *before
	if change != backup.Cancel {
		fmt.Fprintf(t.out, "%s %s\n", nameOf(b), change.Done())
	}
	return at, b, nil
}

// backupCancelled says what became of a cancellation, which somebody has to act on.
func backupCancelled(ctx context.Context, t *terminal, at *reached, b *api.Backup, until time.Time) error {
	limited, stop := context.WithTimeout(ctx, requestTimeout+actsWithin)
	defer stop()
	now, acted, err := ask.Acted(limited, at, b, until)
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("%w; the Backup %s is to be cancelled all the same: kubectl stategraft backup show %s -n %s", errInterrupted, b.Name, b.Name, b.Namespace)
	case err != nil:
		return fmt.Errorf("the Backup %s is to be cancelled; whether anybody acts on it is not known: %w", b.Name, err)
	case !acted:
		return backup.NotActed(b, actsWithin)
	}
	switch {
	case now == nil:
		fmt.Fprintf(t.out, "%s gone\n", nameOf(b))
	case !now.Status.Phase.Final():
		fmt.Fprintf(t.out, "%s is asked to be cancelled: pods that upload finish\n", nameOf(b))
		fmt.Fprintf(t.err, "What comes of it: kubectl stategraft backup wait %s -n %s\n", b.Name, b.Namespace)
	case now.Status.Phase != api.BackupCancelled:
		fmt.Fprintf(t.out, "%s was over before it could be cancelled (%s)\n", nameOf(b), now.Status.Phase)
	default:
		fmt.Fprintf(t.out, "%s cancelled\n", nameOf(b))
	}
	return nil
}
