package workload

import "strings"

// serverTypes are the values of SERVER_TYPE that Anna's start script knows
// (hydro-project/anna dockerfiles/start-anna.sh).
var serverTypes = map[string]Role{
	"memory": RoleMemory, "ebs": RoleDisk, "r": RoleRouting, "mn": RoleMonitoring, "b": RoleBenchmark,
}

// annaPrograms are the binaries that those roles run; anna-kvs runs two of them.
var annaPrograms = []struct {
	name string
	role Role
}{{"anna-kvs", ""}, {"anna-route", RoleRouting}, {"anna-monitor", RoleMonitoring}, {"anna-bench", RoleBenchmark}}

var cloudburstPrograms = []struct {
	name string
	role Role
}{{"start-cloudburst.sh", ""}, {"executor/server.py", RoleExecutor}, {"scheduler/server.py", RoleScheduler}}

// annaCandidate weighs what a container has of a process of the Anna KVS.
func annaCandidate(pod *Pod, index int) (candidate, Role) {
	c := &pod.Spec.Containers[index]
	found := candidate{index: index}
	image := parseImage(c.Image)
	cache := hasWord(image.base, "cache")
	switch {
	case cache || helperImage(image) && !hasWord(image.base, "monitor"):
		return found, ""
	case image.base == "anna" || image.base == "annakvs":
		found.add(4, true, "image "+image.base)
	case hasWord(image.base, "anna"):
		found.add(2, false, "image "+image.base)
	}
	role := RoleMemory
	if value, ok := c.Variable("SERVER_TYPE"); ok {
		if typed, known := serverTypes[value]; known {
			found.add(3, found.score > 0, "SERVER_TYPE="+value)
			role = typed
		}
	}
	for _, program := range annaPrograms {
		if containsProgram(c, program.name) {
			found.add(4, true, "runs "+program.name)
			if program.role != "" {
				role = program.role
			}
		}
	}
	if containsProgram(c, "start-anna.sh") {
		found.add(4, true, "runs start-anna.sh")
	}
	if declaresEnv(c, "SEED_IP", "ROUTING_IPS", "MON_IPS", "ANNA_CONF_BASE") {
		found.add(2, found.score > 0, "environment of Anna")
	}
	if c.declares(6200, 6450, 6600) {
		found.add(1, true, "port of Anna")
	}
	return found, role
}

// cloudburstCandidate weighs what a container has of a process of Cloudburst.
func cloudburstCandidate(pod *Pod, index int) (candidate, Role) {
	c := &pod.Spec.Containers[index]
	found := candidate{index: index}
	image := parseImage(c.Image)
	switch {
	case image.base == "cloudburst" || image.base == "cloudburst-gpu":
		found.add(4, true, "image "+image.base)
	case hasWord(image.base, "cloudburst") && !helperImage(image):
		found.add(2, false, "image "+image.base)
	}
	role := RoleExecutor
	value, _ := c.Variable("ROLE")
	switch value {
	case "executor", "scheduler", "benchmark":
		found.add(2, found.score > 0, "ROLE="+value)
		role = Role(value)
	}
	for _, program := range cloudburstPrograms {
		if containsProgram(c, program.name) {
			found.add(3, found.score > 0, "runs "+program.name)
			if program.role != "" {
				role = program.role
			}
		}
	}
	if declaresEnv(c, "SCHED_IPS", "ROUTE_ADDR", "THREAD_ID", "FUNCTION_ADDR") {
		found.add(2, found.score > 0, "environment of Cloudburst")
	}
	return found, role
}

func declaresEnv(c *Container, names ...string) bool {
	for i := range c.Env {
		for _, name := range names {
			if c.Env[i].Name == name {
				return true
			}
		}
	}
	return false
}

// containsProgram tells whether the container's command, arguments or script
// name the program as a word of its own.
func containsProgram(c *Container, name string) bool {
	for _, argv := range [][]string{c.Command, c.Args} {
		for _, arg := range argv {
			for rest := arg; ; {
				at := strings.Index(rest, name)
				if at < 0 {
					break
				}
				before, after := at == 0 || !wordByte(rest[at-1]), at+len(name) == len(rest) || !wordByte(rest[at+len(name)])
				if before && after {
					return true
				}
				rest = rest[at+len(name):]
			}
		}
	}
	return false
}

