package check

import (
	"context"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/stategraft/stategraft/api/v1alpha1"
)

// nobodyInjects is what a label comes to while nothing is installed.
const nobodyInjects = "pods here are not injected: Stategraft is not installed"

// judgeNamespacesBefore finds namespaces whose owners rely on an installation that
// is not there.
func judgeNamespacesBefore(all []corev1.Namespace, only string) []Finding {
	var findings []Finding
	for i := range all {
		ns := &all[i]
		switch {
		case ns.DeletionTimestamp != nil, slices.Contains(systemNamespaces, ns.Name):
		case ns.Labels[api.LabelInject] == api.InjectEnabled:
			findings = append(findings, finding(Fail, ns.Name, "is labelled, and %s", nobodyInjects).
				With("install Stategraft, then create the pods anew; or take the label %s off", api.LabelInject))
		case only != "":
			findings = append(findings, finding(Info, ns.Name, "is not labelled").
				With("once Stategraft is installed: kubectl label namespace %s %s=%s", ns.Name, api.LabelInject, api.InjectEnabled))
		}
	}
	if len(findings) == 0 {
		return []Finding{finding(OK, "", "none is labelled yet")}
	}
	return findings
}

// leftBehind finds pods of an installation that is gone.
func (c *Cluster) leftBehind(ctx context.Context) []Finding {
	pods := map[string]int{}
	err := c.podMetadata(ctx, metav1.ListOptions{LabelSelector: api.LabelInjected}, func(pod *metav1.PartialObjectMetadata) {
		pods[pod.Namespace]++
	})
	if err != nil {
		return skipped(err)
	}
	var findings []Finding
	for _, ns := range slices.Sorted(maps.Keys(pods)) {
		findings = append(findings, finding(Fail, ns, "has %s, and new %s", counted(pods[ns], "injected pod", ""), nobodyInjects).
			With("install Stategraft again; or take its label off the namespace and create the pods anew without it"))
	}
	return findings
}

// podMetadata reads, in pages, what the heads of pods say, of all namespaces or
// of the one that was asked for.
func (c *Cluster) podMetadata(ctx context.Context, options metav1.ListOptions, each func(*metav1.PartialObjectMetadata)) error {
	client := c.Meta.Resource(corev1.SchemeGroupVersion.WithResource("pods")).Namespace(c.Namespace)
	return pages(func(o metav1.ListOptions) ([]metav1.PartialObjectMetadata, string, error) {
		list, err := client.List(ctx, o)
		if err != nil {
			return nil, "", unread(err, right{Verb: "list", Resource: "pods", Namespace: c.Namespace})
		}
		return list.Items, list.Continue, nil
	}, options, each)
}
