package adopt

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/stategraft/stategraft/api/v1alpha1"
)

// Shape is what is peculiar about a workload.
type Shape func(*appsv1.StatefulSet)

// Cassandra is a StatefulSet of Cassandra as people write it; of the restricted Pod
// Security Standard.
func Cassandra(name string, replicas int, shapes ...Shape) *appsv1.StatefulSet {
	labels := map[string]string{"app": name}
	set := &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.StatefulSetSpec{
			Replicas: new(int32(replicas)), ServiceName: name, PodManagementPolicy: appsv1.ParallelPodManagement,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels, Annotations: map[string]string{}}, Spec: corev1.PodSpec{
				SecurityContext: &corev1.PodSecurityContext{RunAsNonRoot: new(true), RunAsUser: new(int64(999)), FSGroup: new(int64(999)),
					SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}},
				Containers: []corev1.Container{{Name: "cassandra", Image: "cassandra:5.0",
					Ports:        []corev1.ContainerPort{{Name: "cql", ContainerPort: 9042}, {Name: "intra-node", ContainerPort: 7000}},
					VolumeMounts: []corev1.VolumeMount{{Name: "data", MountPath: "/var/lib/cassandra"}},
					SecurityContext: &corev1.SecurityContext{AllowPrivilegeEscalation: new(false),
						Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}}}},
			}},
			VolumeClaimTemplates: []corev1.PersistentVolumeClaim{{ObjectMeta: metav1.ObjectMeta{Name: "data"},
				Spec: corev1.PersistentVolumeClaimSpec{AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
					Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}}}}},
		},
	}
	for _, shape := range shapes {
		shape(set)
	}
	return set
}

func database(set *appsv1.StatefulSet) *corev1.Container {
	return &set.Spec.Template.Spec.Containers[0]
}

// Managed has the database be started by a management API.
func Managed(set *appsv1.StatefulSet) {
	c := database(set)
	c.Image = "k8ssandra/cass-management-api:4.1.8-ubi"
	c.Ports = append(c.Ports, corev1.ContainerPort{Name: "mgmt-api-http", ContainerPort: 8080})
	c.Env = append(c.Env, corev1.EnvVar{Name: "DS_LICENSE", Value: "accept"}, corev1.EnvVar{Name: "USE_MGMT_API", Value: "true"})
}

// OptedOut is labelled so that it is never injected.
func OptedOut(set *appsv1.StatefulSet) {
	set.Spec.Template.Labels[api.LabelInject] = api.InjectDisabled
}

// Never is annotated so that it is never adopted.
func Never(set *appsv1.StatefulSet) {
	set.Spec.Template.Annotations[api.AnnotationAdopt] = api.AdoptNever
}

// Asks is annotated so that it is adopted wherever that is allowed.
func Asks(set *appsv1.StatefulSet) {
	set.Spec.Template.Annotations[api.AnnotationAdopt] = api.AdoptRunning
}

// SubPath has its data in a directory of the volume.
func SubPath(set *appsv1.StatefulSet) { database(set).VolumeMounts[0].SubPath = "cassandra" }

// BackedUp has a backup sidecar of somebody else.
func BackedUp(set *appsv1.StatefulSet) {
	sidecar := *database(set).DeepCopy()
	sidecar.Name, sidecar.Image = "medusa", "k8ssandra/medusa:0.21.0"
	sidecar.Ports = []corev1.ContainerPort{{Name: "grpc", ContainerPort: 50051}}
	sidecar.Env = []corev1.EnvVar{{Name: "MEDUSA_MODE", Value: "GRPC"}}
	set.Spec.Template.Spec.Containers = append(set.Spec.Template.Spec.Containers, sidecar)
}

// Nginx is no database.
func Nginx(set *appsv1.StatefulSet) {
	c := database(set)
	c.Name, c.Image, c.Ports = "web", "nginx:1.29", []corev1.ContainerPort{{ContainerPort: 80}}
	c.VolumeMounts[0].MountPath = "/usr/share/nginx/html"
}

// Anna has a node of Anna in place of Cassandra, of a role such as memory, or r for
// routing.
func Anna(role string) Shape {
	return func(set *appsv1.StatefulSet) {
		c := database(set)
		c.Name, c.Image = "anna", "hydroproject/anna:latest"
		c.Command, c.Args = []string{"/hydro/anna/scripts/start-anna.sh"}, []string{role}
		c.Env = []corev1.EnvVar{{Name: "SERVER_TYPE", Value: role}, {Name: "SEED_IP", Value: "routing-0.routing"}}
		c.Ports = []corev1.ContainerPort{{Name: "kvs", ContainerPort: 6200}}
		if role == "r" {
			c.Ports = []corev1.ContainerPort{{Name: "route", ContainerPort: 6450}}
		}
		c.VolumeMounts[0].MountPath = "/hydro/anna/conf"
	}
}
