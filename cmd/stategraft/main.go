// Command stategraft runs in the cluster: the admission webhook.
package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
)

func main() {
	command := &cobra.Command{
		Use:           "stategraft",
		Short:         "Grafts backup and restore onto the pods of Cassandra and Anna",
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	command.AddCommand(webhookCommand())
	if err := command.Execute(); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}
