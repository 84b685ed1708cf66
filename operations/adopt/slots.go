package adopt

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Busy is a pod that is being adopted: containers were added to it, and they are not up.
type Busy struct {
	Pod      types.NamespacedName
	Workload string // of the same name, one pod at a time; empty for none
	Node     string
	Since    time.Time // when they were added
}

// Slots bound how many pods are adopted at once. What may be wrong with our containers is
// first seen on one pod of a workload. A pod that does not come up keeps the others of its
// workload from being adopted for as long, but no others longer than Patience.
type Slots struct {
	PerNode, InAll int
	Patience       time.Duration
	Now            time.Time
	Busy           []Busy
}

// Take takes a place for a pod, or says what it waits for. again is for one that had
// containers before: it is held up by what is under way in its workload, but not by what has
// failed there, or two of them would wait for each other.
func (s *Slots) Take(b Busy, again bool) (waits string, ok bool) {
	var node, all []string
	for _, other := range s.Busy {
		if other.Pod == b.Pod {
			continue
		}
		lately := other.Since.Add(s.Patience).After(s.Now)
		if b.Workload != "" && other.Workload == b.Workload && (lately || !again) {
			return fmt.Sprintf("pod %s of the same workload comes first: this one follows when its containers run", other.Pod.Name), false
		}
		if lately {
			all = append(all, other.Pod.String())
			if other.Node == b.Node {
				node = append(node, other.Pod.String())
			}
		}
	}
	if len(node) >= s.PerNode {
		return fmt.Sprintf("%d pods at a time are adopted on a node, now %s", s.PerNode, strings.Join(node, ", ")), false
	}
	if len(all) >= s.InAll {
		return fmt.Sprintf("%d pods at a time are adopted in the cluster", s.InAll), false
	}
	s.take(b)
	return "", true
}

// take counts a pod from now on.
func (s *Slots) take(b Busy) {
	b.Since = s.Now
	for i := range s.Busy {
		if s.Busy[i].Pod == b.Pod {
			s.Busy[i] = b
			return
		}
	}
	s.Busy = append(s.Busy, b)
}

// Give takes back what Take took, where nothing was added after all. before is what counted
// until then, if anything did.
func (s *Slots) Give(pod types.NamespacedName, before *Busy) {
	for i := range s.Busy {
		if s.Busy[i].Pod == pod {
			s.Busy = append(s.Busy[:i], s.Busy[i+1:]...)
			break
		}
	}
	if before != nil {
		s.Busy = append(s.Busy, *before)
	}
}
