package restore

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stategraft/stategraft/api/node"
	"github.com/stategraft/stategraft/workload"
)

// ReasonRacksDiffer says that the pods' racks cannot be matched with the backup's.
const ReasonRacksDiffer = "RacksDiffer"

// rackLabels are where operators write a pod's rack: cass-operator (and k8ssandra),
// casskop, instaclustr, sky-uk, rook, scylla-operator, elassandra.
var rackLabels = []string{
	"cassandra.datastax.com/rack",
	"cassandraclusters.db.orange.com.rack",
	"cassandra-operator.instaclustr.com/rack",
	"cassandra-operator/rack",
	"cassandra.rook.io/rack",
	"scylla/rack",
	"elassandra.strapdata.com/rack",
}

// rackOf is the rack that a pod is in: by an operator's label, by the variables of
// the official image and the charts (CASSANDRA_RACK, RACK), else one for each
// StatefulSet, as that is how racks are made where the configuration says them.
func rackOf(pod *corev1.Pod) string {
	for _, label := range rackLabels {
		if rack := pod.Labels[label]; rack != "" {
			return rack
		}
	}
	for _, name := range []string{"CASSANDRA_RACK", "RACK"} {
		for i := range pod.Spec.Containers {
			c := &pod.Spec.Containers[i]
			if workload.Own(c.Name) {
				continue
			}
			for _, v := range c.Env {
				if v.Name == name && v.Value != "" {
					return v.Value
				}
			}
		}
	}
	if owner := metav1.GetControllerOf(pod); owner != nil {
		return owner.Name
	}
	return ""
}

// rack is a rack with its nodes, or its pods.
type rack struct {
	name    string
	members []string
}

// paired gives each pod a node of the backup, so that pods of one rack get the nodes
// of one rack: then every replica is where the replication strategy looks for it.
// Racks are sorted by size and name, nodes by name; where the sizes are the same in
// the order of names this is what k8ssandra's pkg/medusa/hostmap.go does.
func paired(pods []*corev1.Pod, ring map[string]node.Ring) (map[string]string, *Problem) {
	here, there := map[string][]string{}, map[string][]string{}
	for _, pod := range pods {
		here[rackOf(pod)] = append(here[rackOf(pod)], pod.Name)
	}
	for name, at := range ring {
		there[at.Rack] = append(there[at.Rack], name)
	}
	targets, sources := sortedRacks(here), sortedRacks(there)
	if !slices.EqualFunc(targets, sources, func(a, b rack) bool { return len(a.members) == len(b.members) }) {
		return nil, &Problem{Reason: ReasonRacksDiffer, Message: fmt.Sprintf(
			"the pods cannot be matched with the backup's nodes rack by rack: there are %s in %s, the backup has %s in %s. Choose or scale the pods so that the racks are as large, or say in spec.source.nodes which pod gets which node",
			counted(len(pods), "pod"), racksText(targets), counted(len(ring), "node"), racksText(sources))}
	}
	mapping := map[string]string{}
	for i, target := range targets {
		for j, pod := range target.members {
			mapping[pod] = sources[i].members[j]
		}
	}
	return mapping, nil
}

func sortedRacks(from map[string][]string) []rack {
	racks := make([]rack, 0, len(from))
	for name, members := range from {
		slices.SortFunc(members, natural)
		racks = append(racks, rack{name, members})
	}
	slices.SortFunc(racks, func(a, b rack) int {
		return cmp.Or(cmp.Compare(len(a.members), len(b.members)), natural(a.name, b.name))
	})
	return racks
}

func racksText(racks []rack) string {
	parts := make([]string, 0, len(racks))
	for _, r := range racks {
		parts = append(parts, fmt.Sprintf("%s (%d)", orElse(workload.Short(r.name), "a rack without name"), len(r.members)))
	}
	const most = 8
	if len(parts) > most {
		parts = append(parts[:most], fmt.Sprintf("%d more racks", len(parts)-most))
	}
	return strings.Join(parts, ", ")
}
