package main

import (
	"context"

	"github.com/spf13/cobra"

	api "github.com/stategraft/stategraft/api/v1alpha1"
)

func repairCommand() *cobra.Command { return new(restoreFlags).repairCommand() }

// repairCommand asks for a Restore in mode Merge.
func (f *restoreFlags) repairCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "repair [--backup NAME|latest|TIME] statefulset/NAME|pod/NAME...|-l SELECTOR",
		Short: "Write the keys of a backup into a running cluster of Anna again",
		Long: `Brings back keys that a cluster of Anna has lost while it ran, without stopping a pod: of
a node that died, or of one that joined (with more than 50 keys to move Anna never
finishes that, and hides the keys). Makes a Restore in mode Merge: each node of the
cluster writes its share of the backup's keys.

A value that is later than that of the backup stays, and elements of sets are added to
those that are there. So nothing is rolled back: what was deleted from a set since the
backup is there again, and what was written since stays. To go back to a backup, use
kubectl stategraft restore.

It is about the whole cluster, whichever of its pods or StatefulSets is named. It stays
until the end; Ctrl-C leaves the Restore running, as does --wait=false.

Exit status: 0 when it completed (with --wait=false: is asked for; with --dry-run: could
be done), 1 when it failed or was cancelled, 2 when the command line is wrong, no cluster
answers, a right is lacking, or --timeout is up.`,
		Example: `  kubectl stategraft repair statefulset/anna-memory                # from the newest complete backup
  kubectl stategraft repair -l role=memory --backup nightly-20261130-030000 --dry-run`,
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: f.completeTargets,
		RunE: func(command *cobra.Command, args []string) error {
			f.mode, f.yes = "merge", true // it replaces nothing
			if f.dryRun && !command.Flags().Changed("wait") {
				f.wait = false
			}
			return here(command, func(ctx context.Context, t *terminal) error { return f.run(ctx, t, args) })
		},
	}
	f.connection.add(command.Flags(), "namespace (default: the context's)")
	set := command.Flags()
	f.set = set
	set.StringVar(&f.backup, "backup", api.BackupLatest, "name of a Backup of the namespace, or of a backup in the storage; or latest, or a time (2026-11-30T08:00:00Z): the newest complete one, or that not after it")
	set.StringVarP(&f.selector, "selector", "l", "", "repair the cluster of the pods with these labels")
	set.StringVar(&f.prefix, "source-prefix", "", "[storage] prefix that the backup was made with (default: the pods' own)")
	set.StringVar(&f.sourceCluster, "source-cluster", "", "NAMESPACE/CLUSTER of the backup, where its medusa.ini has no prefix of its own")
	set.StringVar(&f.name, "name", "", "name of the Restore (default: the workload's, and the time)")
	set.DurationVar(&f.deadline, "deadline", 0, "how long it may take, such as 6h (default 24h)")
	set.BoolVar(&f.dryRun, "dry-run", false, "show the plan, do nothing")
	set.BoolVar(&f.wait, "wait", true, "stay until it is over, and show how far each pod is")
	f.addTimeout(set)
	f.addOutput(set, "json|yaml|name")
	completeFlags(command, map[string][]string{"output": {"json", "yaml", "name"}})
	completeFlag(command, "backup", f.completeRestorable)
	completeFlag(command, "namespace", f.completeNamespaces)
	return command
}
