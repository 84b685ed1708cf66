package check

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/adopted"
	"github.com/stategraft/stategraft/patches"
	"github.com/stategraft/stategraft/workload"
)

// sweep is what one pass over the pods of all labelled namespaces gives to the
// items that are about pods. The pods are read in pages and not kept: a cluster
// may have tens of thousands.
type sweep struct {
	namespaces int
	unread     []Finding // namespaces whose pods could not be read

	kinds      map[string]int // injected pods, by the kind of their database
	uncovered  []Finding
	unfollowed []Finding
	containers []Finding
	security   []Finding
	references map[reference]use
	rings      map[ring]member
	agents     map[string]int    // pods, by the agent's image
	mutual     map[string]bool   // namespaces with pods that take SecretGRPC
	backedUp   map[string]int    // injected pods that can be backed up, by namespace
	adopted    map[string]string // of adopted pods, by namespace/name: the container that is asked for backups
}

// injected counts the injected pods.
func (s *sweep) injected() int {
	n := 0
	for _, count := range s.kinds {
		n += count
	}
	return n
}

// say gives what was found, with the namespaces that could not be read; if
// neither says anything, that all is well, in the given words.
func (s *sweep) say(findings []Finding, well string, args ...any) []Finding {
	all := slices.Concat(findings, s.unread)
	switch {
	case len(all) > 0:
		return all
	case s.namespaces == 0:
		return []Finding{finding(Info, "", "nothing to look at: no namespace is labelled")}
	}
	return []Finding{finding(OK, "", well, args...)}
}

// swept is a sweep over nothing.
func swept() *sweep {
	return &sweep{kinds: map[string]int{}, references: map[reference]use{}, rings: map[ring]member{}, agents: map[string]int{},
		mutual: map[string]bool{}, backedUp: map[string]int{}, adopted: map[string]string{}}
}

func (c *Cluster) sweep(ctx context.Context) (*sweep, error) {
	return c.swept.get(func() (*sweep, error) {
		namespaces, err := c.labelled(ctx)
		if err != nil {
			return nil, err
		}
		s := swept()
		s.namespaces = len(namespaces)
		for i := range namespaces {
			ns := &namespaces[i]
			cover := c.coverage(ctx, ns)
			err := pages(func(o metav1.ListOptions) ([]corev1.Pod, string, error) {
				list, err := c.Kube.CoreV1().Pods(ns.Name).List(ctx, o)
				if err != nil {
					return nil, "", unread(err, right{Verb: "list", Resource: "pods", Namespace: ns.Name})
				}
				return list.Items, list.Continue, nil
			}, metav1.ListOptions{}, func(pod *corev1.Pod) {
				if pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed || pod.DeletionTimestamp != nil {
					return
				}
				s.uncovered = slices.Concat(s.uncovered, cover.judge(pod), judgeAsking(pod))
				if isInjected(pod) {
					s.add(c, ns, pod)
				}
			})
			if err != nil {
				s.unread = append(s.unread, skipped(err)...)
			}
		}
		return s, nil
	})
}

// add takes over what the items want to know of an injected pod; of one that was adopted, as
// if it had been injected.
func (s *sweep) add(c *Cluster, ns *corev1.Namespace, pod *corev1.Pod) {
	pod = adopted.View(pod)
	if p := adopted.Serving(adopted.Parts(pod)); p != nil {
		s.adopted[pod.Namespace+"/"+pod.Name] = adopted.Name(pod, p.Role.Container())
	}
	s.kinds[kindOf(pod)]++
	if !backupless(pod) {
		s.backedUp[pod.Namespace]++
	}
	s.unfollowed = append(s.unfollowed, judgeFollowed(pod)...)
	s.containers = append(s.containers, judgeContainers(pod, c.Now())...)
	s.security = append(s.security, judgeSecurity(pod, ns.Labels[labelEnforce])...)
	for at, what := range references(pod) {
		what.pods = append(s.references[at].pods, pod.Name)
		s.references[at] = what
	}
	if needsPTR(pod) {
		at := ring{pod.Namespace, ownerOf(pod), pod.Spec.Subdomain}
		m := s.rings[at]
		m.hostname, m.labels, m.pods = pod.Spec.Hostname, pod.Labels, append(m.pods, pod.Name)
		s.rings[at] = m
	}
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			if list[i].Name == patches.ContainerAgent && !slices.Contains(userImages(pod), list[i].Image) {
				s.agents[list[i].Image]++
			}
		}
	}
	for _, v := range pod.Spec.Volumes {
		if v.Secret != nil && v.Secret.SecretName == api.SecretGRPC {
			s.mutual[pod.Namespace] = true
		}
	}
}

// isInjected looks for the containers, as a label may have been copied; one that was adopted
// has the label, too, once they all run. The pods that
// the controller makes to look into the storage, and to restore into on trial, have them
// too, and are no database's.
func isInjected(pod *corev1.Pod) bool {
	if (pod.Labels[api.LabelLookup] != "" || pod.Labels[api.LabelVerify] != "") && pod.Labels[api.LabelInjected] == "" {
		return false
	}
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			if list[i].Name == patches.ContainerAgent {
				return true
			}
		}
	}
	return pod.Labels[api.LabelInjected] != "" && adopted.Is(pod)
}

func kindOf(pod *corev1.Pod) string {
	for _, kind := range []string{pod.Labels[api.LabelInjected], pod.Annotations[patches.AnnotationInjected]} {
		if kind != "" {
			return kind
		}
	}
	return string(workload.KindNone)
}

// ownerOf names who made the pod, and the pod itself where nobody did.
func ownerOf(pod *corev1.Pod) string {
	if owner := metav1.GetControllerOf(pod); owner != nil {
		return owner.Kind + "/" + owner.Name
	}
	return "Pod/" + pod.Name
}
