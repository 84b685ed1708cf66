// Command demo shows Stategraft on a real control plane, in a minute, on a
// machine that has Go and nothing else: StatefulSets that stay as they were
// written, and their pods with what the webhook adds. Everything it claims it
// checks: it ends with a status other than 0 when anything is not as it should
// be. Nothing of it is left afterwards but the cached programs.
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

	"github.com/stategraft/stategraft/test/cluster"
	"github.com/stategraft/stategraft/test/controlplane/rigged"
)

// limit bounds the demonstration, building aside.
const limit = 5 * time.Minute

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := demo(ctx, os.Stdout, os.Stderr)
	interrupted := ctx.Err() != nil
	stop()
	if interrupted {
		fmt.Fprintln(os.Stderr, "\nInterrupted; what was started is stopped.")
		os.Exit(1)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "\nThe demonstration failed:", err)
		os.Exit(1)
	}
}

func demo(ctx context.Context, out, progress io.Writer) (err error) {
	began := time.Now()
	p := &printer{w: out}
	p.say("Stategraft: StatefulSets stay as they are, their pods get backup and restore.")

	p.heading("A control plane, and the webhook before it")
	// Only the first time does this take long, and says so.
	if _, err := cluster.Build(ctx, progress); err != nil {
		return err
	}
	p.say("   building the webhook and starting …")
	started := time.Now()
	rig, err := rigged.Start(ctx, rigged.Options{})
	if err != nil {
		return err
	}
	defer func() {
		// Also when interrupted: nothing may stay behind.
		stopped := rig.Stop(context.WithoutCancel(ctx))
		if err = errors.Join(err, stopped); err == nil {
			p.heading("Stopped")
			p.say("All is as promised; %.0f seconds in all.", time.Since(began).Seconds())
		}
	}()
	p.row("Kubernetes", cluster.KubernetesVersion+": etcd, API server, controllers, scheduler; no node, so pods stay Pending")
	p.row("webhook", "bin/stategraft webhook, self-made certificate, the rights of deploy/stategraft-self-signed.yaml")
	p.row("registered by", "its MutatingWebhookConfiguration and ValidatingAdmissionPolicy")
	p.row("started in", fmt.Sprintf("%.0f s", time.Since(started).Seconds()))

	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("not done within %s", limit))
	defer cancel()
	s := &story{printer: p, rig: rig}
	for _, chapter := range []func(context.Context) error{
		s.labelNamespaces, s.applyWorkloads, s.showPods, s.showStatefulSets, s.restore, s.withoutWebhook,
	} {
		if err := chapter(ctx); err != nil {
			return err
		}
	}
	return nil
}
