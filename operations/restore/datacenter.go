package restore

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/stategraft/stategraft/api/node"
	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/workload"
)

// ReasonDatacenterDiffers says that a pod's datacenter is not called as the backup's.
const ReasonDatacenterDiffers = "DatacenterDiffers"

// datacenterLabels are where operators write a pod's datacenter. That is the name of
// an object, and Cassandra's may be another (cass-operator, spec.datacenterName).
var datacenterLabels = []string{
	"cassandra.datastax.com/datacenter",
	"cassandraclusters.db.orange.com.dc",
	"cassandra-operator.instaclustr.com/datacenter",
	"cassandra.rook.io/datacenter",
	"scylla/datacenter",
	"elassandra.strapdata.com/datacenter",
}

// datacenter is what a pod tells of the datacenter that its node is in.
type datacenter struct {
	name  string // empty where nothing tells
	where string
	sure  bool // that Cassandra goes by it
}

// datacenterOf reads it in the configuration that cass-operator's init container makes
// Cassandra's files of; in the variables of the images, which count where the snitch
// is one that reads cassandra-rackdc.properties; else in an operator's label.
func datacenterOf(pod *corev1.Pod) datacenter {
	var hint datacenter
	for _, c := range slices.Concat(pod.Spec.Containers, pod.Spec.InitContainers) {
		if workload.Own(c.Name) {
			continue
		}
		d := byVariables(&c)
		if d.sure {
			return d
		}
		if hint.name == "" {
			hint = d
		}
	}
	for _, label := range datacenterLabels {
		if name := pod.Labels[label]; name != "" && hint.name == "" {
			hint = datacenter{name: name, where: "label " + label}
		}
	}
	return hint
}

func byVariables(c *corev1.Container) (d datacenter) {
	snitch := ""
	for _, v := range c.Env { // of entries of a name the last one wins
		where := "variable " + v.Name + " of container " + c.Name
		switch v.Name {
		case "CONFIG_FILE_DATA":
			var config struct {
				Datacenter struct {
					Name string `json:"name"`
				} `json:"datacenter-info"`
			}
			if json.Unmarshal([]byte(v.Value), &config) == nil && config.Datacenter.Name != "" {
				return datacenter{config.Datacenter.Name, where, true}
			}
		case "CASSANDRA_DC", "CASSANDRA_DATACENTER": // Docker's own image; Bitnami's
			if d = (datacenter{}); v.Value != "" && !strings.Contains(v.Value, "$(") {
				d = datacenter{name: v.Value, where: where}
			}
		case "CASSANDRA_ENDPOINT_SNITCH":
			snitch = v.Value[strings.LastIndex(v.Value, ".")+1:]
		}
	}
	d.sure = d.name != "" && snitch == "GossipingPropertyFileSnitch"
	return d
}

// noReplicas is why the name matters: the keyspaces come with their replication, which
// says how many replicas a datacenter has by its name (NetworkTopologyStrategy).
func noReplicas(name string) string {
	return "keyspaces that NetworkTopologyStrategy replicates to " + name + " would have no replica in a datacenter of another name"
}

// elsewhere tells whether a pod is surely in a datacenter of another name than the
// node of the backup was.
func elsewhere(pod *corev1.Pod, from, was string) *Problem {
	is := datacenterOf(pod)
	if was == "" || !is.sure || is.name == was {
		return nil
	}
	return &Problem{Reason: ReasonDatacenterDiffers, Message: fmt.Sprintf("node %s of the backup is of datacenter %s, and pod %s is to be in %s (%s): %s. Call it %s in the template, on a cluster without data of its own",
		from, workload.Short(was), pod.Name, workload.Short(is.name), is.where, noReplicas(workload.Short(was)), workload.Short(was))}
}

// unknownDatacenters mentions how the pods' datacenters have to be called, where
// nothing tells that they are, or something that they may not be.
func unknownDatacenters(b *node.Backup, pods []*corev1.Pod, plan []api.PodRestore) (lines []string) {
	unknown, says := map[string][]string{}, map[string]string{}
	var order []string
	for i := range plan {
		was := b.Ring[plan[i].Node].Datacenter
		at := slices.IndexFunc(pods, func(pod *corev1.Pod) bool { return pod.Name == plan[i].Name })
		if at < 0 || was == "" || len(plan[i].Tokens) == 0 {
			continue
		}
		is := datacenterOf(pods[at])
		if is.name == was {
			continue
		}
		if unknown[was] = append(unknown[was], plan[i].Name); len(unknown[was]) == 1 {
			order = append(order, was)
		}
		if is.name != "" && says[was] == "" {
			says[was] = fmt.Sprintf(" (%s of %s says %s)", is.where, plan[i].Name, workload.Short(is.name))
		}
	}
	for _, was := range order {
		name := workload.Short(was)
		lines = append(lines, fmt.Sprintf("See that the datacenter of %s is called %s, as in the backup%s: %s", someOf(unknown[was]), name, says[was], noReplicas(name)))
	}
	return lines
}
