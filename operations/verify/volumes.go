package verify

import (
	"errors"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/patches"
	"github.com/stategraft/stategraft/workload"
)

// room is what a restore needs beside the data, and what is asked for where nobody
// knows how many there are.
const (
	roomBeside  = 256 << 20
	roomUnknown = 10 << 30
	// countsFrom is the size from which a Kubernetes node has to have that room: to ask for
	// less keeps the pod from nodes for nothing.
	countsFrom = 1 << 30
)

// volumesOf are a pod's volumes with empty ones for all that is on disks or nodes. Those
// with a token are left out: the account is not the pod's here.
func volumesOf(like *corev1.Pod) (volumes []corev1.Volume) {
	for i := range like.Spec.Volumes {
		v := like.Spec.Volumes[i].DeepCopy()
		switch {
		case v.EmptyDir != nil:
			// Memory would be the container's, and a limit of the database's is not of a restore.
			v.EmptyDir = &corev1.EmptyDirVolumeSource{}
		case v.DownwardAPI != nil && !slices.ContainsFunc(v.DownwardAPI.Items, func(f corev1.DownwardAPIVolumeFile) bool { return f.ResourceFieldRef != nil }):
		case v.ConfigMap != nil:
			v.ConfigMap.Optional = new(true)
		case v.Secret != nil:
			v.Secret.Optional = new(true)
		case v.Projected != nil && plain(v.Projected):
			for j := range v.Projected.Sources {
				if s := &v.Projected.Sources[j]; s.ConfigMap != nil {
					s.ConfigMap.Optional = new(true)
				} else if s.Secret != nil {
					s.Secret.Optional = new(true)
				}
			}
		case v.Projected != nil:
			continue
		default:
			v.VolumeSource = corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}
		}
		volumes = append(volumes, *v)
	}
	return volumes
}

// plain tells whether a projected volume is of ConfigMaps, Secrets and the pod's own
// fields alone.
func plain(p *corev1.ProjectedVolumeSource) bool {
	return !slices.ContainsFunc(p.Sources, func(s corev1.VolumeProjection) bool {
		return s.ConfigMap == nil && s.Secret == nil &&
			(s.DownwardAPI == nil || slices.ContainsFunc(s.DownwardAPI.Items, func(f corev1.DownwardAPIVolumeFile) bool { return f.ResourceFieldRef != nil }))
	})
}

func empty(volumes []corev1.Volume, name string) bool {
	return slices.ContainsFunc(volumes, func(v corev1.Volume) bool { return v.Name == name && v.EmptyDir != nil })
}

// mounts are those of a sidecar, of the volumes that there are. The database's can be
// written.
func mounts(c *corev1.Container, volumes []corev1.Volume) (kept []corev1.VolumeMount) {
	for _, m := range c.VolumeMounts {
		there := slices.ContainsFunc(volumes, func(v corev1.Volume) bool { return v.Name == m.Name })
		ofDatabase := !workload.Own(m.Name) && empty(volumes, m.Name)
		switch {
		case !there, m.Name == patches.VolumeNoToken, m.Name == patches.VolumeGRPCTLS, m.Name == patches.VolumeCQL, m.Name == patches.VolumeJMX:
			continue
		case ofDatabase:
			m = emptied(m)
		}
		kept = append(kept, *m.DeepCopy())
	}
	return kept
}

// emptied is the mount of a volume that is empty now. A path that is made of variables
// is replaced by one of where it is mounted, the same in every container.
func emptied(m corev1.VolumeMount) corev1.VolumeMount {
	out := corev1.VolumeMount{Name: m.Name, MountPath: m.MountPath, SubPath: m.SubPath}
	if m.SubPathExpr != "" {
		out.SubPath = slug(m.MountPath)
	}
	return out
}

func slug(path string) string {
	text := []byte(path)
	for i, c := range text {
		if c == '/' || c == '.' {
			text[i] = '_'
		}
	}
	return string(text)
}

// databaseMounts are those of the database's own volumes.
func databaseMounts(medusa *corev1.Container, volumes []corev1.Volume) (kept []corev1.VolumeMount) {
	for _, m := range medusa.VolumeMounts {
		if !workload.Own(m.Name) && empty(volumes, m.Name) {
			kept = append(kept, emptied(m))
		}
	}
	return kept
}

// dataVolume is the name of the volume with the data.
func dataVolume(medusa *corev1.Container, mount string) string {
	for _, m := range medusa.VolumeMounts {
		if m.MountPath == mount {
			return m.Name
		}
	}
	return ""
}

// needs is the room for a node's data: what the backup has, and a quarter.
func needs(bytes int64) resource.Quantity {
	if bytes <= 0 {
		return *resource.NewQuantity(roomUnknown, resource.BinarySI)
	}
	const mebi = 1 << 20
	return *resource.NewQuantity((bytes+bytes/4+roomBeside+mebi-1)/mebi*mebi, resource.BinarySI)
}

// scratch makes the data volume what the restore goes to: a claim that Kubernetes makes
// for the pod and deletes with it, or the disk of the Kubernetes node, of which it may
// take no more than it needs.
func scratch(volumes []corev1.Volume, name string, j job, c *corev1.Container) error {
	i := slices.IndexFunc(volumes, func(v corev1.Volume) bool { return v.Name == name && v.EmptyDir != nil })
	if name == "" || i < 0 {
		return errors.New("it has no data volume")
	}
	size := needs(j.bytes)
	if v := j.spec.Volume; v != nil {
		if v.Size != nil {
			size = *v.Size
		}
		volumes[i].VolumeSource = corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{
			ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{api.LabelVerify: string(j.backup.UID), "app.kubernetes.io/managed-by": "stategraft", "app.kubernetes.io/component": "verify"}},
			Spec: corev1.PersistentVolumeClaimSpec{AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, StorageClassName: v.StorageClassName,
				Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: size}}},
		}}}
		return nil
	}
	volumes[i].EmptyDir.SizeLimit = &size
	_, asked := c.Resources.Requests[corev1.ResourceEphemeralStorage]
	_, limited := c.Resources.Limits[corev1.ResourceEphemeralStorage]
	if j.bytes >= countsFrom && !asked && !limited {
		c.Resources.Requests = c.Resources.Requests.DeepCopy()
		c.Resources.Requests[corev1.ResourceEphemeralStorage] = size
	}
	return nil
}
