package workload

// MedusaUID is the only user that Medusa's own image runs as: its home is
// closed to others (k8s/Dockerfile; thelastpickle/cassandra-medusa#832). It is
// also the cassandra user of docker-library/cassandra and of k8ssandra's images.
const MedusaUID = 999

// bitnamiUID is the user that Bitnami's images are built for.
const bitnamiUID = 1001

// userOf tells who owns the database's files, and whether the database's
// container starts as root. A container's user wins over the pod's, and both
// over the image's; an image that starts as root drops to 999 by itself.
func userOf(pod *Pod, c *Container) (uid, gid int64, root bool) {
	user := c.Security.RunAsUser
	if user == nil {
		user = pod.Spec.Security.RunAsUser
	}
	group := c.Security.RunAsGroup
	if group == nil {
		group = pod.Spec.Security.RunAsGroup
	}
	nonRoot := c.Security.RunAsNonRoot
	if nonRoot == nil {
		nonRoot = pod.Spec.Security.RunAsNonRoot
	}
	switch {
	case user != nil && *user != 0:
		uid = *user
	case user == nil && isBitnami(c, parseImage(c.Image)):
		uid = bitnamiUID
	default:
		uid, root = MedusaUID, nonRoot == nil || !*nonRoot
	}
	gid = uid
	if group != nil && *group != 0 {
		gid = *group
	} else if group != nil && user != nil && *user != 0 {
		gid = 0 // as OpenShift runs images: any user, group 0
	}
	return uid, gid, root
}
