package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/rand"

	"github.com/stategraft/stategraft/operations/ask/sync"
)

// errNotSynced ends with status 1: a storage could not be listed. Which was said.
var errNotSynced = fmt.Errorf("not listed: %w", errRefused)

type syncFlags struct {
	connection
	allNamespace, wait bool
	timeout            time.Duration
	output             string
}

func syncCommand() *cobra.Command {
	f := &syncFlags{}
	command := &cobra.Command{
		Use:   "sync",
		Short: "Look into the storage now, and make Backup objects of what is there",
		Long: `Has the controller list the storage of each cluster in the namespace, make a Backup of
each backup that has none, and say of which the data have gone. It does so by itself
every ten minutes, and when the first pod of a cluster runs: after the loss of
everything the backups come back by that.

Exit status: 0 when all was listed, 1 when a storage could not be, also as no pod of a
namespace runs that could be asked, 2 when the command line is wrong, the namespace is
not labelled, no cluster answers, a right is lacking, or --timeout is up.`,
		Example: `  kubectl stategraft sync -n prod
  kubectl stategraft sync -A && kubectl stategraft backup list -A`,
		Args:              inNamespace,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(command *cobra.Command, _ []string) error {
			return here(command, f.run)
		},
	}
	f.connection.add(command.Flags(), "namespace (default: the context's)")
	command.Flags().BoolVarP(&f.allNamespace, "all-namespaces", "A", false, "in all labelled namespaces")
	command.Flags().BoolVar(&f.wait, "wait", true, "stay until it is done, and show what was found")
	command.Flags().DurationVar(&f.timeout, "timeout", 10*time.Minute, "how long to wait")
	command.Flags().StringVarP(&f.output, "output", "o", "", "json|yaml")
	completeFlags(command, map[string][]string{"output": {"json", "yaml"}})
	completeFlag(command, "namespace", f.completeNamespaces)
	return command
}

func (f *syncFlags) run(ctx context.Context, t *terminal) error {
	if err := oneOf(f.output, "", "json", "yaml"); err != nil {
		return err
	}
	switch {
	case f.timeout <= 0:
		return fmt.Errorf("--timeout %s: it takes a duration above zero, such as 10m", f.timeout)
	case !f.wait && f.output != "":
		return fmt.Errorf("--output %s: nothing is waited for that could be printed", f.output)
	}
	at, err := f.connect()
	if err != nil {
		return err
	}
	value := t.now().UTC().Format(time.RFC3339) + "-" + rand.String(5)
	names, err := f.names(ctx, at)
	if err != nil {
		return interrupted(ctx, err)
	}
	asked, errs := askAll(ctx, at, names, value)
	switch {
	case len(names) == 0:
		fmt.Fprintln(t.err, "No namespace is labelled: there is nowhere to look.")
		return nil
	case len(asked) == 0:
		return joined(errs)
	case !f.wait:
		fmt.Fprintf(t.err, "Asked in %s; what is found: kubectl stategraft backup list\n", several(len(asked), "namespace "+asked[0], "%d namespaces"))
		return joined(errs)
	}
	found, err := f.answers(ctx, t, at, asked, value)
	if err != nil {
		return joined(append(errs, err))
	}
	if f.output != "" {
		err = printAs(t.out, f.output, map[string][]sync.Found{"namespaces": found})
	} else {
		err = sync.Write(t.out, found, f.allNamespace, t.now())
	}
	switch {
	case err != nil:
		return err
	case len(errs) > 0:
		return joined(errs)
	case sync.Failed(found):
		return errNotSynced
	}
	return nil
}

// names are the namespaces that are meant.
func (f *syncFlags) names(ctx context.Context, at *reached) ([]string, error) {
	if !f.allNamespace {
		return []string{at.namespace}, nil
	}
	limited, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	return sync.Namespaces(limited, at)
}

// askAll asks in each namespace, and gives those where that went well: one that
// cannot be asked in does not keep the others from it.
func askAll(ctx context.Context, at *reached, names []string, value string) (asked []string, errs []error) {
	limited, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	for _, name := range names {
		if err := sync.Ask(limited, at, name, value); err != nil {
			errs = append(errs, interrupted(ctx, err))
			continue
		}
		asked = append(asked, name)
	}
	return asked, errs
}

func (f *syncFlags) answers(ctx context.Context, t *terminal, at *reached, names []string, value string) ([]sync.Found, error) {
	limited, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	var all []sync.Found
	for _, name := range names {
		waiter := sync.Waiter{Client: at, Note: func(text string) { fmt.Fprintf(t.err, "%s: %s\n", name, text) }}
		documents, err := waiter.Wait(limited, name, value)
		switch {
		case ctx.Err() != nil:
			return nil, fmt.Errorf("%w; the storage is looked at all the same", errInterrupted)
		case errors.Is(err, context.DeadlineExceeded):
			return nil, fmt.Errorf("namespace %s is not synced after %s; it goes on where a controller runs (kubectl stategraft check tells): give it longer with --timeout, or see kubectl stategraft backup list -n %s", name, f.timeout, name)
		case err != nil:
			return nil, err
		}
		all = append(all, sync.Found{Namespace: name, Clusters: documents})
	}
	return all, nil
}
