package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/ask"
	"github.com/stategraft/stategraft/operations/ask/backup"
)

// errNotBackedUp ends with status 1: the Backup is not complete, or not deleted. What
// there is to say about it was said.
var errNotBackedUp = fmt.Errorf("not backed up: %w", errRefused)

func backupCommand() *cobra.Command { return new(backupFlags).command() }

func (f *backupFlags) command() *cobra.Command {
	command := &cobra.Command{
		Use:   "backup statefulset/NAME|pod/NAME...|-l SELECTOR",
		Short: "Back up running pods now, and see to the backups that there are",
		Long: `Asks for a backup of running pods: makes a Backup, which the controller in the
cluster carries out. The databases go on running. It is complete when every pod is,
and the storage has objects of each. docs/backup.md says what happens step by step.

--dry-run only shows the pods, and what speaks against backing them up.
--adopt gives pods without a sidecar theirs first, without restarting them, and waits for
that (kubectl stategraft adopt --help says more).
With --wait it stays until the end. Ctrl-C then leaves the Backup running.
--timeout is the Backup's own: when that is up what is not complete has failed.

Exit status: 0 when it is asked for (with --wait: complete; with --dry-run: could be
complete), 1 when it failed, its time was up, it is not complete or was cancelled (with
--dry-run: could not be complete), 2 when the command line is wrong, no cluster answers,
a right is lacking, or it was interrupted or does not end.`,
		Example: `  kubectl stategraft backup statefulset/cassandra --wait
  kubectl stategraft backup statefulset/cassandra --adopt --wait      # of pods that have no sidecar
  kubectl stategraft backup statefulset/cassandra --name before-upgrade --type full
  kubectl stategraft backup -l app.kubernetes.io/instance=ring --parallel 3 --timeout 6h
  kubectl stategraft backup list -A
  kubectl stategraft backup pin before-upgrade
  kubectl stategraft backup delete before-upgrade --data --wait`,
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: f.completePods,
		RunE: func(command *cobra.Command, args []string) error {
			return here(command, func(ctx context.Context, t *terminal) error { return f.run(ctx, t, args) })
		},
	}
	f.connection.add(command.PersistentFlags(), "namespace (default: the context's)")
	f.addSpec(command.Flags())
	f.addOutput(command.Flags(), "json|yaml|name")
	completeFlags(command, map[string][]string{"type": {"differential", "full"}, "deletion-policy": {"keep", "delete"}, "output": {"json", "yaml", "name"}})
	completeFlag(command, "namespace", f.completeNamespaces)
	command.AddCommand(f.listCommand(), f.showCommand(), f.waitCommand(), f.deleteCommand())
	for _, change := range []backup.Change{backup.Pin, backup.Unpin, backup.Cancel, backup.Suspend, backup.Resume} {
		command.AddCommand(f.changeCommand(change))
	}
	return command
}

// run asks for a backup of the pods that the arguments name.
func (f *backupFlags) run(ctx context.Context, t *terminal, args []string) error {
	request, err := f.request()
	if err != nil {
		return err
	}
	targets, err := ask.ParseTargetsTo("backed up", "list, show, wait, delete, pin, unpin, cancel, suspend, resume", args)
	if err != nil {
		return err
	}
	at, err := f.connect()
	if err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, requestTimeout)
	found, err := backup.Resolve(limited, at, at.namespace, targets, f.selector)
	cancel()
	if err != nil {
		return interrupted(ctx, err)
	}
	if found.Note != "" {
		fmt.Fprintln(t.err, found.Note)
	}
	request.Namespace, request.Targets = at.namespace, *found
	made := request.Backup(t.now())
	if f.dryRun {
		return f.plan(ctx, t, at, made)
	}
	if f.adopt {
		if err := f.adoptFirst(ctx, t, at, found.Pods); err != nil {
			return err
		}
	}
	limited, cancel = context.WithTimeout(ctx, requestTimeout)
	if doubts := backup.Doubts(limited, at, at.namespace, found.Pods); doubts != "" {
		fmt.Fprintln(t.err, "warning:", doubts)
	}
	cancel()
	return asking{object: made, madeUp: f.name == "", wait: f.wait, output: f.output,
		follow: func() error { return f.follow(ctx, t, at, made.Name, longest(made)) }}.ask(ctx, t, at)
}

// plan shows what would be done.
func (f *backupFlags) plan(ctx context.Context, t *terminal, at *reached, made *api.Backup) error {
	var adopted []string
	if f.adopt {
		var plannable bool
		var err error
		switch adopted, plannable, err = f.planAdopting(ctx, t, at, *made.Spec.Pods); {
		case err != nil:
			return err
		case !plannable:
			fmt.Fprintln(t.err, "How the backup goes can be planned once a pod has its sidecar, which does the planning.")
			return nil
		}
	}
	limited, cancel := context.WithTimeout(ctx, planTimeout)
	defer cancel()
	planned, err := backup.Plan(limited, at, made, func(text string) { fmt.Fprintln(t.err, text) })
	switch {
	case err == nil:
	case ctx.Err() != nil:
		return fmt.Errorf("%w: nothing was done", errInterrupted)
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("there is no plan after %s, and nothing was done (%s): see kubectl stategraft check", planTimeout, backup.Stands(planned))
	default:
		return err
	}
	if f.output != "" {
		err = printObject(t.out, f.output, planned, "planned (dry run)")
	} else {
		err = backup.WritePlan(t.out, planned)
	}
	if len(adopted) > 0 {
		fmt.Fprintf(t.err, "The plan of the backup is of the pods as they are now: %s before it begins.\n", several(len(adopted), adopted[0]+" gets its sidecar", "%d pods get their sidecars"))
	}
	if err == nil && !backup.Whole(planned, adopted) {
		return errNotBackedUp
	}
	return err
}
