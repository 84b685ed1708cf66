package kvs

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/patches"
)

// member makes a node of StatefulSet set, with a label and a ConfigMap, where they are not
// empty.
func member(name, set, label, config string) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, Labels: map[string]string{api.LabelInjected: "anna"},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "StatefulSet", Name: set, UID: types.UID(set), Controller: new(true)}}}}
	pod.Spec.InitContainers = []corev1.Container{{Name: patches.ContainerAgent, Env: []corev1.EnvVar{{Name: EnvRole, Value: "memory"}, {Name: EnvCluster, Value: label}}}}
	if config != "" {
		pod.Spec.Volumes = []corev1.Volume{{Name: patches.VolumeConfig, VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
			LocalObjectReference: corev1.LocalObjectReference{Name: config}}}}}
	}
	return pod
}

func TestDoubt(t *testing.T) {
	for name, c := range map[string]struct {
		these, others []*corev1.Pod
		says          string // empty for no doubt
	}{
		"of one StatefulSet":                      {[]*corev1.Pod{member("m-0", "m", "", "")}, []*corev1.Pod{member("m-1", "m", "", "")}, ""},
		"of one ConfigMap":                        {[]*corev1.Pod{member("m-0", "m", "", "conf")}, []*corev1.Pod{member("d-0", "d", "", "conf")}, ""},
		"of one label":                            {[]*corev1.Pod{member("m-0", "m", "hydro", "")}, []*corev1.Pod{member("d-0", "d", "hydro", "")}, ""},
		"of one label and ConfigMap":              {[]*corev1.Pod{member("m-0", "m", "hydro", "conf")}, []*corev1.Pod{member("d-0", "d", "hydro", "conf")}, ""},
		"of two labels":                           {[]*corev1.Pod{member("m-0", "m", "hydro", "a")}, []*corev1.Pod{member("d-0", "d", "other", "b")}, ""},
		"nothing tells":                           {[]*corev1.Pod{member("m-0", "m", "", "")}, []*corev1.Pod{member("d-0", "d", "", "")}, "m-0 and d-0 may be of one cluster of Anna, or of two: neither has the label"},
		"one of them has a ConfigMap":             {[]*corev1.Pod{member("m-0", "m", "", "a")}, []*corev1.Pod{member("d-0", "d", "", "")}, "by ConfigMap a, the other by none (neither has the label"},
		"two ConfigMaps":                          {[]*corev1.Pod{member("m-0", "m", "", "a")}, []*corev1.Pod{member("d-0", "d", "", "b")}, "by ConfigMap a, the other by b (neither"},
		"two ConfigMaps, as an example is copied": {[]*corev1.Pod{member("m-0", "m", "anna", "a")}, []*corev1.Pod{member("d-0", "d", "anna", "b")}, "app.kubernetes.io/part-of is anna on both"},
		"one of several":                          {[]*corev1.Pod{member("m-0", "m", "", "a"), member("d-0", "d", "", "b")}, []*corev1.Pod{member("d-1", "d", "", "b")}, ""},
		"one of the others":                       {[]*corev1.Pod{member("m-0", "m", "", "a")}, []*corev1.Pod{member("m-1", "m", "", "a"), member("x-0", "x", "", "b")}, "m-0 and x-0"},
		"all were named":                          {[]*corev1.Pod{member("m-0", "m", "", "a"), member("d-0", "d", "", "b")}, nil, ""},
	} {
		if got := Doubt(c.these, c.others); (got == "") != (c.says == "") || !strings.Contains(got, c.says) {
			t.Errorf("%s: %q", name, got)
		}
	}
}
