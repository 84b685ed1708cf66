package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/ask/backup"
)

func (f *backupFlags) listCommand() *cobra.Command {
	command := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List Backups: those that were made here, and those found in the storage",
		Example: `  kubectl stategraft backup list -n prod
  kubectl stategraft backup list -A -o wide
  kubectl stategraft backup list -n prod --schedule nightly
  kubectl stategraft backup list -n prod -o name`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(command *cobra.Command, _ []string) error {
			return here(command, f.list)
		},
	}
	command.Flags().BoolVarP(&f.allNamespace, "all-namespaces", "A", false, "of all namespaces")
	command.Flags().StringVarP(&f.selector, "selector", "l", "", "those with these labels")
	command.Flags().StringVar(&f.schedule, "schedule", "", "those of this BackupSchedule")
	f.addOutput(command.Flags(), "json|yaml|wide|name")
	completeFlags(command, map[string][]string{"output": {"json", "yaml", "wide", "name"}})
	return command
}

func (f *backupFlags) list(ctx context.Context, t *terminal) error {
	if err := oneOf(f.output, "", "json", "yaml", "wide", "name"); err != nil {
		return err
	}
	options, err := f.selects()
	if err != nil {
		return err
	}
	at, namespace, err := f.reach(f.allNamespace)
	if err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	list, err := backup.List(limited, at, namespace, options)
	if err != nil {
		return interrupted(ctx, err)
	}
	if len(list.Items) == 0 && f.schedule != "" {
		if err := backup.NoSchedule(limited, at, namespace, f.schedule); err != nil {
			return interrupted(ctx, err)
		}
	}
	if done, err := printed(t, f.output, namespace, list.ListMeta, list.Items); done {
		return err
	}
	return backup.WriteList(t.out, list.Items, f.allNamespace, f.output == "wide", t.now())
}

// selects is what the list is to have.
func (f *backupFlags) selects() (client.ListOption, error) {
	selector, err := labels.Parse(f.selector)
	if err != nil {
		return nil, fmt.Errorf("-l %s: %w", f.selector, err)
	}
	if f.schedule != "" {
		if problems := validation.IsDNS1123Subdomain(f.schedule); len(problems) > 0 {
			return nil, fmt.Errorf("--schedule %s: %s", f.schedule, problems[0])
		}
		only, err := labels.ValidatedSelectorFromSet(labels.Set{api.LabelSchedule: f.schedule})
		if err != nil {
			return nil, fmt.Errorf("--schedule %s: %w", f.schedule, err)
		}
		requirements, _ := only.Requirements()
		selector = selector.Add(requirements...)
	}
	return client.MatchingLabelsSelector{Selector: selector}, nil
}

func (f *backupFlags) showCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "show NAME",
		Short: "Show a Backup: its pods, what the storage has of them, whether it was restored on trial, what to do next",
		Example: `  kubectl stategraft backup show nightly-20261130-030000 -n prod
  kubectl stategraft backup show nightly-20261130-030000 -n prod -o yaml`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: f.completeBackups(nil),
		RunE: func(command *cobra.Command, args []string) error {
			return here(command, func(ctx context.Context, t *terminal) error {
				if err := oneOf(f.output, "", "json", "yaml", "name"); err != nil {
					return err
				}
				_, b, err := f.get(ctx, args[0])
				if err != nil {
					return err
				}
				if f.output != "" {
					return printObject(t.out, f.output, b, "")
				}
				return backup.Show(t.out, b, t.now())
			})
		},
	}
	f.addOutput(command.Flags(), "json|yaml|name")
	completeFlags(command, map[string][]string{"output": {"json", "yaml", "name"}})
	return command
}
