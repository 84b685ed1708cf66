package webhook

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/patches"
	"github.com/stategraft/stategraft/workload"
)

// problem is a value that cannot be used as it is.
type problem struct {
	key  string
	text string // names the annotation, where it stands, and what it takes
}

// resolved is what annotations and configuration come to for one pod.
type resolved struct {
	settings patches.Settings
	hints    workload.Hints
	problems []problem
	warnings []string
	unread   []string // warnings of keys that are not read
	// unfollowed are warnings of values that the controller cannot follow. Nothing that is
	// added to the pod depends on them.
	unfollowed []string

	imageChosen  bool // the pod or its namespace names Medusa's image
	restoreAsked bool // by the pod or its namespace, well or badly, or by an order
	restoreOwn   bool // by the pod itself
	scheduled    bool // a schedule of backups is asked for, well or badly
	retained     bool // and how many are kept
}

// layers are where an annotation may stand, the strongest first.
type layers struct {
	pod, namespace, defaults map[string]string
}

func (l layers) get(key string) (value, where string, ok bool) {
	if value, ok = l.pod[key]; ok {
		return value, "the pod", true
	}
	if value, ok = l.namespace[key]; ok {
		return value, "the namespace", true
	}
	value, ok = l.defaults[key]
	return value, "the configuration", ok
}

// resolve reads every annotation from the pod, its namespace and the
// configuration's defaults, in this order, and reports each that is wrong. A pending
// order stands instead of the restore that the namespace asks for.
func resolve(pod *workload.Pod, ns Namespace, config *Config, order api.Order) resolved {
	r := resolved{settings: config.base, unread: misspelt(pod, ns)}
	r.settings.Order = order
	if order.Pending {
		ns.Annotations = without(ns.Annotations, api.AnnotationRestore, api.AnnotationRestoreSource)
	}
	from := layers{pod.Metadata.Annotations, ns.Annotations, config.defaults}
	r.read(from)
	_, r.restoreOwn = pod.Metadata.Annotations[api.AnnotationRestore]
	_, inherited := ns.Annotations[api.AnnotationRestore]
	r.restoreAsked = r.restoreOwn || inherited || order.Pending
	_, own := pod.Metadata.Annotations[api.AnnotationMedusaImage]
	_, shared := ns.Annotations[api.AnnotationMedusaImage]
	r.imageChosen = own || shared
	if r.settings.RestoreSource != "" && !r.restoreAsked {
		r.warnings = append(r.warnings, "annotation "+api.AnnotationRestoreSource+" says nothing without "+api.AnnotationRestore)
	}
	if _, own := pod.Metadata.Annotations[api.AnnotationOnConfigChange]; own && r.settings.ConfigMap == "" {
		r.warnings = append(r.warnings, "annotation "+api.AnnotationOnConfigChange+" says nothing without "+api.AnnotationConfigMap)
	}
	if r.retained && !r.scheduled {
		r.warnings = append(r.warnings, "annotation "+api.AnnotationRetain+" says nothing without "+api.AnnotationBackupSchedule)
	}
	if _, shared := ns.Annotations[api.AnnotationAdoptRenew]; shared {
		r.warnings = append(r.warnings, "annotation "+api.AnnotationAdoptRenew+" says nothing on a namespace; it belongs on pods that are adopted")
	}
	r.hints.NamespaceLabelled, r.hints.NamespaceLabel = ns.Labelled(), ns.Labels[api.LabelInject]
	r.hints.AnyUID = config.Medusa.AnyUIDImage != ""
	r.settings.PodSecurity = ns.PodSecurity()
	r.settings.LimitCPU = limitsCPU(ns)
	if ns.Unknown {
		r.warnings = append(r.warnings, "namespace "+ns.Name+" is too new to be known here: its annotations are not applied")
	}
	return r
}

// without gives a mapping without some of its keys.
func without(from map[string]string, keys ...string) map[string]string {
	kept := maps.Clone(from)
	for _, key := range keys {
		delete(kept, key)
	}
	return kept
}

