package verify

import (
	"encoding/json"
	"os"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/patches"
	"github.com/stategraft/stategraft/test/golden"
	"github.com/stategraft/stategraft/webhook"
	"github.com/stategraft/stategraft/webhook/offline"
)

func TestPod(t *testing.T) {
	like := official(t)
	database, err := databaseOf(like, nil)
	if err != nil {
		t.Fatal(err)
	}
	pod, err := build(like, database, jobOf(&api.BackupVerify{}))
	if err != nil {
		t.Fatal(err)
	}
	text, err := yaml.Marshal(pod)
	if err != nil {
		t.Fatal(err)
	}
	const file = "testdata/pod.yaml"
	if *golden.Update {
		if err := os.WriteFile(file, text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if want, err := os.ReadFile(file); err != nil || string(want) != string(text) {
		t.Errorf("%v: the pod is\n%s", err, text)
	}
}

// TestRestoreAsAdmissionHasIt: the init containers know what those that admission adds
// for a restore do, but for what only a pod with a database or its sidecars has.
func TestRestoreAsAdmissionHasIt(t *testing.T) {
	text, err := os.Open("../../test/corpus/pods/plain-official-41.yaml")
	if err != nil {
		t.Fatal(err)
	}
	defer text.Close()
	documents, err := offline.Read(text, "pod")
	if err != nil {
		t.Fatal(err)
	}
	result, err := offline.Decide(documents[0], offline.Options{Namespace: offline.Labelled(), Config: webhook.DefaultConfig(), Annotations: map[string]string{api.AnnotationRestore: "b", api.AnnotationRestoreSource: "n"}})
	if err != nil {
		t.Fatal(err)
	}
	raw, err := result.Apply()
	if err != nil {
		t.Fatal(err)
	}
	admitted := &corev1.Pod{}
	if err := json.Unmarshal(raw, admitted); err != nil {
		t.Fatal(err)
	}
	like := official(t)
	database, _ := databaseOf(like, nil)
	pod, err := build(like, database, jobOf(&api.BackupVerify{}))
	if err != nil {
		t.Fatal(err)
	}
	compared := 0
	for _, theirs := range admitted.Spec.InitContainers {
		i := slices.IndexFunc(pod.Spec.InitContainers, func(c corev1.Container) bool { return c.Name == theirs.Name })
		if i < 0 {
			continue
		}
		compared++
		mine := pod.Spec.InitContainers[i]
		if !slices.Equal(mine.Command, theirs.Command) || mine.Image != theirs.Image {
			t.Errorf("%s: %s %q, and admission has %s %q", mine.Name, mine.Image, mine.Command, theirs.Image, theirs.Command)
		}
		for _, v := range theirs.Env {
			// Here the volume is the pod's own, and given to it by fsGroup.
			if v.Name == patches.EnvNodePort || v.Name == "STATEGRAFT_OWNER" || slices.ContainsFunc(mine.Env, func(m corev1.EnvVar) bool { return m.Name == v.Name }) {
				continue
			}
			t.Errorf("%s has no variable %s", mine.Name, v.Name)
		}
		for _, m := range theirs.VolumeMounts {
			if m.Name == patches.VolumeNoToken || m.Name == "cassandra-data" && mine.Name == patches.ContainerSetup || m.Name == patches.VolumeGRPCTLS || slices.ContainsFunc(mine.VolumeMounts, func(o corev1.VolumeMount) bool { return o.MountPath == m.MountPath }) {
				continue
			}
			t.Errorf("%s has nothing at %s", mine.Name, m.MountPath)
		}
	}
	if compared != 2 {
		t.Errorf("%d init containers are admission's", compared)
	}
}

func TestVolume(t *testing.T) {
	like := official(t)
	database, _ := databaseOf(like, nil)
	data := func(spec *api.BackupVerify, bytes int64) (corev1.Volume, corev1.ResourceRequirements) {
		j := jobOf(spec)
		j.bytes = bytes
		pod, err := build(like, database, j)
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == "cassandra-data" })
		return pod.Spec.Volumes[i], pod.Spec.Containers[0].Resources
	}
	v, r := data(&api.BackupVerify{}, 4<<30)
	if v.EmptyDir.SizeLimit.String() != "5376Mi" || r.Requests.StorageEphemeral().String() != "5376Mi" {
		t.Errorf("4Gi: %v, %v", v.EmptyDir.SizeLimit, r)
	}
	if v, r := data(&api.BackupVerify{}, 100<<20); v.EmptyDir.SizeLimit.String() != "381Mi" || !r.Requests.StorageEphemeral().IsZero() {
		t.Errorf("100Mi: %v, %v", v.EmptyDir.SizeLimit, r)
	}
	if v, _ := data(&api.BackupVerify{}, 0); v.EmptyDir.SizeLimit.String() != "10Gi" {
		t.Errorf("unknown: %v", v.EmptyDir.SizeLimit)
	}
	size, class := resource.MustParse("7Gi"), "fast"
	v, r = data(&api.BackupVerify{Volume: &api.VerifyVolume{Size: &size, StorageClassName: &class}}, 4<<30)
	if claim := v.Ephemeral.VolumeClaimTemplate; *claim.Spec.StorageClassName != "fast" || claim.Spec.Resources.Requests.Storage().String() != "7Gi" || claim.Labels[api.LabelVerify] != "uid-b" || !r.Requests.StorageEphemeral().IsZero() {
		t.Errorf("claim: %+v", claim)
	}
	_, r = data(&api.BackupVerify{Resources: &api.VerifyResources{Requests: corev1.ResourceList{"memory": resource.MustParse("3Gi")}, Limits: corev1.ResourceList{"cpu": resource.MustParse("50m")}}}, 0)
	if r.Requests.Memory().String() != "3Gi" || r.Limits.Memory().String() != "3Gi" || r.Requests.Cpu().String() != "50m" {
		t.Errorf("resources: %+v", r)
	}
	if heap(r) != 768 || heap(corev1.ResourceRequirements{}) != 128 {
		t.Errorf("heap %d", heap(r))
	}
}

// TestNotLike has pods that no other can be made after.
func TestNotLike(t *testing.T) {
	for name, change := range map[string]func(*corev1.Pod){
		"healed":           func(p *corev1.Pod) { container(p, patches.ContainerMedusa).Image = container(p, "cassandra").Image },
		"without sidecars": func(p *corev1.Pod) { p.Spec.Containers = p.Spec.Containers[:1] },
		"without data": func(p *corev1.Pod) {
			c := container(p, patches.ContainerMedusa)
			c.VolumeMounts = slices.DeleteFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return m.Name == "cassandra-data" })
		},
	} {
		like := official(t)
		change(like)
		if pod, err := build(like, container(like, "cassandra"), jobOf(&api.BackupVerify{})); err == nil {
			t.Errorf("%s: %s", name, asJSON(t, pod))
		}
	}
	no := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web-0"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "nginx:1"}}}}
	if c, err := databaseOf(no, nil); err == nil {
		t.Errorf("%+v", c)
	}
}
