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

func (f *backupFlags) deleteCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "delete NAME...",
		Short: "Delete Backups, with their data or without",
		Long: `Deletes Backups. What becomes of the data in the storage is spec.deletionPolicy:
Keep leaves them, and the next look at the storage makes an object of them again;
Delete deletes them first. --data and --keep-data settle that here. The data of a
Backup that is pinned are not deleted.

On a terminal it is asked before data are deleted; --yes goes without, and is needed
where there is no terminal. Data that a restore reads, or while a backup of the same
cluster runs, are deleted after it; --wait stays until all is gone, and so does
backup wait NAME --deleted later.

Exit status: 0 when that is asked for (with --wait: done), 1 when it is pinned or was not
agreed to, 2 when the command line is wrong, it is not over, no cluster answers, a right
is lacking, or --timeout is up.`,
		Example: `  kubectl stategraft backup delete before-upgrade                  # as its spec has it
  kubectl stategraft backup delete before-upgrade --data --wait    # and its data
  kubectl stategraft backup delete before-upgrade --keep-data`,
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: f.completeBackups(nil),
		RunE: func(command *cobra.Command, args []string) error {
			return here(command, func(ctx context.Context, t *terminal) error { return f.delete(ctx, t, args) })
		},
	}
	set := command.Flags()
	set.BoolVar(&f.data, "data", false, "delete the data, too, whatever the spec says")
	set.BoolVar(&f.keepData, "keep-data", false, "keep the data, whatever the spec says")
	set.BoolVarP(&f.yes, "yes", "y", false, "do not ask, though data are deleted")
	set.BoolVar(&f.wait, "wait", false, "stay until the object is gone, and its data where they are deleted")
	set.DurationVar(&f.timeout, "timeout", 0, "how long to wait, such as 10m (default: to the end)")
	f.addOutput(set, "name")
	completeFlags(command, map[string][]string{"output": {"name"}})
	return command
}

// delete looks at all of them before it begins with the first.
func (f *backupFlags) delete(ctx context.Context, t *terminal, args []string) error {
	policy, err := f.fate()
	if err != nil {
		return err
	}
	var at *reached
	var all []*api.Backup
	var doomed []string
	for _, arg := range args {
		var b *api.Backup
		if at, b, err = f.get(ctx, arg); err != nil {
			return err
		}
		if err := backup.Deletable(b, policy); errors.Is(err, backup.ErrPinned) {
			fmt.Fprintln(t.err, "error:", err)
			return errNotBackedUp
		} else if err != nil {
			return err
		}
		if backup.InStorage(b) != "" && backup.Fate(b, policy) == api.DeletionDelete {
			doomed = append(doomed, b.Name)
		}
		all = append(all, b)
	}
	if len(doomed) > 0 && !f.yes {
		if err := mayDelete(ctx, t, doomed); err != nil {
			return err
		}
	}
	for _, b := range all {
		if err := f.deleteOne(ctx, t, at, b, policy); err != nil {
			return err
		}
	}
	if !f.wait {
		return nil
	}
	for _, b := range all {
		if err := f.untilGone(ctx, t, at, b, policy); err != nil {
			return err
		}
	}
	return nil
}

// fate is what the flags say of the data; nothing where they leave that to the spec.
func (f *backupFlags) fate() (api.DeletionPolicy, error) {
	switch {
	case oneOf(f.output, "", "name") != nil:
		return "", oneOf(f.output, "", "name")
	case f.data && f.keepData:
		return "", errors.New("--data and --keep-data exclude one another")
	case f.timeout < 0:
		return "", fmt.Errorf("--timeout %s: it takes a duration, such as 10m, or 0 to wait for the end", f.timeout)
	case f.timeout > 0 && !f.wait:
		return "", fmt.Errorf("--timeout %s: nothing is waited for; give --wait", f.timeout)
	case f.data:
		return api.DeletionDelete, nil
	case f.keepData:
		return api.DeletionKeep, nil
	}
	return "", nil
}

