package patches

import (
	"fmt"
	"path"

	"github.com/stategraft/stategraft/workload"
)

// dirRequests is where executors and their cache have the sockets by which they talk
// (ipc:///requests/…, hydro-project/anna-cache, cloudburst/shared/anna_ipc_client.py).
const dirRequests = "/requests"

// requests gives the executors and the cache of a pod a directory that they share, where
// none of them has one: without it the cache is never found. Upstream takes the node's
// /tmp, which one pod does not need.
func (b *builder) requests() {
	if b.w.Role != workload.RoleExecutor {
		return
	}
	var without []int
	cache, other := false, ""
	for i := range b.pod.Spec.Containers {
		c := &b.pod.Spec.Containers[i]
		p, ok := b.programOf(i)
		if !ok {
			continue
		}
		cache = cache || p == programCache
		volume, there := requestsOf(c)
		switch {
		case !there:
			without = append(without, i)
		case volume != VolumeRequests:
			other = volume
		}
	}
	if !cache || len(without) == 0 {
		return
	}
	if other != "" {
		for _, i := range without {
			b.warn(fmt.Sprintf("container %s has nothing on %s, where others of the pod have volume %s: executors and their cache talk by sockets there; mount it", b.pod.Spec.Containers[i].Name, dirRequests, other))
		}
		return
	}
	b.volume(emptyVolume(VolumeRequests))
	for _, i := range without {
		b.give(i, mount(VolumeRequests, dirRequests))
	}
}

func requestsOf(c *workload.Container) (volume string, there bool) {
	for _, m := range c.Mounts {
		if path.Clean(m.Path) == dirRequests {
			return m.Volume, true
		}
	}
	return "", false
}
