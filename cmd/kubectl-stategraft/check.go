package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/tools/clientcmd"

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
	namespace  string
	output     string
	kubeconfig string
	context    string
	timeout    time.Duration
	only       []string
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
	set.StringVarP(&f.namespace, "namespace", "n", "", "look at this namespace only (default: all that are labelled)")
	set.StringVarP(&f.output, "output", "o", "text", "text|json")
	set.StringVar(&f.kubeconfig, "kubeconfig", "", "kubeconfig file (default: as kubectl has it)")
	set.StringVar(&f.context, "context", "", "context of the kubeconfig")
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

// connect reads the kubeconfig as kubectl does.
func (f *checkFlags) connect() (*check.Cluster, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = f.kubeconfig
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: f.context})
	config, err := loader.ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig%s: %w", lookedFor(rules, err), err)
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

// lookedFor names the files that there are not, where there is no kubeconfig at
// all: client-go passes over them without a word.
func lookedFor(rules *clientcmd.ClientConfigLoadingRules, err error) string {
	if rules.ExplicitPath != "" || !clientcmd.IsEmptyConfig(err) {
		return ""
	}
	var missing []string
	for _, file := range rules.GetLoadingPrecedence() {
		if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
			missing = append(missing, file)
		}
	}
	if len(missing) == 0 {
		return ""
	}
	return " (there is no file " + strings.Join(missing, ", ") + ")"
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
