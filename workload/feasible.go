package workload

import (
	"fmt"
	"strings"

	api "github.com/stategraft/stategraft/api/v1alpha1"
)

// feasible checks that a backup of the recognised workload can work: that the
// data can be shared, found again and read.
func feasible(pod *Pod, w Workload, hints Hints) Decision {
	d := Decision{Verdict: Skip, Workload: w}
	if d.Reason, d.Message = obstacle(pod, w, hints); d.Reason != "" {
		return d
	}
	d.Verdict = Inject
	switch w.Kind {
	case KindCassandra:
		d.Message = fmt.Sprintf("Cassandra in container %s, data on volume %s at %s, snapshots by %s",
			w.Container, w.Data.Volume, w.Data.Path, w.Snapshot)
		d.Warnings = cassandraWarnings(pod, w)
	case KindAnna:
		d.Message = fmt.Sprintf("Anna (%s) in container %s", w.Role, w.Container)
		d.Warnings = annaWarnings(pod, w)
	case KindCloudburst:
		d.Message = fmt.Sprintf("Cloudburst (%s)", w.Role)
	}
	return d
}

// obstacle gives the first reason why a backup could not work.
func obstacle(pod *Pod, w Workload, hints Hints) (Reason, string) {
	if policy := pod.Spec.RestartPolicy; policy != "" && policy != "Always" {
		return ReasonRunsToCompletion, fmt.Sprintf("the pod's restartPolicy is %s: it ends, and a sidecar would keep it running", Short(policy))
	}
	if hints.DataVolume != "" && w.Data.Volume == "" && w.Kind != KindCloudburst {
		return ReasonBadAnnotation, fmt.Sprintf("annotation %s names %q, which is no writable volume that container %s mounts",
			api.AnnotationDataVolume, Short(hints.DataVolume), w.Container)
	}
	if w.Kind != KindCassandra {
		return "", ""
	}
	if w.Data.Volume == "" {
		return ReasonDataNotOnVolume, dataNotOnVolume(pod, w)
	}
	if owner, stable := stableIdentity(pod); !stable {
		return ReasonNoStableIdentity, fmt.Sprintf("%s: the pod's name is new each time, so its backup could not be found again; run it as a StatefulSet", owner)
	}
	if w.UID != MedusaUID && !hints.AnyUID {
		return ReasonUnsupportedUID, fmt.Sprintf("the database runs as user %d, and Medusa's image only as %d; set medusa.anyUIDImage in the configuration to one that runs as any user", w.UID, MedusaUID)
	}
	return "", ""
}

func annaWarnings(pod *Pod, w Workload) []string {
	var warnings []string
	if _, stable := stableIdentity(pod); !stable && w.HoldsData() {
		warnings = append(warnings, "the pod's name changes with every pod, so its backups do; name the node to restore in "+api.AnnotationRestoreSource)
	}
	if w.Role == RoleDisk && w.DataDir == "" {
		warnings = append(warnings, "the disk tier's directory /ebs is on no volume")
	}
	return warnings
}

func dataNotOnVolume(pod *Pod, w Workload) string {
	c := &pod.Spec.Containers[w.Index]
	l := layoutsOf(c)[0]
	if volume, ok := deviceUnder(c, l); ok {
		return fmt.Sprintf("volume %s is a raw block device, which a sidecar cannot share", volume)
	}
	seen := "nothing is mounted there"
	if mount, ok := covering(c, l.data); ok {
		switch _, there := pod.Volume(mount.Volume); {
		case mount.Path == "/":
			seen = fmt.Sprintf("volume %s is mounted on / as a whole", mount.Volume)
		case !there:
			seen = fmt.Sprintf("volume %s, mounted on %s, is not one of the pod's", mount.Volume, mount.Path)
		default:
			seen = fmt.Sprintf("volume %s, mounted on %s, cannot be written", mount.Volume, mount.Path)
		}
	}
	return fmt.Sprintf("container %s keeps its data in %s, and %s; mount a writable volume there, or name the volume in annotation %s",
		w.Container, w.DataDir, seen, api.AnnotationDataVolume)
}

// stableIdentity tells whether the pod comes back under its name. A backup is
// filed under it. The text says what owns the pod.
func stableIdentity(pod *Pod) (string, bool) {
	owner, owned := pod.Controller()
	if !owned {
		if pod.Metadata.Name == "" && pod.Metadata.GenerateName != "" {
			return "the pod has no owner and a generated name", false
		}
		return "the pod has no owner", true
	}
	text := "the pod belongs to " + owner.Kind + " " + owner.Name
	switch owner.Kind {
	case "StatefulSet", "PetSet":
		return text, true
	case "ReplicaSet", "ReplicationController", "DaemonSet", "Deployment":
		return text, false
	}
	// An operator of its own that makes pods itself: an ordinal or a claim of
	// its own is what a name that comes back looks like.
	if _, ok := pod.Metadata.Labels["statefulset.kubernetes.io/pod-name"]; ok {
		return text, true
	}
	return text, pod.Metadata.GenerateName == "" && pod.Metadata.Labels["pod-template-hash"] == ""
}

// cassandraWarnings names what works, but not as well as the user may think.
func cassandraWarnings(pod *Pod, w Workload) []string {
	var warnings []string
	if volume, ok := pod.Volume(w.Data.Volume); ok && volume.EmptyDir != nil {
		warnings = append(warnings, fmt.Sprintf("volume %s is an emptyDir: the data are lost with the pod, and a restore runs again in each new one", w.Data.Volume))
	}
	if pod.Spec.HostNetwork {
		warnings = append(warnings, "with hostNetwork the backup is filed under the node's address; on another node name the source in "+api.AnnotationRestoreSource)
	} else if owner, ok := pod.Controller(); ok && owner.Kind == "StatefulSet" && pod.Spec.Subdomain == "" {
		warnings = append(warnings, "the StatefulSet has no serviceName: Medusa finds its peers by the names that a headless Service gives them")
	}
	image := parseImage(pod.Spec.Containers[w.Index].Image)
	if image.within("google-samples") {
		warnings = append(warnings, fmt.Sprintf("the image's own user may not be %d: Medusa may be unable to read the data", MedusaUID))
	}
	if w.DataDir == w.Data.Path && !w.ownCommitlog() {
		warnings = append(warnings, fmt.Sprintf("only %s is on a volume: the commit log is not", w.Data.Path))
	}
	return warnings
}

// ownCommitlog tells whether the commit log is on a volume of its own.
func (w *Workload) ownCommitlog() bool {
	for _, extra := range w.Extra {
		if extra.Path == w.Commitlog {
			return true
		}
	}
	return false
}

// otherBackup finds a container that already backs the database up: Medusa,
// put there by an operator or by hand.
func otherBackup(pod *Pod, w Workload) (string, bool) {
	for _, list := range [][]Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			c := &list[i]
			if Own(c.Name) || c.Name == w.Container {
				continue
			}
			if isMedusa(c) {
				return c.Name, true
			}
		}
	}
	return "", false
}

func isMedusa(c *Container) bool {
	if hasWord(parseImage(c.Image).base, "medusa") || c.Name == "medusa" {
		return true
	}
	if first, rest, ok := strings.Cut(c.Name, "-"); ok && first == "medusa" {
		switch rest {
		case "backup", "restore", "init", "sidecar", "grpc", "server", "purge":
			return true
		}
	}
	for i := range c.Env {
		if strings.HasPrefix(c.Env[i].Name, "MEDUSA_") {
			return true
		}
	}
	for _, mount := range c.Mounts {
		if clean(mount.Path) == "/etc/medusa" {
			return true
		}
	}
	return false
}
