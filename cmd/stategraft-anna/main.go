// Command stategraft-anna is the part of stategraft-agent that stands beside Anna and
// Cloudburst. It is a program of its own because it brings the clients of the object
// storages along, which no Cassandra pod should have to carry. The containers that call it,
// by way of stategraft-agent, are in package patches.
package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
)

func main() {
	boundMemory()
	if err := root().Execute(); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func root() *cobra.Command {
	root := &cobra.Command{
		Use:           "stategraft-anna",
		Short:         "Backs up and restores Anna, and runs what Anna and Cloudburst need in a cluster",
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.CompletionOptions.DisableDefaultCmd = true
	root.AddCommand(
		&cobra.Command{Use: "setup", Short: "Write the configuration of the pod's processes", Args: cobra.NoArgs, RunE: setupPod},
		&cobra.Command{Use: "restore", Short: "Fetch, verify and stage a backup before the node starts", Args: cobra.NoArgs, RunE: restore},
		&cobra.Command{Use: "serve", Short: "Stay beside the node: backups, replays, membership", Args: cobra.NoArgs, RunE: serveNode},
		&cobra.Command{Use: "adopted", Short: "Back up a node that was started without us", Args: cobra.NoArgs, RunE: serveAdopted},
		&cobra.Command{Use: "management", Short: "Answer the ports of hydro's management pod", Args: cobra.NoArgs, RunE: manage},
		&cobra.Command{Use: "status", Short: "Print what the pod's sidecar knows of itself", Args: cobra.NoArgs, RunE: status},
	)
	return root
}
