package adopted

import (
	"path"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/stategraft/stategraft/api/node"
	"github.com/stategraft/stategraft/patches"
	"github.com/stategraft/stategraft/workload"
)

// Variables of the injected containers that are read here (patches/sidecar.go, kvs.go).
const (
	envKind        = "STATEGRAFT_KIND"
	envGRPCPort    = "STATEGRAFT_GRPC_PORT"
	envSnapPort    = "STATEGRAFT_SNAPSHOT_PORT"
	envConfig      = "STATEGRAFT_CASSANDRA_CONFIG"
	envDataMount   = "STATEGRAFT_DATA_MOUNT"
	envCommitlog   = "STATEGRAFT_COMMITLOG_DIRECTORY"
	envSavedCaches = "STATEGRAFT_SAVED_CACHES_DIRECTORY"
	envSegment     = "STATEGRAFT_SEGMENT"
)

// onlyAgent are the variables of Cassandra's agent that an injected Medusa has not, since
// the agent writes medusa.ini there; ofAgent those that both have. An adopted Medusa has
// them all, as it writes its own.
var (
	onlyAgent = []string{envKind, "POD_NAMESPACE", "STATEGRAFT_CLUSTER", envCommitlog, envSavedCaches,
		"STATEGRAFT_MANAGEMENT_API", "STATEGRAFT_MANAGEMENT_API_CERTS", envSnapPort, envConfig}
	ofAgent = append([]string{"POD_NAME", envDataMount, "STATEGRAFT_DATA_DIRECTORY", "STATEGRAFT_CQL_PORT", envGRPCPort, "STATEGRAFT_GRPC_TLS"}, onlyAgent...)
)

// ofAdoption are the variables that injected containers have not.
var ofAdoption = []string{patches.EnvAdopted, patches.EnvAdoptedAt, patches.EnvAdoptedPair, patches.EnvAdoptedRenew, patches.EnvAdoptedDigest,
	patches.EnvAdoptedDir, patches.EnvAdoptedTakers, patches.EnvMemory, patches.EnvRoot, patches.EnvPodUID, envSegment}

// container is a part as it would have been injected.
func (g *graft) container(p *Part) corev1.Container {
	e := &p.Container.EphemeralContainerCommon
	c := corev1.Container{Name: p.Role.Container(), Image: e.Image, ImagePullPolicy: e.ImagePullPolicy,
		Env: env(e.Env), Resources: resources(p), SecurityContext: e.SecurityContext.DeepCopy()}
	if c.SecurityContext != nil {
		c.SecurityContext.ReadOnlyRootFilesystem = new(true) // it has volumes for what it writes
	}
	kind := workload.KindCassandra
	if p.anna() {
		kind = workload.KindAnna
	}
	c.Command = patches.InjectedCommand(p.Role, kind)
	switch {
	case p.anna():
		g.agentOfAnna(&c, p)
	case p.Role == patches.RoleAgent:
		g.agent(&c, p)
	case p.Role == patches.RoleSnapshot:
		g.mount(&c, patches.VolumeShared, patches.DirShared, false)
		g.mount(&c, patches.VolumeSnapshotTmp, "/tmp", false)
		at := p.Env(patches.EnvAdoptedDir)
		c.VolumeMounts = append(c.VolumeMounts, slices.DeleteFunc(slices.Clone(e.VolumeMounts), func(m corev1.VolumeMount) bool { return within(at, m.MountPath) })...)
		g.contents(&c, patches.DirJMX)
		if g.pod.Spec.HostNetwork {
			g.port(&c, "stategraft-snap", p.Env(envSnapPort), 0)
		}
	case p.Role == patches.RoleMedusa:
		g.medusa(&c, p)
	}
	return c
}

// agent is Cassandra's. What it does where it is injected, write medusa.ini, an adopted one
// leaves to Medusa; so what it would know of the pod is taken from there.
func (g *graft) agent(c *corev1.Container, p *Part) {
	from := p
	if m := g.parts[patches.RoleMedusa]; m != nil {
		from = m
	}
	c.Env = slices.DeleteFunc(env(from.Container.Env), func(v corev1.EnvVar) bool { return !slices.Contains(ofAgent, v.Name) })
	g.mount(c, patches.VolumeShared, patches.DirShared, false)
	g.mount(c, patches.VolumeMedusa, patches.DirMedusa, false)
	g.contents(c, patches.DirMedusaConfig)
	if m := mountOf(from.Container.VolumeMounts, from.Env(envConfig)); m != nil {
		c.VolumeMounts = append(c.VolumeMounts, *m)
	}
}

