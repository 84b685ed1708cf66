// Package offline makes of a file what admission would make of the pods in it:
// it reads documents, takes pod templates for the pods that their controllers
// would create, and runs the webhook's own decision on them.
package offline

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// InputError says what is wrong with the input, and where.
type InputError struct {
	File     string
	Document int    // counted from 1; 0 where the whole file is meant
	Field    string // path of the field, such as spec.containers[0].env
	Message  string
}

func (e *InputError) Error() string {
	text := e.File
	if e.Document > 0 {
		text += fmt.Sprintf(": document %d", e.Document)
	}
	if e.Field != "" {
		text += ": field " + e.Field
	}
	return text + ": " + e.Message
}

// Document is an object of the input.
type Document struct {
	File       string
	Index      int // counted from 1
	APIVersion string
	Kind       string
	Name       string
	Namespace  string
	JSON       []byte

	// Prefix is the JSON pointer of the pod or pod template in the object.
	// Other says that there is none.
	Prefix string
	Other  bool
}

var (
	documentEnd = regexp.MustCompile(`(?m)^\.\.\.[ \t]*\r?$`)
	mergeKey    = regexp.MustCompile(`<<[ \t]*:`)
)

// templates are the pointers of the pod template in the kinds that have one
// somewhere unusual.
var templates = map[string]string{
	"CronJob":     "/spec/jobTemplate/spec/template",
	"PodTemplate": "/template",
}

// Read reads all documents of a YAML or JSON stream. A List is taken apart.
func Read(r io.Reader, file string) ([]Document, error) {
	text, err := io.ReadAll(r)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", file, err)
	}
	// Three dots end a document as three dashes begin one; the reader knows only
	// the dashes and would drop what follows.
	text = documentEnd.ReplaceAll(text, []byte("---"))
	var documents []Document
	chunks := utilyaml.NewYAMLReader(bufio(text))
	for index := 0; ; {
		chunk, err := chunks.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, &InputError{File: file, Document: index + 1, Message: err.Error()}
		}
		parts, err := split(chunk)
		if err != nil {
			return nil, &InputError{File: file, Document: index + 1, Message: err.Error()}
		}
		for _, part := range parts {
			index++
			found, err := parse(part, file, index)
			if err != nil {
				return nil, err
			}
			documents = append(documents, found...)
		}
	}
	if len(documents) == 0 {
		return nil, &InputError{File: file, Message: "there is no document; give a pod or an object with a pod template"}
	}
	return documents, nil
}

// split turns a chunk into JSON documents: none for one that is all comments,
// several for JSON objects one after the other.
func split(chunk []byte) ([][]byte, error) {
	trimmed := bytes.TrimSpace(chunk)
	if len(trimmed) > 0 && trimmed[0] == '{' {
		var parts [][]byte
		decoder := json.NewDecoder(bytes.NewReader(trimmed))
		for {
			var part json.RawMessage
			err := decoder.Decode(&part)
			if errors.Is(err, io.EOF) {
				return parts, nil
			}
			if err != nil {
				break // YAML's flow style also starts with a brace
			}
			parts = append(parts, part)
		}
	}
	raw, err := yaml.YAMLToJSONStrict(chunk)
	if err != nil && mergeKey.Match(chunk) {
		// To the strict reader a merged mapping whose member is overridden has that
		// member twice.
		raw, err = yaml.YAMLToJSON(chunk)
	}
	if err != nil {
		return nil, err
	}
	if string(raw) == "null" {
		return nil, nil
	}
	return [][]byte{raw}, nil
}

type header struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Name         string `json:"name"`
		GenerateName string `json:"generateName"`
		Namespace    string `json:"namespace"`
	} `json:"metadata"`
	Items []json.RawMessage `json:"items"`
}

func parse(raw []byte, file string, index int) ([]Document, error) {
	var head header
	if err := json.Unmarshal(raw, &head); err != nil {
		return nil, &InputError{file, index, jsonField(err), "this is no object of Kubernetes, or has a part of the wrong type"}
	}
	if head.Kind == "" {
		return nil, &InputError{file, index, "kind", "it is missing; give a pod or an object with a pod template"}
	}
	if head.APIVersion == "" {
		return nil, &InputError{file, index, "apiVersion", "it is missing"}
	}
	if strings.HasSuffix(head.Kind, "List") && head.Items != nil {
		var documents []Document
		for _, item := range head.Items {
			found, err := parse(item, file, index)
			if err != nil {
				return nil, err
			}
			documents = append(documents, found...)
		}
		return documents, nil
	}
	d := Document{File: file, Index: index, APIVersion: head.APIVersion, Kind: head.Kind, JSON: raw,
		Name: head.Metadata.Name, Namespace: head.Metadata.Namespace}
	if d.Name == "" {
		d.Name = head.Metadata.GenerateName
	}
	return []Document{d}, d.locate()
}

// locate finds the pod or the template in the object.
func (d *Document) locate() error {
	if d.Kind == "Pod" {
		if group, _, ok := strings.Cut(d.APIVersion, "/"); ok {
			d.Other = true // a kind of somebody else's
			return nil
		} else if group != "v1" {
			return &InputError{d.File, d.Index, "apiVersion", fmt.Sprintf("a Pod is of v1, not %s", d.APIVersion)}
		}
		return d.hasContainers()
	}
	d.Prefix = "/spec/template"
	if at, ok := templates[d.Kind]; ok {
		d.Prefix = at
	}
	known := slices.Contains([]string{"StatefulSet", "Deployment", "DaemonSet", "ReplicaSet", "ReplicationController", "Job", "CronJob", "PodTemplate"}, d.Kind)
	if _, ok := at(d.JSON, d.Prefix+"/spec/containers"); ok || known {
		if _, ok := at(d.JSON, d.Prefix); !ok {
			return &InputError{d.File, d.Index, field(d.Prefix), fmt.Sprintf("the %s has no pod template", d.Kind)}
		}
		return d.hasContainers()
	}
	d.Prefix, d.Other = "", true // many kinds have a template of something else
	return nil
}

func (d *Document) hasContainers() error {
	path := d.Prefix + "/spec/containers"
	raw, ok := at(d.JSON, path)
	if !ok || string(raw) == "null" || string(raw) == "[]" {
		return &InputError{d.File, d.Index, field(path), "a pod has at least one container"}
	}
	if raw[0] != '[' {
		return &InputError{d.File, d.Index, field(path), "it has to be a list"}
	}
	return nil
}

// NotAWorkload is the error of a document that is neither a pod nor has one.
func (d *Document) NotAWorkload() error {
	return &InputError{d.File, d.Index, "kind", fmt.Sprintf("%s %s is no pod and has no pod template; --pass-others leaves such objects as they are beside pods", d.Kind, d.Name)}
}