// mayDelete asks before data are deleted.
func mayDelete(ctx context.Context, t *terminal, names []string) error {
	text := fmt.Sprintf("the data of %s are deleted from the storage for good", strings.Join(names, ", "))
	if !t.asks {
		return errors.New(text + ", and there is no terminal to ask on: give --yes, or --keep-data to delete " + several(len(names), "the object", "the objects") + " only")
	}
	fmt.Fprintln(t.err, strings.ToUpper(text[:1])+text[1:]+".")
	return t.confirm(ctx, "Delete them?")
}

// deleteOne deletes one and says what becomes of the data.
func (f *backupFlags) deleteOne(ctx context.Context, t *terminal, at *reached, b *api.Backup, policy api.DeletionPolicy) error {
	limited, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	err := backup.Delete(limited, at, b, policy)
	switch {
	case errors.Is(err, backup.ErrPinned): // in the meantime
		fmt.Fprintln(t.err, "error:", err)
		return errNotBackedUp
	case err != nil:
		return interrupted(ctx, err)
	case f.output != "":
		return printObject(t.out, f.output, b, "")
	}
	path := fmt.Sprintf("%s -n %s", b.Name, b.Namespace)
	switch {
	case backup.InStorage(b) == "":
		fmt.Fprintf(t.out, "%s deleted; the storage has nothing of it\n", nameOf(b))
	case backup.Fate(b, policy) == api.DeletionDelete:
		fmt.Fprintf(t.out, "%s is being deleted, and its data before it\n", nameOf(b))
		if !f.wait {
			fmt.Fprintf(t.err, "To see it gone: kubectl stategraft backup wait %s --deleted; what it waits for: kubectl stategraft backup show %s\n", path, path)
		}
	default:
		fmt.Fprintf(t.out, "%s deleted; its data stay in the storage as %s\n", nameOf(b), ask.Clean(backup.InStorage(b)))
		if b.Status.Phase != api.BackupMissing && b.Status.Phase != api.BackupDeleting {
			fmt.Fprintln(t.err, "The next look at the storage makes an object of them again. To delete the data, too: --data")
		}
	}
	return nil
}

// untilGone stays until the object is gone, and says what is waited for.
func (f *backupFlags) untilGone(ctx context.Context, t *terminal, at *reached, b *api.Backup, policy api.DeletionPolicy) error {
	limited, cancel := ctx, context.CancelFunc(func() {})
	if f.timeout > 0 {
		limited, cancel = context.WithTimeout(ctx, f.timeout)
	}
	defer cancel()
	waits := ""
	say := func(text string) {
		if text != "" && text != waits {
			waits = text
			fmt.Fprintf(t.err, "%s %s: %s\n", t.now().UTC().Format(time.TimeOnly), b.Name, text)
		}
	}
	follower := backup.Follower{Client: at, Namespace: b.Namespace, Name: b.Name, Of: b.UID, Note: say, Seen: func(now *api.Backup) bool {
		b = now
		say(backup.Waits(now))
		return false
	}}
	err := follower.Follow(limited)
	switch {
	case errors.Is(err, ask.ErrGone):
		if f.output == "" && backup.InStorage(b) != "" && backup.Fate(b, policy) == api.DeletionDelete {
			fmt.Fprintf(t.out, "%s gone, and its data\n", nameOf(b))
		}
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("%w; the deletion of Backup %s goes on: kubectl stategraft backup show %s -n %s", errInterrupted, b.Name, b.Name, b.Namespace)
	case errors.Is(err, context.DeadlineExceeded):
		if waits == "" {
			waits = "the controller has not said why"
		}
		return fmt.Errorf("the Backup %s is not gone after %s (%s); its deletion goes on: kubectl stategraft backup show %s -n %s", b.Name, f.timeout, waits, b.Name, b.Namespace)
	}
	return err
}
