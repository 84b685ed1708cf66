package heal

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/patches"
)

// The database's image is found in every pod of the corpus that is injected, beside
// whatever else is in it.
func TestDatabaseImage(t *testing.T) {
	exporter := corev1.Container{Name: "exporter", Image: "exporter"}
	first := func(pod *corev1.Pod) {
		pod.Spec.Containers = append([]corev1.Container{exporter}, pod.Spec.Containers...)
	}
	for _, c := range []struct {
		name, pod string
		change    func(*corev1.Pod)
		namespace map[string]string
		database  string
	}{
		{"alone", cassandra, func(*corev1.Pod) {}, nil, "cassandra"},
		{"beside another", cassandra, first, nil, "cassandra"},
		{"beside another, opted out by now", cassandra, func(pod *corev1.Pod) {
			first(pod)
			pod.Labels[api.LabelInject] = api.InjectDisabled
		}, nil, "cassandra"},
		{"cass-operator's", "cass-operator", func(*corev1.Pod) {}, nil, "cassandra"},
		{"anna's", anna, first, nil, "ebs-container"},
		{"executors are equals", "cloudburst-executor", func(*corev1.Pod) {}, nil, "function-1"},
		{"named by the pod", cassandra, func(pod *corev1.Pod) {
			first(pod)
			pod.Annotations[api.AnnotationContainer] = "cassandra"
		}, map[string]string{api.AnnotationContainer: "exporter"}, "cassandra"},
		{"not known any more", cassandra, func(pod *corev1.Pod) {
			first(pod)
			pod.Annotations[api.AnnotationContainer] = "gone"
		}, nil, "exporter"},
	} {
		t.Run(c.name, func(t *testing.T) {
			pod := admitted(t, c.pod, nil)
			c.change(pod)
			want := containerOf(t, pod, c.database).Image
			if got, err := databaseImage(pod, c.namespace); err != nil || got != want {
				t.Errorf("%q (%v), want %q", got, err, want)
			}
		})
	}
	pod := admitted(t, cassandra, nil)
	pod.Spec.Containers = pod.Spec.Containers[1:]
	if image, err := databaseImage(pod, nil); err == nil {
		t.Errorf("a pod of ours alone has a database's image %q", image)
	}
}

func TestNeedsUs(t *testing.T) {
	for _, c := range []struct {
		name      string
		pod       map[string]string
		namespace map[string]string
		want      bool
	}{
		{"a backup only", nil, nil, false},
		{"its configuration", map[string]string{api.AnnotationConfigMap: "files"}, nil, true},
		{"the node's network", map[string]string{api.AnnotationHostNetwork: "true"}, nil, true},
		{"the node's network, by the namespace", nil, map[string]string{api.AnnotationHostNetwork: "true"}, true},
		{"not by itself", map[string]string{api.AnnotationHostNetwork: "false"}, map[string]string{api.AnnotationHostNetwork: "true"}, false},
		{"other nodes", map[string]string{api.AnnotationSpread: "host"}, nil, false},
	} {
		if got := needsUs(admitted(t, cassandra, c.pod), c.namespace); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

func TestFailed(t *testing.T) {
	pod := admitted(t, cassandra, nil)
	apply(t, pod, ends(medusa, "OOMKilled", 137, 4), waiting(agent, "ErrImagePull"))
	got := failed(troubles(parts(pod)))
	want := []api.HeldContainer{{Name: agent, Image: patches.DefaultAgentImage}, {Name: medusa, Image: patches.DefaultMedusaImage, Memory: "1Gi"}}
	if !sameJSON(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}
