package check

import (
	"cmp"
	"context"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/stategraft/stategraft/patches"
)

// ring is pods of one owner that are to be found under one Service.
type ring struct {
	namespace string
	owner     string // Kind/name, or the pod's name
	subdomain string
}

// member stands for the pods of a ring: they differ in their names only.
type member struct {
	hostname string
	labels   map[string]string
	pods     []string
}

// needsPTR tells whether Medusa beside the pod looks for the names of all nodes
// by their addresses, as it does unless it is told to use addresses
// (medusa/network/hostname_resolver.py). One answer that is missing fails the
// backup of every node of the datacenter.
func needsPTR(pod *corev1.Pod) bool {
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		if c.Name == patches.ContainerMedusa {
			return !slices.ContainsFunc(c.Env, func(e corev1.EnvVar) bool {
				return e.Name == "MEDUSA_RESOLVE_IP_ADDRESSES" && e.Value == "False"
			})
		}
	}
	return false
}

func lookNames(ctx context.Context, c *Cluster) []Finding {
	s, err := c.sweep(ctx)
	if err != nil {
		return skipped(err)
	}
	order := slices.SortedFunc(maps.Keys(s.rings), func(a, b ring) int {
		return cmp.Or(cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.owner, b.owner), cmp.Compare(a.subdomain, b.subdomain))
	})
	services := map[string]once[[]corev1.Service]{}
	var findings []Finding
	for _, r := range order {
		kept, read := services[r.namespace]
		list, err := kept.get(func() ([]corev1.Service, error) {
			list, err := c.Kube.CoreV1().Services(r.namespace).List(ctx, metav1.ListOptions{})
			if err != nil {
				return nil, unread(err, right{Verb: "list", Resource: "services", Namespace: r.namespace})
			}
			return list.Items, nil
		})
		services[r.namespace] = kept
		if err != nil {
			if !read { // said once
				findings = append(findings, skipped(err)...)
			}
			continue
		}
		findings = append(findings, judgeRing(r, s.rings[r], list)...)
	}
	return s.say(findings, "%s", counted(len(order), "injected Cassandra workload", "each with a headless Service that names its pods"))
}

// judgeRing judges whether the cluster's DNS answers a PTR query for each pod of
// the ring with the pod's name. It does for pods that have a hostname, and whose
// subdomain is a Service that selects them
// (k8s.io/endpointslice/util.ShouldSetHostname; CoreDNS plugin/kubernetes/reverse.go);
// for pods that are not ready only if the Service publishes these. Other
// Services that select the pod do no harm: their answers are made of the
// address, and Medusa leaves such answers aside.
func judgeRing(r ring, m member, services []corev1.Service) []Finding {
	const lost = "no PTR record names its pods, and Medusa cannot back up any node of the datacenter"
	const fix = "give the StatefulSet a headless Service as spec.serviceName, with publishNotReadyAddresses: true"
	subject := r.namespace + "/" + r.owner
	if r.subdomain == "" || m.hostname == "" {
		return []Finding{finding(Fail, subject, "its pods have no subdomain or no hostname: %s", lost).With(fix)}
	}
	at := slices.IndexFunc(services, func(s corev1.Service) bool { return s.Name == r.subdomain })
	if at < 0 {
		return []Finding{finding(Fail, subject, "the Service %s, which the pods name as their subdomain, is missing: %s", r.subdomain, lost).
			With("create the headless Service %s, with the labels of the pods as selector and publishNotReadyAddresses: true", r.subdomain)}
	}
	service := &services[at]
	switch {
	case len(service.Spec.Selector) == 0 || !labels.SelectorFromSet(service.Spec.Selector).Matches(labelSet(m.labels)):
		return []Finding{finding(Fail, subject, "the Service %s does not select its pods: %s", r.subdomain, lost).
			With("correct the selector of the Service")}
	case service.Spec.Type == corev1.ServiceTypeExternalName:
		return []Finding{finding(Fail, subject, "the Service %s is an ExternalName: %s", r.subdomain, lost).With(fix)}
	}
	var findings []Finding
	if service.Spec.ClusterIP != corev1.ClusterIPNone {
		findings = append(findings, finding(Warn, subject, "the Service %s is not headless: not every cluster DNS names its pods then", r.subdomain).With(fix))
	}
	if !service.Spec.PublishNotReadyAddresses {
		findings = append(findings, finding(Warn, subject, "the Service %s does not name pods that are not ready: while one node is down, backups of all nodes of the datacenter fail", r.subdomain).
			With("set publishNotReadyAddresses: true on the Service"))
	}
	return findings
}
