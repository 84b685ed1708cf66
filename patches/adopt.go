package patches

import (
	"fmt"
	"hash/fnv"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/workload"
)

// Adoption is what is to be added to a pod that runs.
type Adoption struct {
	Next  int       // number of the first container, if nobody has taken its name
	Roles []Role    // long-running roles to add; nil for all. Cassandra's agent always comes with them
	At    time.Time // of EnvAdoptedAt
	Pair  string    // of EnvAdoptedPair
	Renew string    // of EnvAdoptedRenew
}

func (a *Adoption) wants(role Role) bool { return a.Roles == nil || slices.Contains(a.Roles, role) }

// part is a container of an adopted pod in the making.
type part struct {
	role   Role
	number int
	memory string // what it keeps itself below, as a quantity

	// As it would be injected: mounts of our volumes become variables, ports and resources
	// go, who it runs as is set (adopt_container.go).
	*Container
}

// Adopt makes the ephemeral containers that graft onto a pod that runs what Build would
// inject: none where nothing is left to add. What is to be restored, or to have another
// network, comes with a pod that is created anew, and is not looked at here. The error is
// a *Conflict.
func Adopt(pod *workload.Pod, w workload.Workload, s Settings, a Adoption) ([]corev1.EphemeralContainer, error) {
	s.Restore, s.RestoreSource, s.Order, s.HostNetwork = "", "", api.Order{}, false
	b := &builder{pod: pod, w: w, s: s, hostNetwork: pod.Spec.HostNetwork}
	if err := squatters(pod); err != nil {
		return nil, err
	}
	if n := highest(pod); n > mostNumber {
		return nil, &Conflict{workload.ReasonNameConflict, fmt.Sprintf("an ephemeral container of the pod has a name of Stategraft's with number %d, after which no other fits: create the pod anew", n)}
	}
	if name, ok := injected(pod); ok {
		return nil, &Conflict{workload.ReasonAlreadyInjected, fmt.Sprintf("the pod was created with container %s of Stategraft's: what is missing comes when it is created anew", name)}
	}
	if !w.HoldsData() {
		return nil, &Conflict{workload.ReasonNoData, fmt.Sprintf("%s (%s) keeps no data, so there is nothing to back up while it runs; it is injected when it is created anew", w.Kind, w.Role)}
	}
	b.ordinary = b.security()
	if b.hostNetwork {
		b.portsFrom = scattered(pod)
	}
	if err := b.ports(); err != nil {
		return nil, err
	}
	parts := b.parts(&a)
	b.number(parts, &a)
	out := make([]corev1.EphemeralContainer, 0, len(parts))
	for _, p := range parts {
		c, err := b.ephemeral(p, &a)
		if err != nil {
			return nil, err
		}
		out = append(out, *c)
	}
	return out, nil
}

// scattered is where in its range a pod on its node's network has its ports. Nobody keeps
// those of ephemeral containers apart, as the scheduler does declared ones, and whoever asked
// for one at another's port would be answered by the wrong node.
func scattered(pod *workload.Pod) int32 {
	hash := fnv.New32a()
	fmt.Fprintf(hash, "%s/%s", pod.Metadata.Namespace, pod.Metadata.Name)
	return int32(hash.Sum32() % portRange)
}

// parts makes the containers, but for what they all have in common.
func (b *builder) parts(a *Adoption) []*part {
	if b.w.Kind == workload.KindCassandra {
		return b.adoptCassandra(a)
	}
	if !a.wants(RoleAgent) {
		return nil
	}
	c := b.adoptKVS()
	b.identity(c)
	return []*part{{role: RoleAgent, memory: memoryOf(b.s.Resources.Anna, Default().Resources.Anna), Container: c}}
}

// injected finds a container of ours that the pod was created with.
func injected(pod *workload.Pod) (string, bool) {
	for _, name := range [...]string{ContainerAgent, ContainerSnapshot, ContainerMedusa, ContainerSetup, ContainerRestore} {
		if has(pod.Spec.Containers, name) || has(pod.Spec.InitContainers, name) {
			return name, true
		}
	}
	return "", false
}

// memoryOf is what a container would be limited to; what is not said is the default's.
func memoryOf(r, defaults Resources) string { return r.Over(defaults).Limits.Memory }

// number gives the parts their numbers, those of names that nobody has taken, and tells
// each whom it has to do with.
func (b *builder) number(parts []*part, a *Adoption) {
	next := max(a.Next, highest(b.pod)+1, 1)
	for _, p := range parts {
		p.number = next
		next++
	}
	if b.w.Kind != workload.KindCassandra || len(parts) == 0 {
		return
	}
	dir := path.Join(b.w.Data.Path, DirAdopted, strconv.Itoa(parts[0].number))
	var takers []string
	for _, p := range parts {
		p.Env = append(p.Env, value(EnvAdoptedDir, dir))
		if p.role != RoleAgent {
			takers = append(takers, fmt.Sprintf("%s-%d", p.role, p.number))
		}
	}
	parts[0].Env = append(parts[0].Env, value(EnvAdoptedTakers, strings.Join(takers, " ")))
}

// mostNumber is after which nobody counts on. Whoever may add ephemeral containers to a pod
// could name one with any.
const mostNumber = 1 << 30

// highest is the highest number that an ephemeral container of the pod has under a name
// of ours, whoever made it: the names stay taken for the pod's life.
func highest(pod *workload.Pod) (number int) {
	for i := range pod.Spec.Ephemeral {
		for _, role := range Roles {
			if rest, ok := strings.CutPrefix(pod.Spec.Ephemeral[i].Name, role.Container()+"-"); ok {
				if n, err := strconv.Atoi(rest); err == nil {
					number = max(number, n)
				}
			}
		}
	}
	return number
}
