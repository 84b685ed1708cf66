package main

import (
	"context"
	"crypto/tls"
	"flag"
	"fmt"
	"log/slog"
	"net/http"
	"os"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"k8s.io/client-go/discovery"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/config"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	ctrlwebhook "sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/stategraft/stategraft/webhook"
)

type webhookFlags struct {
	config  string
	certDir string
	host    string
	port    int
	metrics string
	health  string
	verbose bool
}

func webhookCommand() *cobra.Command {
	var f webhookFlags
	command := &cobra.Command{
		Use:   "webhook",
		Short: "Answer the API server's admission requests",
		Args:  cobra.NoArgs,
		RunE: func(_ *cobra.Command, _ []string) error {
			return serve(ctrl.SetupSignalHandler(), f)
		},
	}
	set := command.Flags()
	set.StringVar(&f.config, "config", "", "configuration file; followed when it changes")
	set.StringVar(&f.certDir, "cert-dir", "/certs", "folder with tls.crt and tls.key; followed when they change")
	set.StringVar(&f.host, "host", "", "address to serve on (default: all)")
	set.IntVar(&f.port, "port", 9443, "port to serve on")
	set.StringVar(&f.metrics, "metrics-bind-address", ":8080", "address of /metrics; 0 for none")
	set.StringVar(&f.health, "health-probe-bind-address", ":8081", "address of /healthz and /readyz; 0 for none")
	set.BoolVar(&f.verbose, "verbose", false, "log more")
	set.AddGoFlagSet(kubeconfigFlag())
	return command
}

// kubeconfigFlag is --kubeconfig of controller-runtime.
func kubeconfigFlag() *flag.FlagSet {
	set := flag.NewFlagSet("", flag.ContinueOnError)
	config.RegisterFlags(set)
	return set
}

func serve(ctx context.Context, f webhookFlags) error {
	level := slog.LevelInfo
	if f.verbose {
		level = slog.LevelDebug
	}
	log := logr.FromSlogHandler(slog.NewJSONHandler(os.Stderr, &slog.HandlerOptions{Level: level}))
	ctrl.SetLogger(log)

	configuration, err := webhook.OpenConfig(f.config, log)
	if err != nil {
		return err
	}
	rest, err := config.GetConfig()
	if err != nil {
		return fmt.Errorf("finding the API server: %w", err)
	}
	server := ctrlwebhook.NewServer(ctrlwebhook.Options{
		Host: f.host, Port: f.port, CertDir: f.certDir,
		TLSOpts: []func(*tls.Config){func(c *tls.Config) { c.MinVersion = tls.VersionTLS13 }},
	})
	mgr, err := manager.New(rest, manager.Options{
		Logger:                 log,
		WebhookServer:          server,
		Metrics:                metricsserver.Options{BindAddress: f.metrics},
		HealthProbeBindAddress: f.health,
	})
	if err != nil {
		return fmt.Errorf("making the manager: %w", err)
	}
	namespaces, err := webhook.WatchNamespaces(ctx, mgr.GetCache())
	if err != nil {
		return err
	}
	disco, err := discovery.NewDiscoveryClientForConfig(rest)
	if err != nil {
		return fmt.Errorf("making the discovery client: %w", err)
	}
	version := &webhook.ServerVersion{Discovery: disco, Log: log}
	if err := version.Refresh(); err != nil {
		return err
	}
	handler := webhook.New(&webhook.Handler{
		Namespaces: namespaces, Config: configuration.Config, Log: log.WithName("admission"), NativeSidecars: version.Native,
		Events: webhook.Recorder{EventRecorder: mgr.GetEventRecorder("stategraft")},
	})
	// The manager runs the server only once it has been asked for it.
	server = mgr.GetWebhookServer()
	server.Register(webhook.Path, handler)
	for _, runnable := range []manager.Runnable{configuration, version} {
		if err := mgr.Add(runnable); err != nil {
			return fmt.Errorf("adding to the manager: %w", err)
		}
	}
	synced := func(request *http.Request) error {
		if !mgr.GetCache().WaitForCacheSync(request.Context()) {
			return fmt.Errorf("the informers are not synced")
		}
		return server.StartedChecker()(request)
	}
	if err := mgr.AddReadyzCheck("webhook", synced); err != nil {
		return err
	}
	if err := mgr.AddHealthzCheck("ping", func(*http.Request) error { return nil }); err != nil {
		return err
	}
	return mgr.Start(ctx)
}
