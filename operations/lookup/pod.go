package lookup

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/operations/adopted"
	"github.com/stategraft/stategraft/operations/kvs"
	"github.com/stategraft/stategraft/patches"
)

// limit is how long the pod lives, in seconds: it is removed when it has served, and
// ends by itself where nobody does.
const limit = 600

// userOfMedusa is who Medusa's image runs as, where the database's containers are
// root's.
const userOfMedusa = 999

// build makes a pod with the two sidecars of another: they know where the storage
// is and how to get there. Their volumes come along, but for what is the node's or
// the database's own, which stays empty. It has no place in particular, apart from
// what its like says of nodes that may be used, so that it runs where the database
// does not. One that was adopted has them as if they had been injected.
func build(like *corev1.Pod, owner *api.Restore) (*corev1.Pod, error) {
	like = adopted.View(like)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: owner.Namespace, Name: Name(owner),
		Labels: map[string]string{
			api.LabelInject: api.InjectDisabled, LabelLookup: Name(owner)[len(NamePrefix):],
			"app.kubernetes.io/managed-by": "stategraft", "app.kubernetes.io/component": "lookup",
			"sidecar.istio.io/inject": "false", // others' sidecars would keep it from being created by us
		},
		Annotations:     map[string]string{"linkerd.io/inject": "disabled"},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: api.GroupVersion.String(), Kind: "Restore", Name: owner.Name, UID: owner.UID, Controller: new(true)}},
	}}
	volumes, tokens := volumesOf(like)
	mounted := map[string]bool{}
	for _, name := range sidecars(like) {
		sidecar := find(like, name)
		if sidecar == nil {
			return nil, fmt.Errorf("%w: pod %s/%s has no container %s", ErrNotLike, like.Namespace, like.Name, name)
		}
		c := container(sidecar)
		c.VolumeMounts = slices.DeleteFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return tokens[m.Name] })
		for _, m := range c.VolumeMounts {
			mounted[m.Name] = true
		}
		pod.Spec.Containers = append(pod.Spec.Containers, c)
	}
	for _, v := range volumes {
		if mounted[v.Name] {
			pod.Spec.Volumes = append(pod.Spec.Volumes, v)
		}
	}
	s := &like.Spec
	pod.Spec.RestartPolicy = corev1.RestartPolicyNever
	pod.Spec.ActiveDeadlineSeconds = new(int64(limit))
	pod.Spec.TerminationGracePeriodSeconds = new(int64(5))
	// Another account has rights that ours must not lend (controller-creates).
	pod.Spec.ServiceAccountName = "default"
	pod.Spec.AutomountServiceAccountToken, pod.Spec.EnableServiceLinks = new(false), new(false)
	pod.Spec.NodeSelector, pod.Spec.Tolerations, pod.Spec.ImagePullSecrets = s.NodeSelector, s.Tolerations, s.ImagePullSecrets
	pod.Spec.HostAliases, pod.Spec.DNSConfig, pod.Spec.RuntimeClassName = s.HostAliases, s.DNSConfig, s.RuntimeClassName
	if s.DNSPolicy == corev1.DNSNone {
		pod.Spec.DNSPolicy = corev1.DNSNone // with DNSConfig
	}
	pod.Spec.SecurityContext = &corev1.PodSecurityContext{
		RunAsNonRoot: new(true), FSGroup: pod.Spec.Containers[len(pod.Spec.Containers)-1].SecurityContext.RunAsGroup,
		SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
	}
	return pod.DeepCopy(), nil // it shares nothing with its like
}

// sidecars are what it takes to look: of Anna the agent alone.
func sidecars(like *corev1.Pod) []string {
	if kvs.Of(like) {
		return []string{patches.ContainerAgent}
	}
	return []string{patches.ContainerAgent, patches.ContainerMedusa}
}

// find finds a sidecar, which of Anna may be a native one.
func find(like *corev1.Pod, name string) *corev1.Container {
	if kvs.Of(like) {
		return kvs.Agent(like)
	}
	if i := slices.IndexFunc(like.Spec.Containers, func(c corev1.Container) bool { return c.Name == name }); i >= 0 {
		return &like.Spec.Containers[i]
	}
	return nil
}

