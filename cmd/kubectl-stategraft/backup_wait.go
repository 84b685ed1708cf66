package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/ask"
	"github.com/stategraft/stategraft/operations/ask/backup"
)

func (f *backupFlags) waitCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "wait NAME",
		Short: "Stay until a Backup is over, and show how far each pod is",
		Long: `Follows a Backup to its end. Ctrl-C leaves it running. With --deleted it stays until a
Backup that is being deleted is gone, with its data where these are deleted.

Exit status: 0 when it is complete (with --deleted: gone), 1 when it is not, was
cancelled or was deleted meanwhile, 2 when --timeout is up, it was interrupted or it
could not be followed.`,
		Example: `  kubectl stategraft backup wait before-upgrade -n prod --timeout 2h
  kubectl stategraft backup wait before-upgrade -n prod --deleted`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: f.completeBackups(func(b *api.Backup) bool { return !b.Status.Phase.Final() }),
		RunE: func(command *cobra.Command, args []string) error {
			return here(command, func(ctx context.Context, t *terminal) error {
				if err := oneOf(f.output, "", "json", "yaml", "name"); err != nil {
					return err
				}
				if f.timeout < 0 {
					return fmt.Errorf("--timeout %s: it takes a duration, such as 2h, or 0 to wait for the end", f.timeout)
				}
				at, b, err := f.get(ctx, args[0])
				switch {
				case f.deleted && errors.Is(err, backup.ErrNone):
					fmt.Fprintf(t.err, "There is no Backup %s (any more).\n", backupName(args[0]))
					return nil
				case err != nil:
					return err
				case f.deleted && b.DeletionTimestamp.IsZero():
					return fmt.Errorf("the Backup %s is not being deleted: kubectl stategraft backup delete %s -n %s does that", b.Name, b.Name, b.Namespace)
				case f.deleted:
					return f.untilGone(ctx, t, at, b, "")
				}
				return f.follow(ctx, t, at, b.Name, f.timeout)
			})
		},
	}
	command.Flags().DurationVar(&f.timeout, "timeout", 0, "how long to wait, such as 2h (default: to the end)")
	command.Flags().BoolVar(&f.deleted, "deleted", false, "stay until a Backup that is being deleted is gone")
	f.addOutput(command.Flags(), "json|yaml|name")
	completeFlags(command, map[string][]string{"output": {"json", "yaml", "name"}})
	return command
}

// backupName takes what kubectl's -o name prints, too.
func backupName(arg string) string {
	for _, kind := range []string{"backup." + api.Group + "/", "backups." + api.Group + "/", "backup/", "backups/", "sgb/"} {
		arg = strings.TrimPrefix(arg, kind)
	}
	return arg
}

// get reads the Backup that a command is about.
func (f *backupFlags) get(ctx context.Context, arg string) (*reached, *api.Backup, error) {
	at, err := f.connect()
	if err != nil {
		return nil, nil, err
	}
	limited, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	b, err := backup.Get(limited, at, at.namespace, backupName(arg))
	return at, b, interrupted(ctx, err)
}

// follow shows how far a Backup is until it is over, or for so long; 0 for as long as
// it takes. It goes on whatever becomes of who follows it, and that is said.
func (f *backupFlags) follow(ctx context.Context, t *terminal, at *reached, name string, limit time.Duration) error {
	limited, cancel := ctx, context.CancelFunc(func() {})
	if limit > 0 {
		limited, cancel = context.WithTimeout(ctx, limit)
	}
	defer cancel()
	progress := backup.Progress{Progress: t.progress(f.output != "")}
	var last *api.Backup
	follower := backup.Follower{Client: at, Namespace: at.namespace, Name: name, Note: progress.Note, Seen: func(b *api.Backup) bool {
		last = b
		progress.Show(b)
		return b.Status.Phase.Final()
	}}
	err := follower.Follow(limited)
	further := further("backup", name, at.namespace, follower.Idle())
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("%w; the Backup %s is not, %s", errInterrupted, name, further)
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("the Backup %s is not over after %s (%s); %s", name, limit, backup.Stands(last), further)
	case errors.Is(err, ask.ErrGone):
		fmt.Fprintln(t.err, "error:", err)
		return errNotBackedUp
	case err != nil:
		return err
	}
	return f.ended(t, last)
}

// ended says what came of a Backup that is over.
func (f *backupFlags) ended(t *terminal, b *api.Backup) error {
	if f.output != "" {
		if err := printObject(t.out, f.output, b, ""); err != nil {
			return err
		}
	}
	if b.Status.Phase == api.BackupComplete || b.Status.Phase == api.BackupPlanned {
		return nil
	}
	fmt.Fprintf(t.err, "error: the Backup %s is not complete (%s)\n", b.Name, b.Status.Phase)
	for _, line := range backup.Next(b, t.now()) {
		fmt.Fprintln(t.err, " ", line)
	}
	return errNotBackedUp
}
