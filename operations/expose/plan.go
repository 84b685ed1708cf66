package expose

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/stategraft/stategraft/api/v1alpha1"
)

// loadBalancer is the one value of api.AnnotationExpose.
const loadBalancer = "LoadBalancer"

// annotationUnused stands on a Service whose pod is scaled away: since when that is so.
const annotationUnused = api.Group + "/unused-since"

// facts are what is known of a namespace.
type facts struct {
	asks        bool // its pods are injected
	annotations map[string]string
	pods        []*corev1.Pod // those that are injected
	services    []*corev1.Service
	sets        map[string]*appsv1.StatefulSet
	now         time.Time
	linger      time.Duration
}

// plan is what is to be done.
type plan struct {
	expose []exposed
	remove []removal
	unused []*corev1.Service // to be marked
	used   []*corev1.Service // to be marked no more
	again  time.Duration     // when a mark runs out; 0 for never
}

// exposed is a pod that is to have a Service, and the one that it has.
type exposed struct {
	pod     *corev1.Pod
	service *corev1.Service // nil for none yet
	own     bool            // the pod itself asks
}

type removal struct {
	service *corev1.Service
	why     string
}

// asked tells whether a pod is to be exposed, and whether it is the pod itself that says
// so. What cannot be understood asks for nothing: admission has warned of it.
func asked(pod *corev1.Pod, namespace map[string]string) (is, own bool) {
	if value, ok := pod.Annotations[api.AnnotationExpose]; ok {
		return value == loadBalancer, true
	}
	return namespace[api.AnnotationExpose] == loadBalancer, false
}

// decide says what is to be done in a namespace.
func decide(f facts) (p plan) {
	have := map[string]*corev1.Service{} // by pod
	for _, s := range f.services {
		have[s.Labels[api.LabelExposed]] = s
	}
	pods := map[string]*corev1.Pod{}
	for _, pod := range f.pods {
		pods[pod.Name] = pod
		is, own := asked(pod, f.annotations)
		if s := have[pod.Name]; is && pod.DeletionTimestamp == nil && (s != nil || f.asks) {
			p.expose = append(p.expose, exposed{pod, s, own})
		}
	}
	slices.SortFunc(p.expose, func(a, b exposed) int { return cmp.Compare(a.pod.Name, b.pod.Name) })
	for _, s := range f.services {
		name := s.Labels[api.LabelExposed]
		if pod := pods[name]; pod != nil {
			if is, _ := asked(pod, f.annotations); !is {
				p.remove = append(p.remove, removal{s, "annotation " + api.AnnotationExpose + " of pod " + name + " is gone"})
				continue
			}
		} else if !f.comes(name, s) {
			p.scaledAway(s, f.now, f.linger)
			continue
		}
		if _, marked := s.Annotations[annotationUnused]; marked {
			p.used = append(p.used, s)
		}
	}
	return p
}

// scaledAway has the Service of a pod that does not come back removed, a while after that
// was first seen.
func (p *plan) scaledAway(s *corev1.Service, now time.Time, linger time.Duration) {
	since, err := time.Parse(time.RFC3339, s.Annotations[annotationUnused])
	left := linger
	if err != nil {
		p.unused = append(p.unused, s)
	} else if left = since.Add(linger).Sub(now); left <= 0 {
		p.remove = append(p.remove, removal{s, "pod " + s.Labels[api.LabelExposed] + " was scaled away"})
		return
	}
	if p.again == 0 || left < p.again {
		p.again = left
	}
}

// comes tells whether the StatefulSet that a Service belongs to makes the pod, which is
// not there, anew.
func (f *facts) comes(pod string, s *corev1.Service) bool {
	for _, owner := range s.OwnerReferences {
		if owner.Kind == "StatefulSet" {
			set := f.sets[owner.Name]
			return set != nil && set.DeletionTimestamp == nil && makes(set, pod)
		}
	}
	return false
}

// makes tells whether a StatefulSet has a pod of the name.
func makes(set *appsv1.StatefulSet, pod string) bool {
	text, ok := strings.CutPrefix(pod, set.Name+"-")
	ordinal, err := strconv.ParseInt(text, 10, 32)
	if !ok || err != nil {
		return false
	}
	first, count := int64(0), int64(1)
	if set.Spec.Ordinals != nil {
		first = int64(set.Spec.Ordinals.Start)
	}
	if set.Spec.Replicas != nil {
		count = int64(*set.Spec.Replicas)
	}
	return ordinal >= first && ordinal < first+count
}

// ownerOf is the StatefulSet that made a pod.
func ownerOf(pod *corev1.Pod) (metav1.OwnerReference, bool) {
	owner := metav1.GetControllerOf(pod)
	if owner == nil || owner.Kind != "StatefulSet" || !strings.HasPrefix(owner.APIVersion, appsv1.GroupName+"/") {
		return metav1.OwnerReference{}, false
	}
	return metav1.OwnerReference{APIVersion: owner.APIVersion, Kind: owner.Kind, Name: owner.Name, UID: owner.UID}, true
}
