package patches

import (
	"path"
	"strconv"

	"k8s.io/apimachinery/pkg/api/resource"

	api "github.com/stategraft/stategraft/api/v1alpha1"
)

// kvs adds to an Anna or Cloudburst pod. Upstream's tooling reads
// containerStatuses[0] and copies files into every entry of spec.containers
// (hydro-project/cluster hydro/management, add_nodes.py), so ours are init
// containers, the agent one that keeps running, where the cluster has those;
// elsewhere its name sorts after theirs.
func (b *builder) kvs() {
	b.volume(emptyVolume(VolumeShared))
	b.volume(emptyVolume(VolumeTmp))
	if b.w.HoldsData() {
		b.volume(configMapVolume(VolumeMedusaConfig, b.s.MedusaConfig))
		if b.s.StorageSecret != "" {
			b.volume(secretVolume(VolumeStorage, b.s.StorageSecret))
		}
		if b.s.GRPCTLS {
			b.volume(secretVolume(VolumeGRPCTLS, api.SecretGRPC))
		}
	}
	if b.exposes() {
		b.volume(Volume{Name: VolumePodinfo, DownwardAPI: publicAddress})
	}
	b.conf()
	b.requests()
	b.init(b.kvsSetup())
	if b.s.Restores() {
		if b.s.DecryptionSecret != "" {
			b.volume(secretVolume(VolumeDecryption, b.s.DecryptionSecret))
		}
		b.init(b.kvsRestore())
		b.replayed()
	}
	if b.s.Order.Pending {
		b.ordered()
	}
	agent := b.kvsAgent()
	if !b.s.NativeSidecars {
		b.container(agent)
		return
	}
	agent.RestartPolicy = "Always"
	b.init(agent)
	b.preStop() // an agent that is stopped along with the database cannot answer
}

// exposes tells whether the node has to know the address that it is reached at from
// outside: only the two tiers tell it to clients.
func (b *builder) exposes() bool { return b.s.Expose && b.w.HoldsData() }

// publicAddress is a file with the address that the controller writes on the pod.
var publicAddress = &DownwardAPI{Items: []DownwardFile{{
	Path: FilePublicAddress, FieldRef: FieldRef{"metadata.annotations['" + api.AnnotationPublicAddress + "']"}}}}

// kvsSetup renders what Anna and Cloudburst read at their start, and makes the
// directories that Anna does not.
func (b *builder) kvsSetup() *Container {
	c := b.kvsContainer(ContainerSetup, []string{AgentInImage, "anna", "setup"})
	c.TerminationMessagePolicy = fallbackToLogs
	if b.exposes() {
		c.Env = append(c.Env, value(EnvExpose, "true"))
		c.VolumeMounts = append(c.VolumeMounts, readOnly(VolumePodinfo, DirPodinfo))
	}
	if b.render != "" {
		c.Env = append(c.Env, value(EnvRender, b.render))
	}
	if b.s.Restores() {
		// What peers have is not to come into a node that is restored.
		for _, v := range b.request() {
			if v.Name == EnvBackup || v.Name == api.EnvRestoreID {
				c.Env = append(c.Env, v)
			}
		}
	}
	if main := b.main(); main != nil && b.w.HoldsData() {
		if limit, err := resource.ParseQuantity(string(main.Resources.Limits["memory"])); err == nil {
			c.Env = append(c.Env, value(EnvMemoryLimit, strconv.FormatInt(limit.Value(), 10)))
		}
	}
	c.VolumeMounts = append(c.VolumeMounts, b.confMounts...)
	b.withData(c, false)
	return c
}

// kvsRestore fetches the backup, and sets the files of before aside. No shell and no
// waiting: where it fails, the node does not start without the restore that was asked for.
func (b *builder) kvsRestore() *Container {
	c := b.kvsContainer(ContainerRestore, []string{AgentInImage, "anna", "restore"})
	c.TerminationMessagePolicy = fallbackToLogs
	c.Env = append(c.Env, b.request()...)
	b.withStorage(c)
	if b.s.DecryptionSecret != "" {
		// Here only: the sidecar, which runs for as long as the node, cannot read what
		// was encrypted.
		c.VolumeMounts = append(c.VolumeMounts, readOnly(VolumeDecryption, DirDecryption))
	}
	b.node(c)
	b.withData(c, false)
	return c
}

// kvsAgent stands beside the node for as long as that runs.
func (b *builder) kvsAgent() *Container {
	c := b.kvsContainer(ContainerAgent, commandAnnaServe)
	c.Env = append(c.Env, value(EnvLifePort, number(b.lifePort)), value(EnvGrace, strconv.FormatInt(b.gracePeriod(), 10)))
	c.Ports = append(make([]Port, 0, 5), Port{Name: PortLife, ContainerPort: b.lifePort, Protocol: "TCP"})
	if b.confDir.Name != "" {
		c.Env = append(c.Env, value(EnvConfDir, b.confDir.MountPath))
		c.VolumeMounts = append(c.VolumeMounts, b.confDir)
	}
	if !b.w.HoldsData() {
		return c
	}
	b.withStorage(c)
	c.Env = append(c.Env, value("STATEGRAFT_GRPC_PORT", number(b.grpcPort)))
	c.Ports = append(c.Ports, Port{Name: PortAgent, ContainerPort: b.grpcPort, Protocol: "TCP"},
		Port{Name: PortKeys, ContainerPort: b.responsePort, Protocol: "TCP"},
		Port{Name: PortAddresses, ContainerPort: b.responsePort + 1, Protocol: "TCP"})
	b.node(c)
	// It reads keys over the network. On the volume it looks for what restores have left
	// there, and takes that away when it is not to be kept.
	b.withData(c, !b.s.Restores() && !b.s.Order.Tidy)
	if b.s.Order.Pending || b.s.Order.Tidy {
		c.Env = append(c.Env, value(EnvTidyAfter, tidyAfter))
	}
	return c
}

