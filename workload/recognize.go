// Package workload recognises what a pod is: which database, in which
// container, with its data on which volume, or the reason why nothing can be
// grafted onto it. It is pure: a pod in, a Decision out.
package workload

import (
	"fmt"
	"strings"

	api "github.com/stategraft/stategraft/api/v1alpha1"
)

// Hints is what recognition cannot see in the pod itself.
type Hints struct {
	NamespaceLabelled bool   // the namespace carries stategraft.io/inject: enabled
	NamespaceLabel    string // what that label is
	Container         string // annotation stategraft.io/container
	DataVolume        string // annotation stategraft.io/data-volume
	AnyUID            bool   // the Medusa image at hand runs as any user
}

// Recognize decides what a pod is. A pod that asks for a restore is not treated
// otherwise here: who calls turns a Skip of such a pod into a Refuse.
func Recognize(pod *Pod, hints Hints) Decision {
	if d, ok := beforeRecognition(pod, hints); ok {
		return d
	}
	w, d, ok := identify(pod, hints)
	if !ok {
		return d
	}
	if other, ok := otherBackup(pod, w); ok {
		return skip(ReasonAlreadyHasBackup, fmt.Sprintf(
			"container %s of this pod is Medusa already; take it out to have Stategraft instead", other))
	}
	return feasible(pod, w, hints)
}

// beforeRecognition answers for pods that are none of our business, whatever
// they hold.
func beforeRecognition(pod *Pod, hints Hints) (Decision, bool) {
	if _, ok := pod.Metadata.Annotations["kubernetes.io/config.mirror"]; ok {
		return skip(ReasonMirrorPod, "a mirror pod shows what a kubelet runs from a file; it cannot be changed here"), true
	}
	if !hints.NamespaceLabelled {
		has := ""
		if hints.NamespaceLabel != "" {
			has = fmt.Sprintf(" (it has %q)", Short(hints.NamespaceLabel))
		}
		return skip(ReasonNamespaceNotLabelled, fmt.Sprintf("the namespace has no label %s: %s%s, so neither the webhook nor the policy would see the pod",
			api.LabelInject, api.InjectEnabled, has)), true
	}
	switch value, ok := pod.Metadata.Labels[api.LabelInject]; {
	case ok && value == api.InjectDisabled:
		return skip(ReasonOptedOut, fmt.Sprintf("the pod is labelled %s: %s", api.LabelInject, api.InjectDisabled)), true
	case ok && value != api.InjectEnabled:
		return skip(ReasonBadAnnotation, fmt.Sprintf("label %s is %q; it takes %s or %s",
			api.LabelInject, Short(value), api.InjectEnabled, api.InjectDisabled)), true
	}
	switch value, ok := pod.Metadata.Labels[api.LabelWorkload]; {
	case ok && value != string(KindCassandra) && value != string(KindAnna) && value != string(KindCloudburst):
		return skip(ReasonBadAnnotation, fmt.Sprintf("label %s is %q; it takes cassandra, anna or cloudburst",
			api.LabelWorkload, Short(value))), true
	}
	if strings.EqualFold(pod.Spec.OS.Name, "windows") || strings.EqualFold(pod.Spec.NodeSelector["kubernetes.io/os"], "windows") ||
		strings.EqualFold(pod.Spec.NodeSelector["beta.kubernetes.io/os"], "windows") {
		return skip(ReasonUnsupportedOS, "the pod runs on Windows; the containers of Stategraft run on Linux"), true
	}
	for _, owner := range pod.Metadata.Owners {
		if strings.HasPrefix(owner.APIVersion, "batch/") && (owner.Kind == "Job" || owner.Kind == "CronJob") {
			return skip(ReasonJobOwned, fmt.Sprintf("the pod belongs to %s %s, which ends; a sidecar would keep it running", owner.Kind, owner.Name)), true
		}
	}
	return Decision{}, false
}

// identify finds the database and its container.
func identify(pod *Pod, hints Hints) (Workload, Decision, bool) {
	forced := Kind(pod.Metadata.Labels[api.LabelWorkload])
	if hints.Container != "" && containerIndex(pod, hints.Container) < 0 {
		return Workload{}, skip(ReasonBadAnnotation, fmt.Sprintf("annotation %s names %q, which is no container of the pod (%s)",
			api.AnnotationContainer, Short(hints.Container), containerNames(pod))), false
	}
	cassandra, anna, cloudburst := weigh(pod, hints)
	kind := forced
	if kind == KindNone {
		kind = likeliest(pod, cassandra, anna, cloudburst)
	}
	if text, ok := contradiction(forced, cassandra, anna, cloudburst); ok {
		return Workload{}, skip(ReasonBadAnnotation, text), false
	}
	switch kind {
	case KindCassandra:
		winner, d, ok := cassandra.choose(pod, kind, forced == kind)
		if !ok {
			return Workload{}, d, false
		}
		w := describeCassandra(pod, winner.index, hints)
		w.Evidence = winner.facts
		return w, Decision{}, true
	case KindAnna:
		winner, d, ok := anna.choose(pod, kind, forced == kind)
		if !ok {
			return Workload{}, d, false
		}
		w := describeAnna(pod, winner.index, anna.roleOf(winner), hints)
		w.Evidence = winner.facts
		return w, Decision{}, true
	case KindCloudburst:
		found, role := cloudburst.good()
		if len(found) == 0 { // the label says so, and nothing else does
			found, role = cloudburst.candidates, RoleExecutor
		}
		if len(found) == 0 {
			break
		}
		w := describeCloudburst(pod, found, role)
		w.Evidence = found[0].facts
		return w, Decision{}, true
	}
	return Workload{}, skip(ReasonNotADatabase, notADatabase(pod, cassandra)), false
}

