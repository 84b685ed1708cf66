// Command stategraft-agent runs in the pods: it keeps Medusa configured and
// running, takes the snapshots for it and restores a node's data before its
// database starts. The containers that call it are in package patches.
package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
)

func main() {
	if err := root().Execute(); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func root() *cobra.Command {
	root := &cobra.Command{
		Use:           "stategraft-agent",
		Short:         "Backs up and restores the database of the pod it runs in",
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.CompletionOptions.DisableDefaultCmd = true
	medusa := &cobra.Command{Use: "medusa", Short: "Runs Medusa, in its image"}
	medusa.AddCommand(
		&cobra.Command{Use: "serve", Short: "Serve Medusa's gRPC API and keep it running", Args: cobra.NoArgs, RunE: serve},
		&cobra.Command{Use: "restore", Short: "Restore the node's data, once", Args: cobra.NoArgs, RunE: restoreOnce},
	)
	root.AddCommand(
		&cobra.Command{Use: "pod", Short: "Place the agent and keep Medusa's configuration up to date", Args: cobra.NoArgs, RunE: runPod},
		&cobra.Command{Use: "setup", Short: "Prepare a restore: volume, agent and configuration", Args: cobra.NoArgs, RunE: setup},
		&cobra.Command{Use: "snapshot-server", Short: "Take and clear snapshots for Medusa by nodetool", Args: cobra.NoArgs, RunE: snapshots},
		&cobra.Command{Use: "status", Short: "Print what the pod's containers tell of themselves", Args: cobra.NoArgs, RunE: status},
		&cobra.Command{Use: "count", Short: "Count the tables in the directories that are on the input", Args: cobra.NoArgs, RunE: count, Hidden: true},
		medusa,
		annaCommand(),
		verifyCommand(),
		adoptedCommand(),
	)
	return root
}
