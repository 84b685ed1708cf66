package patches

import (
	"fmt"
	"path"
	"strings"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/workload"
)

// dirAnna is where Anna's containers look for anna-config.yml when they do not
// say so in ANNA_CONF_BASE. It is not the file that the start script appends to.
const dirAnna = "/etc/anna"

// configMap mounts the user's ConfigMap into the database's container, beside what conf
// has for it: two operations cannot both make the list of a container that has none.
func (b *builder) configMap() {
	if b.s.ConfigMap != "" {
		b.volume(configMapVolume(VolumeConfig, b.s.ConfigMap))
	}
	for i := range b.pod.Spec.Containers {
		c := &b.pod.Spec.Containers[i]
		if b.takesConfig(i) && !mounted(c) {
			b.mountConfig(i, c)
		}
		list(b, fmt.Sprintf("/spec/containers/%d/volumeMounts", i), c.Mounts != nil, b.given[i])
	}
}

func (b *builder) mountConfig(index int, c *workload.Container) {
	at := b.configDir(c)
	other, there := mountAt(c, at)
	switch {
	case b.s.ConfigMap == "":
		if _, reads := c.Variable("ANNA_CONF_BASE"); reads && !there {
			b.warn(fmt.Sprintf("container %s reads its configuration from %s, where nothing is mounted; name its ConfigMap in annotation %s", c.Name, at, api.AnnotationConfigMap))
		}
	case there:
		b.warn(fmt.Sprintf("container %s has volume %s on %s already: ConfigMap %s is not mounted there", c.Name, other, at, b.s.ConfigMap))
	default:
		b.give(index, readOnly(VolumeConfig, at))
	}
}

// configDir is where the container expects its configuration.
func (b *builder) configDir(c *workload.Container) string {
	if b.w.Kind == workload.KindCassandra {
		return DirConfig
	}
	if file, ok := c.Variable("ANNA_CONF_BASE"); ok && path.IsAbs(file) {
		if dir := path.Dir(path.Clean(file)); dir != "/" {
			return dir
		}
	}
	return dirAnna
}

// takesConfig tells whether the container reads the configuration: the
// database's own; in an executor pod the one that says so, which is the cache.
func (b *builder) takesConfig(index int) bool {
	if workload.Own(b.pod.Spec.Containers[index].Name) {
		return false
	}
	if b.w.Index >= 0 && (b.w.Kind != workload.KindCloudburst || !workload.IsAnnaCache(&b.pod.Spec.Containers[index])) {
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

// mountAt finds a mount at the directory, or inside it: a read-only volume around
// that one would leave no place to mount it on.
func mountAt(c *workload.Container, at string) (string, bool) {
	for _, m := range c.Mounts {
		if p := path.Clean(m.Path); p == at || strings.HasPrefix(p, at+"/") {
			return m.Volume, true
		}
	}
	return "", false
}
