package deploy_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/yaml"
)

// Keys that people may set; any other under stategraft.io/ is a slip.
var (
	annotations = []string{
		"restore", "restore-source", "medusa-config", "storage-secret", "cql-secret", "jmx-secret",
		"config-map", "data-volume", "container", "host-network", "spread", "colocate-with", "expose",
		"medusa-image", "agent-image", "sidecar-resources", "grpc-port", "backup-schedule", "retain", "rpo",
	}
	podLabels = []string{"inject", "workload"}
)

func TestExamples(t *testing.T) {
	docs := examples(t)
	labelled := map[string]bool{}
	configMaps := map[string]*corev1.ConfigMap{}
	services := map[string]*corev1.Service{}
	for _, d := range docs {
		switch o := d.object.(type) {
		case *corev1.Namespace:
			labelled[o.Name] = o.Labels["stategraft.io/inject"] == "enabled"
		case *corev1.ConfigMap:
			configMaps[o.Namespace+"/"+o.Name] = o
		case *corev1.Service:
			services[o.Namespace+"/"+o.Name] = o
		}
	}
	check := func(file string, keys map[string]string, known []string) {
		for k := range keys {
			if rest, ours := strings.CutPrefix(k, "stategraft.io/"); ours && !slices.Contains(known, rest) {
				t.Errorf("%s: unknown key %s", file, k)
			}
		}
	}
	n := 0
	for _, d := range docs {
		set, ok := d.object.(*appsv1.StatefulSet)
		if !ok {
			continue
		}
		n++
		pod := set.Spec.Template
		check(d.file, pod.Annotations, annotations)
		check(d.file, pod.Labels, podLabels)
		if !labelled[set.Namespace] {
			t.Errorf("%s: namespace %s is not labelled", d.file, set.Namespace)
		}
		if sel, err := metav1.LabelSelectorAsSelector(set.Spec.Selector); err != nil || !sel.Matches(labels.Set(pod.Labels)) {
			t.Errorf("%s: the selector does not match the template (%v)", d.file, err)
		}
		svc := services[set.Namespace+"/"+set.Spec.ServiceName]
		switch {
		case svc == nil:
			t.Errorf("%s: no Service %s", d.file, set.Spec.ServiceName)
		case svc.Spec.ClusterIP != corev1.ClusterIPNone || !svc.Spec.PublishNotReadyAddresses ||
			!labels.SelectorFromSet(svc.Spec.Selector).Matches(labels.Set(pod.Labels)):
			t.Errorf("%s: Service %s is not headless, hides unready pods or selects others", d.file, svc.Name)
		}
		if cm, want := pod.Annotations["stategraft.io/config-map"]; want {
			if c := configMaps[set.Namespace+"/"+cm]; c == nil || c.Data["anna-config.yml"] == "" {
				t.Errorf("%s: no ConfigMap %s with anna-config.yml", d.file, cm)
			}
		}
		if s, want := pod.Annotations["stategraft.io/colocate-with"]; want {
			sel, err := labels.Parse(s)
			if err != nil {
				t.Errorf("%s: colocate-with: %v", d.file, err)
			} else if !slices.ContainsFunc(docs, func(other document) bool {
				o, ok := other.object.(*appsv1.StatefulSet)
				// Pod affinity looks in the pod's own namespace.
				return ok && o.Namespace == set.Namespace && sel.Matches(labels.Set(o.Spec.Template.Labels))
			}) {
				t.Errorf("%s: colocate-with %s: no such pods in namespace %s", d.file, s, set.Namespace)
			}
		}
		volumes := map[string]bool{}
		for _, v := range pod.Spec.Volumes {
			volumes[v.Name] = true
		}
		for _, v := range set.Spec.VolumeClaimTemplates {
			volumes[v.Name] = true
		}
		for _, c := range pod.Spec.Containers {
			for _, m := range c.VolumeMounts {
				if !volumes[m.Name] {
					t.Errorf("%s: %s mounts %s, which is not there", d.file, c.Name, m.Name)
				}
			}
			for _, p := range c.Ports {
				if len(p.Name) > 15 {
					t.Errorf("%s: the port name %s is longer than 15 characters", d.file, p.Name)
				}
			}
		}
	}
	if n < 7 {
		t.Errorf("%d StatefulSets", n)
	}
}

// What is inside the ConfigMaps is YAML too.
func TestConfigMapsHoldYAML(t *testing.T) {
	for _, d := range examples(t) {
		cm, ok := d.object.(*corev1.ConfigMap)
		if !ok {
			continue
		}
		for key, text := range cm.Data {
			if ext := filepath.Ext(key); ext != ".yaml" && ext != ".yml" {
				continue
			}
			var v map[string]any
			if err := yaml.UnmarshalStrict([]byte(text), &v); err != nil {
				t.Errorf("%s: %s: %v", d.file, key, err)
			}
		}
	}
}
