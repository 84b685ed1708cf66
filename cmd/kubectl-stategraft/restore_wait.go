package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/ask"
)

func (f *restoreFlags) waitCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "wait NAME",
		Short: "Stay until a Restore is over, and show how far each pod is",
		Long: `Follows a Restore to its end. Ctrl-C leaves it running.

Exit status: 0 when it completed, 1 when it failed or was cancelled, 2 when
--timeout is up or it could not be followed.`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: f.completeRestores,
		RunE: func(command *cobra.Command, args []string) error {
			return here(command, func(ctx context.Context, t *terminal) error {
				if err := oneOf(f.output, "", "json", "yaml", "name"); err != nil {
					return err
				}
				at, err := f.connect()
				if err != nil {
					return err
				}
				return f.follow(ctx, t, at, restoreName(args[0]))
			})
		},
	}
	f.addTimeout(command.Flags())
	f.addOutput(command.Flags(), "json|yaml|name")
	return command
}

// restoreName takes what kubectl's -o name prints, too.
func restoreName(arg string) string {
	for _, kind := range []string{"restore." + api.Group + "/", "restores." + api.Group + "/", "restore/", "restores/", "sgr/"} {
		arg = strings.TrimPrefix(arg, kind)
	}
	return arg
}

// follow shows how far a Restore is until it is over. It goes on whatever becomes of
// who follows it, and that is said.
func (f *restoreFlags) follow(ctx context.Context, t *terminal, at *reached, name string) error {
	limited, cancel := ctx, context.CancelFunc(func() {})
	if f.timeout > 0 {
		limited, cancel = context.WithTimeout(ctx, f.timeout)
	}
	defer cancel()
	progress := t.progress(f.output != "")
	var last *api.Restore
	follower := ask.Follower{Client: at, Namespace: at.namespace, Name: name, Note: progress.Note, Seen: func(r *api.Restore) bool {
		last = r
		progress.Show(r)
		return r.Status.Phase.Final()
	}}
	err := follower.Follow(limited)
	further := further("restore", name, at.namespace, follower.Idle())
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("%w; the Restore %s is not, %s", errInterrupted, name, further)
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("the Restore %s is not over after %s (%s); %s", name, f.timeout, ask.Stands(last), further)
	case errors.Is(err, ask.ErrGone):
		fmt.Fprintln(t.err, "error:", err)
		return errNotRestored
	case err != nil:
		return err
	}
	if f.output != "" {
		if err := printObject(t.out, f.output, last, ""); err != nil {
			return err
		}
	}
	if hint := ask.UndoHint(last); hint != "" {
		fmt.Fprintln(t.err, hint)
	}
	if last.Status.Phase == api.RestoreCompleted || last.Status.Phase == api.RestorePlanned {
		return nil
	}
	fmt.Fprintf(t.err, "error: the Restore %s %s\n", name, strings.ToLower(string(last.Status.Phase)))
	for _, line := range append(ask.Volumes(last), ask.Next(last, nil, t.now())...) {
		fmt.Fprintln(t.err, " ", line)
	}
	return errNotRestored
}

func phaseIn(r *api.Restore) string {
	if r == nil || r.Status.Phase == "" {
		return "nobody has taken it up"
	}
	text := string(r.Status.Phase)
	if r.Status.Progress.Pods != "" {
		text += ", pods " + r.Status.Progress.Pods
	}
	return text
}
