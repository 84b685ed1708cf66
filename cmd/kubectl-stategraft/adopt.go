package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"

	"github.com/stategraft/stategraft/operations/adopted"
	"github.com/stategraft/stategraft/operations/ask"
	"github.com/stategraft/stategraft/operations/ask/adopt"
)

// errNotAdopted ends with status 1: a pod cannot be adopted. Which, and why, was said.
var errNotAdopted = fmt.Errorf("not adopted: %w", errRefused)

// adoptTimeout is how long pods are followed, where nobody says otherwise.
const adoptTimeout = 10 * time.Minute

type adoptFlags struct {
	connection
	selector            string
	never, renew        bool
	dryRun, wait, waits bool // waits: it was given
	timeout             time.Duration
	output              string
}

func adoptCommand() *cobra.Command {
	f := &adoptFlags{}
	command := &cobra.Command{
		Use:   "adopt statefulset/NAME|pod/NAME...|-l SELECTOR",
		Short: "Give running pods their sidecar without restarting them",
		Long: `Asks for sidecars for pods that were created without one: writes the annotation
stategraft.io/adopt=running on them, and the controller in the cluster adds the
containers as ephemeral ones, one pod of a workload at a time. The database is not
restarted, and stays Ready whatever becomes of them. A StatefulSet and its template are
not written: its pods that run are, and those that are created from now on are injected.
For all pods of a namespace, and those to come: kubectl annotate namespace NAME
stategraft.io/adopt=running.

--dry-run only shows which pods would be adopted, and why others cannot be.
--renew gives adopted pods new containers, which read Secrets, ConfigMaps and annotations
as they are now. --never leaves pods out, whatever their namespace says; containers that
they have stay until they are created anew.
It stays until each pod has its sidecar; Ctrl-C and --wait=false leave the controller to
go on alone.

Exit status: 0 when all have their sidecars, also those that had them before (with
--wait=false: are asked for; with --dry-run: could be adopted), 1 when one cannot be
adopted, 2 when the command line is wrong, the namespace is not labelled, no cluster
answers, a right is lacking, it was interrupted or --timeout is up.`,
		Example: `  kubectl stategraft adopt statefulset/cassandra --dry-run
  kubectl stategraft adopt statefulset/cassandra && kubectl stategraft backup statefulset/cassandra --wait
  kubectl stategraft adopt -l app=cassandra --renew --timeout 1h
  kubectl stategraft adopt pod/cassandra-2 --never`,
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: f.completeAdoptable,
		RunE: func(command *cobra.Command, args []string) error {
			f.waits = command.Flags().Changed("wait")
			return here(command, func(ctx context.Context, t *terminal) error { return f.run(ctx, t, args) })
		},
	}
	f.connection.add(command.Flags(), "namespace (default: the context's)")
	f.addFlags(command.Flags())
	completeFlags(command, map[string][]string{"output": {"json", "yaml", "name"}})
	completeFlag(command, "namespace", f.completeNamespaces)
	return command
}

func (f *adoptFlags) addFlags(set *pflag.FlagSet) {
	set.StringVarP(&f.selector, "selector", "l", "", "adopt the pods with these labels")
	set.BoolVar(&f.never, "never", false, "have the pods not adopted, whatever the namespace says")
	set.BoolVar(&f.renew, "renew", false, "give pods that are adopted new containers")
	set.BoolVar(&f.dryRun, "dry-run", false, "show which pods would be adopted, and why others cannot be, do nothing")
	set.BoolVar(&f.wait, "wait", true, "stay until each pod has its sidecar, and show how far each is")
	set.DurationVar(&f.timeout, "timeout", adoptTimeout, "how long to wait")
	set.StringVarP(&f.output, "output", "o", "", "json|yaml|name")
}

func (f *adoptFlags) check() error {
	switch {
	case f.timeout <= 0:
		return fmt.Errorf("--timeout %s: it takes a duration above zero, such as 10m", f.timeout)
	case f.never && f.renew:
		return errors.New("--never and --renew exclude one another")
	case f.dryRun && f.waits && f.wait:
		return errors.New("--dry-run and --wait exclude one another: nothing happens that could be waited for")
	case f.never && f.waits && f.wait:
		return errors.New("--never and --wait exclude one another: nothing happens that could be waited for")
	}
	return oneOf(f.output, "", "json", "yaml", "name")
}

