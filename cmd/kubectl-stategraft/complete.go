package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/ask"
	"github.com/stategraft/stategraft/operations/ask/adopt"
	"github.com/stategraft/stategraft/operations/ask/backup"
)

// completeTimeout is how long a shell is kept waiting for names of the cluster.
const completeTimeout = 3 * time.Second

// completions asks the cluster; a shell is told nothing of what went wrong.
func (c *connection) completions(command *cobra.Command, prefix string, read func(context.Context, *reached) []string) ([]string, cobra.ShellCompDirective) {
	base := command.Context()
	if base == nil {
		base = context.Background()
	}
	ctx, cancel := context.WithTimeout(base, completeTimeout)
	defer cancel()
	at, err := c.connect()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var found []string
	for _, name := range read(ctx, at) {
		if strings.HasPrefix(name, prefix) {
			found = append(found, name)
		}
	}
	return found, cobra.ShellCompDirectiveNoFileComp
}

// completeTargets completes pod/NAME and statefulset/NAME.
func (c *connection) completeTargets(command *cobra.Command, _ []string, prefix string) ([]string, cobra.ShellCompDirective) {
	return c.completions(command, prefix, func(ctx context.Context, at *reached) []string {
		var found []string
		var sets appsv1.StatefulSetList
		if at.List(ctx, &sets, client.InNamespace(at.namespace)) == nil {
			for i := range sets.Items {
				found = append(found, "statefulset/"+sets.Items[i].Name)
			}
		}
		var pods corev1.PodList
		if at.List(ctx, &pods, client.InNamespace(at.namespace), client.HasLabels{api.LabelInjected}) == nil {
			for i := range pods.Items {
				found = append(found, "pod/"+pods.Items[i].Name)
			}
		}
		return found
	})
}

// completeAdoptable completes statefulset/NAME, and pod/NAME of pods that were not created
// with a sidecar, but for those of which there can be any number.
func (c *connection) completeAdoptable(command *cobra.Command, _ []string, prefix string) ([]string, cobra.ShellCompDirective) {
	return c.completions(command, prefix, func(ctx context.Context, at *reached) []string {
		var found []string
		var sets appsv1.StatefulSetList
		if at.List(ctx, &sets, client.InNamespace(at.namespace)) == nil {
			for i := range sets.Items {
				found = append(found, "statefulset/"+sets.Items[i].Name)
			}
		}
		var pods corev1.PodList
		if at.List(ctx, &pods, client.InNamespace(at.namespace)) == nil {
			for i := range pods.Items {
				pod := &pods.Items[i]
				if owner := metav1.GetControllerOf(pod); !adopt.Injected(pod) && (owner == nil || !slices.Contains([]string{"ReplicaSet", "DaemonSet", "Job"}, owner.Kind)) {
					found = append(found, "pod/"+pod.Name)
				}
			}
		}
		return found
	})
}

// completePods completes what can be backed up.
func (f *backupFlags) completePods(command *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
	if f.adopt {
		return f.completeAdoptable(command, args, prefix)
	}
	return f.completeTargets(command, args, prefix)
}

func (f *restoreFlags) completeRestores(command *cobra.Command, _ []string, prefix string) ([]string, cobra.ShellCompDirective) {
	return f.completions(command, prefix, func(ctx context.Context, at *reached) []string {
		list, err := ask.List(ctx, at, at.namespace)
		if err != nil {
			return nil
		}
		var found []string
		for i := range list.Items {
			found = append(found, list.Items[i].Name)
		}
		return found
	})
}

// completeBackups completes the names of Backups that a command can be about; nil for
// all of them.
func (c *connection) completeBackups(can func(*api.Backup) bool) cobra.CompletionFunc {
	return func(command *cobra.Command, _ []string, prefix string) ([]string, cobra.ShellCompDirective) {
		return c.completions(command, prefix, func(ctx context.Context, at *reached) []string {
			list, err := backup.List(ctx, at, at.namespace)
			if err != nil {
				return nil
			}
			var found []string
			for i := range list.Items {
				if can == nil || can(&list.Items[i]) {
					found = append(found, list.Items[i].Name)
				}
			}
			return found
		})
	}
}

// completeRestorable completes what restores are from.
func (f *restoreFlags) completeRestorable(command *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
	found, directive := f.completeBackups(func(b *api.Backup) bool { return b.Status.Phase == api.BackupComplete })(command, args, prefix)
	if strings.HasPrefix(api.BackupLatest, prefix) {
		found = append([]string{api.BackupLatest}, found...)
	}
	return found, directive
}

// completeFlags has the values of flags completed that take one of a few words.
func completeFlags(command *cobra.Command, words map[string][]string) {
	for flag, values := range words {
		completeFlag(command, flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
	}
}

func completeFlag(command *cobra.Command, flag string, by cobra.CompletionFunc) {
	if err := command.RegisterFlagCompletionFunc(flag, by); err != nil {
		panic("completing --" + flag + ": " + err.Error()) // of a flag that there is not
	}
}

func (c *connection) completeNamespaces(command *cobra.Command, _ []string, prefix string) ([]string, cobra.ShellCompDirective) {
	return c.completions(command, prefix, func(ctx context.Context, at *reached) []string {
		var list corev1.NamespaceList
		if at.List(ctx, &list) != nil {
			return nil
		}
		var found []string
		for i := range list.Items {
			found = append(found, list.Items[i].Name)
		}
		return found
	})
}

func (f *restoreFlags) registerCompletions(command *cobra.Command) {
	completeFlags(command, map[string][]string{"mode": {"in-place", "remote", "merge"}, "when-no-backup": {"fail", "empty"},
		"keep-previous": {"always", "if-room", "never"}, "output": {"json", "yaml", "name"}})
	completeFlag(command, "backup", f.completeRestorable)
	completeFlag(command, "namespace", f.completeNamespaces)
}

// pluginCompletion is the program by which kubectl has its plugins complete.
const pluginCompletion = `#!/bin/sh
# Put this on your PATH as kubectl_complete-stategraft, executable.
exec kubectl stategraft __complete "$@"
`

// addCompletion adds to cobra's command what kubectl wants of a plugin.
func addCompletion(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	for _, command := range root.Commands() {
		if command.Name() == "completion" {
			command.AddCommand(&cobra.Command{
				Use:   "kubectl",
				Short: "Print the program by which kubectl completes this plugin",
				Long: `Prints the program that kubectl asks for completions of kubectl stategraft, where its
own completion is set up:

  kubectl stategraft completion kubectl > ~/.local/bin/kubectl_complete-stategraft
  chmod +x ~/.local/bin/kubectl_complete-stategraft`,
				Args: cobra.NoArgs,
				RunE: func(command *cobra.Command, _ []string) error {
					_, err := fmt.Fprint(command.OutOrStdout(), pluginCompletion)
					return err
				},
			})
		}
	}
}