// contradiction tells that a label names one database where everything in the
// pod speaks for another: a restore of the wrong one would be none.
func contradiction(forced Kind, cassandra, anna, cloudburst scored) (string, bool) {
	tops := map[Kind]int{KindCassandra: cassandra.top(), KindAnna: anna.top(), KindCloudburst: cloudburst.top()}
	if forced == KindNone || tops[forced] > 0 {
		return "", false
	}
	for _, kind := range [...]Kind{KindCassandra, KindAnna, KindCloudburst} {
		if tops[kind] > threshold {
			return fmt.Sprintf("label %s says %s, and the pod looks like %s; correct the label or take it off", api.LabelWorkload, forced, kind), true
		}
	}
	return "", false
}

// scored is the candidates of one kind, with their roles.
type scored struct {
	candidates []candidate
	roles      []Role
}

func (s scored) good() (found []candidate, role Role) {
	for i, c := range s.candidates {
		if c.good() {
			if len(found) == 0 {
				role = s.roles[i]
			}
			found = append(found, c)
		}
	}
	return found, role
}

func (s scored) top() int {
	top := 0
	for _, c := range s.candidates {
		if c.good() && c.score > top {
			top = c.score
		}
	}
	return top
}

// weigh scores each container that is not ours, or only the one that the
// annotation names.
func weigh(pod *Pod, hints Hints) (cassandra, anna, cloudburst scored) {
	n := len(pod.Spec.Containers)
	candidates, roles := make([]candidate, 3*n), make([]Role, 3*n)
	cassandra = scored{candidates[:0:n], roles[:0:n]}
	anna = scored{candidates[n : n : 2*n], roles[n : n : 2*n]}
	cloudburst = scored{candidates[2*n : 2*n], roles[2*n : 2*n]}
	for i := range pod.Spec.Containers {
		name := pod.Spec.Containers[i].Name
		if Own(name) || hints.Container != "" && name != hints.Container {
			continue
		}
		cassandra.candidates = append(cassandra.candidates, cassandraCandidate(pod, i))
		cassandra.roles = append(cassandra.roles, "")
		c, role := annaCandidate(pod, i)
		anna.candidates, anna.roles = append(anna.candidates, c), append(anna.roles, role)
		c, role = cloudburstCandidate(pod, i)
		cloudburst.candidates, cloudburst.roles = append(cloudburst.candidates, c), append(cloudburst.roles, role)
	}
	return cassandra, anna, cloudburst
}

func likeliest(pod *Pod, cassandra, anna, cloudburst scored) Kind {
	if scylla(pod) {
		cassandra = scored{}
	}
	switch c, a, b := cassandra.top(), anna.top(), cloudburst.top(); {
	case c > 0 && c >= a && c >= b:
		return KindCassandra
	case a > 0 && a >= b:
		return KindAnna
	case b > 0:
		return KindCloudburst
	}
	return KindNone
}

// choose gives the container that is the database. forced says that a label
// named the kind: then weak evidence is enough, if it is for one container only.
func (s scored) choose(pod *Pod, kind Kind, forced bool) (candidate, Decision, bool) {
	winner, tie := best(s.candidates)
	if forced && winner.score == 0 && len(s.candidates) > 1 {
		tie = true
	}
	if !tie && winner.index >= 0 {
		return winner, Decision{}, true
	}
	d := skip(ReasonAmbiguousContainer, fmt.Sprintf("more than one container may be %s (%s); name the database's in annotation %s",
		kind, containerNames(pod), api.AnnotationContainer))
	d.Workload = Workload{Kind: kind, Index: -1, Before: -1}
	return winner, d, false
}

func (s scored) roleOf(winner candidate) Role {
	for i, c := range s.candidates {
		if c.index == winner.index {
			return s.roles[i]
		}
	}
	return RoleMemory
}

// notADatabase explains the nearest miss.
func notADatabase(pod *Pod, cassandra scored) string {
	if scylla(pod) {
		return "this is ScyllaDB, which Medusa cannot back up"
	}
	near := candidate{index: -1}
	for _, c := range cassandra.candidates {
		if c.score > near.score || near.index < 0 && len(c.facts) > 0 {
			near = c
		}
	}
	remedy := fmt.Sprintf("label the pod %s: cassandra, anna or cloudburst if it is one", api.LabelWorkload)
	if near.index < 0 {
		return "no container looks like Cassandra, Anna or Cloudburst; " + remedy
	}
	return fmt.Sprintf("container %s has too little of a Cassandra server (%s); %s",
		pod.Spec.Containers[near.index].Name, strings.Join(near.facts, ", "), remedy)
}

func containerIndex(pod *Pod, name string) int {
	for i := range pod.Spec.Containers {
		if pod.Spec.Containers[i].Name == name && !Own(name) {
			return i
		}
	}
	return -1
}

func containerNames(pod *Pod) string {
	var names []string
	for i := range pod.Spec.Containers {
		if name := pod.Spec.Containers[i].Name; !Own(name) {
			names = append(names, name)
		}
	}
	return Short(strings.Join(names, ", "))
}
