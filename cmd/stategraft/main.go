// Command stategraft runs in the cluster, as two processes: the admission webhook,
// of which every replica answers, and the controllers, of which one leads.
package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
)

func main() {
	if err := rootCommand().Execute(); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func rootCommand() *cobra.Command {
	command := &cobra.Command{
		Use:           "stategraft",
		Short:         "Grafts backup and restore onto the pods of Cassandra and Anna",
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	command.AddCommand(webhookCommand(), controllerCommand())
	return command
}
