// Command kubectl-stategraft shows what admission makes of pods, offline, looks at
// a cluster, and asks for backups and restores. As a plugin of kubectl it is kubectl stategraft.
package main

import (
	"errors"
	"fmt"
	"os"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// errRefused ends with status 1: a pod was refused, or what wraps it. Every other
// error ends with status 2: the input or the command line is wrong.
var errRefused = errors.New("refused")

func main() {
	command := root()
	if err := command.Execute(); err != nil {
		if errors.Is(err, errRefused) {
			os.Exit(1)
		}
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(2)
	}
}

// version is what the Go toolchain wrote into the program.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "unknown"
	}
	return info.Main.Version
}

func root() *cobra.Command {
	command := &cobra.Command{
		Use:   "kubectl-stategraft",
		Short: "Backup and restore for Cassandra and Anna pods, whoever made them",
		Long: `Shows, without a cluster, what the Stategraft webhook makes of pods (inject,
explain), looks at a cluster (check), gives running pods their sidecar without a restart
(adopt), backs running pods up (backup) and restores them (restore), tells how old the
last backup of each is (status), has a controller look into the storage (sync), and
writes a backup's keys into a running Anna again (repair).

Exit status: 0 for pods that are injected or skipped, for a cluster where nothing is
broken and for a backup or restore that is done; 1 when a pod is refused, something is
broken or behind, or a backup or restore failed; 2 when the input is not a pod or
workload, not everything could be looked at, the command line is wrong, no cluster
answers, a right is lacking, or what was waited for goes on. Each command's help says
more.`,
		Version:       version(),
		SilenceErrors: true,
		SilenceUsage:  true,
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl stategraft"},
	}
	command.AddCommand(injectCommand(), explainCommand(), checkCommand(), adoptCommand(), backupCommand(), restoreCommand(), repairCommand(), statusCommand(), syncCommand())
	addCompletion(command)
	return command
}
