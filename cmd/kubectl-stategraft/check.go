package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/stategraft/stategraft/operations/check"
)

// errBroken ends with status 1, as a pod that is refused does: something is
// broken, and the report says what.
var errBroken = fmt.Errorf("broken: %w", errRefused)

// errInterrupted ends with status 2: whoever pressed Ctrl-C wants no report of
// what had not been looked at.
var errInterrupted = errors.New("interrupted")

// checkFlags are the command line of check.
type checkFlags struct {
	connection
	output  string
	timeout time.Duration
	only    []string
}

func checkCommand() *cobra.Command {
	var f checkFlags
	command := &cobra.Command{
		Use:   "check",
		Short: "Look at a cluster before and after the installation, and say what is wrong",
		Long: `Looks at the cluster of the kubeconfig: before Stategraft is installed, whether it
can be; afterwards, whether it works, and which databases go without backup and
why. Nothing is written; one pod is created on a dry run. docs/check.md explains
each item.

Exit status: 0 when nothing is broken (there may be warnings), 1 when something
is, 2 when it could not be found out: no cluster answers, a right is lacking for
part of it, what --only names is not there before the installation, there is no
namespace of the name, or the command line is wrong.`,
		Example: `  kubectl stategraft check
  kubectl stategraft check -n cassandra -o json
  kubectl stategraft check --only admission,certificate --timeout 10s`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			ctx, stop := signal.NotifyContext(command.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			return f.run(ctx, command.OutOrStdout())
		},
	}
	set := command.Flags()
	f.connection.add(set, "look at this namespace only (default: all that are labelled)")
	set.StringVarP(&f.output, "output", "o", "text", "text|json")
	set.DurationVar(&f.timeout, "timeout", 30*time.Second, "for all of it")
	set.StringSliceVar(&f.only, "only", nil, "look at these items only, by their ids")
	return command
}

func (f *checkFlags) run(ctx context.Context, out io.Writer) error {
	if f.output != "text" && f.output != "json" {
		return fmt.Errorf("--output %s: it takes text or json", f.output)
	}
	if f.timeout <= 0 {
		return fmt.Errorf("--timeout %s: it takes a duration above zero, such as 30s", f.timeout)
	}
	items, err := check.Select(f.only)
	if err != nil {
		return fmt.Errorf("--only: %w", err)
	}
	cluster, err := f.connect()
	if err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	report, err := check.Run(limited, cluster, items)
	if ctx.Err() != nil {
		return errInterrupted
	}
	if err != nil {
		return err
	}
	if f.output == "json" {
		err = report.JSON(out)
	} else {
		err = report.Text(out, colours(out))
	}
	switch {
	case err != nil:
		return err
	case report.Result == check.Broken:
		return errBroken
	case report.Result == check.Incomplete:
		return errors.New("not everything could be looked at")
	}
	return nil
}

// connect opens the cluster, and says which it is.
func (f *checkFlags) connect() (*check.Cluster, error) {
	config, loader, err := f.open()
	if err != nil {
		return nil, err
	}
	where := config.Host
	if raw, err := loader.RawConfig(); err == nil {
		name := raw.CurrentContext
		if f.context != "" {
			name = f.context
		}
		if used, ok := raw.Contexts[name]; ok {
			where += fmt.Sprintf(" (context %s of %s)", name, used.LocationOfOrigin)
		}
	}
	return check.New(config, check.Options{Namespace: f.namespace, Named: len(f.only) > 0, Where: where, Version: version(), Now: time.Now})
}

// colours tells whether the output is a terminal that is to be coloured
// (https://no-color.org).
func colours(out io.Writer) bool {
	file, ok := out.(*os.File)
	if !ok || os.Getenv("NO_COLOR") != "" || os.Getenv("TERM") == "dumb" {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
