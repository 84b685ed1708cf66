package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
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
