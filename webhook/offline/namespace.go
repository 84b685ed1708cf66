package offline

import (
	"fmt"
	"io"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/webhook"
)

// Labelled is the namespace that is assumed where no file says otherwise.
func Labelled() webhook.Namespace {
	return webhook.Namespace{Labels: map[string]string{api.LabelInject: api.InjectEnabled}}
}

// ReadNamespace reads a Namespace, and the ResourceQuotas and LimitRanges that
// come with it, from a file.
func ReadNamespace(r io.Reader, file string) (webhook.Namespace, error) {
	documents, err := Read(r, file)
	if err != nil {
		return webhook.Namespace{}, err
	}
	var ns webhook.Namespace
	found := false
	for _, d := range documents {
		var into any
		switch d.Kind {
		case "Namespace":
			if found {
				return ns, &InputError{d.File, d.Index, "kind", "there is more than one Namespace"}
			}
			found = true
			into = &corev1.Namespace{}
		case "ResourceQuota":
			into = &corev1.ResourceQuota{}
		case "LimitRange":
			into = &corev1.LimitRange{}
		default:
			return ns, &InputError{d.File, d.Index, "kind", fmt.Sprintf("%s is no Namespace, ResourceQuota or LimitRange", d.Kind)}
		}
		if err := yaml.UnmarshalStrict(d.JSON, into); err != nil {
			return ns, &InputError{d.File, d.Index, jsonField(err), err.Error()}
		}
		switch object := into.(type) {
		case *corev1.Namespace:
			ns.Name, ns.Labels, ns.Annotations = object.Name, object.Labels, object.Annotations
		case *corev1.ResourceQuota:
			ns.Quotas = append(ns.Quotas, *object)
		case *corev1.LimitRange:
			ns.LimitRanges = append(ns.LimitRanges, *object)
		}
	}
	if !found {
		return ns, &InputError{File: file, Message: "there is no Namespace in it"}
	}
	return ns, nil
}
