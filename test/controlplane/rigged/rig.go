package rigged

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/stategraft/stategraft/test/cluster"
)

// startLimit bounds a start, building aside.
const startLimit = 10 * time.Minute

// Options say how to start. The zero value will do.
type Options struct {
	// Log gets progress lines; nil means none.
	Log io.Writer
	// Config is the text of the webhook's configuration file; empty for the
	// defaults.
	Config string
	// Controller has the controllers run too, which then make the webhook's
	// certificate.
	Controller bool
	// ControllerArgs are added to the arguments of the controllers.
	ControllerArgs []string
}

// Rig is a control plane with the webhook in front of it.
type Rig struct {
	*cluster.ControlPlane

	Root       string // the repository's folder
	Client     kubernetes.Interface
	Dynamic    dynamic.Interface
	Webhook    *Webhook
	Controller *Controller // nil where none is asked for

	replicas []*process // further ones

	dir     string // holds programs, certificates, configuration and logs
	unmount func() // ends the following of the webhook's Secret; may be nil
}

// Start builds what is missing and starts everything. It returns once pods of
// labelled namespaces are injected and the restore policy refuses. An error
// leaves nothing running. The caller has to call Stop.
func Start(ctx context.Context, opts Options) (_ *Rig, err error) {
	log := opts.Log
	if log == nil {
		log = io.Discard
	}
	root, err := Root(ctx)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "stategraft-rigged-")
	if err != nil {
		return nil, fmt.Errorf("making a folder for the webhook: %w", err)
	}
	r := &Rig{Root: root, dir: dir}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.Stop(context.WithoutCancel(ctx)))
		}
	}()
	// Both builds come first: they may take long, and their errors are common.
	if err := r.build(ctx, log); err != nil {
		return nil, err
	}
	if _, err := cluster.Build(ctx, log); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, startLimit, fmt.Errorf("not done within %s", startLimit))
	defer cancel()
	if r.ControlPlane, err = cluster.Start(ctx, cluster.Options{Log: log}); err != nil {
		return nil, err
	}
	config := r.Config()
	config.WarningHandler = rest.NoWarnings{} // who wants to see them makes a client of their own
	if r.Client, err = kubernetes.NewForConfig(config); err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	if r.Dynamic, err = dynamic.NewForConfig(config); err != nil {
		return nil, fmt.Errorf("making a dynamic client: %w", err)
	}
	if err := r.rights(ctx); err != nil {
		return nil, err
	}
	if err := r.configure(opts.Config); err != nil {
		return nil, err
	}
	if opts.Controller {
		// It waits for the configuration that it is to write its CA into.
		if err := r.registerService(ctx); err != nil {
			return nil, err
		}
		if err := r.startController(ctx, opts.ControllerArgs); err != nil {
			return nil, err
		}
	}
	if err := r.startWebhook(ctx); err != nil {
		return nil, errors.Join(err, r.controllerTail())
	}
	if err := r.register(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("%w; the last lines of the webhook's log:\n%s", err, r.Webhook.tail()), r.controllerTail())
	}
	fmt.Fprintln(log, "rigged: the API server calls the webhook")
	return r, nil
}

// controllerTail is the end of the controller's log as an error, where it runs.
func (r *Rig) controllerTail() error {
	if r.Controller == nil {
		return nil
	}
	return fmt.Errorf("the last lines of the controller's log:\n%s", r.Controller.tail())
}

// Stop ends the processes and the control plane and removes their files.
// Stopping twice is no error.
func (r *Rig) Stop(ctx context.Context) error {
	var left []error
	if r.unmount != nil {
		r.unmount()
	}
	for _, p := range r.replicas {
		left = append(left, p.Stop(ctx))
	}
	if r.Webhook != nil {
		left = append(left, r.Webhook.Stop(ctx))
	}
	if r.Controller != nil {
		left = append(left, r.Controller.Stop(ctx))
	}
	if r.ControlPlane != nil {
		left = append(left, r.ControlPlane.Stop(ctx))
	}
	left = append(left, os.RemoveAll(r.dir))
	return errors.Join(left...)
}

// Program answers the path of one of the repository's programs.
func (r *Rig) Program(name string) string { return filepath.Join(r.dir, "bin", name) }

// poll calls done until it answers true, an error, or ctx is done. what names
// what is waited for.
func poll(ctx context.Context, what string, done func() (bool, error)) error {
	for {
		ok, err := done()
		if ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w", what, context.Cause(ctx))
		case <-time.After(50 * time.Millisecond):
		}
	}
}
