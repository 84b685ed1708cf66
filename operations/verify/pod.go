package verify

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/adopted"
	"github.com/stategraft/stategraft/operations/lookup"
	"github.com/stategraft/stategraft/patches"
	"github.com/stategraft/stategraft/workload"
)

// Names of what the pod has beside what injected ones have.
const (
	containerVerify = workload.OwnPrefix + "verify"
	volumeTmp       = workload.OwnPrefix + "verify-tmp"
	contentsFile    = patches.DirShared + "/contents.json" // the restore writes it, and verify reads it
)

// Variables that the agent's containers read (cmd/stategraft-agent).
const (
	envDataMount = "STATEGRAFT_DATA_MOUNT"
	envDataDir   = "STATEGRAFT_DATA_DIRECTORY"
	envCommitlog = "STATEGRAFT_COMMITLOG_DIRECTORY"
	envCaches    = "STATEGRAFT_SAVED_CACHES_DIRECTORY"
	envContents  = "STATEGRAFT_CONTENTS_FILE"
	envNode      = "STATEGRAFT_VERIFY_NODE"
	envHeap      = "STATEGRAFT_VERIFY_HEAP"
)

// annotationNote says, on the pod, why its restore may not get at the storage.
const annotationNote = "verify.stategraft.io/note"

// userWhereRoot is who the pod runs as where the database is root's.
const userWhereRoot = 999

// errNotLike says that no such pod can be made after the one that was given.
var errNotLike = errors.New("no pod can be made after it")

// job is what a pod is for.
type job struct {
	backup *api.Backup
	spec   *api.BackupVerify
	node   string
	bytes  int64         // of the node's part; 0 where it is not known
	limit  time.Duration // how long the pod may live
}

