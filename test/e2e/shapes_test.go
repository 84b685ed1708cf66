package e2e

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/stategraft/stategraft/patches"
	"github.com/stategraft/stategraft/test/images"
)

// Only the data directory is on a volume: the marker of a restore has to be on
// it too.
func TestOnlyDataOnVolume(t *testing.T) {
	t.Parallel()
	e, ctx := scenario(t, 10*time.Minute)
	c, err := e.Cassandra(ctx, "only-data", Setup{Change: func(set *appsv1.StatefulSet) {
		set.Spec.Template.Spec.Containers[0].VolumeMounts[0].MountPath = "/var/lib/cassandra/data"
	}})
	if err != nil {
		t.Fatal(err)
	}
	backUpAndRestore(ctx, t, c, c.again)
}

// The restricted Pod Security Standard, enforced, and a read-only root.
func TestRestricted(t *testing.T) {
	t.Parallel()
	e, ctx := scenario(t, 10*time.Minute)
	c, err := e.Cassandra(ctx, "restricted", Setup{
		Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"},
		Change: func(set *appsv1.StatefulSet) {
			pod := &set.Spec.Template.Spec
			yes, no := true, false
			pod.SecurityContext.RunAsNonRoot = &yes
			pod.SecurityContext.SeccompProfile = &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}
			closed := &corev1.SecurityContext{ReadOnlyRootFilesystem: &yes, AllowPrivilegeEscalation: &no,
				Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}}
			main := &pod.Containers[0]
			main.SecurityContext = closed
			main.Env = append(main.Env, corev1.EnvVar{Name: "HOME", Value: "/tmp"})
			for name, path := range map[string]string{"config": "/etc/cassandra", "logs": "/var/log/cassandra", "tmp": "/tmp"} {
				pod.Volumes = append(pod.Volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}})
				main.VolumeMounts = append(main.VolumeMounts, corev1.VolumeMount{Name: name, MountPath: path})
			}
			pod.InitContainers = []corev1.Container{{Name: "config", Image: main.Image, SecurityContext: closed,
				Command:      []string{"cp", "-r", "/etc/cassandra/.", "/config/"},
				VolumeMounts: []corev1.VolumeMount{{Name: "config", MountPath: "/config"}}}}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	backUpAndRestore(ctx, t, c, c.again)
}

// A database that starts as root and gives its fresh volume to its user, which
// in a restore comes too late: ours has to.
func TestRootAndFreshVolume(t *testing.T) {
	t.Parallel()
	e, ctx := scenario(t, 10*time.Minute)
	c, err := e.Cassandra(ctx, "root", Setup{Change: func(set *appsv1.StatefulSet) {
		set.Spec.Template.Spec.SecurityContext = nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	backUpAndRestore(ctx, t, c, c.anew)
}

// Another user and another layout, with the Medusa image that runs as any user.
func TestBitnami(t *testing.T) {
	t.Parallel()
	e, ctx := scenario(t, 10*time.Minute)
	c, err := e.Cassandra(ctx, "bitnami", Setup{Change: func(set *appsv1.StatefulSet) {
		pod := &set.Spec.Template.Spec
		user := int64(1001)
		pod.SecurityContext = &corev1.PodSecurityContext{FSGroup: &user}
		pod.Containers[0].Image = images.Bitnami
		pod.Containers[0].SecurityContext = &corev1.SecurityContext{RunAsUser: &user}
		pod.Containers[0].VolumeMounts[0].MountPath = "/bitnami/cassandra"
	}})
	if err != nil {
		t.Fatal(err)
	}
	now, err := e.Pod(ctx, c.Namespace, pod(0))
	if err != nil {
		t.Fatal(err)
	}
	if s := container(now, patches.ContainerMedusa); s.Image != images.AnyUID {
		t.Fatalf("Medusa's image is %q, want %s", s.Image, images.AnyUID)
	}
	backUpAndRestore(ctx, t, c, c.anew)
}
