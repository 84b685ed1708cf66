package patches

import (
	"strconv"
	"strings"

	"github.com/stategraft/stategraft/api/node"
	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/workload"
)

// cassandra adds Medusa to a Cassandra pod: always ordinary containers at the
// end (people exec into the first, and an ordinary container whose image is
// missing does not keep the others from starting), and init containers only
// where a restore is asked for.
func (b *builder) cassandra() {
	b.volume(emptyVolume(VolumeShared))
	b.volume(emptyVolume(VolumeMedusa))
	b.volume(emptyVolume(VolumeTmp))
	b.volume(configMapVolume(VolumeMedusaConfig, b.s.MedusaConfig))
	if b.s.StorageSecret != "" {
		b.volume(secretVolume(VolumeStorage, b.s.StorageSecret))
	}
	if b.s.CQLSecret != "" {
		b.volume(secretVolume(VolumeCQL, b.s.CQLSecret))
	}
	if b.s.GRPCTLS {
		b.volume(secretVolume(VolumeGRPCTLS, api.SecretGRPC))
	}
	if b.w.Snapshot == workload.SnapshotNodetool {
		b.volume(emptyVolume(VolumeSnapshotTmp))
		if b.s.JMXSecret != "" {
			b.volume(secretVolume(VolumeJMX, b.s.JMXSecret))
		}
	}
	if b.s.Restores() {
		b.cassandraRestore()
	}
	if b.s.Order.Pending {
		b.ordered()
	}
	b.container(b.agent(ContainerAgent, commandPod))
	if b.w.Snapshot == workload.SnapshotNodetool {
		b.container(b.snapshot())
	}
	b.container(b.medusa())
}

// agent renders the effective medusa.ini, once or all the time, and puts its
// own binary where the other containers find it.
func (b *builder) agent(name string, command []string) *Container {
	w := &b.w
	env := append(make([]EnvVar, 0, 15),
		value("STATEGRAFT_KIND", string(w.Kind)),
		field("POD_NAME", podName),
		field("POD_NAMESPACE", podNamespace),
		value("STATEGRAFT_CLUSTER", w.Cluster),
		value("STATEGRAFT_DATA_MOUNT", w.Data.Path),
		value("STATEGRAFT_DATA_DIRECTORY", w.DataDir),
		value("STATEGRAFT_COMMITLOG_DIRECTORY", w.Commitlog),
		value("STATEGRAFT_SAVED_CACHES_DIRECTORY", w.SavedCaches),
		value("STATEGRAFT_CQL_PORT", number(w.CQLPort)),
		value("STATEGRAFT_GRPC_PORT", number(b.grpcPort)),
	)
	env = append(env, value(envGRPCTLS, b.tls()))
	if w.Snapshot == workload.SnapshotManagementAPI {
		env = append(env, value("STATEGRAFT_MANAGEMENT_API", w.Management.URL()))
		if w.Management.TLS {
			env = append(env, value("STATEGRAFT_MANAGEMENT_API_CERTS", w.Management.Certs.Path))
		}
	} else {
		env = append(env, value("STATEGRAFT_SNAPSHOT_PORT", number(b.snapshotPort)))
	}
	if w.Config.Volume != "" {
		env = append(env, value("STATEGRAFT_CASSANDRA_CONFIG", w.Config.Path))
	}
	mounts := append(make([]VolumeMount, 0, 5),
		mount(VolumeShared, DirShared), mount(VolumeMedusa, DirMedusa), readOnly(VolumeMedusaConfig, DirMedusaConfig))
	if name == ContainerAgent && (b.s.Order.Pending || b.s.Order.Tidy) {
		env = append(env, value(EnvTidyAfter, tidyAfter))
		mounts = append(mounts, like(w.Data, false))
	}
	return &Container{
		Name: name, Image: b.s.AgentImage, Command: command, Env: nonEmpty(env),
		Resources: b.s.Resources.Agent, VolumeMounts: b.withConfig(mounts),
	}
}

// snapshot answers Medusa's two calls by running nodetool, so it lives in the
// database's own image; Medusa's has none.
func (b *builder) snapshot() *Container {
	c := b.main()
	env := []EnvVar{
		value("STATEGRAFT_SNAPSHOT_PORT", number(b.snapshotPort)),
		value("STATEGRAFT_JMX_PORT", number(b.w.JMXPort)),
		value("HOME", "/tmp"), // nodetool keeps a history there
	}
	// nodetool is told how to reach the database the way the image's own is.
	for _, v := range c.Env {
		if strings.HasPrefix(v.Name, "NODETOOL_") || v.Name == "CASSANDRA_HOME" || v.Name == "CASSANDRA_CONF" || v.Name == "JAVA_HOME" {
			if copied, ok := copyEnv(c, v); ok {
				env = append(env, copied)
			}
		}
	}
	mounts := []VolumeMount{mount(VolumeShared, DirShared), mount(VolumeSnapshotTmp, "/tmp")}
	for _, m := range c.Mounts {
		if strings.Contains(m.Path, "/.cassandra/") || strings.Contains(m.Path, "jmxremote") {
			mounts = append(mounts, like(m, true))
		}
	}
	if b.s.JMXSecret != "" {
		mounts = append(mounts, readOnly(VolumeJMX, DirJMX))
	}
	var ports []Port
	if b.hostNetwork {
		// Its loopback is the node's, which other pods may share.
		ports = []Port{{Name: "stategraft-snap", ContainerPort: b.snapshotPort, Protocol: "TCP"}}
	}
	return &Container{
		Name: ContainerSnapshot, Image: c.Image, ImagePullPolicy: c.PullPolicy,
		Command: commandSnapshot, Env: nonEmpty(env), Ports: ports, VolumeMounts: mounts,
		Resources: b.s.Resources.Snapshot,
	}
}

