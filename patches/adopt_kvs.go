package patches

import (
	"path"
	"slices"
	"strings"

	"github.com/stategraft/stategraft/workload"
)

// envNodeRouting has the addresses of the routing nodes that the node's own container was
// started with, where its variables say so: agent/anna/serve goes by them where neither the
// DNS nor the node's file tells.
const envNodeRouting = "STATEGRAFT_NODE_ROUTING"

// commandAdoptedAnna has no shell around it that would idle in another image: the pod is
// Ready whatever becomes of the container, and one that ends says why.
var commandAdoptedAnna = []string{AgentInImage, "adopted", "anna"}

// adoptKVS is the agent beside a node of Anna's that runs already, as a container of whose
// mounts those of the pod's own volumes stay. It backs up, and does nothing else: the node
// was started without us, so its place among its peers is left to those who started it.
// Neither keys are handed over at its end nor routing told of it, so there is no life port;
// and with no restore behind it nothing is looked for on the disk tier's volume. Keys are
// read over the network, so a pod whose volumes are mounted by subPath does well.
func (b *builder) adoptKVS() *Container {
	c := b.kvsContainer(ContainerAgent, commandAdoptedAnna)
	c.Env = slices.DeleteFunc(c.Env, func(v EnvVar) bool { return v.Name == "STATEGRAFT_DATA_DIRECTORY" || v.Name == EnvSubdomain })
	c.Env = append(c.Env, value("STATEGRAFT_GRPC_PORT", number(b.grpcPort)))
	b.withStorage(c)
	b.node(c)
	b.adoptConf(c)
	b.adoptRouting(c)
	return c
}

// adoptConf mounts what tells how the node was started: the directory where its commands
// made its file, and where no ConfigMap is named for us, the one that it was made of. What
// is mounted by subPath an ephemeral container cannot have
// (k8s.io/kubernetes/pkg/apis/core/validation, ValidatePodEphemeralContainersUpdate and
// validateEphemeralContainers); the agent finds the most out otherwise.
func (b *builder) adoptConf(c *Container) {
	main := b.main()
	if main == nil {
		return
	}
	if m, ok := b.ownConf(main, programAnna); ok && m.SubPath == "" && m.SubPathExpr == "" {
		at := confMount(main, m, true)
		c.Env = append(c.Env, value(EnvConfDir, at.MountPath))
		c.VolumeMounts = append(c.VolumeMounts, at)
	}
	file, ok := main.Variable("ANNA_CONF_BASE")
	if !ok || b.s.ConfigMap != "" || path.Base(file) != programAnna.file {
		return
	}
	for _, m := range main.Mounts {
		if path.Clean(m.Path) == path.Dir(path.Clean(file)) && m.SubPath == "" && m.SubPathExpr == "" {
			m.Path = DirConfig
			c.VolumeMounts = append(c.VolumeMounts, like(m, true))
			return
		}
	}
}

// adoptRouting copies the variables by which upstream's start script is told of the routing
// nodes (hydro-project/anna dockerfiles/start-anna.sh), where they are plain text, or refer
// to what our container has too.
func (b *builder) adoptRouting(c *Container) {
	main := b.main()
	if main == nil {
		return
	}
	for _, name := range []string{"ROUTING_IPS", "SEED_IP"} {
		for _, v := range main.Env {
			if v.Name == name && len(v.ValueFrom) == 0 && strings.TrimSpace(v.Value) != "" && b.known(c, v.Value) {
				c.Env = append(c.Env, value(envNodeRouting, v.Value))
				return
			}
		}
	}
}

// known tells whether a value refers to nothing but variables that are the same in ours.
func (b *builder) known(c *Container, text string) bool {
	main := b.main()
	for _, name := range references(text) {
		ours, ok := variable(c.Env, name)
		if !ok {
			return false
		}
		at := slices.IndexFunc(main.Env, func(v workload.EnvVar) bool { return v.Name == name })
		if at < 0 {
			return false
		}
		if theirs, ok := copyEnv(main, main.Env[at]); !ok || !sameField(ours, theirs) {
			return false
		}
	}
	return true
}
