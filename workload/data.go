package workload

import (
	"path"
	"strings"
)

// layout is where a distribution of Cassandra keeps its files.
type layout struct {
	root      string // the directory that an image declares as its volume
	data      string // data_file_directories
	commitlog string
	caches    string
}

var (
	standardLayout = layout{"/var/lib/cassandra", "/var/lib/cassandra/data", "/var/lib/cassandra/commitlog", "/var/lib/cassandra/saved_caches"}
	bitnamiLayout  = layout{"/bitnami/cassandra", "/bitnami/cassandra/data/data", "/bitnami/cassandra/data/commitlog", "/bitnami/cassandra/data/saved_caches"}
	// The image of Kubernetes' own tutorial declares VOLUME /cassandra_data, and
	// its cassandra.yaml points there whatever the pod mounts elsewhere.
	samplesLayout = layout{"/cassandra_data", "/cassandra_data/data", "/cassandra_data/commitlog", "/cassandra_data/saved_caches"}
)

var (
	onlyStandard = []layout{standardLayout}
	onlyBitnami  = []layout{bitnamiLayout}
	onlySamples  = []layout{samplesLayout}
	anyLayout    = []layout{standardLayout, samplesLayout, bitnamiLayout}
)

// layoutsOf lists the layouts that the container may have, likeliest first: one
// where the image is known to have it, all where the image is somebody's own.
func layoutsOf(c *Container) []layout {
	image := parseImage(c.Image)
	switch {
	case isBitnami(c, image):
		return onlyBitnami
	case image.within("google-samples") || image.within("google_samples") || sampleSeeds(c):
		return onlySamples
	case image.official("cassandra"):
		return onlyStandard
	}
	return anyLayout
}

func sampleSeeds(c *Container) bool {
	value, _ := c.Variable("CASSANDRA_SEED_PROVIDER")
	return value == "io.k8s.cassandra.KubernetesSeedProvider"
}

func isBitnami(c *Container, image imageName) bool {
	if image.within("bitnami") {
		return true
	}
	for i := range c.Env {
		switch c.Env[i].Name {
		case "BITNAMI_DEBUG", "BITNAMI_APP_NAME", "CASSANDRA_PASSWORD_SEEDER":
			return true
		}
	}
	return false
}

// clean normalises a mount path: KUDO writes /var/lib/cassandra/.
func clean(p string) string {
	if len(p) == 0 || p[0] != '/' {
		p = "/" + p
	}
	return path.Clean(p)
}

func covers(mount, dir string) bool {
	return mount == dir || mount == "/" || len(dir) > len(mount) && dir[len(mount)] == '/' && strings.HasPrefix(dir, mount)
}

// covering finds the mount that holds dir: the longest that is dir or a parent.
func covering(c *Container, dir string) (Mount, bool) {
	var found Mount
	length := -1
	for _, mount := range c.Mounts {
		at := clean(mount.Path)
		if covers(at, dir) && len(at) > length {
			mount.Path = at
			found, length = mount, len(at)
		}
	}
	return found, length >= 0
}

// holds tells whether what is written under the mount stays on a volume.
func holds(pod *Pod, mount Mount) bool {
	volume, ok := pod.Volume(mount.Volume)
	return ok && !mount.ReadOnly && volume.Writable()
}

// knownDataMount finds a writable volume over a directory that some Cassandra
// keeps its data in.
func knownDataMount(pod *Pod, c *Container) (string, bool) {
	for _, l := range layoutsOf(c) {
		if mount, ok := covering(c, l.data); ok && mount.Path != "/" && holds(pod, mount) {
			return mount.Path, true
		}
	}
	return "", false
}

// fillData finds the volume that the data are on. wanted is the volume that the
// user names; without it, the mount that covers the distribution's directory
// counts, and nothing else: a claim that is mounted elsewhere is no evidence
// (kubernetes/examples mounts one that its image never writes to).
func fillData(w *Workload, pod *Pod, c *Container, wanted string) {
	candidates := layoutsOf(c)
	w.setLayout(candidates[0])
	if wanted != "" {
		for _, mount := range c.Mounts {
			if mount.Volume != wanted || !holds(pod, mount) {
				continue
			}
			mount.Path = clean(mount.Path)
			w.Data = mount
			w.DataDir, w.Commitlog, w.SavedCaches = "", "", ""
			for _, l := range candidates {
				if covers(mount.Path, l.data) {
					w.setLayout(l)
				}
			}
			w.Extra = extraMounts(pod, c, w)
			return
		}
		return
	}
	for _, l := range candidates {
		mount, ok := covering(c, l.data)
		if !ok || mount.Path == "/" || !holds(pod, mount) {
			continue
		}
		w.setLayout(l)
		w.Data = mount
		w.Extra = extraMounts(pod, c, w)
		return
	}
}

func (w *Workload) setLayout(l layout) {
	w.DataDir, w.Commitlog, w.SavedCaches = l.data, l.commitlog, l.caches
}

// extraMounts collects the other writable volumes that hold files of the
// database: a commit log, hints or caches of their own, or a part of the data
// directory on another disk.
func extraMounts(pod *Pod, c *Container, w *Workload) []Mount {
	var extra []Mount
	for _, mount := range c.Mounts {
		mount.Path = clean(mount.Path)
		if mount.Path == w.Data.Path || Own(mount.Volume) || !holds(pod, mount) {
			continue
		}
		inside := covers(w.Data.Path, mount.Path) || (w.DataDir != "" && covers(w.DataDir, mount.Path))
		if inside || hasWord(path.Base(mount.Path), "commitlog", "commitlogs", "hints", "saved_caches", "caches", "cdc", "cdc_raw") {
			extra = append(extra, mount)
			if hasWord(path.Base(mount.Path), "commitlog", "commitlogs") {
				w.Commitlog = mount.Path
			}
		}
	}
	return extra
}

// deviceUnder finds a raw block device where the data should be.
func deviceUnder(c *Container, l layout) (string, bool) {
	for _, device := range c.Devices {
		if covers(clean(device.Path), l.data) || covers(l.root, clean(device.Path)) {
			return device.Volume, true
		}
	}
	return "", false
}

// configDirs are where the distributions keep cassandra.yaml. A mount inside
// one of them is a file beside it, not the directory.
var configDirs = []string{
	"/etc/cassandra", "/opt/cassandra/conf", "/opt/bitnami/cassandra/conf",
	"/opt/dse/resources/cassandra/conf", "/opt/hcd/resources/cassandra/conf",
}

// configOf finds where cassandra.yaml can be shared with a sidecar. cass-operator
// writes it to the emptyDir server-config, mounted on /config, before the
// database starts; the copy on /etc/cassandra is only there afterwards.
func configOf(c *Container, pod *Pod) Mount {
	for _, mount := range c.Mounts {
		if mount.Volume == "server-config" && clean(mount.Path) == "/config" {
			mount.Path = "/config"
			return mount
		}
	}
	for _, dir := range configDirs {
		for _, mount := range c.Mounts {
			at := clean(mount.Path)
			if at != dir && (len(at) <= len(dir) || at[:len(dir)] != dir || at[len(dir):] != "/cassandra.yaml") {
				continue
			}
			if _, ok := pod.Volume(mount.Volume); ok {
				mount.Path = at
				return mount
			}
		}
	}
	return Mount{}
}
