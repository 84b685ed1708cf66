package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/stategraft/stategraft/workload"
)

func explainCommand() *cobra.Command {
	var f flags
	command := &cobra.Command{
		Use:   "explain -f FILE",
		Short: "Print what admission would decide on pods, and why",
		Long: `Prints for each pod, or object with a pod template, what admission would decide
and why. Of a pod that runs it says, too, whether it could be given its sidecar as it
is (kubectl stategraft adopt). With -o json each decision is one JSON object on a line
of its own.`,
		Example: `  kubectl stategraft explain -f cassandra.yaml
  kubectl get pod cassandra-0 -o yaml | kubectl stategraft explain -f - -o json
  kubectl get restore nightly-back -o yaml > r.yaml; kubectl stategraft explain -f cassandra.yaml --restore r.yaml`,
		RunE: func(command *cobra.Command, _ []string) error {
			if f.output != "text" && f.output != "json" {
				return fmt.Errorf("--output %s: it takes text or json", f.output)
			}
			results, err := f.decide(command.InOrStdin())
			if err != nil {
				return err
			}
			refused := false
			for _, r := range results {
				if r.Document.Other {
					continue
				}
				refused = refused || r.Verdict == workload.Refuse
				e := explained{Explanation: r.Explain(), Adopt: f.adoption(command.Context(), r)}
				if err := e.write(command.OutOrStdout(), f.output); err != nil {
					return err
				}
			}
			if refused {
				return errRefused
			}
			return nil
		},
	}
	f.add(command, "text|json")
	return command
}
