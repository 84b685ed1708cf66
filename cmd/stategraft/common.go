package main

import (
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/config"
)

// shutdownLimit is how long the end may take once it began: requests in flight
// are finished, and the lease is given up. No admission lasts that long, as the
// API server gives up on it before (timeoutSeconds of the webhook configuration).
const shutdownLimit = 15 * time.Second

// commonFlags are those of both processes.
type commonFlags struct {
	ownNamespace string
	metrics      string
	health       string
	verbose      bool
}

func (f *commonFlags) add(command *cobra.Command) {
	set := command.Flags()
	set.StringVar(&f.ownNamespace, "namespace", "", "namespace of Stategraft (default: $POD_NAMESPACE, else that of the pod's ServiceAccount)")
	set.StringVar(&f.metrics, "metrics-bind-address", ":8080", "address of /metrics; 0 for none")
	set.StringVar(&f.health, "health-probe-bind-address", ":8081", "address of /healthz and /readyz; 0 for none")
	set.BoolVar(&f.verbose, "verbose", false, "log more")
	set.AddGoFlagSet(kubeconfigFlag())
}

// kubeconfigFlag is --kubeconfig of controller-runtime.
func kubeconfigFlag() *flag.FlagSet {
	set := flag.NewFlagSet("", flag.ContinueOnError)
	config.RegisterFlags(set)
	return set
}

// logger makes the log of the process, JSON on standard error, and gives it to
// the libraries.
func (f *commonFlags) logger() logr.Logger {
	level := slog.LevelInfo
	if f.verbose {
		level = slog.LevelDebug
	}
	handler := slog.NewJSONHandler(os.Stderr, &slog.HandlerOptions{Level: level})
	slog.SetDefault(slog.New(handler)) // what net/http says of failed handshakes, too
	log := logr.FromSlogHandler(handler)
	ctrl.SetLogger(log)
	return log
}

func apiServer() (*rest.Config, error) {
	found, err := config.GetConfig()
	if err != nil {
		return nil, fmt.Errorf("finding the API server: %w", err)
	}
	return found, nil
}

// serviceAccountNamespace is where the kubelet writes a pod's namespace.
const serviceAccountNamespace = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// namespace is that of Stategraft.
func (f *commonFlags) namespace() (string, error) {
	return findNamespace(f.ownNamespace, os.Getenv("POD_NAMESPACE"), serviceAccountNamespace)
}

func findNamespace(flag, environment, path string) (string, error) {
	for _, given := range []string{flag, environment} {
		if given != "" {
			return given, nil
		}
	}
	text, err := os.ReadFile(path)
	if name := strings.TrimSpace(string(text)); err == nil && name != "" {
		return name, nil
	}
	return "", errors.New("the namespace of Stategraft is not known: give --namespace, or set POD_NAMESPACE")
}
