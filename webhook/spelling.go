package webhook

import (
	"fmt"
	"slices"
	"sort"
	"strings"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/patches"
	"github.com/stategraft/stategraft/workload"
)

// misspelt warns of each key under stategraft.io/ that nothing reads: a typo
// would otherwise look like a setting that does not work. The answer to a restore
// that was asked for on a live pod is read there only: in a template that such a pod
// was copied into it says nothing, and means no harm.
func misspelt(pod *workload.Pod, ns Namespace) []string {
	var warnings []string
	warnings = unknown(warnings, "annotation", "the pod", pod.Metadata.Annotations, api.Annotations, api.Labels)
	warnings = unknown(warnings, "label", "the pod", pod.Metadata.Labels, api.Labels, api.Annotations)
	if _, ok := pod.Metadata.Labels[api.LabelInjected]; ok && !carriesOwn(pod) {
		warnings = append(warnings, "label "+api.LabelInjected+" of the pod is Stategraft's to write and means nothing in a template; take it out, or the pod is selected as injected when it is not")
	}
	if _, ok := pod.Metadata.Annotations[api.AnnotationPublicAddress]; ok && !carriesOwn(pod) {
		warnings = append(warnings, "annotation "+api.AnnotationPublicAddress+" of the pod is Stategraft's to write and is another pod's address in a template; take it out, or the pod starts with that")
	}
	warnings = unknown(warnings, "annotation", "the namespace", ns.Annotations, api.Annotations, api.Labels)
	return unknown(warnings, "label", "the namespace", ns.Labels, api.Labels, api.Annotations)
}

// carriesOwn tells whether the pod has a container of ours.
func carriesOwn(pod *workload.Pod) bool {
	own := func(c workload.Container) bool { return workload.Own(c.Name) }
	return slices.ContainsFunc(pod.Spec.Containers, own) || slices.ContainsFunc(pod.Spec.InitContainers, own) ||
		slices.ContainsFunc(pod.Spec.Ephemeral, func(c workload.Named) bool { return workload.Own(c.Name) }) // adopted
}

// ourOwn are keys that Stategraft writes on pods and namespaces.
var ourOwn = []string{api.LabelInjected, api.LabelLookup, api.LabelVerify, api.LabelRestoring, api.AnnotationRestoreAnswer,
	api.AnnotationPublicAddress, patches.AnnotationConfigStarted}

func unknown(warnings []string, what, where string, have map[string]string, known, elsewhere []string) []string {
	var keys []string
	for key := range have {
		if alike(key) && !slices.Contains(ourOwn, key) && !slices.Contains(known, key) {
			keys = append(keys, key)
		}
	}
	sort.Strings(keys)
	for i, key := range keys {
		switch {
		case slices.Contains(elsewhere, key) && what == "annotation":
			warnings = append(warnings, fmt.Sprintf("%s of %s is read as a label, not as an annotation", key, where))
		case slices.Contains(elsewhere, key):
			warnings = append(warnings, fmt.Sprintf("%s of %s is read as an annotation, not as a label", key, where))
		case i >= warningsLimit: // only counted
			warnings = append(warnings, fmt.Sprintf("%s %s of %s is not known", what, workload.Short(key), where))
		default:
			warnings = append(warnings, fmt.Sprintf("%s %s of %s is not known%s", what, workload.Short(key), where, suggestion(key, known)))
		}
	}
	return warnings
}

// alike tells whether a key is meant for Stategraft: Kubernetes takes prefixes of
// any case, and people leave out the ending.
func alike(key string) bool {
	prefix, _, ok := strings.Cut(key, "/")
	return ok && (strings.EqualFold(prefix, api.Group) || strings.EqualFold(prefix, "stategraft"))
}

// suggestion names the known key that is nearest, as contracts go the prefix
// included; if none is near, it names none.
func suggestion(key string, known []string) string {
	_, name, _ := strings.Cut(key, "/")
	name = strings.ToLower(name[:min(len(name), 64)]) // no name is longer; the distance takes the product of the lengths
	found, least := "", len(name)/2+1
	for _, candidate := range known {
		if d := distance(name, candidate[len(api.Group)+1:]); d < least {
			found, least = candidate, d
		}
	}
	if found == "" {
		return ""
	}
	return "; did you mean " + found + "?"
}

// distance is the Levenshtein distance.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		diagonal := row[0]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := diagonal
			if a[i-1] != b[j-1] {
				cost++
			}
			diagonal = row[j]
			row[j] = min(row[j]+1, row[j-1]+1, cost)
		}
	}
	return row[len(b)]
}
