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
)

// errNotRestored ends with status 1: the Restore failed or was cancelled, or
// nobody agreed to it. What there is to say about it was said.
var errNotRestored = fmt.Errorf("not restored: %w", errRefused)

// Times that a person waits for.
const (
	requestTimeout = 30 * time.Second // for what is read or written at once
	planTimeout    = 5 * time.Minute  // for a plan; a pod may have to be started for it
	podsTimeout    = 30 * time.Minute // for the pods of a StatefulSet, one after the other
)

func restoreCommand() *cobra.Command { return new(restoreFlags).command() }

func (f *restoreFlags) command() *cobra.Command {
	command := &cobra.Command{
		Use:   "restore [--backup NAME|latest|TIME] pod/NAME...|statefulset/NAME|-l SELECTOR",
		Short: "Restore running pods from a backup, once, and see how far it is",
		Long: `Asks for a restore of running pods: makes a Restore, which the controller in the
cluster carries out. The pods are stopped, come back with the data of the backup,
and do not start without them. docs/restore.md says what happens step by step.

The data that the pods have are replaced. On a terminal the plan is shown first,
and asked about; --yes goes without, and is needed where there is no terminal.
--dry-run only shows the plan: pods, nodes of the backup, bytes, what would be lost.

With --wait it stays until the end. Ctrl-C then leaves the Restore running. Pods of a
StatefulSet that are still to come are waited for, too.

--backup takes the name of a Backup (kubectl stategraft backup list) or that of a backup
in the storage; a Restore object and the annotation take only the latter.

Exit status: 0 when it is asked for (with --wait: completed; with --dry-run: could
be done), 1 when it failed, was cancelled or was not agreed to, 2 when the command
line is wrong, no cluster answers, a right is lacking, or --timeout is up.`,
		Example: `  kubectl stategraft restore pod/cassandra-1 --wait                       # the newest complete backup
  kubectl stategraft restore --backup nightly-20261130-030000 statefulset/cassandra --dry-run
  kubectl stategraft restore --backup 2026-11-30T08:00:00Z -l app=cassandra --yes --wait --timeout 2h
  kubectl stategraft restore --mode remote --source-cluster "prod/Test Cluster" statefulset/copy -n staging
  kubectl stategraft restore list -A`,
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: f.completeTargets,
		RunE: func(command *cobra.Command, args []string) error {
			return here(command, func(ctx context.Context, t *terminal) error { return f.run(ctx, t, args) })
		},
	}
	f.connection.add(command.PersistentFlags(), "namespace (default: the context's)")
	f.addSpec(command.Flags())
	f.addCourse(command.Flags())
	f.registerCompletions(command)
	command.AddCommand(f.listCommand(), f.showCommand(), f.waitCommand(), f.undoCommand(),
		f.changeCommand(ask.Cancel), f.changeCommand(ask.Suspend), f.changeCommand(ask.Resume))
	return command
}

// run asks for a restore of the pods that the arguments name.
func (f *restoreFlags) run(ctx context.Context, t *terminal, args []string) error {
	request, err := f.request()
	if err != nil {
		return err
	}
	targets, err := ask.ParseTargets(args)
	if err != nil {
		return err
	}
	if err := f.agreed(t); err != nil {
		return err
	}
	at, err := f.connect()
	if err != nil {
		return err
	}
	found, err := f.resolve(ctx, t, at, targets)
	if err != nil {
		return err
	}
	request.Namespace, request.Pods = at.namespace, *found
	if err := named(ctx, t, at, request); err != nil {
		return err
	}
	return f.ask(ctx, t, at, request)
}

// resolve finds the pods. With --wait those of a StatefulSet that are still to come are
// waited for: after the loss of everything it was applied a moment ago.
func (f *restoreFlags) resolve(ctx context.Context, t *terminal, at *reached, targets []ask.Target) (*ask.Pods, error) {
	limit := f.timeout
	if limit == 0 {
		limit = podsTimeout
	}
	until, said := time.Now().Add(limit), ""
	for {
		limited, cancel := context.WithTimeout(ctx, requestTimeout)
		found, err := ask.Resolve(limited, at, at.namespace, targets, f.selector)
		cancel()
		var lacking *ask.LackingError
		if err == nil || !f.wait || !errors.As(err, &lacking) || time.Now().After(until) {
			return found, interrupted(ctx, err)
		}
		if lacking.Have != said {
			said = lacking.Have
			fmt.Fprintln(t.err, said+": waiting for the others")
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: nothing was done", errInterrupted)
		case <-time.After(podsAgain):
		}
	}
}

