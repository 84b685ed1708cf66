package patches

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/workload"
)

const (
	required  = "requiredDuringSchedulingIgnoredDuringExecution"
	preferred = "preferredDuringSchedulingIgnoredDuringExecution"
)

// affinity adds to what the user has, never instead of it: pods of the workload
// apart by host (required) and by zone (preferred, for there are mostly fewer
// zones than pods and a pod that cannot be placed serves nobody), and next to
// the pods of a selector.
func (b *builder) affinity() {
	_, marked := b.pod.Metadata.Annotations[AnnotationInjected]
	if marked && (has(b.pod.Spec.Containers, ContainerAgent) || has(b.pod.Spec.InitContainers, ContainerAgent)) {
		// A later webhook may have changed the labels that the selector is made
		// of: what was added the first time stands. The mark alone may be a copy.
		return
	}
	var want []wantedTerm
	if b.s.SpreadHost || b.s.SpreadZone {
		selector := b.workloadSelector()
		if selector == nil {
			b.warn(fmt.Sprintf("no spreading (annotation %s): the pod has no label that tells its workload", api.AnnotationSpread))
		} else {
			if b.s.SpreadHost {
				want = append(want, wantedTerm{"podAntiAffinity", required, corev1.PodAffinityTerm{LabelSelector: selector, TopologyKey: corev1.LabelHostname}})
			}
			if b.s.SpreadZone {
				want = append(want, wantedTerm{"podAntiAffinity", preferred, corev1.WeightedPodAffinityTerm{Weight: 100,
					PodAffinityTerm: corev1.PodAffinityTerm{LabelSelector: selector, TopologyKey: corev1.LabelTopologyZone}}})
			}
		}
	}
	if selector := b.otherTier(); selector != nil {
		want = append(want, wantedTerm{"podAntiAffinity", required, corev1.PodAffinityTerm{LabelSelector: selector, TopologyKey: corev1.LabelHostname}})
	}
	if b.s.ColocateWith != nil {
		if b.s.SpreadHost && matches(b.s.ColocateWith, b.pod.Metadata.Labels) {
			b.conflict = &Conflict{workload.ReasonBadAnnotation, fmt.Sprintf("annotation %s wants the pod beside pods like itself, and %s: host wants them apart",
				api.AnnotationColocateWith, api.AnnotationSpread)}
			return
		}
		want = append(want, wantedTerm{"podAffinity", required, corev1.PodAffinityTerm{LabelSelector: b.s.ColocateWith, TopologyKey: corev1.LabelHostname}})
	}
	b.terms(want)
}

// otherTier selects Anna's nodes of both tiers, by upstream's label, for a pod that has it
// and is on its node's network: two of them bind the same ports. The declared host ports
// keep them apart as well, as far as pods declare them.
func (b *builder) otherTier() *metav1.LabelSelector {
	if b.w.Kind != workload.KindAnna || !b.w.HoldsData() || !b.hostNetwork || b.pod.Metadata.Labels[labelRole] != string(b.w.Role) {
		return nil
	}
	return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{
		Key: labelRole, Operator: metav1.LabelSelectorOpIn, Values: []string{string(workload.RoleDisk), string(workload.RoleMemory)}}}}
}

// labelRole is upstream's label of what a pod does (hydro-project/cluster, hydro/cluster/yaml).
const labelRole = "role"

// wantedTerm is an entry of a list in an affinity.
type wantedTerm struct {
	kind, strength string
	term           any
}

// terms adds each term that is not there, creating the parents that are absent.
func (b *builder) terms(want []wantedTerm) {
	if len(want) == 0 {
		return
	}
	have, exists, err := readAffinity(b.pod.Spec.Affinity)
	if err != nil {
		b.warn("no affinity is added: the pod's own cannot be read")
		return
	}
	missing := map[string]map[string][]any{}
	for _, w := range want {
		if contains(have[w.kind][w.strength], w.term) {
			continue
		}
		if missing[w.kind] == nil {
			missing[w.kind] = map[string][]any{}
		}
		missing[w.kind][w.strength] = append(missing[w.kind][w.strength], w.term)
	}
	if len(missing) == 0 {
		return
	}
	if !exists {
		b.add("/spec/affinity", missing)
		return
	}
	for _, kind := range [...]string{"podAffinity", "podAntiAffinity"} {
		if missing[kind] != nil && have[kind] == nil {
			b.add("/spec/affinity/"+kind, missing[kind])
			continue
		}
		for _, strength := range [...]string{required, preferred} {
			_, there := have[kind][strength]
			list(b, "/spec/affinity/"+kind+"/"+strength, there, missing[kind][strength])
		}
	}
}

// terms by kind of affinity and by strength.
type affinityTerms map[string]map[string][]jsontext.Value

// readAffinity reads the lists of pod affinities; null counts as absent. What
// has another shape than it should is an error, for nothing of it may be
// replaced.
func readAffinity(raw jsontext.Value) (have affinityTerms, exists bool, err error) {
	if len(raw) == 0 || raw.Kind() == 'n' {
		return nil, false, nil
	}
	var parsed struct {
		Near map[string]json.RawMessage `json:"podAffinity"`
		Away map[string]json.RawMessage `json:"podAntiAffinity"`
	}
	if err := json.Unmarshal(raw, &parsed); err != nil {
		return nil, true, err
	}
	have = affinityTerms{}
	for kind, lists := range map[string]map[string]json.RawMessage{"podAffinity": parsed.Near, "podAntiAffinity": parsed.Away} {
		if lists == nil {
			continue
		}
		have[kind] = map[string][]jsontext.Value{}
		for _, strength := range [...]string{required, preferred} {
			var terms []jsontext.Value
			if text, ok := lists[strength]; ok {
				if err := json.Unmarshal(text, &terms); err != nil {
					return nil, true, err
				}
			}
			if terms != nil {
				have[kind][strength] = terms
			}
		}
	}
	return have, true, nil
}

func matches(selector *metav1.LabelSelector, set map[string]string) bool {
	parsed, err := metav1.LabelSelectorAsSelector(selector)
	return err == nil && parsed.Matches(labels.Set(set))
}

// contains compares in canonical form, as the order of members means nothing.
func contains(terms []jsontext.Value, term any) bool {
	text, err := json.Marshal(term)
	if err != nil {
		return false
	}
	wanted := jsontext.Value(text)
	if wanted.Canonicalize() != nil {
		return false
	}
	for _, t := range terms {
		have := t.Clone()
		if have.Canonicalize() == nil && bytes.Equal(have, wanted) {
			return true
		}
	}
	return false
}

// workloadSelector selects the pods of this pod's workload: by the labels that
// name an application and its cluster, and not by those that differ between its
// pods, its racks or its versions.
func (b *builder) workloadSelector() *metav1.LabelSelector {
	chosen := map[string]string{}
	for key, value := range b.pod.Metadata.Labels {
		name := key[strings.LastIndex(key, "/")+1:]
		switch name {
		case "name", "instance", "component", "app", "release", "cluster", "datacenter", "role", "k8s-app", "cassandracluster":
			if !strings.HasPrefix(key, "statefulset.") && !strings.HasPrefix(key, "batch.") {
				chosen[key] = value
			}
		}
	}
	if len(chosen) == 0 {
		return nil
	}
	return &metav1.LabelSelector{MatchLabels: chosen}
}