// build makes the pod: the two init containers of a restore, after the sidecars of
// another pod, which know where the storage is and where a database has its data, and
// one with the database's image. Nothing is mounted but their configuration; the
// database's volumes are empty ones. The sidecars of one that was adopted are as if they had
// been injected.
func build(like *corev1.Pod, database *corev1.Container, j job) (*corev1.Pod, error) {
	like = adopted.View(like)
	agent, medusa := container(like, patches.ContainerAgent), container(like, patches.ContainerMedusa)
	switch {
	case agent == nil || medusa == nil:
		return nil, fmt.Errorf("%w: pod %s has no sidecars", errNotLike, like.Name)
	case agent.Image == database.Image || medusa.Image == database.Image:
		return nil, fmt.Errorf("%w: the sidecars of pod %s are made harmless", errNotLike, like.Name)
	case valueOf(medusa.Env, envDataMount) == "":
		return nil, fmt.Errorf("%w: the sidecars of pod %s know no data volume", errNotLike, like.Name)
	}
	mount := valueOf(medusa.Env, envDataMount)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: j.backup.Namespace, Name: podName(j.backup),
		Labels: map[string]string{
			api.LabelInject: api.InjectDisabled, api.LabelVerify: string(j.backup.UID),
			"app.kubernetes.io/managed-by": "stategraft", "app.kubernetes.io/component": "verify",
			"sidecar.istio.io/inject": "false", // others' sidecars would keep it from ending
		},
		Annotations:     map[string]string{"linkerd.io/inject": "disabled", api.LabelVerify: j.node},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: api.GroupVersion.String(), Kind: "Backup", Name: j.backup.Name, UID: j.backup.UID, Controller: new(true)}},
	}}
	if why := lookup.Identity(like); why != "" {
		pod.Annotations[annotationNote] = why
	}
	resources := resourcesOf(j.spec)
	volumes := volumesOf(like)
	setup := ours(patches.ContainerSetup, agent, agent, []string{patches.AgentInImage, "setup"})
	setup.Env = without(agent.Env, patches.EnvTidyAfter, patches.EnvNodePort)
	setup.VolumeMounts = mounts(agent, volumes)
	setup.Resources = resources // it runs before the others, and so takes nothing more
	restore := ours(patches.ContainerRestore, medusa, medusa, []string{patches.AgentShared, "medusa", "restore"})
	restore.Env = append(without(medusa.Env, "MEDUSA_MODE", "STATEGRAFT_GRPC_PORT", "STATEGRAFT_CQL_PORT", "STATEGRAFT_DATABASE_FIRST",
		patches.EnvNodePort, patches.EnvTidyAfter, "MEDUSA_CQL_K8S_SECRETS_PATH", envContents), set(
		patches.EnvBackup, j.backup.Status.Name, patches.EnvRestoreSource, j.node, patches.EnvRestorePrefix, prefixOf(j.backup),
		envCommitlog, valueOf(agent.Env, envCommitlog), envCaches, valueOf(agent.Env, envCaches), "MEDUSA_TMP_DIR", mount, envContents, contentsFile)...)
	restore.VolumeMounts = mounts(medusa, volumes)
	restore.Resources = resources
	check := ours(containerVerify, database, medusa, []string{patches.AgentShared, "verify"})
	check.Env = append(keep(database.Env, "CASSANDRA_HOME", "JAVA_HOME"), set(
		"HOME", "/tmp", envNode, j.node, envDataMount, mount, envDataDir, valueOf(medusa.Env, envDataDir), envContents, contentsFile,
		envHeap, strconv.FormatInt(heap(resources), 10))...)
	check.VolumeMounts = append([]corev1.VolumeMount{{Name: patches.VolumeShared, MountPath: patches.DirShared, ReadOnly: true}, {Name: volumeTmp, MountPath: "/tmp"}},
		databaseMounts(medusa, volumes)...)
	check.Resources = resources
	if err := scratch(volumes, dataVolume(medusa, mount), j, &check); err != nil {
		return nil, fmt.Errorf("%w: pod %s: %w", errNotLike, like.Name, err)
	}
	pod.Spec = specOf(&like.Spec, j.limit)
	pod.Spec.InitContainers, pod.Spec.Containers = []corev1.Container{setup, restore}, []corev1.Container{check}
	pod.Spec.SecurityContext = &corev1.PodSecurityContext{RunAsNonRoot: new(true), FSGroup: check.SecurityContext.RunAsGroup,
		SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}}
	for _, v := range append(volumes, corev1.Volume{Name: volumeTmp, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}) {
		if mounted(pod, v.Name) {
			pod.Spec.Volumes = append(pod.Spec.Volumes, v)
		}
	}
	return pod.DeepCopy(), nil // it shares nothing with its like
}

// specOf is where and how long the pod may run: on any node that its like may, away
// from databases where there is a choice.
func specOf(like *corev1.PodSpec, limit time.Duration) corev1.PodSpec {
	s := corev1.PodSpec{
		// A restore that meets an outage of the storage is tried again by kubelet.
		RestartPolicy: corev1.RestartPolicyOnFailure, ActiveDeadlineSeconds: new(max(1, int64(limit/time.Second))), TerminationGracePeriodSeconds: new(int64(5)),
		// Another account has rights that ours must not lend (controller-creates).
		ServiceAccountName: "default", AutomountServiceAccountToken: new(false), EnableServiceLinks: new(false),
		NodeSelector: like.NodeSelector, Tolerations: like.Tolerations, ImagePullSecrets: like.ImagePullSecrets,
		HostAliases: like.HostAliases, DNSConfig: like.DNSConfig, RuntimeClassName: like.RuntimeClassName,
		Affinity: &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{{
			Weight: 100, PodAffinityTerm: corev1.PodAffinityTerm{TopologyKey: corev1.LabelHostname,
				LabelSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: api.LabelInjected, Operator: metav1.LabelSelectorOpExists}}}},
		}}}},
	}
	if like.DNSPolicy == corev1.DNSNone {
		s.DNSPolicy = corev1.DNSNone // with DNSConfig
	}
	return s
}