// podsAgain is how long it takes until pods that lack are looked for again.
var podsAgain = 2 * time.Second

// ask makes the Restore, or only its plan, and waits for it if it is to.
func (f *restoreFlags) ask(ctx context.Context, t *terminal, at *reached, request *ask.Request) error {
	restore, err := request.Restore(t.now())
	if err != nil {
		return err
	}
	if f.dryRun {
		return f.plan(ctx, t, at, restore)
	}
	if !f.yes {
		if err := f.confirm(ctx, t, at, restore); err != nil {
			return err
		}
	}
	return asking{object: restore, madeUp: request.Name == "", wait: f.wait, output: f.output,
		follow: func() error { return f.follow(ctx, t, at, restore.Name) }}.ask(ctx, t, at)
}

// agreed refuses, before anything is looked for, what nobody can be asked about.
func (f *restoreFlags) agreed(t *terminal) error {
	if f.yes || f.dryRun || t.asks {
		return nil
	}
	return errors.New("a restore replaces the data of the pods, and there is no terminal to ask on: give --yes, or --dry-run to see the plan")
}

// plan shows what would be done.
func (f *restoreFlags) plan(ctx context.Context, t *terminal, at *reached, restore *api.Restore) error {
	planned, err := f.planned(ctx, t, at, restore)
	if err != nil {
		return err
	}
	if f.output != "" {
		err = printObject(t.out, f.output, planned, "planned (dry run)")
	} else {
		err = ask.WritePlan(t.out, planned, t.now())
	}
	if err == nil && planned.Status.Phase != api.RestorePlanned {
		return errNotRestored
	}
	return err
}

func (f *restoreFlags) planned(ctx context.Context, t *terminal, at *reached, restore *api.Restore) (*api.Restore, error) {
	limit := f.timeout
	if limit == 0 {
		limit = planTimeout
	}
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	planned, err := ask.Plan(limited, at, restore, func(text string) { fmt.Fprintln(t.err, text) })
	switch {
	case err == nil:
		return planned, nil
	case ctx.Err() != nil:
		return nil, fmt.Errorf("%w: nothing was done", errInterrupted)
	case errors.Is(err, context.DeadlineExceeded):
		return nil, fmt.Errorf("there is no plan after %s, and nothing was done (%s): give it longer with --timeout, or see kubectl stategraft check", limit, ask.Stands(planned))
	}
	return nil, err
}

// confirm shows the plan and asks. What is agreed to is the backup that was shown, not
// one that is the latest a minute later.
func (f *restoreFlags) confirm(ctx context.Context, t *terminal, at *reached, restore *api.Restore) error {
	planned, err := f.planned(ctx, t, at, restore)
	if err != nil {
		return err
	}
	if err := ask.WritePlan(t.err, planned, t.now()); err != nil {
		return err
	}
	if planned.Status.Phase != api.RestorePlanned {
		return errNotRestored
	}
	if planned.Status.Backup != "" {
		restore.Spec.Backup = planned.Status.Backup
	}
	if restore.Spec.Mode == api.Merge {
		return t.confirm(ctx, "\nWrite the keys of the backup into the cluster?")
	}
	question := fmt.Sprintf("\nStop %s and replace the data?", several(len(planned.Status.Pods), "this pod", "these %d pods"))
	return t.confirm(ctx, question)
}

func several(n int, one, more string) string {
	if n == 1 {
		return one
	}
	if strings.Contains(more, "%d") {
		return fmt.Sprintf(more, n)
	}
	return more
}

// interrupted has Ctrl-C said as such.
func interrupted(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return errInterrupted
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("no cluster answers within %s: %w", requestTimeout, err)
	}
	return err
}
