package adopt

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// row is a line of the corpus's truth.tsv: a pod, and whether it is injected when it is
// created.
type row struct{ name, decision, reason, kind string }

// rows are those of the corpus.
func rows(root string) (all []row, err error) {
	text, err := os.ReadFile(filepath.Join(root, "test", "corpus", "truth.tsv"))
	if err != nil {
		return nil, fmt.Errorf("reading the corpus: %w", err)
	}
	for _, line := range strings.Split(strings.TrimSpace(string(text)), "\n")[1:] {
		f := strings.Split(line, "\t")
		if len(f) < 4 {
			return nil, fmt.Errorf("reading the corpus: %d columns in %q", len(f), line)
		}
		all = append(all, row{f[0], f[1], f[2], f[3]})
	}
	return all, nil
}

// set is the StatefulSet that a pod of the corpus may have come from: without what
// controllers and scheduler have put in.
func (r row) set(root string) (*appsv1.StatefulSet, error) {
	text, err := os.ReadFile(filepath.Join(root, "test", "corpus", "pods", r.name+".yaml"))
	if err != nil {
		return nil, fmt.Errorf("reading the corpus: %w", err)
	}
	raw, err := yaml.YAMLToJSONStrict(text)
	pod := &corev1.Pod{}
	if err == nil {
		err = json.Unmarshal(raw, pod)
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s of the corpus: %w", r.name, err)
	}
	labels := map[string]string{"stategraft-test": r.name}
	for key, value := range pod.Labels {
		switch key {
		case "statefulset.kubernetes.io/pod-name", "apps.kubernetes.io/pod-index", "controller-revision-hash", "pod-template-hash":
		default:
			labels[key] = value
		}
	}
	spec := pod.Spec
	spec.Hostname, spec.Subdomain, spec.NodeName, spec.SchedulingGates = "", "", "", nil
	spec.Priority, spec.PriorityClassName, spec.PreemptionPolicy, spec.RuntimeClassName = nil, "", nil, nil
	return &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: r.name},
		Spec: appsv1.StatefulSetSpec{Replicas: new(int32(1)), ServiceName: r.name, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels, Annotations: pod.Annotations}, Spec: spec}},
	}, nil
}

// account makes the ServiceAccount that the pods name, as their operator would.
func (t *Town) account(ctx context.Context, name string) error {
	if name == "" || name == "default" {
		return nil
	}
	_, err := t.Client.CoreV1().ServiceAccounts(t.Namespace).Create(ctx,
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("making ServiceAccount %s/%s: %w", t.Namespace, name, err)
	}
	return nil
}
