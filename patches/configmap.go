package patches

import (
	"fmt"
	"path"

	"github.com/stategraft/stategraft/workload"
)

// dirAnna is where Anna's containers look for anna-config.yml when they do not
// say so in ANNA_CONF_BASE. It is not the file that the start script appends to.
const dirAnna = "/etc/anna"

// configMap mounts the user's ConfigMap into the database's container.
func (b *builder) configMap() {
	if b.s.ConfigMap == "" {
		return
	}
	b.volume(configMapVolume(VolumeConfig, b.s.ConfigMap))
	for i := range b.pod.Spec.Containers {
		c := &b.pod.Spec.Containers[i]
		if !b.takesConfig(i) || mounted(c) {
			continue
		}
		at := DirConfig
		if b.w.Kind != workload.KindCassandra {
			at = dirAnna
			if file, ok := c.Variable("ANNA_CONF_BASE"); ok && path.IsAbs(file) && path.Dir(path.Clean(file)) != "/" {
				at = path.Dir(path.Clean(file))
			}
		}
		if other, ok := mountAt(c, at); ok {
			b.warn(fmt.Sprintf("container %s has volume %s on %s already: ConfigMap %s is not mounted there", c.Name, other, at, b.s.ConfigMap))
			continue
		}
		base := fmt.Sprintf("/spec/containers/%d/volumeMounts", i)
		if c.Mounts == nil {
			b.add(base, []VolumeMount{readOnly(VolumeConfig, at)})
		} else {
			b.add(base+"/-", readOnly(VolumeConfig, at))
		}
	}
}

// takesConfig tells whether the container reads the configuration: the
// database's own; in an executor pod the one that says so, which is the cache.
func (b *builder) takesConfig(index int) bool {
	if workload.Own(b.pod.Spec.Containers[index].Name) {
		return false
	}
	if b.w.Index >= 0 {
		return index == b.w.Index
	}
	_, ok := b.pod.Spec.Containers[index].Variable("ANNA_CONF_BASE")
	return ok || workload.IsAnnaCache(&b.pod.Spec.Containers[index])
}

func mounted(c *workload.Container) bool {
	for _, m := range c.Mounts {
		if m.Volume == VolumeConfig {
			return true
		}
	}
	return false
}

func mountAt(c *workload.Container, at string) (string, bool) {
	for _, m := range c.Mounts {
		if path.Clean(m.Path) == at {
			return m.Volume, true
		}
	}
	return "", false
}