func (g *graft) medusa(c *corev1.Container, p *Part) {
	c.Env = slices.DeleteFunc(c.Env, func(v corev1.EnvVar) bool { return slices.Contains(onlyAgent, v.Name) })
	g.port(c, patches.PortMedusa, p.Env(envGRPCPort), 0)
	g.port(c, node.PortName, p.Env(patches.EnvNodePort), 0)
	g.mount(c, patches.VolumeShared, patches.DirShared, false)
	g.mount(c, patches.VolumeMedusa, patches.DirMedusa, true)
	g.mount(c, patches.VolumeTmp, "/tmp", false)
	g.contents(c, patches.DirStorage)
	g.contents(c, patches.DirCQL)
	c.VolumeMounts = append(c.VolumeMounts, p.Container.VolumeMounts...)
	c.VolumeMounts = append(c.VolumeMounts, g.byPath(p)...)
	g.contents(c, patches.DirGRPCTLS)
}

// byPath are the mounts of directories of the database's that an injected Medusa has and an
// adopted one cannot, as the database's container has them by subPath.
func (g *graft) byPath(p *Part) (mounts []corev1.VolumeMount) {
	data := mountOf(p.Container.VolumeMounts, p.Env(envDataMount))
	if data == nil {
		return nil
	}
	for i := range g.pod.Spec.Containers {
		of := g.pod.Spec.Containers[i].VolumeMounts
		if !slices.ContainsFunc(of, func(m corev1.VolumeMount) bool { return m.Name == data.Name && m.MountPath == data.MountPath }) {
			continue
		}
		for _, name := range []string{envCommitlog, envSavedCaches} {
			m := mountOf(of, p.Env(name))
			if m != nil && m.SubPath+m.SubPathExpr != "" && mountOf(slices.Concat(p.Container.VolumeMounts, mounts), m.MountPath) == nil {
				mounts = append(mounts, corev1.VolumeMount{Name: m.Name, MountPath: m.MountPath, SubPath: m.SubPath, SubPathExpr: m.SubPathExpr, ReadOnly: true})
			}
		}
		return mounts
	}
	return nil
}

// mountOf is the mount that a path is in; nil for none.
func mountOf(mounts []corev1.VolumeMount, name string) (found *corev1.VolumeMount) {
	for i := range mounts {
		if m := &mounts[i]; name != "" && within(name, m.MountPath) && (found == nil || len(m.MountPath) > len(found.MountPath)) {
			found = m
		}
	}
	return found
}

func (g *graft) agentOfAnna(c *corev1.Container, p *Part) {
	g.port(c, patches.PortLife, p.Env(patches.EnvLifePort), 0)
	g.port(c, patches.PortAgent, p.Env(envGRPCPort), 0)
	g.port(c, patches.PortKeys, p.Env(patches.EnvResponsePort), 0)
	g.port(c, patches.PortAddresses, p.Env(patches.EnvResponsePort), 1)
	g.port(c, node.PortName, p.Env(patches.EnvNodePort), 0)
	g.mount(c, patches.VolumeShared, patches.DirShared, false)
	g.mount(c, patches.VolumeTmp, "/tmp", false)
	for _, dir := range []string{patches.DirConfig, patches.DirMedusaConfig, patches.DirStorage, patches.DirGRPCTLS} {
		g.contents(c, dir)
	}
	c.VolumeMounts = append(c.VolumeMounts, p.Container.VolumeMounts...)
}

// port gives a container a port that a variable tells of, or one so many after it.
func (g *graft) port(c *corev1.Container, name, value string, after int32) {
	n, err := strconv.ParseInt(value, 10, 32)
	if err != nil {
		return
	}
	p := corev1.ContainerPort{Name: name, ContainerPort: int32(n) + after, Protocol: corev1.ProtocolTCP}
	if g.pod.Spec.HostNetwork {
		p.HostPort = p.ContainerPort
	}
	c.Ports = append(c.Ports, p)
}