// container is a sidecar as it is, with nothing of the node's, nothing to be waited
// for and nothing to be tidied up, under the restricted Pod Security Standard.
func container(like *corev1.Container) corev1.Container {
	c := corev1.Container{Name: like.Name, Image: like.Image, ImagePullPolicy: like.ImagePullPolicy, Command: like.Command, Args: like.Args,
		WorkingDir: like.WorkingDir, Resources: like.Resources, VolumeMounts: slices.Clone(like.VolumeMounts), TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError}
	for _, p := range like.Ports {
		p.HostPort, p.HostIP = 0, ""
		c.Ports = append(c.Ports, p)
	}
	for _, v := range like.Env {
		if v.Name != patches.EnvTidyAfter && v.Name != envDatabaseFirst {
			c.Env = append(c.Env, v)
		}
	}
	if c.Name == patches.ContainerMedusa {
		c.Env = append(c.Env, corev1.EnvVar{Name: envDatabaseFirst, Value: neverFirst})
	}
	user, group, readOnly := new(int64(userOfMedusa)), new(int64(userOfMedusa)), new(true)
	if had := like.SecurityContext; had != nil {
		if had.RunAsUser != nil && *had.RunAsUser > 0 {
			user = had.RunAsUser
		}
		if had.RunAsGroup != nil && *had.RunAsGroup > 0 {
			group = had.RunAsGroup
		}
		if had.ReadOnlyRootFilesystem != nil {
			readOnly = had.ReadOnlyRootFilesystem
		}
	}
	c.SecurityContext = &corev1.SecurityContext{
		RunAsUser: user, RunAsGroup: group, RunAsNonRoot: new(true), AllowPrivilegeEscalation: new(false), ReadOnlyRootFilesystem: readOnly,
		Capabilities:   &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
	}
	return c
}

// envDatabaseFirst is how long Medusa leaves the processor to a database that starts
// (cmd/stategraft-agent).
const envDatabaseFirst = "STATEGRAFT_DATABASE_FIRST"

// neverFirst is longer than the pod lives: Medusa's own service is not asked, and would
// fail again and again, as the pod's address has no name. What looks into the storage
// does not wait for it.
const neverFirst = "1h"

// volumesOf are a pod's volumes without what is on disks or nodes. Those with a token
// of the pod's account are left out: the account is not the pod's here, and somebody
// else's token is not ours to hold.
func volumesOf(like *corev1.Pod) (volumes []corev1.Volume, tokens map[string]bool) {
	tokens = map[string]bool{}
	for i := range like.Spec.Volumes {
		v := like.Spec.Volumes[i].DeepCopy()
		switch {
		case v.EmptyDir != nil, v.DownwardAPI != nil:
		case v.ConfigMap != nil:
			v.ConfigMap.Optional = new(true) // what is missing may be why the like does not start
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
			tokens[v.Name] = true
			continue
		default:
			v.VolumeSource = corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}
		}
		volumes = append(volumes, *v)
	}
	return volumes, tokens
}

// plain tells whether a projected volume is of ConfigMaps, Secrets and the pod's own
// fields alone.
func plain(p *corev1.ProjectedVolumeSource) bool {
	return !slices.ContainsFunc(p.Sources, func(s corev1.VolumeProjection) bool {
		return s.ConfigMap == nil && s.Secret == nil && s.DownwardAPI == nil
	})
}

// Identity tells, for messages, that the sidecar has its right to the storage from
// its service account (workload identity), which a pod made after it has not; or is
// empty.
func Identity(like *corev1.Pod) string {
	if c := kvs.Sidecar(like); c != nil {
		// What EKS, AKS and others' webhooks put into each container of such a pod.
		for _, v := range c.Env {
			switch v.Name {
			case "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", "AZURE_FEDERATED_TOKEN_FILE":
				return fmt.Sprintf("the sidecars have their right to the storage from service account %s, and it has not: if it finds nothing, start one of the pods (its sidecar answers although the database does not)", like.Spec.ServiceAccountName)
			}
		}
	}
	return ""
}
