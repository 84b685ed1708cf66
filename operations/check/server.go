package check

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/client-go/discovery"
)

// What needs which version of Kubernetes.
var (
	// ValidatingAdmissionPolicy (KEP-3488) and the match conditions of webhooks
	// (KEP-3716) are generally available since 1.30.
	policySince = version.MustParseGeneric("1.30")
	// The webhook gives Anna a native sidecar from this version of the API
	// server on (webhook.ServerVersion).
	nativeUsedSince = version.MustParseGeneric("1.32")
	// The kubelet has native sidecars switched on since 1.29 (KEP-753).
	nativeSince = version.MustParseGeneric("1.29")
)

func lookServer(ctx context.Context, c *Cluster) []Finding {
	info, err := c.server(ctx)
	if err != nil {
		return skipped(err)
	}
	policies, err := c.serves(ctx, "admissionregistration.k8s.io/v1", "validatingadmissionpolicies")
	if err != nil {
		return skipped(err)
	}
	return judgeServer(info.GitVersion, policies)
}

// serves tells whether the API server has a resource.
func (c *Cluster) serves(ctx context.Context, groupVersion, resource string) (bool, error) {
	list, err := discovery.ToDiscoveryInterfaceWithContext(c.Kube.Discovery()).ServerResourcesForGroupVersionWithContext(ctx, groupVersion)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("asking what the API server has of %s: %w", groupVersion, err)
	}
	return slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == resource }), nil
}

// judgeServer judges the API server's version, and whether it serves
// ValidatingAdmissionPolicies of v1.
func judgeServer(text string, policies bool) []Finding {
	const lost = "a pod that asks for a restore would start without it while the webhook is down"
	server, err := version.ParseGeneric(text)
	switch {
	case err != nil:
		return []Finding{finding(Skip, "", "the API server calls itself %q, which is no version", text)}
	case server.LessThan(policySince):
		return []Finding{finding(Fail, "", "Kubernetes %s is older than 1.30: no ValidatingAdmissionPolicy (%s) and no match conditions of webhooks", text, lost).
			With("upgrade the control plane to 1.30 or later")}
	case !policies:
		return []Finding{finding(Fail, "", "Kubernetes %s does not serve ValidatingAdmissionPolicies: %s", text, lost).
			With("take admissionregistration.k8s.io/v1 out of the API server's --runtime-config")}
	case server.LessThan(nativeUsedSince):
		return []Finding{finding(Info, "", "Kubernetes %s; beside Anna and Cloudburst the agent is an ordinary container (a native sidecar from 1.32 on)", text)}
	}
	return []Finding{finding(OK, "", "Kubernetes %s", text)}
}

// kubelet is a node with the version of its kubelet.
type kubelet struct{ Node, Version string }

func lookNodes(ctx context.Context, c *Cluster) []Finding {
	info, err := c.server(ctx)
	if err != nil {
		return skipped(err)
	}
	var kubelets []kubelet
	err = pages(func(o metav1.ListOptions) ([]corev1.Node, string, error) {
		list, err := c.Kube.CoreV1().Nodes().List(ctx, o)
		if err != nil {
			return nil, "", unread(err, right{Verb: "list", Resource: "nodes"})
		}
		return list.Items, list.Continue, nil
	}, metav1.ListOptions{}, func(n *corev1.Node) {
		if n.Status.NodeInfo.OperatingSystem != "windows" { // no database of ours runs there
			kubelets = append(kubelets, kubelet{n.Name, n.Status.NodeInfo.KubeletVersion})
		}
	})
	if err != nil {
		return skipped(err)
	}
	return judgeNodes(info.GitVersion, c.nativeSidecars(ctx), kubelets)
}

// nativeSidecars is what the webhook is configured to do: auto, always, never.
func (c *Cluster) nativeSidecars(ctx context.Context) string {
	return c.configuration(ctx).config.NativeSidecars
}

// judgeNodes names the nodes whose kubelets know no native sidecars: what the
// webhook adds to Anna's pods would be an init container there that never ends.
func judgeNodes(server, configured string, kubelets []kubelet) []Finding {
	old := map[string][]string{}
	for _, k := range kubelets {
		if v, err := version.ParseGeneric(k.Version); err == nil && v.LessThan(nativeSince) {
			old[k.Version] = append(old[k.Version], k.Node)
		}
	}
	if len(old) == 0 {
		return []Finding{finding(OK, "", "%s", counted(len(kubelets), "node", "native sidecars everywhere"))}
	}
	used := configured == "always"
	if v, err := version.ParseGeneric(server); err == nil && configured == "auto" {
		used = v.AtLeast(nativeUsedSince)
	}
	var findings []Finding
	versions := make([]string, 0, len(old))
	for v := range old {
		versions = append(versions, v)
	}
	slices.Sort(versions)
	for _, v := range versions {
		nodes := old[v]
		slices.Sort(nodes)
		f := finding(Info, "", "kubelet %s on %s knows no native sidecars; none are used here", v, some(nodes))
		if used {
			f = finding(Warn, "", "kubelet %s on %s knows no native sidecars: a pod of Anna or Cloudburst that is scheduled there does not start", v, some(nodes)).
				With("upgrade these kubelets to 1.29 or later, or set nativeSidecars: never in the webhook's configuration")
		}
		findings = append(findings, f)
	}
	return findings
}

// someLimit is how many names are written out where many are meant.
const someLimit = 5

// some names the first and counts the rest.
func some(names []string) string {
	if len(names) <= someLimit {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:someLimit], ", "), len(names)-someLimit)
}

// counted is "3 nodes, more": a number with its noun.
func counted(n int, noun, more string) string {
	if n != 1 {
		noun += "s"
	}
	text := fmt.Sprintf("%d %s", n, noun)
	if n == 0 {
		return "no " + noun
	}
	if more != "" {
		text += ", " + more
	}
	return text
}
