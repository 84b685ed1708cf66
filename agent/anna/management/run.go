package management

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/stategraft/stategraft/agent/anna/config"
)

// PortHTTP is where /metrics and /healthz are; the sidecars' life port, by default.
const PortHTTP = "6982"

// Environment is what Run reads.
type Environment struct {
	Namespace string
	Config    string // directory of the ConfigMap with anna-config.yml; its section stategraft names the Services
	HTTP      string // address of /metrics
	Resolv    string
}

// FromEnvironment reads POD_NAMESPACE, STATEGRAFT_CONFIG_DIR and STATEGRAFT_LIFE_PORT.
func FromEnvironment(getenv func(string) string) (Environment, error) {
	e := Environment{
		Namespace: getenv("POD_NAMESPACE"), Config: getenv("STATEGRAFT_CONFIG_DIR"),
		HTTP: ":" + PortHTTP, Resolv: "/etc/resolv.conf",
	}
	if e.Namespace == "" {
		return e, errors.New("POD_NAMESPACE is empty; set it from metadata.namespace")
	}
	if e.Config == "" {
		e.Config = "/etc/anna"
	}
	if port := getenv("STATEGRAFT_LIFE_PORT"); port != "" {
		e.HTTP = ":" + port
	}
	return e, nil
}

// Run serves until the context ends.
func Run(ctx context.Context, e Environment, log *slog.Logger) error {
	conf, err := config.Load(e.Config)
	switch {
	case errors.Is(err, config.ErrNoFile):
		log.Info("no ConfigMap: the Services have their usual names", "directory", e.Config)
	case err != nil && conf == nil:
		return err
	}
	options := conf.Options
	if options.Domain == "" {
		text, _ := os.ReadFile(e.Resolv) // without one the usual domain is taken
		options.Domain = config.DomainOf(text)
	}
	server, err := Start(ctx, Options{Config: options, Namespace: e.Namespace, Resolver: net.DefaultResolver, Log: log})
	if err != nil {
		return err
	}
	defer server.Close()
	listener, err := net.Listen("tcp", e.HTTP)
	if err != nil {
		return fmt.Errorf("start the management: %w", err)
	}
	web := &http.Server{Handler: server.Handler(), ReadHeaderTimeout: headerLimit, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug)}
	failed := make(chan error, 1)
	go func() { failed <- web.Serve(listener) }()
	log.Info("management ready", "executors", server.executors.host, "schedulers", server.schedulers.host, "http", e.HTTP)
	select {
	case err = <-failed:
		return fmt.Errorf("serve the metrics: %w", err)
	case <-ctx.Done():
	}
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	_ = web.Shutdown(ending) // whoever reads metrics asks again
	return nil
}
