package cycle

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/kvs"
	"github.com/stategraft/stategraft/workload"
)

// owner is who makes the pods of a workload.
type owner struct{ kind, name, uid, version string }

// member is a pod of a workload, and what is known of its configuration.
type member struct {
	pod     *corev1.Pod
	started string // digest; empty where it is not known yet
	current string // of its ConfigMap now; empty where that cannot be read
	// diskAlone tells that the disk tier has keys that memory has not.
	diskAlone bool
}

// outdated tells whether the pod was started with another configuration.
func (m *member) outdated() bool {
	return m.started != "" && m.current != "" && m.started != m.current
}

// group is a workload.
type group struct {
	owner   owner // zero for a pod that nobody makes anew
	members []member
	wanted  int // how many pods there are to be; 0 where that is not known
}

// situation is what else counts.
type situation struct {
	restoring bool                   // a Restore is under way in the namespace
	restart   func(*corev1.Pod) bool // whether the pod is to be re-created
	evicted   *evicted               // the last of this workload that was; nil for none
	calm      time.Duration          // for how long all pods have been Ready
	settle    time.Duration
	others    bool // another workload of the same ConfigMap is not whole
}

// evicted is a pod that was evicted, and how many there were then.
type evicted struct {
	uid   string
	count int

	// What tells whether others share its ConfigMap while none of its workload is there.
	configMap, database string
	at                  time.Time
}

// longestAway is for how long others wait for a workload of which no pod is there: its
// owner may be gone for good.
const longestAway = 10 * time.Minute

// follows tells whether the workload reads the ConfigMap of a pod that was evicted.
func (g *group) follows(e *evicted) bool {
	return slices.ContainsFunc(g.members, func(m member) bool {
		return configMapOf(m.pod) == e.configMap && m.pod.Labels[api.LabelInjected] == e.database
	})
}

// The reasons for which nothing is done now.
const (
	waitRestore  = "a Restore is under way"
	waitNext     = "a pod is being re-created"
	waitReady    = "a pod is not Ready"
	waitSettle   = "all pods are Ready, but not for long enough"
	waitOthers   = "another workload of the same ConfigMap is not whole"
	waitLast     = "it is the only node of its tier"
	waitNobody   = "nobody would make the pod anew"
	waitNotAsked = "it is not asked for"
)

// step is what is to be done with a workload.
type step struct {
	outdated []member
	evict    *member
	wait     string // why no pod is evicted though some are outdated
}

// next says which pod goes next. It goes one at a time: all others are there and Ready, also
// those of the other workloads of a cluster.
// An outdated one that is not Ready goes first, as nothing becomes worse by it: this is
// also how a workload gets over a configuration that it could not start with.
func (g *group) next(s situation) (out step) {
	var unready []*member
	for i := range g.members {
		m := &g.members[i]
		if m.outdated() {
			out.outdated = append(out.outdated, *m)
		}
		if !ready(m.pod) {
			unready = append(unready, m)
		}
	}
	if len(out.outdated) == 0 {
		return out
	}
	candidate := g.candidate(unready)
	switch {
	case candidate != nil && !s.restart(candidate.pod) || candidate == nil && !slices.ContainsFunc(out.outdated, func(m member) bool { return s.restart(m.pod) }):
		out.wait = waitNotAsked
	case g.owner == owner{}:
		out.wait = waitNobody
	case s.restoring:
		out.wait = waitRestore
	case g.incomplete(s.evicted):
		out.wait = waitNext
	case candidate == nil:
		out.wait = waitReady
	case len(unready) == 0 && s.others:
		out.wait = waitOthers
	case len(unready) == 0 && s.calm < s.settle:
		out.wait = waitSettle
	case len(unready) == 0 && len(g.members) == 1 && candidate.keeps():
		out.wait = waitLast // nobody is there to take its keys over
	default:
		out.evict = candidate
	}
	return out
}

