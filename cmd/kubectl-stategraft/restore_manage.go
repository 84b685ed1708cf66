package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/ask"
)

func (f *restoreFlags) listCommand() *cobra.Command {
	command := &cobra.Command{
		Use:               "list",
		Aliases:           []string{"ls"},
		Short:             "List Restores and how far they are",
		Example:           "  kubectl stategraft restore list -n prod\n  kubectl stategraft restore list -A -o wide",
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(command *cobra.Command, _ []string) error {
			return here(command, f.list)
		},
	}
	command.Flags().BoolVarP(&f.allNamespace, "all-namespaces", "A", false, "of all namespaces")
	f.addOutput(command.Flags(), "json|yaml|wide|name")
	return command
}

func (f *restoreFlags) list(ctx context.Context, t *terminal) error {
	if err := oneOf(f.output, "", "json", "yaml", "wide", "name"); err != nil {
		return err
	}
	at, namespace, err := f.reach(f.allNamespace)
	if err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	list, err := ask.List(limited, at, namespace)
	if err != nil {
		return interrupted(ctx, err)
	}
	if done, err := printed(t, f.output, namespace, list.ListMeta, list.Items); done {
		return err
	}
	return ask.WriteList(t.out, list.Items, f.allNamespace, f.output == "wide", t.now())
}

func (f *restoreFlags) showCommand() *cobra.Command {
	command := &cobra.Command{
		Use:               "show NAME",
		Short:             "Show a Restore: how far each pod is, conditions, what to do next",
		Example:           "  kubectl stategraft restore show back-to-monday -n prod",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: f.completeRestores,
		RunE: func(command *cobra.Command, args []string) error {
			return here(command, func(ctx context.Context, t *terminal) error {
				if err := oneOf(f.output, "", "json", "yaml", "name"); err != nil {
					return err
				}
				at, restore, err := f.get(ctx, args[0])
				if err != nil {
					return err
				}
				if f.output != "" {
					return printObject(t.out, f.output, restore, "")
				}
				return ask.Show(t.out, restore, others(ctx, at), t.now())
			})
		},
	}
	f.addOutput(command.Flags(), "json|yaml|name")
	return command
}

// others are the Restores of the namespace, which only tell more: who may not list them
// does without.
func others(ctx context.Context, at *reached) []api.Restore {
	limited, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	list, err := ask.List(limited, at, at.namespace)
	if err != nil {
		return nil
	}
	return list.Items
}

// get reads the Restore that a command is about.
func (f *restoreFlags) get(ctx context.Context, arg string) (*reached, *api.Restore, error) {
	at, err := f.connect()
	if err != nil {
		return nil, nil, err
	}
	limited, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	restore, err := ask.Get(limited, at, at.namespace, restoreName(arg))
	return at, restore, interrupted(ctx, err)
}

func (f *restoreFlags) undoCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "undo NAME [pod/NAME...]",
		Short: "Go back to the data that the pods had before a Restore",
		Long: `Makes a Restore that gives the pods of an earlier one their previous data back,
where these were kept (keepPrevious) and are not removed yet: they are once the
database has run for a day. Pods may be named; without, it is all that may have
some: PREVIOUS in restore show is kept, or perhaps where the Restore was given up in
the middle, of which only the volume knows. If one turns out to have none it is
refused before anything is touched: name the others then.

Exit status: as of restore.`,
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: f.completeRestores,
		RunE: func(command *cobra.Command, args []string) error {
			f.set = command.Flags()
			return here(command, func(ctx context.Context, t *terminal) error { return f.undo(ctx, t, args) })
		},
	}
	f.addCourse(command.Flags())
	return command
}

func (f *restoreFlags) undo(ctx context.Context, t *terminal, args []string) error {
	request := &ask.Request{}
	if err := f.course(request); err != nil {
		return err
	}
	var targets []ask.Target
	if len(args) > 1 {
		var err error
		if targets, err = ask.ParseTargets(args[1:]); err != nil {
			return err
		}
	}
	at, earlier, err := f.get(ctx, args[0])
	if err != nil {
		return err
	}
	switch pending := earlier.Status.Pending; {
	case !earlier.Status.Phase.Final():
		return fmt.Errorf("the Restore %s is not over (%s): cancel it first, or wait for it", earlier.Name, phaseIn(earlier))
	case len(pending) > 0:
		return fmt.Errorf("the Restore %s (%s) still keeps %s from starting: cancel it first", earlier.Name, phaseIn(earlier), strings.Join(pending, ", "))
	}
	if err := f.agreed(t); err != nil { // asked of what there is
		return err
	}
	request.Namespace, request.Undo = at.namespace, earlier.Name
	if len(targets) > 0 {
		limited, cancel := context.WithTimeout(ctx, requestTimeout)
		found, err := ask.Resolve(limited, at, at.namespace, targets, "")
		cancel()
		if err != nil {
			return interrupted(ctx, err)
		}
		request.Pods = *found
	}
	return f.ask(ctx, t, at, request)
}