// ours is a container with the image of one and the user of another, under the
// restricted Pod Security Standard.
func ours(name string, image, user *corev1.Container, command []string) corev1.Container {
	uid, gid, readOnly := int64(userWhereRoot), int64(userWhereRoot), true
	if had := user.SecurityContext; had != nil {
		if had.RunAsUser != nil && *had.RunAsUser > 0 {
			uid = *had.RunAsUser
		}
		if had.RunAsGroup != nil && *had.RunAsGroup > 0 {
			gid = *had.RunAsGroup
		}
		if had.ReadOnlyRootFilesystem != nil {
			readOnly = *had.ReadOnlyRootFilesystem
		}
	}
	pull := image.ImagePullPolicy
	if pull == corev1.PullNever || pull == "" {
		pull = corev1.PullIfNotPresent // another node need not have it
	}
	return corev1.Container{Name: name, Image: image.Image, ImagePullPolicy: pull, Command: command, TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
		SecurityContext: &corev1.SecurityContext{
			RunAsUser: &uid, RunAsGroup: &gid, RunAsNonRoot: new(true), AllowPrivilegeEscalation: new(false), ReadOnlyRootFilesystem: &readOnly,
			Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}, SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		}}
}

func container(pod *corev1.Pod, name string) *corev1.Container {
	i := slices.IndexFunc(pod.Spec.Containers, func(c corev1.Container) bool { return c.Name == name })
	if i < 0 {
		return nil
	}
	return &pod.Spec.Containers[i]
}

func mounted(pod *corev1.Pod, volume string) bool {
	return slices.ContainsFunc(slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers), func(c corev1.Container) bool {
		return slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return m.Name == volume })
	})
}

// prefixOf is the prefix as a restore takes it: "." for none, as nothing would be that
// of the pod's own medusa.ini.
func prefixOf(b *api.Backup) string {
	if b.Status.Prefix == "" {
		return "."
	}
	return b.Status.Prefix
}

// resourcesOf are those of the containers that work.
func resourcesOf(spec *api.BackupVerify) corev1.ResourceRequirements {
	out := corev1.ResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("512Mi")},
		Limits:   corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1"), corev1.ResourceMemory: resource.MustParse("2Gi")},
	}
	if spec.Resources == nil {
		return out
	}
	for name, q := range spec.Resources.Requests {
		out.Requests[name] = q
	}
	for name, q := range spec.Resources.Limits {
		out.Limits[name] = q
	}
	// What was left out gives way to what was said.
	for name, limit := range out.Limits {
		request, ok := out.Requests[name]
		if !ok || request.Cmp(limit) <= 0 {
			continue
		}
		if _, said := spec.Resources.Limits[name]; said {
			out.Requests[name] = limit
		} else {
			out.Limits[name] = request
		}
	}
	return out
}

// heap is that of the tool's Java in MiB: a quarter of what the container may have, as
// its files are read through memory of other kinds.
func heap(r corev1.ResourceRequirements) int64 {
	memory := r.Limits[corev1.ResourceMemory]
	return min(max(memory.Value()>>20/4, 128), 1024)
}

// set makes variables of names and values, of those that have one.
func set(pairs ...string) (env []corev1.EnvVar) {
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			env = append(env, corev1.EnvVar{Name: pairs[i], Value: strings.ReplaceAll(pairs[i+1], "$(", "$$(")})
		}
	}
	return env
}

func valueOf(env []corev1.EnvVar, name string) string {
	for _, v := range env {
		if v.Name == name {
			return v.Value
		}
	}
	return ""
}

// without are the variables but some, and but those that name a container.
func without(env []corev1.EnvVar, names ...string) (kept []corev1.EnvVar) {
	for _, v := range env {
		if !slices.Contains(names, v.Name) && (v.ValueFrom == nil || v.ValueFrom.ResourceFieldRef == nil) {
			kept = append(kept, v)
		}
	}
	return kept
}

// keep are some of the variables, those that are written out.
func keep(env []corev1.EnvVar, names ...string) (kept []corev1.EnvVar) {
	for _, v := range env {
		if slices.Contains(names, v.Name) && v.ValueFrom == nil && !strings.Contains(v.Value, "$(") {
			kept = append(kept, v)
		}
	}
	return kept
}
