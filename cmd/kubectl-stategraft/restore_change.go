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

// actsWithin is how long a cancellation is watched for a controller that acts on it.
var actsWithin = 10 * time.Second

// changeCommand is cancel, suspend or resume.
func (f *restoreFlags) changeCommand(change ask.Change) *cobra.Command {
	short := map[ask.Change]string{
		ask.Cancel:  "Give a Restore up: the databases start with what is on their volumes",
		ask.Suspend: "Begin nothing further; what runs is let finish",
		ask.Resume:  "Go on with a suspended Restore",
	}
	command := &cobra.Command{
		Use:               string(change) + " NAME...",
		Short:             short[change],
		Example:           "  kubectl stategraft restore " + string(change) + " back-to-monday -n prod",
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: f.completeRestores,
		RunE: func(command *cobra.Command, args []string) error {
			return here(command, func(ctx context.Context, t *terminal) error {
				return f.changeAll(ctx, t, change, args)
			})
		},
	}
	if change == ask.Cancel {
		command.Flags().BoolVarP(&f.yes, "yes", "y", false, "do not ask, though data are being replaced")
	}
	return command
}

// changeAll changes each; of a cancellation it says what came of it.
func (f *restoreFlags) changeAll(ctx context.Context, t *terminal, change ask.Change, args []string) error {
	one := func(name string) (*reached, *api.Restore, error) { return f.change(ctx, t, change, name) }
	if change != ask.Cancel {
		return changeEach(ctx, args, one, nil)
	}
	return changeEach(ctx, args, one, func(at *reached, restore *api.Restore, until time.Time) error {
		return cancelled(ctx, t, at, restore, until)
	})
}

// joined is one error of several: with status 1 only if that is what all of them end
// with, as those of status 1 have been said already.
func joined(errs []error) error {
	if len(errs) < 2 {
		return errors.Join(errs...)
	}
	var texts []string
	for _, err := range errs {
		if !errors.Is(err, errRefused) {
			texts = append(texts, err.Error())
		}
	}
	if len(texts) == 0 {
		return errs[0]
	}
	return errors.New(strings.Join(texts, "\nerror: "))
}

// change asks for a change. It gives the Restore with the status from before; nil
// where it was so already.
func (f *restoreFlags) change(ctx context.Context, t *terminal, change ask.Change, arg string) (*reached, *api.Restore, error) {
	at, restore, err := f.get(ctx, arg)
	if err != nil {
		return nil, nil, err
	}
	if err := change.Possible(restore); err != nil {
		return nil, nil, err
	}
	if already := change.Already(restore); already != "" {
		fmt.Fprintf(t.out, "restore.%s/%s %s\n", api.Group, restore.Name, already)
		return at, nil, nil
	}
	if change == ask.Cancel && !f.yes {
		if err := mayCancel(ctx, t, restore); err != nil {
			return nil, nil, err
		}
	}
	limited, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	before := restore.Status.DeepCopy()
	if err := change.Apply(limited, at, restore); err != nil {
		return nil, nil, interrupted(ctx, err)
	}
	restore.Status = *before
	if change != ask.Cancel {
		done := map[ask.Change]string{ask.Suspend: "suspended", ask.Resume: "resumed"}[change]
		fmt.Fprintf(t.out, "restore.%s/%s %s\n", api.Group, restore.Name, done)
	}
	return at, restore, nil
}

// cancelled says what became of a cancellation, which somebody has to act on.
func cancelled(ctx context.Context, t *terminal, at *reached, restore *api.Restore, until time.Time) error {
	limited, stop := context.WithTimeout(ctx, requestTimeout+actsWithin)
	defer stop()
	now, acted, err := ask.Acted(limited, at, restore, until)
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("%w; the Restore %s is to be cancelled all the same: kubectl stategraft restore show %s -n %s", errInterrupted, restore.Name, restore.Name, restore.Namespace)
	case err != nil:
		return fmt.Errorf("the Restore %s is to be cancelled; whether anybody acts on it is not known: %w", restore.Name, err)
	case !acted:
		return ask.NotActed(restore, actsWithin)
	}
	fmt.Fprintf(t.out, "restore.%s/%s cancelled\n", api.Group, restore.Name)
	switch {
	case now == nil:
	case !now.Status.Phase.Final():
		fmt.Fprintf(t.err, "The pods that wait for it are deleted, to start without it. In what state the volumes are: kubectl stategraft restore show %s -n %s\n", restore.Name, restore.Namespace)
	default:
		for _, line := range append(ask.Volumes(now), ask.Next(now, nil, t.now())...) {
			fmt.Fprintln(t.err, " ", line)
		}
	}
	return nil
}

// mayCancel asks where a database could start with half of a backup.
func mayCancel(ctx context.Context, t *terminal, restore *api.Restore) error {
	pods := ask.Replacing(restore)
	if len(pods) == 0 {
		return nil
	}
	text := fmt.Sprintf("%s %s restored right now: the data may be replaced in part, and the database would start with them", strings.Join(pods, ", "), several(len(pods), "is", "are"))
	if !t.asks {
		return errors.New(text + "; give --yes to cancel all the same, or suspend it, which lets these finish")
	}
	fmt.Fprintln(t.err, text+".")
	return t.confirm(ctx, "Cancel all the same? (restore suspend lets these finish)")
}
