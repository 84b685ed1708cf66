package annotated

import (
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/rpo"
)

// perPod are labels that differ from pod to pod, or from one template to the next.
var perPod = []string{"statefulset.kubernetes.io/pod-name", "apps.kubernetes.io/pod-index", "controller-revision-hash", "pod-template-hash", "pod-template-generation"}

// selectorOf finds labels that all pods of a cluster's workloads have, with a sidecar or
// without, and no other pod of the namespace: one, or two where it takes two; nil where
// none do. A key that speaks of a cluster goes before others. The pods of unknown
// workloads may or may not have them.
func selectorOf(c cluster, unknown []rpo.Owner, all []metav1.PartialObjectMetadata) *metav1.LabelSelector {
	var shared map[string]string
	var others []map[string]string
	for i := range all {
		pod := &all[i]
		if owner := rpo.OwnerOf(pod); !c.has(owner) {
			if !slices.Contains(unknown, owner) {
				others = append(others, pod.Labels)
			}
			continue
		}
		if shared == nil {
			shared = maps.Clone(pod.Labels)
			maps.DeleteFunc(shared, func(key, _ string) bool { return slices.Contains(perPod, key) || ours(key) })
		}
		maps.DeleteFunc(shared, func(key, value string) bool { return pod.Labels[key] != value })
	}
	keys := slices.Collect(maps.Keys(shared))
	slices.SortFunc(keys, byMeaning)
	for _, key := range keys {
		if by := pick(shared, key); !slices.ContainsFunc(others, has(by)) {
			return &metav1.LabelSelector{MatchLabels: by}
		}
	}
	for i, key := range keys {
		for _, second := range keys[i+1:] {
			if by := pick(shared, key, second); !slices.ContainsFunc(others, has(by)) {
				return &metav1.LabelSelector{MatchLabels: by}
			}
		}
	}
	return nil
}

// ours tells whether a label is one of Stategraft. A pod that was created while the
// webhook did not answer has no label of ours, and belongs to the cluster all the same.
func ours(key string) bool { return strings.HasPrefix(key, api.Group+"/") }

// byMeaning has keys that say cluster first, then instance or release, then the others.
func byMeaning(a, b string) int {
	if d := rank(a) - rank(b); d != 0 {
		return d
	}
	return strings.Compare(a, b)
}

func rank(key string) int {
	_, name, found := strings.Cut(key, "/")
	if !found {
		name = key
	}
	switch {
	case strings.Contains(name, "cluster"):
		return 0
	case name == "instance" || name == "release":
		return 1
	case strings.Contains(name, "version") || name == "chart":
		return 3 // it changes with the software
	}
	return 2
}

func pick(from map[string]string, keys ...string) map[string]string {
	some := map[string]string{}
	for _, key := range keys {
		some[key] = from[key]
	}
	return some
}

// has makes a function that tells whether labels are selected.
func has(by map[string]string) func(map[string]string) bool {
	return func(labels map[string]string) bool {
		for key, value := range by {
			if got, ok := labels[key]; !ok || got != value {
				return false
			}
		}
		return true
	}
}

// covers tells whether a selector selects some pods of a cluster, and whether it selects
// all of them and no others, but for those of unknown workloads.
func covers(by *metav1.LabelSelector, c cluster, unknown []rpo.Owner, all []metav1.PartialObjectMetadata) (some, exactly bool) {
	selector, err := metav1.LabelSelectorAsSelector(by)
	if err != nil {
		return false, false // somebody has written over it
	}
	exactly = true
	for i := range all {
		owner, is := rpo.OwnerOf(&all[i]), selector.Matches(labels.Set(all[i].Labels))
		switch {
		case c.has(owner):
			some, exactly = some || is, exactly && is
		case is && !slices.Contains(unknown, owner):
			exactly = false
		}
	}
	return some, some && exactly
}
