package main

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/discovery"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	ctrlwebhook "sigs.k8s.io/controller-runtime/pkg/webhook"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/webhook"
)

type webhookFlags struct {
	commonFlags
	config  string
	certDir string
	host    string
	port    int
	drain   time.Duration
}

func webhookCommand() *cobra.Command {
	var f webhookFlags
	command := &cobra.Command{
		Use:   "webhook",
		Short: "Answer the API server's admission requests",
		Args:  cobra.NoArgs,
		RunE: func(_ *cobra.Command, _ []string) error {
			if f.drain < 0 {
				return errors.New("--drain cannot be negative")
			}
			return serve(f)
		},
	}
	f.add(command)
	set := command.Flags()
	set.StringVar(&f.config, "config", "", "configuration file; followed when it changes")
	set.StringVar(&f.certDir, "cert-dir", "/certs", "folder with tls.crt and tls.key; waited for, and followed when they change")
	set.StringVar(&f.host, "host", "", "address to serve on (default: all)")
	set.IntVar(&f.port, "port", 9443, "port to serve on")
	set.DurationVar(&f.drain, "drain", 10*time.Second, "how long to go on answering after SIGTERM, not ready; a second SIGTERM ends at once")
	return command
}

// serve runs the webhook until it is asked to end, and has drained.
func serve(f webhookFlags) error {
	log := f.logger()
	end := onSignal(f.drain, log)
	configuration, err := webhook.OpenConfig(f.config, log)
	if err != nil {
		return err
	}
	rest, err := apiServer()
	if err != nil {
		return err
	}
	namespace, err := f.namespace()
	if err != nil {
		return err
	}
	version, err := serverVersion(rest, log)
	if err != nil {
		return err
	}
	pair := &servingPair{dir: f.certDir, log: log.WithName("certificate")}
	server := ctrlwebhook.NewServer(ctrlwebhook.Options{
		Host: f.host, Port: f.port,
		TLSOpts: []func(*tls.Config){pair.configure},
	})
	limit := shutdownLimit
	known, err := webhookScheme()
	if err != nil {
		return err
	}
	mgr, err := manager.New(rest, manager.Options{
		Scheme:        known,
		Logger:        log,
		WebhookServer: server,
		Cache: cache.Options{DefaultTransform: cache.TransformStripManagedFields(),
			ByObject: map[client.Object]cache.ByObject{&corev1.ConfigMap{}: webhook.HeldBackCache(namespace)}},
		Metrics:                 metricsserver.Options{BindAddress: f.metrics},
		HealthProbeBindAddress:  f.health,
		GracefulShutdownTimeout: &limit,
	})
	if err != nil {
		return fmt.Errorf("making the manager: %w", err)
	}
	held, err := webhook.WatchHeldBack(end.ctx, mgr.GetCache(), namespace, log.WithName("held-back"))
	if err != nil {
		return err
	}
	namespaces, err := webhook.WatchNamespaces(end.ctx, mgr.GetCache())
	if err != nil {
		return err
	}
	restores, err := webhook.WatchRestores(end.ctx, mgr.GetCache(), log.WithName("restores"))
	if err != nil {
		return err
	}
	handler := webhook.New(&webhook.Handler{
		Namespaces: namespaces, Config: configuration.Config, Log: log.WithName("admission"), NativeSidecars: version.Native,
		HeldBack: held.Find, Order: restores.Find, Events: webhook.Recorder{EventRecorder: mgr.GetEventRecorder("stategraft")},
	})
	// The manager runs the server only once it has been asked for it.
	server = mgr.GetWebhookServer()
	server.Register(webhook.Path, end.handler(handler))
	for _, runnable := range []manager.Runnable{pair, configuration, version} {
		if err := mgr.Add(runnable); err != nil {
			return fmt.Errorf("adding to the manager: %w", err)
		}
	}
	// Ready says that the next admission will be answered: not about to end, the
	// certificate loaded, the informers filled, and a connection taken.
	if err := checks(mgr, end.ready, pair.ready, synced(mgr), restores.Ready, server.StartedChecker()); err != nil {
		return err
	}
	return mgr.Start(end.ctx)
}

// webhookScheme are the kinds that the webhook reads.
func webhookScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), api.AddToScheme(scheme)); err != nil {
		return nil, fmt.Errorf("registering the kinds: %w", err)
	}
	return scheme, nil
}

// serverVersion asks for the API server's version, and keeps up with it once the
// manager runs it.
func serverVersion(rest *rest.Config, log logr.Logger) (*webhook.ServerVersion, error) {
	disco, err := discovery.NewDiscoveryClientForConfig(rest)
	if err != nil {
		return nil, fmt.Errorf("making the discovery client: %w", err)
	}
	version := &webhook.ServerVersion{Discovery: disco, Log: log}
	return version, version.Refresh()
}

// checks adds /healthz, which holds as long as the process answers, and /readyz,
// which holds where all of the given checks do, asked in their order.
func checks(mgr manager.Manager, ready ...healthz.Checker) error {
	all := func(request *http.Request) error {
		for _, check := range ready {
			if err := check(request); err != nil {
				return err
			}
		}
		return nil
	}
	return errors.Join(mgr.AddReadyzCheck("ready", all), mgr.AddHealthzCheck("ping", healthz.Ping))
}

// synced is a check that the informers are filled.
func synced(mgr manager.Manager) healthz.Checker {
	return func(request *http.Request) error {
		if !mgr.GetCache().WaitForCacheSync(request.Context()) {
			return errors.New("the informers are not synced")
		}
		return nil
	}
}
