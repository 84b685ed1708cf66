package patches

// kvs adds to an Anna or Cloudburst pod. Upstream's tooling reads
// containerStatuses[0] and copies files into every entry of spec.containers
// (hydro-project/cluster hydro/management, add_nodes.py), so ours are init
// containers, the agent one that keeps running, where the cluster has those;
// elsewhere its name sorts after theirs.
func (b *builder) kvs() {
	b.volume(emptyVolume(VolumeShared))
	b.volume(emptyVolume(VolumeTmp))
	if b.s.StorageSecret != "" && b.w.HoldsData() {
		b.volume(secretVolume(VolumeStorage, b.s.StorageSecret))
	}
	setup := b.kvsContainer(ContainerSetup, []string{AgentInImage, "anna", "setup"})
	setup.TerminationMessagePolicy = fallbackToLogs
	b.init(setup)
	if b.s.Restore != "" {
		restore := b.kvsContainer(ContainerRestore, []string{AgentInImage, "anna", "restore"})
		restore.TerminationMessagePolicy = fallbackToLogs
		restore.Env = append(restore.Env, nonEmpty([]EnvVar{
			value(EnvBackup, b.s.Restore), value(EnvRestoreSource, b.s.RestoreSource)})...)
		b.init(restore)
	}
	agent := b.kvsContainer(ContainerAgent, commandAnnaServe)
	agent.Env = append(agent.Env, value("STATEGRAFT_GRPC_PORT", number(b.grpcPort)))
	agent.Ports = []Port{{Name: PortAgent, ContainerPort: b.grpcPort, Protocol: "TCP"}}
	if b.s.NativeSidecars {
		agent.RestartPolicy = "Always"
		b.init(agent)
		return
	}
	b.container(agent)
}

// kvsContainer is what the three containers have in common.
func (b *builder) kvsContainer(name string, command []string) *Container {
	env := []EnvVar{
		value("STATEGRAFT_KIND", string(b.w.Kind)),
		value("STATEGRAFT_ROLE", string(b.w.Role)),
		field("POD_NAME", podName),
		field("POD_NAMESPACE", podNamespace),
		field("POD_IP", podIP),
		field("HOST_IP", hostIP),
		value("STATEGRAFT_CLUSTER", b.w.Cluster),
		value("STATEGRAFT_DATA_DIRECTORY", b.w.DataDir),
	}
	mounts := []VolumeMount{mount(VolumeShared, DirShared), mount(VolumeTmp, "/tmp")}
	if b.s.ConfigMap != "" {
		mounts = append(mounts, readOnly(VolumeConfig, DirConfig))
	}
	if b.s.StorageSecret != "" && b.w.HoldsData() {
		mounts = append(mounts, readOnly(VolumeStorage, DirStorage))
	}
	if name != ContainerAgent {
		// The setup container makes the directories that Anna does not. The
		// agent reads the keys over the network and needs no file.
		for _, m := range b.dataMounts() {
			mounts = append(mounts, like(m, false))
		}
	}
	c := &Container{
		Name: name, Image: b.s.AgentImage, Command: command, Env: nonEmpty(env),
		VolumeMounts: mounts, Resources: b.s.Resources.Anna,
	}
	if name != ContainerAgent && b.w.DataDir != "" && b.mustOwn() {
		c.SecurityContext = b.owning()
	}
	return c
}
