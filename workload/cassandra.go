package workload

import (
	"fmt"
	"strconv"
	"strings"
)

// cassandraCandidate weighs what a container has of a Cassandra server.
func cassandraCandidate(pod *Pod, index int) candidate {
	c := &pod.Spec.Containers[index]
	found := candidate{index: index}
	image := parseImage(c.Image)
	if hasWord(image.base, "scylla") || image.within("scylla") {
		return found
	}
	if name, ok := runsClient(c); ok {
		found.facts = append(found.facts, "runs "+name)
		return found
	}
	known := isServerImage(image.base)
	helper := !known && helperImage(image)
	switch {
	case known:
		found.add(4, true, "image "+image.base)
		if startsAsImage(c) {
			found.add(1, true, "runs what the image runs")
		}
	case helper:
		return found
	case hasWord(image.base, "cassandra"):
		found.add(2, false, "image "+image.base)
	}
	switch {
	case isServerName(c.Name):
		found.add(3, false, "container "+c.Name)
	case hasHelperWord(c.Name) && known:
		found.add(-3, false, "container "+c.Name)
	case hasHelperWord(c.Name):
		return candidate{index: index}
	}
	if c.declares(9042, 9142) {
		found.add(2, true, "CQL port")
	}
	if c.declares(7000, 7001) {
		found.add(2, true, "internode port")
	}
	if c.declares(7199) {
		found.add(1, true, "JMX port")
	}
	if probesRun(c, "nodetool") {
		found.add(2, true, "nodetool in a probe or hook")
	}
	if at, ok := knownDataMount(pod, c); ok {
		found.add(3, true, "volume on "+at)
		found.whole = known && len(c.Ports) > 0
	}
	if seedEnv(c) {
		found.add(1, false, "environment of a server")
	}
	return found
}

// seedEnv finds variables that configure a server. Clients set CASSANDRA_SEEDS
// too (Temporal's does), so it only adds to other evidence.
func seedEnv(c *Container) bool {
	for i := range c.Env {
		switch c.Env[i].Name {
		case "CASSANDRA_SEEDS", "CASSANDRA_CLUSTER_NAME", "CASSANDRA_ENDPOINT_SNITCH", "CASSANDRA_NUM_TOKENS",
			"MAX_HEAP_SIZE", "HEAP_NEWSIZE", "USE_MGMT_API", "CASSANDRA_DC", "CASSANDRA_RACK":
			return true
		}
	}
	return false
}

// scylla tells whether the pod is ScyllaDB, which looks like Cassandra from
// outside but which Medusa cannot back up (thelastpickle/cassandra-medusa#187).
func scylla(pod *Pod) bool {
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		image := parseImage(c.Image)
		if (hasWord(image.base, "scylla") || hasWord(image.base, "scylladb")) && !helperImage(image) {
			return true
		}
		for _, mount := range c.Mounts {
			if clean(mount.Path) == "/var/lib/scylla" && c.declares(9042, 7000) {
				return true
			}
		}
	}
	return false
}

// describeCassandra fills in what the patches need of the container at index.
func describeCassandra(pod *Pod, index int, hints Hints) Workload {
	c := &pod.Spec.Containers[index]
	w := Workload{
		Kind: KindCassandra, Container: c.Name, Index: index,
		CQLPort: portOf(c, 9042, []string{"CASSANDRA_CQL_PORT_NUMBER", "CASSANDRA_NATIVE_TRANSPORT_PORT"}),
		JMXPort: portOf(c, 7199, []string{"CASSANDRA_JMX_PORT_NUMBER", "JMX_PORT"}),
		Cluster: clusterName(pod, c),
		Before:  startsDatabase(pod, c),
	}
	w.Snapshot, w.Management = snapshotOf(c)
	fillData(&w, pod, c, hints.DataVolume)
	w.Config = configOf(c, pod)
	w.UID, w.GID, w.StartsRoot = userOf(pod, c)
	w.HostNetwork = pod.Spec.HostNetwork
	return w
}

func portOf(c *Container, standard int32, variables []string) int32 {
	for _, name := range variables {
		if text, ok := c.Variable(name); ok {
			if port, err := strconv.ParseInt(text, 10, 32); err == nil && port > 0 && port < 65536 {
				return int32(port)
			}
		}
	}
	return standard
}

// clusterName takes the cluster's name from where the pod tells it; it ends up
// in the prefix under which backups are stored when the user gives none.
func clusterName(pod *Pod, c *Container) string {
	for _, name := range []string{"CASSANDRA_CLUSTER_NAME", "CLUSTER_NAME"} {
		if value, ok := c.Variable(name); ok && value != "" && !strings.Contains(value, "$(") {
			return value
		}
	}
	for _, suffix := range []string{"cassandra.datastax.com/cluster", "app.kubernetes.io/instance", "cluster", "app"} {
		if value := pod.Metadata.Labels[suffix]; value != "" {
			return value
		}
	}
	owner, _ := pod.Controller()
	return owner.Name
}

// startsDatabase finds an init container that is the database itself, started
// once before the main one (Elassandra's commitlog-replayer): a restore has to
// come before it.
func startsDatabase(pod *Pod, c *Container) int {
	for i := range pod.Spec.InitContainers {
		init := &pod.Spec.InitContainers[i]
		if Own(init.Name) {
			continue
		}
		same := init.Image == c.Image && equal(init.Command, c.Command) && equal(init.Args, c.Args)
		if same || init.Name == "commitlog-replayer" {
			return i
		}
	}
	return -1
}

func equal(a, b []string) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

// snapshotOf tells how to take a snapshot: over k8ssandra's management API where
// the image has it, else by running nodetool.
func snapshotOf(c *Container) (Snapshot, ManagementAPI) {
	var api ManagementAPI
	image := parseImage(c.Image)
	use := strings.HasPrefix(image.base, "cass-management-api") || strings.HasPrefix(image.base, "dse-mgmtapi") ||
		image.base == "cassandra-management"
	if text, ok := c.Variable("USE_MGMT_API"); ok {
		use = strings.EqualFold(text, "true")
	}
	for i := range c.Ports {
		if c.Ports[i].Name == "mgmt-api-http" || c.Ports[i].Name == "mgmt-api" {
			api.Port, use = c.Ports[i].ContainerPort, true
		}
	}
	if !use {
		return SnapshotNodetool, ManagementAPI{}
	}
	if api.Port == 0 {
		api.Port = portOf(c, 8080, []string{"MGMT_API_LISTEN_TCP_PORT"})
	}
	for _, mount := range c.Mounts {
		if mount.Volume == "management-api-server-certs-volume" {
			api.TLS, api.Certs = true, mount
		}
	}
	if file, ok := c.Variable("MGMT_API_TLS_CERT_FILE"); ok && !api.TLS {
		api.TLS = true
		for _, mount := range c.Mounts {
			if strings.HasPrefix(file, clean(mount.Path)+"/") {
				api.Certs = mount
			}
		}
	}
	return SnapshotManagementAPI, api
}

// URL is what Medusa's cassandra_url has to be (medusa/service/snapshot).
func (m ManagementAPI) URL() string {
	scheme := "http"
	if m.TLS {
		scheme = "https"
	}
	return fmt.Sprintf("%s://127.0.0.1:%d/api/v0/ops/node/snapshots", scheme, m.Port)
}
