package heal

import (
	"bytes"
	"encoding/json"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/patches"
)

func sameJSON(a, b any) bool {
	x, err := json.Marshal(a)
	y, other := json.Marshal(b)
	return err == nil && other == nil && bytes.Equal(x, y)
}

// Of the 150 MB that a process may take with 20,000 injected pods, the cache of
// those that are Ready takes a third at most, also where each says when it is to be
// backed up.
func TestSlimPodSize(t *testing.T) {
	pod := admitted(t, cassandra, nil)
	pod.Annotations = map[string]string{api.AnnotationBackupSchedule: "0 3 * * *", api.AnnotationRetain: "14", api.AnnotationRPO: "36h", "other": "x"}
	text, err := json.Marshal(pod)
	if err != nil {
		t.Fatal(err)
	}
	const n, limit = 1000, 2500 // bytes
	// What the tests before this one still take or give back counts too: the middle one of
	// three is ours.
	var measured []int64
	for range 3 {
		measured = append(measured, slimPodSize(t, string(text), n))
	}
	slices.Sort(measured)
	t.Logf("figure: %d bytes for each pod that is Ready", measured[1])
	if measured[1] < limit/10 || measured[1] > limit {
		t.Errorf("a pod takes %d bytes, more than %d or next to nothing", measured[1], limit)
	}
}

// slimPodSize is how many bytes each of n pods takes that are kept as the cache does.
func slimPodSize(t *testing.T, text string, n int) int64 {
	kept := make([]any, 0, n)
	before := heap()
	for i := range n {
		var pod corev1.Pod
		if err := json.Unmarshal([]byte(strings.Replace(text, `"cassandra-0"`, `"cassandra-`+strconv.Itoa(i)+`"`, 1)), &pod); err != nil {
			t.Fatal(err)
		}
		slim, err := slimPod(&pod)
		if err != nil {
			t.Fatal(err)
		}
		kept = append(kept, slim)
	}
	each := (heap() - before) / int64(n)
	runtime.KeepAlive(kept)
	return each
}

func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func TestSlimPod(t *testing.T) {
	pod := admitted(t, cassandra, nil)
	for _, key := range []string{api.AnnotationBackupSchedule, api.AnnotationRetain, api.AnnotationRPO, "other"} {
		metav1.SetMetaDataAnnotation(&pod.ObjectMeta, key, "x")
	}
	kept, err := slimPod(pod)
	if err != nil {
		t.Fatal(err)
	}
	slim := kept.(*corev1.Pod)
	if slim.Name != pod.Name || slim.UID != pod.UID || slim.Labels[api.LabelInjected] != "cassandra" || len(slim.OwnerReferences) != 1 || !isReady(slim) {
		t.Errorf("stripped of what is needed: %+v", slim)
	}
	if len(slim.Annotations) != 3 || slim.Annotations[api.AnnotationBackupSchedule] == "" || slim.Annotations[api.AnnotationRetain] == "" || slim.Annotations[api.AnnotationRPO] == "" {
		t.Errorf("keeps the annotations %v", slim.Annotations)
	}
	if len(slim.Spec.Volumes) > 0 {
		t.Errorf("keeps the volumes %v", slim.Spec.Volumes)
	}
	pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: patches.VolumeConfig, VolumeSource: corev1.VolumeSource{
		ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "conf"}}}})
	if kept, err = slimPod(pod); err != nil || len(kept.(*corev1.Pod).Spec.Volumes) != 1 || kept.(*corev1.Pod).Spec.Volumes[0].ConfigMap.Name != "conf" {
		t.Errorf("the ConfigMap of the database is lost: %v", err)
	}
	if len(slim.Spec.Containers)+len(slim.Status.ContainerStatuses) > 0 || len(slim.Labels) != 1 {
		t.Errorf("a pod that is Ready keeps %+v", slim)
	}
	apply(t, pod, waiting(medusa, "ErrImagePull"))
	if kept, err = slimPod(pod); err != nil {
		t.Fatal(err)
	}
	slim = kept.(*corev1.Pod)
	for _, c := range slim.Spec.Containers {
		if len(c.Env) > 0 || !ours(&c) && len(c.Command)+len(c.Args) > 0 {
			t.Errorf("container %s keeps %+v", c.Name, c)
		}
	}
	if len(slim.Spec.Containers) != len(pod.Spec.Containers) || len(pod.Spec.Containers[0].Env) == 0 {
		t.Error("containers are missing, or the pod itself was changed")
	}
	if other, err := slimPod("a tombstone"); err != nil || other != "a tombstone" {
		t.Errorf("%v became %v (%v)", "a tombstone", other, err)
	}
}

func TestSlimSet(t *testing.T) {
	set := &appsv1.StatefulSet{}
	set.Name, set.Generation = "db", 3
	set.Spec.Replicas, set.Status.Replicas, set.Status.ObservedGeneration = new(int32(3)), 2, 3
	set.Spec.Template.Spec.Containers = []corev1.Container{{Name: "cassandra"}}
	kept, err := slimSet(set)
	if err != nil {
		t.Fatal(err)
	}
	slim := kept.(*appsv1.StatefulSet)
	if len(slim.Spec.Template.Spec.Containers) != 0 || missing(slim) != missing(set) || !missing(slim) || wanted(slim) != 3 {
		t.Errorf("kept %+v", slim)
	}
}
