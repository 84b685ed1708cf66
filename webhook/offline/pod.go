package offline

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	jsonpatch "github.com/evanphx/json-patch/v5"
	v2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	ops "gomodules.xyz/jsonpatch/v2"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/webhook"
	"github.com/stategraft/stategraft/workload"
)

// Result is what admission would make of one document.
type Result struct {
	webhook.Outcome
	Document Document

	// Operations are the annotations of the command line, then the patch; their
	// paths are those of the document.
	Operations []ops.Operation
}

// Options surround the documents.
type Options struct {
	Namespace   webhook.Namespace
	Config      *webhook.Config
	Annotations map[string]string // added to each pod before it is decided on
	Orders      Orders            // of a Restore; nil for none
}

// Decide runs the webhook's decision on the pod of the document.
func Decide(d Document, options Options) (Result, error) {
	result := Result{Document: d}
	edited := d
	if len(options.Annotations) > 0 {
		result.Operations = annotate(d, options.Annotations)
		text, err := apply(d.JSON, result.Operations)
		if err != nil {
			return result, &InputError{d.File, d.Index, field(d.Prefix + "/metadata"), err.Error()}
		}
		edited.JSON = text
	}
	pod, claims, err := edited.pod()
	if err != nil {
		return result, err
	}
	if _, err := workload.Parse(pod); err != nil {
		return result, d.podError(err)
	}
	result.Outcome = webhook.Decide(webhook.Input{Pod: pod, Claims: claims, Namespace: options.Namespace,
		Config: options.Config, NativeSidecars: true, Order: options.Orders})
	result.Warnings = append(result.Warnings, misplaced(d)...)
	if result.Patch != nil {
		if raw, ok := at(edited.JSON, d.Prefix+"/metadata"); !ok || string(raw) == "null" {
			result.Operations = append(result.Operations, ops.Operation{Operation: "add", Path: d.Prefix + "/metadata", Value: map[string]any{}})
		}
		for _, op := range result.Patch.Operations {
			op.Path = d.Prefix + op.Path
			result.Operations = append(result.Operations, op)
		}
	}
	return result, nil
}

// misplaced warns of annotations on the object that has the template: they are
// read on its pods.
func misplaced(d Document) []string {
	raw, ok := at(d.JSON, "/metadata/annotations")
	if d.Prefix == "" || !ok {
		return nil
	}
	var annotations map[string]string
	if json.Unmarshal(raw, &annotations) != nil {
		return nil
	}
	var warnings []string
	for _, key := range sortedKeys(annotations) {
		if strings.HasPrefix(key, api.Group+"/") {
			warnings = append(warnings, fmt.Sprintf("annotation %s stands on the %s; it is read on pods, so write it under %s.metadata.annotations", key, d.Kind, field(d.Prefix)))
		}
	}
	return warnings
}

// Apply gives the document with the operations applied.
func (r Result) Apply() ([]byte, error) { return apply(r.Document.JSON, r.Operations) }

func apply(raw []byte, operations []ops.Operation) ([]byte, error) {
	if len(operations) == 0 {
		return raw, nil
	}
	text, err := json.Marshal(operations)
	if err != nil {
		return nil, fmt.Errorf("encoding the patch: %w", err)
	}
	patch, err := jsonpatch.DecodePatch(text)
	if err != nil {
		return nil, fmt.Errorf("reading the patch: %w", err)
	}
	out, err := patch.Apply(raw)
	if err != nil {
		return nil, fmt.Errorf("applying the patch: %w", err)
	}
	return out, nil
}

// annotate gives the operations that put annotations on the document's pod.
func annotate(d Document, annotations map[string]string) []ops.Operation {
	var out []ops.Operation
	add := func(path string, value any) {
		out = append(out, ops.Operation{Operation: "add", Path: path, Value: value})
	}
	if raw, ok := at(d.JSON, d.Prefix+"/metadata"); !ok || string(raw) == "null" {
		add(d.Prefix+"/metadata", map[string]any{"annotations": annotations})
		return out
	}
	base := d.Prefix + "/metadata/annotations"
	if raw, ok := at(d.JSON, base); !ok || string(raw) == "null" {
		add(base, annotations)
		return out
	}
	for _, key := range sortedKeys(annotations) {
		add(base+"/"+strings.NewReplacer("~", "~0", "/", "~1").Replace(key), annotations[key])
	}
	return out
}

