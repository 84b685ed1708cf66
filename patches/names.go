package patches

import (
	"fmt"
	"path"

	"github.com/stategraft/stategraft/workload"
)

// squatters finds what has a name of ours and is not ours: taken for ours, it
// would be left as it is, and the pod go without its backup.
func squatters(pod *workload.Pod) error {
	for _, list := range [...][]workload.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			switch list[i].Name {
			case ContainerAgent, ContainerSnapshot, ContainerMedusa, ContainerSetup, ContainerRestore:
				if !runsAgent(list[i].Command) {
					return &Conflict{workload.ReasonNameConflict, fmt.Sprintf("container %s is not Stategraft's; give it another name", list[i].Name)}
				}
			}
		}
	}
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		ours := true
		switch v.Name {
		case VolumeShared, VolumeMedusa, VolumeTmp, VolumeSnapshotTmp, VolumeNoToken, VolumeConf, VolumeRequests:
			ours = v.EmptyDir != nil
		case VolumeMedusaConfig, VolumeConfig:
			ours = v.ConfigMap != nil
		case VolumeStorage, VolumeCQL, VolumeJMX, VolumeGRPCTLS, VolumeDecryption:
			ours = v.Secret != nil
		case VolumePodinfo:
			ours = v.DownwardAPI != nil
		}
		if !ours {
			return &Conflict{workload.ReasonNameConflict, fmt.Sprintf("volume %s is not Stategraft's; give it another name", v.Name)}
		}
	}
	return nil
}

// mountsToken tells whether the API server gives the pod's containers a token.
func mountsToken(pod *workload.Pod) bool {
	for i := range pod.Spec.Containers {
		for _, m := range pod.Spec.Containers[i].Mounts {
			if m.Path == dirToken && !workload.Own(pod.Spec.Containers[i].Name) {
				return true
			}
		}
	}
	return false
}

// runsAgent tells whether a command is one of ours, whatever image it is in: a
// healed container has the database's.
func runsAgent(command []string) bool {
	for _, arg := range command {
		if path.Base(arg) == "stategraft-agent" {
			return true
		}
	}
	return false
}

// apart sees to it that no two mounts of a container have one path, which the
// API server refuses: a directory of the database's may be where ours go.
func (b *builder) apart(c *Container) {
	for i := range c.VolumeMounts {
		for j := range c.VolumeMounts[:i] {
			if c.VolumeMounts[i].MountPath == c.VolumeMounts[j].MountPath {
				b.conflict = &Conflict{workload.ReasonNameConflict, fmt.Sprintf("container %s has volume %s on %s, where %s has a volume of its own; mount it elsewhere",
					b.w.Container, c.VolumeMounts[i].Name, c.VolumeMounts[i].MountPath, c.Name)}
			}
		}
	}
}
