package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stategraft/stategraft/operations/ask"
)

// connection is how a cluster is reached: the flags that kubectl has for it.
type connection struct {
	namespace  string
	kubeconfig string
	context    string
}

func (c *connection) add(set *pflag.FlagSet, namespace string) {
	set.StringVarP(&c.namespace, "namespace", "n", "", namespace)
	set.StringVar(&c.kubeconfig, "kubeconfig", "", "kubeconfig file (default: as kubectl has it)")
	set.StringVar(&c.context, "context", "", "context of the kubeconfig")
}

// open reads the kubeconfig as kubectl does.
func (c *connection) open() (*rest.Config, clientcmd.ClientConfig, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = c.kubeconfig
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: c.context})
	config, err := loader.ClientConfig()
	if err != nil {
		return nil, nil, fmt.Errorf("reading the kubeconfig%s: %w", lookedFor(rules, err), err)
	}
	return config, loader, nil
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

// here runs a command until it ends or somebody presses Ctrl-C.
func here(command *cobra.Command, run func(context.Context, *terminal) error) error {
	ctx, stop := signal.NotifyContext(command.Context(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return run(ctx, terminalOf(command))
}

// reached is the cluster where objects are asked for.
type reached struct {
	client.WithWatch
	namespace string
}

func (c *connection) connect() (*reached, error) {
	config, loader, err := c.open()
	if err != nil {
		return nil, err
	}
	namespace := c.namespace
	if namespace == "" {
		if namespace, _, err = loader.Namespace(); err != nil {
			return nil, fmt.Errorf("reading the kubeconfig: %w", err)
		}
	}
	made, err := ask.New(config)
	if err != nil {
		return nil, err
	}
	return &reached{made, namespace}, nil
}
