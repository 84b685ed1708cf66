package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/validation"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/webhook"
	"github.com/stategraft/stategraft/webhook/offline"
)

// flags are what inject and explain have in common.
type flags struct {
	files         []string
	namespaceFile string
	annotations   []string
	config        string
	restoreFile   string
	output        string
	passOthers    bool

	options offline.Options // by which decide has decided
}

func (f *flags) add(command *cobra.Command, outputs string) {
	set := command.Flags()
	set.StringArrayVarP(&f.files, "filename", "f", nil, "file with pods or objects with a pod template; - for standard input (may be repeated)")
	set.StringVar(&f.namespaceFile, "namespace-file", "", "file with the Namespace, and its ResourceQuotas and LimitRanges (default: a labelled namespace)")
	set.StringArrayVar(&f.annotations, "annotation", nil, "KEY=VALUE to annotate each pod with first; the prefix stategraft.io/ may be left out (may be repeated)")
	set.StringVar(&f.config, "config", "", "configuration file of the webhook")
	set.StringVar(&f.restoreFile, "restore", "", "file with a Restore and its status, whose pods are taken to be pending")
	set.BoolVar(&f.passOthers, "pass-others", false, "leave objects without pods (Services, …) as they are")
	set.StringVarP(&f.output, "output", "o", strings.Split(outputs, "|")[0], outputs)
	command.Args = cobra.NoArgs
}

// decide reads the files and decides on every document, before anything is
// printed: half an output is worse than none.
func (f *flags) decide(in io.Reader) ([]offline.Result, error) {
	if len(f.files) == 0 {
		return nil, errors.New("no input; give -f FILE, or -f - for standard input")
	}
	options := &f.options
	*options = offline.Options{Namespace: offline.Labelled()}
	config, err := webhook.OpenConfig(f.config, logr.Discard())
	if err != nil {
		return nil, err
	}
	options.Config = config.Config()
	if options.Annotations, err = parseAnnotations(f.annotations); err != nil {
		return nil, err
	}
	if f.namespaceFile != "" {
		file, err := os.Open(f.namespaceFile)
		if err != nil {
			return nil, fmt.Errorf("reading the namespace: %w", err)
		}
		options.Namespace, err = offline.ReadNamespace(file, f.namespaceFile)
		_ = file.Close()
		if err != nil {
			return nil, err
		}
	}
	if f.restoreFile != "" {
		file, err := os.Open(f.restoreFile)
		if err != nil {
			return nil, fmt.Errorf("reading the Restore: %w", err)
		}
		options.Orders, err = offline.ReadRestore(file, f.restoreFile)
		_ = file.Close()
		if err != nil {
			return nil, err
		}
	}
	var results []offline.Result
	for _, name := range f.files {
		documents, err := readFile(name, in)
		if err != nil {
			return nil, err
		}
		for _, d := range documents {
			if d.Other {
				if !f.passOthers {
					return nil, d.NotAWorkload()
				}
				results = append(results, offline.Result{Document: d})
				continue
			}
			result, err := offline.Decide(d, *options)
			if err != nil {
				return nil, err
			}
			results = append(results, result)
		}
	}
	if !slices.ContainsFunc(results, func(r offline.Result) bool { return !r.Document.Other }) {
		return nil, results[0].Document.NotAWorkload()
	}
	return results, nil
}

func readFile(name string, in io.Reader) ([]offline.Document, error) {
	if name == "-" {
		return offline.Read(in, "standard input")
	}
	file, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("reading the input: %w", err)
	}
	defer func() { _ = file.Close() }()
	return offline.Read(file, name)
}

func parseAnnotations(list []string) (map[string]string, error) {
	out := map[string]string{}
	for _, item := range list {
		key, value, ok := strings.Cut(item, "=")
		if !ok || key == "" {
			return nil, fmt.Errorf("--annotation %s: it takes KEY=VALUE", item)
		}
		if !strings.Contains(key, "/") {
			key = api.Group + "/" + key
		}
		if problems := validation.IsQualifiedName(strings.ToLower(key)); len(problems) > 0 {
			return nil, fmt.Errorf("--annotation %s: %q is no key of an annotation", item, key)
		}
		if _, twice := out[key]; twice {
			return nil, fmt.Errorf("--annotation %s: %s is given twice", item, key)
		}
		out[key] = value
	}
	return out, nil
}
