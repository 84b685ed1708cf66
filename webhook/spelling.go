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
// would otherwise look like a setting that does not work.
func misspelt(pod *workload.Pod, ns Namespace) []string {
	var warnings []string
	warnings = unknown(warnings, "annotation", "the pod", pod.Metadata.Annotations, api.Annotations, api.Labels)
	warnings = unknown(warnings, "label", "the pod", pod.Metadata.Labels, api.Labels, api.Annotations)
	warnings = unknown(warnings, "annotation", "the namespace", ns.Annotations, api.Annotations, api.Labels)
	return unknown(warnings, "label", "the namespace", ns.Labels, api.Labels, api.Annotations)
}

func unknown(warnings []string, what, where string, have map[string]string, known, elsewhere []string) []string {
	var keys []string
	for key := range have {
		if strings.HasPrefix(key, api.Group+"/") && key != patches.AnnotationInjected && !slices.Contains(known, key) {
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
			warnings = append(warnings, fmt.Sprintf("%s %s of %s is not known; did you mean %s?", what, workload.Short(key), where, nearest(key, known)))
		}
	}
	return warnings
}

// nearest gives the known key with the smallest edit distance.
func nearest(key string, known []string) string {
	const limit = 100 // no key is as long; the distance takes the product of the lengths
	key = key[:min(len(key), limit)]
	found, least := "", 1<<30
	for _, candidate := range known {
		if d := distance(key, candidate); d < least {
			found, least = candidate, d
		}
	}
	return found
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
