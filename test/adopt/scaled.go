package adopt

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/adopt"
	"github.com/stategraft/stategraft/operations/coverage"
	"github.com/stategraft/stategraft/operations/heal"
)

// Scaled runs the controller of adoption in this process, with the rights of its account
// and with options such as a clock that goes faster, in place of the program that runs
// otherwise. stop ends it, and starts that again.
func (e *Env) Scaled(ctx context.Context, o adopt.Options) (stop func() error, err error) {
	if err := e.Controller.Stop(ctx); err != nil {
		return nil, fmt.Errorf("stopping the controller: %w", err)
	}
	again := func() error { return e.Controller.Start(context.WithoutCancel(ctx)) }
	mgr, err := e.manager(ctx)
	if err == nil {
		o.Namespace = "stategraft"
		o.Uncovered = func() []coverage.Uncovered { return nil } // no pod asks by itself
		err = adopt.Add(mgr, o)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("making the controller of adoption: %w", err), again())
	}
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var wait sync.WaitGroup
	var ended error
	wait.Go(func() { ended = mgr.Start(running) })
	return sync.OnceValue(func() error {
		cancel()
		wait.Wait()
		return errors.Join(ended, again())
	}), nil
}

func (e *Env) manager(ctx context.Context) (manager.Manager, error) {
	as, err := e.AsController(ctx)
	if err != nil {
		return nil, err
	}
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), api.AddToScheme(scheme)); err != nil {
		return nil, err
	}
	return manager.New(as, manager.Options{Scheme: scheme, Logger: logr.Discard(),
		Cache:   cache.Options{DefaultTransform: cache.TransformStripManagedFields(), ByObject: heal.ByObject()},
		Metrics: metricsserver.Options{BindAddress: "0"}, HealthProbeBindAddress: "0",
		Controller: config.Controller{SkipNameValidation: new(true)}})
}
