package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/stategraft/stategraft/operations/ask/status"
	"github.com/stategraft/stategraft/webhook"
)

// errBehind ends with status 1: a pod's last backup is too old, or none is made any
// more. Which one was said.
var errBehind = fmt.Errorf("behind: %w", errRefused)

type statusFlags struct {
	connection
	allNamespace, check bool
	output              string
}

func statusCommand() *cobra.Command {
	f := &statusFlags{}
	command := &cobra.Command{
		Use:   "status",
		Short: "Show how old the last complete backup of each pod is, and which are behind",
		Long: `Shows each pod that ought to be backed up: whether it has its sidecar, its last
complete backup, how old that is, its size, when the next is due, and what came of the
last restore on trial. A pod is behind when that backup is older than the annotation
stategraft.io/rpo of the pod or its namespace allows; without one, than twice the
longest gap of its BackupSchedule. The age counts from when the backup was begun.
Below the table are BackupSchedules that are refused or have no pods.

Exit status: 0; with --check 1 when a pod is behind or has no sidecar, a BackupSchedule
that is not suspended is refused or has no pods (its StatefulSet is scaled to 0, say), or
the namespace has databases and is not labelled; 2 when the command line is wrong, no
cluster answers or a right is lacking.`,
		Example: `  kubectl stategraft status -n prod
  kubectl stategraft status -A -o wide
  kubectl stategraft status -A --check || echo "something is not backed up as it should be"`,
		Args:              inNamespace,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(command *cobra.Command, _ []string) error {
			return here(command, f.run)
		},
	}
	f.connection.add(command.Flags(), "namespace (default: the context's)")
	command.Flags().BoolVarP(&f.allNamespace, "all-namespaces", "A", false, "of all labelled namespaces")
	command.Flags().BoolVar(&f.check, "check", false, "end with status 1 when a pod is behind, or is not protected")
	command.Flags().StringVarP(&f.output, "output", "o", "", "json|yaml|wide")
	completeFlags(command, map[string][]string{"output": {"json", "yaml", "wide"}})
	completeFlag(command, "namespace", f.completeNamespaces)
	return command
}

func (f *statusFlags) run(ctx context.Context, t *terminal) error {
	if err := oneOf(f.output, "", "json", "yaml", "wide"); err != nil {
		return err
	}
	at, namespace, err := f.reach(f.allNamespace)
	if err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	found, err := status.Read(limited, at, namespace, webhook.DefaultConfig(), t.now())
	if err != nil {
		return interrupted(ctx, err)
	}
	if err := f.print(t, found, namespace); err != nil {
		return err
	}
	if f.check && found.Troubled() {
		return errBehind
	}
	return nil
}

func (f *statusFlags) print(t *terminal, found *status.Status, namespace string) error {
	if f.output == "json" || f.output == "yaml" {
		return printAs(t.out, f.output, found.Document())
	}
	for _, note := range found.Notes {
		fmt.Fprintln(t.err, note)
	}
	problems := func() {
		for _, line := range found.Problems {
			fmt.Fprintln(t.err, line)
		}
	}
	if len(found.Rows) == 0 {
		if len(found.Problems) > 0 {
			problems()
			return nil
		}
		where := " in a labelled namespace"
		if namespace != "" {
			where = " in namespace " + namespace
		}
		fmt.Fprintf(t.err, "No pod that ought to be backed up%s.\n", where)
		return nil
	}
	if err := status.Write(t.out, found.Rows, f.output == "wide", t.now()); err != nil {
		return err
	}
	for _, line := range status.Summary(found.Rows) {
		fmt.Fprintln(t.err, line)
	}
	for _, line := range found.Adoptions {
		fmt.Fprintln(t.err, line)
	}
	problems()
	return nil
}

// inNamespace is for commands that are about a namespace and take no names.
func inNamespace(command *cobra.Command, args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("%s: %s takes no names; for the namespace say -n %s", args[0], command.CommandPath(), args[0])
	}
	return nil
}
