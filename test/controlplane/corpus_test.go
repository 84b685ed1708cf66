package controlplane

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// row is a line of a truth.tsv with the file it is about.
type row struct {
	name, path                                                      string
	decision, reason, kind, container, dataVolume, dataPath, method string
}

// rows are those of the corpus and of its extra part.
func rows(t *testing.T) []row {
	t.Helper()
	var all []row
	for _, dir := range []string{"corpus", filepath.Join("corpus", "extra")} {
		dir = filepath.Join(shared.Root, "test", dir)
		text, err := os.ReadFile(filepath.Join(dir, "truth.tsv"))
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range strings.Split(strings.TrimSpace(string(text)), "\n")[1:] {
			f := strings.Split(strings.ReplaceAll(line, "\t-", "\t"), "\t")
			if len(f) != 8 {
				t.Fatalf("truth.tsv of %s: %d columns in %q", dir, len(f), line)
			}
			all = append(all, row{f[0], filepath.Join(dir, "pods", f[0]+".yaml"), f[1], f[2], f[3], f[4], f[5], f[6], f[7]})
		}
	}
	return all
}

// readPod reads the pod of a file as a map, with every field that is in it.
func readPod(t *testing.T, path string) *unstructured.Unstructured {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	pod := &unstructured.Unstructured{}
	raw, err := yaml.YAMLToJSONStrict(text)
	if err == nil {
		err = pod.UnmarshalJSON(raw)
	}
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return pod
}

// typedPod reads the same as a core/v1 Pod.
func typedPod(t *testing.T, path string) *corev1.Pod {
	t.Helper()
	raw, err := json.Marshal(readPod(t, path))
	pod := &corev1.Pod{}
	if err == nil {
		err = json.Unmarshal(raw, pod)
	}
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return pod
}

// account makes the ServiceAccount that the pod names, as its operator would.
func account(ctx context.Context, t *testing.T, namespace, name string) {
	t.Helper()
	if name == "" || name == "default" {
		return
	}
	_, err := shared.Client.CoreV1().ServiceAccounts(namespace).Create(ctx,
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatalf("making ServiceAccount %s/%s: %v", namespace, name, err)
	}
}

// statefulSet makes the StatefulSet that would create the pod: its template is
// the pod without what controller, scheduler and API server put in.
func statefulSet(pod *corev1.Pod, name string, replicas int32) *appsv1.StatefulSet {
	pod = pod.DeepCopy()
	labels := map[string]string{"stategraft-test": name}
	for key, value := range pod.Labels {
		switch key {
		case "statefulset.kubernetes.io/pod-name", "apps.kubernetes.io/pod-index", "controller-revision-hash":
		default:
			labels[key] = value
		}
	}
	spec := pod.Spec
	spec.Hostname, spec.Subdomain, spec.NodeName = "", "", ""
	spec.Priority, spec.PreemptionPolicy = nil, nil
	var claims []corev1.PersistentVolumeClaim
	var volumes []corev1.Volume
	for _, v := range spec.Volumes {
		claim := v.PersistentVolumeClaim
		switch {
		case strings.HasPrefix(v.Name, "kube-api-access-"):
		case claim != nil && claim.ClaimName == v.Name+"-"+pod.Name:
			claims = append(claims, corev1.PersistentVolumeClaim{
				ObjectMeta: metav1.ObjectMeta{Name: v.Name},
				Spec: corev1.PersistentVolumeClaimSpec{AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
					Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}}}})
		default:
			volumes = append(volumes, v)
		}
	}
	spec.Volumes = volumes
	for _, list := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range list {
			var mounts []corev1.VolumeMount
			for _, m := range list[i].VolumeMounts {
				if !strings.HasPrefix(m.Name, "kube-api-access-") {
					mounts = append(mounts, m)
				}
			}
			list[i].VolumeMounts = mounts
		}
	}
	return &appsv1.StatefulSet{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "StatefulSet"},
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.StatefulSetSpec{
			Replicas: &replicas, ServiceName: pod.Spec.Subdomain, PodManagementPolicy: appsv1.ParallelPodManagement,
			Selector:             &metav1.LabelSelector{MatchLabels: labels},
			VolumeClaimTemplates: claims,
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels, Annotations: pod.Annotations}, Spec: spec},
		},
	}
}
