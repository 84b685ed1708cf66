// Package deploy holds the manifests that a cluster is given, rendered from the
// chart by `make manifests`. They are embedded so that whatever applies them in a
// test or a demonstration applies these very documents.
//
//	embed.go    the manifests, and how to pick documents from them
//	chart/      the Helm chart: the one source
//	render/     runs Helm and renders the manifests
//	images/     what the images are made of
//	examples/   databases to try it on
package deploy

import (
	"bufio"
	"bytes"
	_ "embed" // for the two files below
	"errors"
	"fmt"
	"io"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// CertManager is the whole of Stategraft, with certificates of cert-manager.
//
//go:embed stategraft.yaml
var CertManager []byte

// SelfSigned is the whole of Stategraft, with certificates that its controller
// makes.
//
//go:embed stategraft-self-signed.yaml
var SelfSigned []byte

// Pick answers the YAML documents of a manifest that are named, in the order of
// the manifest: by a kind ("ClusterRole", for all of that kind) or by kind and
// name ("ClusterRole/stategraft-webhook"). A name that stands for no document
// is an error, so that a renamed object is not lost silently.
func Pick(manifest []byte, names ...string) ([]byte, error) {
	var picked bytes.Buffer
	found := map[string]bool{}
	documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(manifest)))
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("reading the manifest: %w", err)
		}
		var head metav1.PartialObjectMetadata
		if err := yaml.Unmarshal(document, &head); err != nil {
			return nil, fmt.Errorf("reading the manifest: %w", err)
		}
		full := head.Kind + "/" + head.Name
		if slices.Contains(names, head.Kind) || slices.Contains(names, full) {
			found[head.Kind], found[full] = true, true
			picked.WriteString("---\n")
			picked.Write(document)
		}
	}
	for _, name := range names {
		if !found[name] {
			return nil, fmt.Errorf("the manifest has no %s", name)
		}
	}
	return picked.Bytes(), nil
}