// read parses every annotation that stands in one of the layers.
func (r *resolved) read(from layers) {
	for _, key := range api.Annotations {
		text, where, ok := from.get(key)
		if !ok {
			continue
		}
		switch err := r.set(key, text); {
		case err == nil:
		case slices.Contains(perNamespace, key):
			r.unfollowed = append(r.unfollowed, unfollowed(key, where, text, err))
		default:
			r.problems = append(r.problems, problem{key, fmt.Sprintf("annotation %s of %s is %q: %v", key, where, workload.Short(text), err)})
		}
	}
}

// Unfollowed says which annotations for the controller cannot be followed, of those that
// stand on the pod or the namespace. Pods are injected all the same.
func Unfollowed(where string, annotations map[string]string) (all []string) {
	for _, key := range perNamespace {
		if text, ok := annotations[key]; ok {
			if err := new(resolved).set(key, text); err != nil {
				all = append(all, unfollowed(key, where, text, err))
			}
		}
	}
	return all
}

func unfollowed(key, where, text string, err error) string {
	return fmt.Sprintf("annotation %s of %s is %q: %v; not followed until corrected", key, where, workload.Short(text), err)
}

// set takes over one annotation. On an error the default stays.
func (r *resolved) set(key, text string) (err error) {
	s := &r.settings
	switch key {
	case api.AnnotationRestore:
		s.Restore, err = backupName(text)
	case api.AnnotationRestoreSource:
		s.RestoreSource, err = sourceNames(text)
	case api.AnnotationMedusaConfig:
		s.MedusaConfig, err = objectName(text)
	case api.AnnotationStorageSecret:
		s.StorageSecret, err = objectNameOrNone(text)
	case api.AnnotationCQLSecret:
		s.CQLSecret, err = objectName(text)
	case api.AnnotationJMXSecret:
		s.JMXSecret, err = objectName(text)
	case api.AnnotationConfigMap:
		s.ConfigMap, err = objectName(text)
	case api.AnnotationDataVolume:
		r.hints.DataVolume, err = partName(text)
	case api.AnnotationContainer:
		r.hints.Container, err = partName(text)
	case api.AnnotationHostNetwork:
		s.HostNetwork, err = boolean(text)
	case api.AnnotationSpread:
		s.SpreadHost, s.SpreadZone, err = spread(text)
	case api.AnnotationColocateWith:
		s.ColocateWith, err = selector(text)
	case api.AnnotationExpose:
		s.Expose, err = exposure(text)
	case api.AnnotationOnConfigChange: // followed by a controller, on the live pod
		err = onConfigChange(text)
	case api.AnnotationDecryptionSecret:
		s.DecryptionSecret, err = objectName(text)
	case api.AnnotationMedusaImage:
		s.MedusaImage, err = image(text)
	case api.AnnotationAgentImage:
		s.AgentImage, err = image(text)
	case api.AnnotationSidecarResources:
		var given patches.Resources
		given, err = resources(text)
		s.Resources.Medusa, s.Resources.Anna = given.Over(s.Resources.Medusa), given.Over(s.Resources.Anna)
	case api.AnnotationGRPCPort:
		s.GRPCPort, err = port(text)
	case api.AnnotationGRPCTLS:
		s.GRPCTLS, err = onOff(text)
	case api.AnnotationHeldBack:
		err = heldBackValue(text) // heldBack reads it
	case api.AnnotationBackupSchedule: // these three are followed by controllers, on the live pod
		r.scheduled = true
		err = cron(text)
	case api.AnnotationRetain:
		r.retained = true
		_, err = api.ParseRetain(text)
	case api.AnnotationRPO:
		_, err = api.ParseRPO(text)
	case api.AnnotationAdopt: // so are these two, which have nothing to say to a pod that is created
		err = adopt(text)
	case api.AnnotationAdoptRenew:
		err = renew(text)
	default:
		err = errors.New("it is not read by this version")
	}
	return err
}

// problemOf finds what is wrong with one annotation.
func (r *resolved) problemOf(key string) (problem, bool) {
	for _, p := range r.problems {
		if p.key == key {
			return p, true
		}
	}
	return problem{}, false
}
