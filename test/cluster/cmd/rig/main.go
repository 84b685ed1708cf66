// Command rig builds and runs a real Kubernetes control plane on this machine
// for development and tests. See package cluster for what it consists of.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/stategraft/stategraft/test/cluster"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := command().ExecuteContext(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "rig:", err)
		os.Exit(1)
	}
}

func command() *cobra.Command {
	var dir string
	root := &cobra.Command{
		Use:           "rig",
		Short:         "Run a real Kubernetes control plane, built from Go modules",
		Long:          fmt.Sprintf("Runs Kubernetes %s with etcd %s on free ports of 127.0.0.1.\nPrograms and state are kept in the user's cache folder, or in the one that %s names.", cluster.KubernetesVersion, cluster.EtcdVersion, cluster.CacheEnv),
		SilenceUsage:  true,
		SilenceErrors: true,
		PersistentPreRunE: func(*cobra.Command, []string) (err error) {
			if dir == "" {
				cache, err := cluster.CacheDir()
				if err != nil {
					return err
				}
				dir = filepath.Join(cache, "run")
			}
			dir, err = filepath.Abs(dir)
			return err
		},
	}
	root.PersistentFlags().StringVar(&dir, "dir", "", "state `folder` of the control plane (default: run, in the cache folder)")

	build := &cobra.Command{
		Use:   "build [program...]",
		Short: "Build the programs unless they are cached, and print their folder",
		RunE: func(cmd *cobra.Command, args []string) error {
			bin, err := cluster.Build(cmd.Context(), os.Stderr, args...)
			if err == nil {
				fmt.Println(bin)
			}
			return err
		},
	}

	var detached, node bool
	up := &cobra.Command{
		Use:   "up",
		Short: "Start a control plane, print KUBECONFIG=path, and stop it when interrupted",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if detached {
				return detach(cmd.Context(), dir, node)
			}
			return run(cmd.Context(), dir, node)
		},
	}
	up.Flags().BoolVar(&detached, "detach", false, "return once it works, leaving it in the background until `rig down`")

	up.Flags().BoolVar(&node, "node", false, "with a node that runs pods (Linux, root, Debian's packages)")

	down := &cobra.Command{
		Use:   "down",
		Short: "Stop the control plane of the state folder",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cluster.Down(cmd.Context(), dir) },
	}

	kubectl := &cobra.Command{
		Use:   "kubectl -- args...",
		Short: "Run the built kubectl as the control plane's administrator",
		RunE: func(cmd *cobra.Command, args []string) error {
			bin, err := cluster.Build(cmd.Context(), os.Stderr, cluster.Kubectl)
			if err != nil {
				return err
			}
			if _, err := os.Stat(cluster.KubeconfigPath(dir)); err != nil {
				return fmt.Errorf("no control plane was started here: %w", err)
			}
			child := cluster.KubectlCommand(cmd.Context(), bin, dir, args...)
			child.Stdin, child.Stdout, child.Stderr = os.Stdin, os.Stdout, os.Stderr
			err = child.Run()
			var exit *exec.ExitError
			if errors.As(err, &exit) && exit.Exited() {
				os.Exit(exit.ExitCode()) // kubectl has said why
			}
			return err
		},
	}
	root.AddCommand(build, up, down, kubectl)
	return root
}

// run keeps a control plane until ctx is done. The line with the kubeconfig is
// all it writes to standard output, and tells that the control plane works.
func run(ctx context.Context, dir string, node bool) error {
	cp, err := cluster.Start(ctx, cluster.Options{Dir: dir, Log: os.Stderr, Node: node})
	if err != nil {
		return err
	}
	fmt.Println("KUBECONFIG=" + cp.Kubeconfig())
	<-ctx.Done()
	fmt.Fprintln(os.Stderr, "rig: stopping")
	stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer cancel()
	return cp.Stop(stopping)
}