// mount mounts an empty volume of ours.
func (g *graft) mount(c *corev1.Container, volume, at string, readOnly bool) {
	g.volume(corev1.Volume{Name: volume, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}})
	c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: volume, MountPath: at, ReadOnly: readOnly})
}

// volumeOf are the volumes of what injected containers read from files.
var volumeOf = map[string]string{
	patches.DirMedusaConfig: patches.VolumeMedusaConfig, patches.DirStorage: patches.VolumeStorage, patches.DirCQL: patches.VolumeCQL,
	patches.DirJMX: patches.VolumeJMX, patches.DirGRPCTLS: patches.VolumeGRPCTLS, patches.DirConfig: patches.VolumeConfig,
}

// contents mounts the ConfigMap or Secret whose keys come to the parts in variables for
// files in a directory, if they do.
func (g *graft) contents(c *corev1.Container, dir string) {
	for _, content := range patches.Contents {
		if path.Dir(content.Path) != dir {
			continue
		}
		for _, role := range []patches.Role{patches.RoleMedusa, patches.RoleAgent, patches.RoleSnapshot} {
			source, ok := sourceOf(g.parts[role], content.Env)
			if !ok {
				continue
			}
			g.volume(corev1.Volume{Name: volumeOf[dir], VolumeSource: source})
			c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: volumeOf[dir], MountPath: dir, ReadOnly: true})
			return
		}
	}
}

// sourceOf is the object that a variable's value comes from, as a volume. It is optional,
// as those of injected pods are.
func sourceOf(p *Part, variable string) (source corev1.VolumeSource, ok bool) {
	if p == nil {
		return source, false
	}
	for i := range p.Container.Env {
		v := &p.Container.Env[i]
		switch {
		case v.Name != variable || v.ValueFrom == nil:
		case v.ValueFrom.ConfigMapKeyRef != nil:
			return corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
				LocalObjectReference: v.ValueFrom.ConfigMapKeyRef.LocalObjectReference, Optional: new(true)}}, true
		case v.ValueFrom.SecretKeyRef != nil:
			return corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: v.ValueFrom.SecretKeyRef.Name, Optional: new(true)}}, true
		}
	}
	return source, false
}

// volume adds a volume that is not there.
func (g *graft) volume(v corev1.Volume) {
	if !slices.ContainsFunc(g.pod.Spec.Volumes, func(have corev1.Volume) bool { return have.Name == v.Name }) {
		g.pod.Spec.Volumes = append(g.pod.Spec.Volumes, v)
	}
}

// env are the variables of a part that an injected container has as well. What lies below
// the adopted one's own root is where it is mounted there.
func env(of []corev1.EnvVar) []corev1.EnvVar {
	kept := make([]corev1.EnvVar, 0, len(of))
	for _, v := range of {
		if slices.Contains(ofAdoption, v.Name) || slices.ContainsFunc(patches.Contents, func(c patches.Content) bool { return c.Env == v.Name }) {
			continue
		}
		if rest, ok := strings.CutPrefix(v.Value, patches.RootAdopted+"/"); ok {
			v.Value = "/" + rest
		}
		kept = append(kept, v)
	}
	return kept
}

// resources are those of a pod that is made after this one: the defaults, within what the
// part keeps itself below.
func resources(p *Part) corev1.ResourceRequirements {
	set := patches.Default().Resources
	from := set.Agent
	switch {
	case p.anna():
		from = set.Anna
	case p.Role == patches.RoleSnapshot:
		from = set.Snapshot
	case p.Role == patches.RoleMedusa:
		from = set.Medusa
	}
	memory, limit := resource.MustParse(from.Requests.Memory), resource.MustParse(from.Limits.Memory)
	if bytes, err := strconv.ParseInt(p.Env(patches.EnvMemory), 10, 64); err == nil && bytes > 0 {
		limit = *resource.NewQuantity(bytes, resource.BinarySI)
	}
	if memory.Cmp(limit) > 0 {
		memory = limit
	}
	return corev1.ResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(from.Requests.CPU), corev1.ResourceMemory: memory},
		Limits:   corev1.ResourceList{corev1.ResourceMemory: limit},
	}
}

// within tells whether a path is a directory or below it.
func within(name, dir string) bool {
	dir = strings.TrimSuffix(dir, "/")
	return name == dir || strings.HasPrefix(name, dir+"/")
}