func (f *adoptFlags) run(ctx context.Context, t *terminal, args []string) error {
	if err := f.check(); err != nil {
		return err
	}
	targets, err := ask.ParseTargetsTo("adopted", "", args)
	if err != nil {
		return err
	}
	at, err := f.connect()
	if err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, requestTimeout)
	pods, err := ask.Live(limited, at, at.namespace, targets, f.selector)
	cancel()
	if err != nil {
		return interrupted(ctx, err)
	}
	a := adopting{t: t, at: at, output: f.output, timeout: f.timeout}
	if f.renew {
		a.asked.Renew = adopt.RenewAt(t.now())
	}
	if f.never {
		a.asked.Never = true
		return f.leaveOut(ctx, &a, pods)
	}
	looked, err := a.look(ctx, pods)
	if err != nil {
		return err
	}
	if f.dryRun {
		return f.plan(&a, looked)
	}
	return f.adopt(ctx, &a, pods, looked)
}

// adopt asks on the pods that can be adopted, and follows them if it is to.
func (f *adoptFlags) adopt(ctx context.Context, a *adopting, pods []corev1.Pod, looked []adopt.Pod) error {
	written, errs := a.write(ctx, pods, looked)
	if f.wait && len(written) > 0 {
		after, err := a.follow(ctx, written)
		looked = merged(looked, after)
		if err != nil {
			return joined(append(errs, err))
		}
	}
	if err := f.print(a.t, a.document(looked)); err != nil {
		return err
	}
	if len(errs) > 0 {
		return joined(errs)
	}
	if cannot := adopt.Cannot(looked); len(cannot) > 0 {
		fmt.Fprintf(a.t.err, "error: not adopted: %s\n", strings.Join(adopt.Names(cannot), ", "))
		return errNotAdopted
	}
	return nil
}

// merged has what came of pods in place of what was known of them before.
func merged(before, after []adopt.Pod) []adopt.Pod {
	out := append([]adopt.Pod{}, before...)
	for i := range out {
		for j := range after {
			if after[j].Name == out[i].Name {
				out[i] = after[j]
			}
		}
	}
	return out
}

// leaveOut writes that the pods are not to be adopted.
func (f *adoptFlags) leaveOut(ctx context.Context, a *adopting, pods []corev1.Pod) error {
	var errs []error
	var out []adopt.Pod
	for i := range pods {
		p := adopt.Pod{Name: pods[i].Name, State: adopt.StateOptedOut}
		if adopted.Is(&pods[i]) { // or its adoption has begun
			p.Message = "keeps the containers that it has until it is created anew"
		}
		done := "is not adopted (dry run)"
		if !f.dryRun {
			done = "is not adopted from now on"
			if err := a.writeOne(ctx, &pods[i]); err != nil {
				errs = append(errs, err)
				continue
			}
		}
		out = append(out, p)
		if f.output == "" {
			fmt.Fprintf(a.t.out, "pod/%s %s\n", p.Name, strings.TrimSuffix(done+"; it "+p.Message, "; it "))
		}
	}
	if err := f.print(a.t, a.document(out)); err != nil {
		return err
	}
	return joined(errs)
}

// plan shows what would be done.
func (f *adoptFlags) plan(a *adopting, looked []adopt.Pod) error {
	d := a.document(looked)
	d.DryRun = true
	var err error
	if f.output == "" {
		err = adopt.WritePlan(a.t.out, a.at.namespace, looked, f.renew)
	} else {
		err = f.print(a.t, d)
	}
	if err == nil && len(adopt.Cannot(looked)) > 0 {
		return errNotAdopted
	}
	return err
}

// print prints what is for programs; the text was written as it came.
func (f *adoptFlags) print(t *terminal, d adopt.Document) error {
	switch f.output {
	case "":
		return nil
	case "name":
		for i := range d.Pods {
			if _, err := fmt.Fprintln(t.out, "pod/"+d.Pods[i].Name); err != nil {
				return err
			}
		}
		return nil
	}
	return printAs(t.out, f.output, d)
}