// pod makes the pod that the API server would be sent: the document itself, or
// the template as the object's controller fills it in.
func (d Document) pod() (raw []byte, claims []string, err error) {
	if d.Prefix == "" {
		return d.JSON, nil, nil
	}
	template, _ := at(d.JSON, d.Prefix)
	var parts struct {
		Metadata map[string]json.RawMessage `json:"metadata"`
		Spec     map[string]json.RawMessage `json:"spec"`
	}
	if err := json.Unmarshal(template, &parts); err != nil {
		return nil, nil, &InputError{d.File, d.Index, field(d.Prefix) + dotted(jsonField(err)), err.Error()}
	}
	pod := map[string]any{"apiVersion": "v1", "kind": "Pod", "spec": parts.Spec}
	metadata := map[string]any{"namespace": d.Namespace}
	for key, value := range parts.Metadata {
		metadata[key] = value
	}
	owner := map[string]any{"apiVersion": d.APIVersion, "kind": d.Kind, "name": d.Name, "controller": true}
	switch d.Kind {
	case "StatefulSet", "PetSet":
		metadata["name"] = d.Name + "-0"
		claims = d.claims()
		if service, ok := at(d.JSON, "/spec/serviceName"); ok {
			parts.Spec["subdomain"] = service
		}
	case "Deployment":
		owner["apiVersion"], owner["kind"] = "apps/v1", "ReplicaSet"
		metadata["generateName"] = d.Name + "-"
	case "CronJob":
		owner["kind"] = "Job"
		metadata["generateName"] = d.Name + "-"
	default:
		metadata["generateName"] = d.Name + "-"
	}
	metadata["ownerReferences"] = []any{owner}
	pod["metadata"] = metadata
	raw, err = json.Marshal(pod)
	return raw, claims, err
}

func (d Document) claims() []string {
	raw, ok := at(d.JSON, "/spec/volumeClaimTemplates")
	if !ok {
		return nil
	}
	var list []struct {
		Metadata struct {
			Name string `json:"name"`
		} `json:"metadata"`
	}
	if json.Unmarshal(raw, &list) != nil {
		return nil
	}
	names := make([]string, 0, len(list))
	for _, claim := range list {
		names = append(names, claim.Metadata.Name)
	}
	return names
}

// podError names the field of the document that a decoding error is about.
func (d Document) podError(err error) error {
	pointer := ""
	var semantic *v2.SemanticError
	var syntactic *jsontext.SyntacticError
	switch {
	case errors.As(err, &semantic):
		pointer = string(semantic.JSONPointer)
	case errors.As(err, &syntactic):
		pointer = string(syntactic.JSONPointer)
	}
	message := "it has the wrong type"
	if semantic != nil && semantic.GoType != nil && semantic.Err == nil {
		message = fmt.Sprintf("it is a %s and has to be a %s", kindName(semantic.JSONKind.String()), goKind(semantic.GoType.Kind().String()))
	} else if err != nil && semantic == nil {
		message = err.Error()
	}
	return &InputError{d.File, d.Index, field(d.Prefix + pointer), message}
}

func kindName(kind string) string {
	switch kind {
	case "true", "false":
		return "boolean"
	case "{", "}":
		return "mapping"
	case "[", "]":
		return "list"
	}
	return kind
}

func goKind(kind string) string {
	switch {
	case kind == "slice":
		return "list"
	case kind == "struct" || kind == "map" || kind == "ptr":
		return "mapping"
	case kind == "bool":
		return "boolean"
	case strings.HasPrefix(kind, "int"):
		return "number"
	}
	return kind
}

func dotted(text string) string {
	if text == "" {
		return ""
	}
	return "." + text
}