// medusa serves Medusa's gRPC API. It reads the snapshots and writes nothing of
// the database's, so the data are mounted read-only.
func (b *builder) medusa() *Container {
	c := b.medusaContainer(ContainerMedusa, commandServe, true)
	c.Env = append(c.Env, nonEmpty([]EnvVar{
		value("MEDUSA_MODE", "GRPC"),
		value("STATEGRAFT_GRPC_PORT", number(b.grpcPort)),
		value("STATEGRAFT_DATA_MOUNT", b.w.Data.Path),
		value("STATEGRAFT_DATA_DIRECTORY", b.w.DataDir),
		value("STATEGRAFT_CQL_PORT", number(b.w.CQLPort)), // the database goes first when both start
	})...)
	c.Ports = append(make([]Port, 0, 2), Port{Name: PortMedusa, ContainerPort: b.grpcPort, Protocol: "TCP"})
	b.node(c)
	return c
}

// node has the container serve what api/node says, beside Medusa's gRPC and with the
// same pair. Of the two containers that do only one runs at a time, so they have one
// port.
func (b *builder) node(c *Container) {
	c.Env = append(c.Env, value(EnvNodePort, number(b.nodePort)))
	c.Ports = append(c.Ports, Port{Name: node.PortName, ContainerPort: b.nodePort, Protocol: "TCP"})
	if b.s.GRPCTLS {
		c.VolumeMounts = append(c.VolumeMounts, readOnly(VolumeGRPCTLS, DirGRPCTLS))
	} else {
		c.Env = append(c.Env, value(envGRPCTLS, b.tls()))
	}
}

// tls is the value of envGRPCTLS.
func (b *builder) tls() string {
	if b.s.GRPCTLS {
		return ""
	}
	return "off"
}

// medusaContainer is what serving and restoring have in common.
func (b *builder) medusaContainer(name string, command []string, readOnlyData bool) *Container {
	env := append(make([]EnvVar, 0, 6), field("POD_NAME", podName))
	if b.w.HostNetwork || b.hostNetwork {
		// The node's address has no name of the pod's: both sides use addresses.
		env = append(env, field("POD_IP", podIP), value("MEDUSA_RESOLVE_IP_ADDRESSES", "False"))
	} else {
		// A name on purpose: it becomes the node's name in the backup and has to
		// be what a PTR query gives (medusa/config.py, medusa/service/grpc/restore.py).
		env = append(env, field("POD_IP", podName))
	}
	mounts := append(make([]VolumeMount, 0, 8),
		mount(VolumeShared, DirShared), readOnly(VolumeMedusa, DirMedusa), mount(VolumeTmp, "/tmp"))
	if b.s.StorageSecret != "" {
		mounts = append(mounts, readOnly(VolumeStorage, DirStorage))
	}
	if b.s.CQLSecret != "" {
		mounts = append(mounts, readOnly(VolumeCQL, DirCQL))
		env = append(env, value("MEDUSA_CQL_K8S_SECRETS_PATH", DirCQL))
	}
	for _, m := range b.dataMounts() {
		mounts = append(mounts, like(m, readOnlyData))
	}
	if m := b.w.Management.Certs; m.Volume != "" {
		mounts = append(mounts, like(m, true))
	}
	return &Container{
		Name: name, Image: b.s.MedusaImage, Command: command, Env: env,
		Resources: b.s.Resources.Medusa, VolumeMounts: b.withConfig(mounts),
	}
}

// dataMounts are all mounts of the database's files.
func (b *builder) dataMounts() []workload.Mount {
	if b.w.Data.Volume == "" {
		return b.w.Extra
	}
	return append([]workload.Mount{b.w.Data}, b.w.Extra...)
}

// withConfig adds the directory of cassandra.yaml where it can be shared.
func (b *builder) withConfig(mounts []VolumeMount) []VolumeMount {
	if b.w.Config.Volume == "" {
		return mounts
	}
	for _, m := range mounts {
		if m.MountPath == b.w.Config.Path {
			return mounts
		}
	}
	return append(mounts, like(b.w.Config, true))
}

func number(n int32) string { return strconv.Itoa(int(n)) }

// nonEmpty drops the variables that have nothing to say.
func nonEmpty(env []EnvVar) []EnvVar {
	kept := env[:0]
	for _, v := range env {
		if v.Value != "" || v.ValueFrom != nil {
			kept = append(kept, v)
		}
	}
	return kept
}
