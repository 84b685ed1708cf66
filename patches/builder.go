// Package patches builds what is added to a pod. Each concern has a file of its
// own and is a function from the recognised workload and the settings to JSON
// patch operations. It is pure: no client, no clock, no randomness; the same
// pod and settings give the same operations.
package patches

import (
	"slices"
	"strconv"
	"strings"

	"gomodules.xyz/jsonpatch/v2"

	"github.com/stategraft/stategraft/workload"
)

// Patch is what is to be added to a pod.
type Patch struct {
	// Operations are RFC 6902 operations on the pod as it was submitted. Each
	// is an add, at a place where nothing of the user's is.
	Operations []jsonpatch.Operation

	// What the operations add, for people and for the quota.
	Init       []*Container
	Containers []*Container
	Volumes    []Volume

	Warnings []string
}

// builder collects a Patch. Whatever the pod already has of ours, it leaves
// out: admitting an admitted pod gives no operation, and one that lost a part
// to a later webhook gets that part back.
type builder struct {
	Patch
	pod *workload.Pod
	w   workload.Workload
	s   Settings

	grpcPort     int32
	snapshotPort int32
	nodePort     int32
	lifePort     int32 // of Anna's and Cloudburst's
	responsePort int32 // of Anna's; and the next one
	portsFrom    int32 // where in its range the search for a free port begins
	guaranteed   bool
	hostNetwork  bool // after the patch
	token        bool // the pod's containers are given the service account's token
	conflict     *Conflict
	ordinary     *SecurityContext

	given      map[int][]VolumeMount // to the user's containers, by index
	render     string                // value of EnvRender
	confMounts []VolumeMount         // in the setup container: the directories that are rendered into
	confDir    VolumeMount           // in the agent: the database's effective configuration
}

func (b *builder) add(path string, value any) {
	b.Operations = append(b.Operations, jsonpatch.Operation{Operation: "add", Path: path, Value: value})
}

func (b *builder) warn(text string) { b.Warnings = append(b.Warnings, text) }

// pointer escapes a member's name for a JSON pointer (RFC 6901 section 3).
func pointer(name string) string {
	return strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
}

func has(list []workload.Container, name string) bool {
	for i := range list {
		if list[i].Name == name {
			return true
		}
	}
	return false
}

func (b *builder) container(c *Container) {
	if !has(b.pod.Spec.Containers, c.Name) && !has(b.pod.Spec.InitContainers, c.Name) {
		b.finish(c)
		b.Containers = append(b.Containers, c)
	}
}

func (b *builder) init(c *Container) {
	if !has(b.pod.Spec.InitContainers, c.Name) && !has(b.pod.Spec.Containers, c.Name) { // a name is free in both or in none
		b.finish(c)
		b.Init = append(b.Init, c)
	}
}

func (b *builder) volume(v Volume) {
	if b.pod.HasVolume(v.Name) || slices.ContainsFunc(b.Volumes, func(have Volume) bool { return have.Name == v.Name }) {
		return
	}
	b.Volumes = append(b.Volumes, v)
}

// finish sets what all injected containers have in common.
func (b *builder) finish(c *Container) {
	if c.ImagePullPolicy == "" {
		c.ImagePullPolicy = "IfNotPresent" // always pulling would hang on a registry that is down
	}
	if c.SecurityContext == nil {
		c.SecurityContext = b.ordinary
	}
	if b.hostNetwork {
		for i := range c.Ports {
			c.Ports[i].HostPort = c.Ports[i].ContainerPort
		}
	}
	if b.token {
		c.VolumeMounts = append(c.VolumeMounts, readOnly(VolumeNoToken, dirToken))
	}
	c.Resources = b.resources(c.Name, c.Resources)
	if b.w.Kind != workload.KindCassandra {
		memoryLimit(c)
	}
	b.expand(c)
	b.apart(c)
}

// give mounts a volume of ours in a container of the user's.
func (b *builder) give(index int, m VolumeMount) {
	if b.given == nil {
		b.given = map[int][]VolumeMount{}
	}
	b.given[index] = append(b.given[index], m)
}

// list emits the operations that put values into the array at path: at its end
// where the array exists, as a new array where it does not.
func list[T any](b *builder, path string, exists bool, values []T) {
	if len(values) == 0 {
		return
	}
	if !exists {
		b.add(path, values)
		return
	}
	end := path + "/-"
	for i := range values {
		b.add(end, &values[i])
	}
}

// emit turns the collected volumes and containers into operations, volumes
// first as the containers refer to them.
func (b *builder) emit() {
	list(b, "/spec/volumes", b.pod.Spec.Volumes != nil, b.Volumes)
	if at := b.w.Before; at >= 0 && at < len(b.pod.Spec.InitContainers) {
		for i, c := range b.Init {
			b.add("/spec/initContainers/"+strconv.Itoa(at+i), c)
		}
	} else {
		list(b, "/spec/initContainers", b.pod.Spec.InitContainers != nil, b.Init)
	}
	list(b, "/spec/containers", b.pod.Spec.Containers != nil, b.Containers)
}