// candidate is the outdated pod that goes next; nil while another is not Ready.
func (g *group) candidate(unready []*member) *member {
	if slices.ContainsFunc(unready, func(m *member) bool { return !m.outdated() }) {
		return nil
	}
	if len(unready) > 0 {
		return slices.MaxFunc(unready, order)
	}
	var last *member
	for i := range g.members {
		if m := &g.members[i]; m.outdated() && (last == nil || order(m, last) > 0) {
			last = m
		}
	}
	return last
}

// incomplete tells whether a pod goes, or has gone and not come back.
func (g *group) incomplete(e *evicted) bool {
	count := g.wanted
	for i := range g.members {
		pod := g.members[i].pod
		if pod.DeletionTimestamp != nil || e != nil && string(pod.UID) == e.uid {
			return true
		}
	}
	if count == 0 && e != nil {
		count = e.count
	}
	return len(g.members) < count
}

// order is by ordinal, then by name: a StatefulSet takes the last one first.
func order(a, b *member) int {
	return cmp.Or(cmp.Compare(ordinal(a.pod.Name), ordinal(b.pod.Name)), cmp.Compare(a.pod.Name, b.pod.Name))
}

func ordinal(name string) int {
	n, err := strconv.Atoi(name[strings.LastIndexByte(name, '-')+1:])
	if err != nil {
		return -1
	}
	return n
}

// ready tells whether a pod is Ready, its gates included.
func ready(pod *corev1.Pod) bool { return is(pod, corev1.PodReady) }

func is(pod *corev1.Pod, kind corev1.PodConditionType) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == kind && c.Status == corev1.ConditionTrue })
}

// held says why a pod that is not Ready is not to be disturbed; empty for nothing. It
// takes the whole pod.
func held(pod *corev1.Pod) string {
	if len(pod.Spec.SchedulingGates) > 0 {
		return "it waits at a scheduling gate"
	}
	gated := slices.ContainsFunc(pod.Spec.ReadinessGates, func(g corev1.PodReadinessGate) bool { return g.ConditionType == api.ConditionReplayed })
	if gated && !is(pod, api.ConditionReplayed) {
		return "the keys of a backup are being written"
	}
	return ""
}

// departs tells whether a node that keeps keys hands them over before it ends: patches/
// gives it a hook for that where the cluster has native sidecars, and users may have one.
// Without it each node that is re-created loses what it holds, or hides it.
func departs(pod *corev1.Pod) bool {
	return !kvs.Of(pod) || slices.ContainsFunc(pod.Spec.Containers, func(c corev1.Container) bool {
		return !workload.Own(c.Name) && c.Lifecycle != nil && c.Lifecycle.PreStop != nil
	})
}

// whole tells whether nothing of a workload is missing, and has not been for a while.
func (g *group) whole(s situation) bool {
	return !g.incomplete(s.evicted) && s.calm >= s.settle && !slices.ContainsFunc(g.members, func(m member) bool { return !ready(m.pod) })
}

// shares tells whether two workloads of one kind read the same ConfigMap: tiers of one
// cluster, which are not to be short of a node at the same time.
func (g *group) shares(other *group) bool {
	return slices.ContainsFunc(g.members, func(a member) bool {
		return slices.ContainsFunc(other.members, func(b member) bool {
			return configMapOf(a.pod) == configMapOf(b.pod) && a.pod.Labels[api.LabelInjected] == b.pod.Labels[api.LabelInjected]
		})
	})
}

// groupsOf puts the pods of a namespace together by who makes them.
func groupsOf(members []member, wanted func(owner) int) (groups []*group) {
	by := map[owner]*group{}
	for _, m := range members {
		var o owner
		if c := metav1.GetControllerOf(m.pod); c != nil {
			o = owner{c.Kind, c.Name, string(c.UID), c.APIVersion}
		}
		g := by[o]
		if g == nil || o == (owner{}) { // each pod of nobody's stands for itself
			g = &group{owner: o, wanted: wanted(o)}
			by[o] = g
			groups = append(groups, g)
		}
		g.members = append(g.members, m)
	}
	slices.SortFunc(groups, func(a, b *group) int { return cmp.Compare(a.name(), b.name()) })
	return groups
}

// name is what the workload is called.
func (g *group) name() string { return cmp.Or(g.owner.name, g.members[0].pod.Name) }