// kvsContainer is what the three containers have in common.
func (b *builder) kvsContainer(name string, command []string) *Container {
	env := append(make([]EnvVar, 0, 20),
		value("STATEGRAFT_KIND", string(b.w.Kind)),
		value("STATEGRAFT_ROLE", string(b.w.Role)),
		field("POD_NAME", podName),
		field("POD_NAMESPACE", podNamespace),
		field("POD_IP", podIP),
		field("HOST_IP", hostIP),
		value("STATEGRAFT_CLUSTER", b.w.Cluster),
		value("STATEGRAFT_DATA_DIRECTORY", b.w.DataDir),
		value(EnvSubdomain, b.subdomain()),
	)
	if b.w.HoldsData() {
		env = append(env, value(EnvResponsePort, number(b.responsePort)))
	}
	mounts := append(make([]VolumeMount, 0, 12), mount(VolumeShared, DirShared), mount(VolumeTmp, "/tmp"))
	if b.s.ConfigMap != "" {
		mounts = append(mounts, readOnly(VolumeConfig, DirConfig))
	}
	return &Container{
		Name: name, Image: b.s.AgentImage, Command: command, Env: nonEmpty(env),
		VolumeMounts: mounts, Resources: b.s.Resources.Anna,
	}
}

// withStorage mounts what says where backups are, and the credentials for it.
func (b *builder) withStorage(c *Container) {
	c.VolumeMounts = append(c.VolumeMounts, readOnly(VolumeMedusaConfig, DirMedusaConfig))
	if b.s.StorageSecret != "" {
		c.VolumeMounts = append(c.VolumeMounts, readOnly(VolumeStorage, DirStorage))
	}
}

// withData mounts the volumes of the disk tier. To write on them it takes who owns them;
// and what one of the three leaves on the shared volume, the next has to change.
func (b *builder) withData(c *Container, readOnly bool) {
	for _, m := range b.dataMounts() {
		c.VolumeMounts = append(c.VolumeMounts, like(m, readOnly))
	}
	if b.w.DataDir != "" && b.mustOwn() {
		c.SecurityContext = b.owning()
	}
}

// subdomain is the headless Service by which the pod has a name of its own; empty where
// it has none, for want of a Service or because it shares its host name.
func (b *builder) subdomain() string {
	if b.pod.Spec.Hostname == "" || b.pod.Spec.Hostname != b.pod.Metadata.Name {
		return ""
	}
	return b.pod.Spec.Subdomain
}

// defaultGrace is what the API server gives a pod that does not say how long its end may
// take, in seconds.
const defaultGrace = 30

func (b *builder) gracePeriod() int64 {
	if g := b.pod.Spec.GracePeriod; g != nil {
		return *g
	}
	return defaultGrace
}

// memoryLimit tells Go's runtime to collect garbage before the container is killed for
// its memory: at nine tenths of what it may have.
func memoryLimit(c *Container) {
	limit, err := resource.ParseQuantity(c.Resources.Limits.Memory)
	if c.Resources.Limits.Memory == "" || err != nil || limit.Value() <= 0 {
		return
	}
	c.Env = append(c.Env, value("GOMEMLIMIT", strconv.FormatInt(limit.Value()/10*9, 10)))
}

// preStop has a node that is to end hand its keys over first, where the user has no hook
// of his own there. The agent answers within the pod's grace period. Anna itself ignores
// SIGTERM, so its pod's end takes all of that anyway.
func (b *builder) preStop() {
	c := b.main()
	if c == nil || !b.w.HoldsData() {
		return
	}
	hook := Hook{HTTPGet{Path: PathDepart, Port: b.lifePort}}
	at := "/spec/containers/" + strconv.Itoa(b.w.Index) + "/lifecycle"
	switch {
	case c.Lifecycle == nil:
		b.add(at, map[string]Hook{"preStop": hook})
	case c.Lifecycle.PreStop == nil:
		b.add(path.Join(at, "preStop"), hook)
	case c.Lifecycle.PreStop.HTTP.Path != PathDepart:
		b.warn("container " + c.Name + " has a preStop hook of its own: a node that ends does not hand its keys over, unless that hook asks for it (GET " + PathDepart + " at port " + number(b.lifePort) + ")")
	}
}

// replayed keeps a node that is restored from being Ready before its keys have been
// written again. It is the only gate of ours before readiness: clients would be told of
// keys that are not there.
func (b *builder) replayed() {
	if o := &b.s.Order; o.Pending && o.Action != api.ActionRestore && o.Action != "" {
		return // there is nothing to write
	}
	for _, gate := range b.pod.Spec.ReadinessGates {
		if gate.Condition == api.ConditionReplayed {
			return
		}
	}
	list(b, "/spec/readinessGates", b.pod.Spec.ReadinessGates != nil, []ReadinessGate{{api.ConditionReplayed}})
}
