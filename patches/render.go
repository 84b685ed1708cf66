package patches

import (
	"encoding/json"
	"fmt"
	"path"
	"regexp"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/workload"
)

// rendered is a configuration that the setup container writes for one of the pod's
// containers: an entry of EnvRender, which agent/anna/setup reads.
type rendered struct {
	Container string `json:"container"`
	Kind      string `json:"kind"` // anna, cache or cloudburst: the file is of another kind for each
	Role      string `json:"role"`
	Dir       string `json:"dir"` // in the setup container
	ThreadID  string `json:"threadID,omitempty"`
}

// program is what of a container's configuration goes by the program in it.
type program struct {
	kind string
	home string // below HYDRO_HOME; it reads conf/ in it
	file string
}

var (
	programAnna       = program{"anna", "anna", "anna-config.yml"}
	programCache      = program{"cache", "anna-cache", "anna-config.yml"}
	programCloudburst = program{"cloudburst", "cloudburst", "cloudburst-config.yml"}
)

// conf arranges for the effective configuration of each process. A container that says
// with ANNA_CONF_BASE where its own commands take it from gets the ConfigMap there
// (configMap), and the agent looks at what they made of it. For one that does not, the
// setup container writes the file into the directory that the program reads, on a volume
// that both mount: the user's own where there is one, else one of ours.
func (b *builder) conf() {
	var all []rendered
	for i := range b.pod.Spec.Containers {
		c := &b.pod.Spec.Containers[i]
		p, ok := b.programOf(i)
		if !ok {
			continue
		}
		_, self := c.Variable("ANNA_CONF_BASE")
		self = self || writes(c, p.file)
		if self || b.s.ConfigMap == "" {
			if m, ok := b.ownConf(c, p); ok && i == b.w.Index {
				b.confDir = confMount(c, m, true)
			}
			if self && i == b.w.Index {
				b.warnAddress(c)
			}
			continue
		}
		m, ok := b.confPlace(i, p)
		if !ok {
			continue
		}
		in := confMount(c, m, false)
		b.confMounts = append(b.confMounts, in)
		if i == b.w.Index {
			b.confDir = confMount(c, m, true)
		}
		thread, _ := c.Variable("THREAD_ID")
		all = append(all, rendered{c.Name, p.kind, string(b.w.Role), in.MountPath, thread})
	}
	if len(all) == 0 {
		return
	}
	text, err := json.Marshal(all)
	if err != nil {
		panic("encoding what is to be rendered: " + err.Error()) // strings
	}
	b.render = string(text)
}

// programOf tells what of Anna's or Cloudburst's a container runs: the one that was
// recognised, and the others of an executor pod.
func (b *builder) programOf(index int) (program, bool) {
	c := &b.pod.Spec.Containers[index]
	switch {
	case workload.Own(c.Name):
	case b.w.Kind == workload.KindAnna:
		return programAnna, index == b.w.Index
	case workload.IsAnnaCache(c):
		return programCache, true
	case index == b.w.Index || b.w.Index < 0 && workload.IsCloudburst(c):
		return programCloudburst, true
	}
	return program{}, false
}

// confDirOf is the directory where the program looks for its file: conf in the one that it
// is started in. Upstream's scripts go to its own.
func confDirOf(c *workload.Container, p program) string {
	if path.IsAbs(c.WorkingDir) && !workload.StartsByScript(c) {
		return path.Join(c.WorkingDir, "conf")
	}
	home := "/hydro"
	if text, ok := c.Variable("HYDRO_HOME"); ok && path.IsAbs(text) {
		home = text
	}
	return path.Join(home, p.home, "conf")
}

// confPlace finds the volume that the configuration is written on, and mounts one of ours
// where there is none.
func (b *builder) confPlace(index int, p program) (workload.Mount, bool) {
	c := &b.pod.Spec.Containers[index]
	at := confDirOf(c, p)
	for _, m := range c.Mounts {
		if path.Clean(m.Path) == at && (m.Volume == VolumeConf || b.writable(index, m)) {
			return m, true
		}
	}
	if other, there := mountAt(c, at); there {
		b.warn(fmt.Sprintf("container %s has volume %s on %s, where its configuration cannot be written: it is left to what is there; an emptyDir there, or none, lets it be made of ConfigMap %s",
			c.Name, other, at, b.s.ConfigMap))
		return workload.Mount{}, false
	}
	b.volume(emptyVolume(VolumeConf))
	b.give(index, VolumeMount{Name: VolumeConf, MountPath: at, SubPath: c.Name})
	return workload.Mount{Volume: VolumeConf, Path: at, SubPath: c.Name}, true
}

// writable tells whether the setup container can write where the container has a mount.
func (b *builder) writable(index int, m workload.Mount) bool {
	v, ok := b.pod.Volume(m.Volume)
	// What a subPathExpr refers to is known of the database's own container only.
	return ok && v.Writable() && !m.ReadOnly && (m.SubPathExpr == "" || index == b.w.Index)
}

// ownConf finds the volume on which the container's own commands make its configuration.
func (b *builder) ownConf(c *workload.Container, p program) (found workload.Mount, ok bool) {
	for _, m := range c.Mounts {
		at := path.Clean(m.Path)
		if !b.writable(b.w.Index, m) || workload.Own(m.Volume) && m.Volume != VolumeConf {
			continue
		}
		if at == confDirOf(c, p) {
			return m, true
		}
		if path.Base(at) == "conf" && !ok {
			found, ok = m, true
		}
	}
	return found, ok
}

// confMount mounts a container's directory of configuration in one of ours.
func confMount(c *workload.Container, m workload.Mount, readOnly bool) VolumeMount {
	m.Path = path.Join(DirConf, c.Name)
	return like(m, readOnly)
}

// redirection is where a script writes a file.
var redirection = regexp.MustCompile(`>\s*["']?([^\s"'|;&<>]+)`)

// writes tells whether the container's own commands write the file.
func writes(c *workload.Container, file string) bool {
	for _, argv := range [...][]string{c.Command, c.Args} {
		for _, arg := range argv {
			for _, match := range redirection.FindAllStringSubmatch(arg, -1) {
				if path.Base(match[1]) == file {
					return true
				}
			}
		}
	}
	return false
}

// warnAddress tells that a container which writes its own configuration is not told its
// address by us.
func (b *builder) warnAddress(c *workload.Container) {
	if !b.exposes() {
		return
	}
	for i := range c.Env {
		if v := &c.Env[i]; v.Name == "PUBLIC_IP" && v.Value != "" {
			b.warn(fmt.Sprintf("container %s takes its public address from variable PUBLIC_IP, not from its Service (annotation %s); give that valueFrom: {fieldRef: {fieldPath: \"%s\"}}: it is there before the container starts",
				c.Name, api.AnnotationExpose, publicAddress.Items[0].FieldRef.FieldPath))
		}
	}
}
