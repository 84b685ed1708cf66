package patches

import (
	"path"
	"slices"
	"strings"

	"github.com/stategraft/stategraft/workload"
)

// dirTaken is where the containers put the agent's binary that they have taken: the
// volume may be one that nothing is executed from, and the file on it goes again.
const dirTaken = "/tmp"

// takeAndRun waits for the agent's binary on the pod's volume, takes it and runs it. That
// of a later round will do as well: where an agent was killed, or all containers were
// started again after a node lost its state, who is left over takes it, and is asked to go by
// the newer one then. It is not asked whether the file is executable, which on such a volume
// none is. Without a program to sleep it ends, rather than to take a whole CPU.
const takeAndRun = `d=$` + EnvAdoptedDir + `;b=` + dirTaken + `/stategraft-agent;e=;n=0;trap 'exit 0' TERM INT;` +
	`t(){ for f in "${d%/*}"/*/stategraft-agent-"$` + EnvPodUID + `";do g=${f%/*};` +
	`[ -f "$f" ]&&[ "${g##*/}" -ge "${d##*/}" ]&&e=$({ cp "$f" $b&&chmod 755 $b;} 2>&1)&&return;done;return 1;};` +
	`until t;do n=$((n+1));[ $((n%600)) = 60 ]&&echo "stategraft: waiting for the agent in $d $e";sleep 1&wait $!||exit 1;done;exec $b "$@"`

// adoptCassandra makes the agent, which brings the binary, and those that take it.
func (b *builder) adoptCassandra(a *Adoption) []*part {
	var parts []*part
	if a.wants(RoleSnapshot) && b.w.Snapshot == workload.SnapshotNodetool {
		c := b.snapshot()
		if c.ImagePullPolicy == "Always" {
			c.ImagePullPolicy = "" // the database runs from that image, so it is on the node
		}
		c.Command = shell(takeAndRun, "adopted", "snapshot")
		c.VolumeMounts = slices.DeleteFunc(c.VolumeMounts, func(m VolumeMount) bool {
			return (m.SubPath != "" || m.SubPathExpr != "") && path.Base(m.MountPath) == "cqlshrc" // nodetool does not read it
		})
		if !slices.ContainsFunc(c.VolumeMounts, func(m VolumeMount) bool { return m.MountPath == b.w.Data.Path }) {
			c.VolumeMounts = append(c.VolumeMounts, like(b.w.Data, true))
		}
		parts = append(parts, &part{role: RoleSnapshot, memory: memoryOf(b.s.Resources.Snapshot, Default().Resources.Snapshot), Container: c})
	}
	if a.wants(RoleMedusa) {
		parts = append(parts, &part{role: RoleMedusa, memory: memoryOf(b.s.Resources.Medusa, Default().Resources.Medusa), Container: b.adoptMedusa()})
	}
	if len(parts) == 0 {
		return nil // nobody would take the binary
	}
	agent := &Container{
		Name: ContainerAgent, Image: b.s.AgentImage, Command: []string{AgentInImage, "adopted", "install"},
		Env:          []EnvVar{field("POD_NAME", podName), field("POD_NAMESPACE", podNamespace)},
		VolumeMounts: []VolumeMount{like(b.w.Data, false)},
	}
	return append([]*part{{role: RoleAgent, memory: memoryOf(b.s.Resources.Agent, Default().Resources.Agent), Container: agent}}, parts...)
}

// adoptMedusa makes Medusa's container. It renders its medusa.ini itself, from what the
// injected agent is told.
func (b *builder) adoptMedusa() *Container {
	file := b.withoutSubPaths()
	c := b.medusa()
	c.Command = shell(takeAndRun, "adopted", "medusa")
	agent := b.agent(ContainerAgent, nil)
	for _, v := range agent.Env {
		if _, ok := variable(c.Env, v.Name); !ok {
			c.Env = append(c.Env, v)
		}
	}
	for _, m := range agent.VolumeMounts {
		if !slices.ContainsFunc(c.VolumeMounts, func(have VolumeMount) bool { return have.MountPath == m.MountPath }) {
			c.VolumeMounts = append(c.VolumeMounts, m)
		}
	}
	for i := range c.Env {
		switch v := &c.Env[i]; {
		case v.Value == DirCQL:
			v.Value = RootAdopted + DirCQL
		case v.Name == envCassandraConfig && file != "":
			v.Value = file
		}
	}
	b.identity(c)
	return c
}

// DirAdoptedConfig is where Medusa has the whole volume of which the database's container
// mounts a part, by subPath, that holds its cassandra.yaml.
const DirAdoptedConfig = "/stategraft-config"

const envCassandraConfig = "STATEGRAFT_CASSANDRA_CONFIG"

// withoutSubPaths does without the mounts by subPath where that can be done: of the
// database's configuration the whole volume is mounted elsewhere, and the path gives where
// in it the file is; what is outside of the data directory (commit log, hints) no backup
// reads. What remains is a Conflict.
func (b *builder) withoutSubPaths() (file string) {
	switch m := &b.w.Config; {
	case m.SubPathExpr != "":
		*m = workload.Mount{} // as if it were only in the image
	case m.SubPath != "":
		file = path.Join(DirAdoptedConfig, m.SubPath)
		*m = workload.Mount{Volume: m.Volume, Path: DirAdoptedConfig}
	}
	data := b.w.DataDir
	if data == "" {
		data = b.w.Data.Path
	}
	b.w.Extra = slices.DeleteFunc(slices.Clone(b.w.Extra), func(m workload.Mount) bool {
		return (m.SubPath != "" || m.SubPathExpr != "") && m.Path != data && !strings.HasPrefix(m.Path, strings.TrimSuffix(data, "/")+"/")
	})
	return file
}