func wordByte(b byte) bool {
	return b == '-' || b == '_' || b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= '0' && b <= '9'
}

// describeAnna fills in what the patches need of an Anna process.
func describeAnna(pod *Pod, index int, role Role, hints Hints) Workload {
	c := &pod.Spec.Containers[index]
	w := Workload{Kind: KindAnna, Role: role, Container: c.Name, Index: index, Before: -1,
		HostNetwork: pod.Spec.HostNetwork, Cluster: pod.Metadata.Labels["app.kubernetes.io/part-of"]}
	w.UID, w.GID, w.StartsRoot = annaUser(pod, c)
	for _, mount := range c.Mounts {
		mount.Path = clean(mount.Path)
		wanted := mount.Volume == hints.DataVolume
		habit := hints.DataVolume == "" && role == RoleDisk && covers("/ebs", mount.Path)
		if !(wanted || habit) || Own(mount.Volume) || !holds(pod, mount) {
			continue
		}
		w.Extra = append(w.Extra, mount)
	}
	switch {
	case len(w.Extra) == 1 || len(w.Extra) > 1 && hints.DataVolume != "":
		w.Data, w.DataDir, w.Extra = w.Extra[0], w.Extra[0].Path, w.Extra[1:]
	case len(w.Extra) > 1: // upstream's DaemonSet has one disk a thread, none of them the data volume
		w.DataDir = "/ebs"
	}
	return w
}

// describeCloudburst fills in what the patches need of a Cloudburst pod. An
// executor pod has several equal containers, of which none is the database's.
func describeCloudburst(pod *Pod, found []candidate, role Role) Workload {
	w := Workload{Kind: KindCloudburst, Role: role, Index: -1, Before: -1, HostNetwork: pod.Spec.HostNetwork,
		Cluster: pod.Metadata.Labels["app.kubernetes.io/part-of"]}
	c := &pod.Spec.Containers[found[0].index]
	if len(found) == 1 {
		w.Container, w.Index = c.Name, found[0].index
	}
	w.UID, w.GID, w.StartsRoot = annaUser(pod, c)
	return w
}

// annaUser is the user of the container; Anna's and Cloudburst's images run as
// root, so without a user in the pod ours take one of their own.
func annaUser(pod *Pod, c *Container) (uid, gid int64, root bool) {
	user := c.Security.RunAsUser
	if user == nil {
		user = pod.Spec.Security.RunAsUser
	}
	if user == nil || *user == 0 {
		return NonRootUID, NonRootUID, true
	}
	return *user, *user, false
}

// NonRootUID is who our own image runs as where no user is to be followed.
const NonRootUID = 65532

// IsAnnaCache tells whether the container is Anna's cache, which stands beside
// Cloudburst's executors and is the one that reads anna-config.yml.
func IsAnnaCache(c *Container) bool {
	base := parseImage(c.Image).base
	return hasWord(base, "anna") && hasWord(base, "cache") || containsProgram(c, "anna-cache")
}

// IsCloudburst tells whether the container runs a process of Cloudburst.
func IsCloudburst(c *Container) bool {
	base := parseImage(c.Image).base
	if base == "cloudburst" || base == "cloudburst-gpu" {
		return true
	}
	for _, program := range cloudburstPrograms {
		if containsProgram(c, program.name) {
			return true
		}
	}
	return false
}

// StartsByScript tells whether the container starts Anna, its cache or Cloudburst by
// upstream's script, which goes to the program's own directory first: so it does where
// the container says nothing of what it runs.
func StartsByScript(c *Container) bool {
	return len(c.Command) == 0 && len(c.Args) == 0 || containsProgram(c, "start-anna.sh") || containsProgram(c, "start-cache.sh") ||
		containsProgram(c, "start-cloudburst.sh")
}
