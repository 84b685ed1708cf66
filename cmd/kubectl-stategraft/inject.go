package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/stategraft/stategraft/patches"
	"github.com/stategraft/stategraft/webhook/offline"
	"github.com/stategraft/stategraft/workload"
)

func injectCommand() *cobra.Command {
	var f flags
	command := &cobra.Command{
		Use:   "inject -f FILE",
		Short: "Print the pods as admission would make them",
		Long: `Prints each pod, or each object with a pod template, as admission would make it.
Pods that are skipped come out as they are, and standard error says why. With
-o patch the JSON patch of each document is printed on a line of its own.`,
		Example: `  kubectl stategraft inject -f cassandra.yaml
  helm template my-release bitnami/cassandra | kubectl stategraft inject -f - --pass-others
  kubectl stategraft inject -f pod.yaml --annotation restore=20261130-030017-s1a2b3c4d-nightly-20261130-030000 -o patch`,
		RunE: func(command *cobra.Command, _ []string) error {
			print, err := printer(f.output)
			if err != nil {
				return err
			}
			results, err := f.decide(command.InOrStdin())
			if err != nil {
				return err
			}
			return inject(results, print, command.OutOrStdout(), command.ErrOrStderr())
		},
	}
	f.add(command, "yaml|json|patch")
	return command
}

// printer writes one document in a format.
func printer(format string) (func(io.Writer, offline.Result) error, error) {
	switch format {
	case "yaml":
		return func(w io.Writer, r offline.Result) error {
			raw, err := r.Apply()
			if err != nil {
				return err
			}
			text, err := yaml.JSONToYAML(raw)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(w, "---\n%s", text)
			return err
		}, nil
	case "json":
		return func(w io.Writer, r offline.Result) error {
			raw, err := r.Apply()
			if err != nil {
				return err
			}
			var b bytes.Buffer
			if err := json.Indent(&b, raw, "", "  "); err != nil {
				return err
			}
			b.WriteByte('\n')
			_, err = w.Write(b.Bytes())
			return err
		}, nil
	case "patch":
		return func(w io.Writer, r offline.Result) error {
			text := []byte("[]")
			if len(r.Operations) > 0 {
				var err error
				if text, err = patches.Marshal(r.Operations); err != nil {
					return err
				}
			}
			_, err := fmt.Fprintf(w, "%s\n", text)
			return err
		}, nil
	}
	return nil, fmt.Errorf("--output %s: it takes yaml, json or patch", format)
}

func inject(results []offline.Result, print func(io.Writer, offline.Result) error, out, notes io.Writer) error {
	refused := false
	for _, r := range results {
		if r.Verdict == workload.Refuse {
			refused = true
			fmt.Fprintf(notes, "%s %s: refused (%s): %s\n", r.Document.Kind, r.Document.Name, r.Reason, r.Message)
			continue
		}
		if r.Verdict == workload.Skip {
			fmt.Fprintf(notes, "%s %s: skipped (%s): %s\n", r.Document.Kind, r.Document.Name, r.Reason, r.Message)
		}
		for _, warning := range r.Warnings {
			fmt.Fprintf(notes, "%s %s: warning: %s\n", r.Document.Kind, r.Document.Name, warning)
		}
		if err := print(out, r); err != nil {
			return fmt.Errorf("%s: document %d: %w", r.Document.File, r.Document.Index, err)
		}
	}
	if refused {
		return errRefused
	}
	return nil
}
