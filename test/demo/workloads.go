package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"github.com/stategraft/stategraft/test/controlplane/compare"
	"github.com/stategraft/stategraft/test/controlplane/rigged"
)

// workload is a StatefulSet of an example with what its pods have to get.
type workload struct {
	file    string // under deploy/examples
	written any    // the StatefulSet as the file has it
	set     *appsv1.StatefulSet
	adds    []string // containers, in order
}

func (w *workload) name() string { return w.set.Namespace + "/" + w.set.Name }

// read gives the StatefulSets of a file of deploy/examples.
func read(rig *rigged.Rig, file string, adds ...string) ([]*workload, error) {
	text, err := os.ReadFile(filepath.Join(rig.Root, "deploy", "examples", filepath.FromSlash(file)))
	if err != nil {
		return nil, fmt.Errorf("reading the example: %w", err)
	}
	var found []*workload
	documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text)))
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return found, nil
		}
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", file, err)
		}
		w := &workload{file: file, set: &appsv1.StatefulSet{}, adds: adds}
		if err := yaml.Unmarshal(document, &w.written); err != nil {
			return nil, fmt.Errorf("reading %s: %w", file, err)
		}
		if object, ok := w.written.(map[string]any); !ok || object["kind"] != "StatefulSet" {
			continue
		}
		if err := yaml.UnmarshalStrict(document, w.set); err != nil {
			return nil, fmt.Errorf("reading %s: %w", file, err)
		}
		found = append(found, w)
	}
}

// live gets the StatefulSet as it is now.
func (w *workload) live(ctx context.Context, rig *rigged.Rig) (*appsv1.StatefulSet, error) {
	set, err := rig.Client.AppsV1().StatefulSets(w.set.Namespace).Get(ctx, w.set.Name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("reading StatefulSet %s: %w", w.name(), err)
	}
	return set, nil
}

// unchanged checks that the StatefulSet is the one that was applied: its
// generation, its template as it was right after applying, and in it everything
// that the file says.
func (w *workload) unchanged(live *appsv1.StatefulSet) error {
	if live.Generation != 1 {
		return fmt.Errorf("StatefulSet %s has generation %d: somebody wrote to it", w.name(), live.Generation)
	}
	spec, err := compare.JSON(live.Spec)
	if err != nil {
		return fmt.Errorf("encoding StatefulSet %s: %w", w.name(), err)
	}
	applied, err := compare.JSON(w.set.Spec)
	if err != nil {
		return fmt.Errorf("encoding StatefulSet %s: %w", w.name(), err)
	}
	if lost := append(compare.Lost(applied, spec), compare.Gained(applied, spec)...); len(lost) > 0 {
		return fmt.Errorf("StatefulSet %s is not as it was after applying: spec%s", w.name(), strings.Join(lost, ", spec"))
	}
	written, err := compare.JSON(w.written)
	if err != nil {
		return fmt.Errorf("encoding %s: %w", w.file, err)
	}
	if lost := compare.Lost(template(written), template(map[string]any{"spec": spec})); len(lost) > 0 {
		return fmt.Errorf("StatefulSet %s is not as in %s: template%s", w.name(), w.file, strings.Join(lost, ", template"))
	}
	return nil
}

func template(object any) any {
	spec, _ := object.(map[string]any)["spec"].(map[string]any)
	return spec["template"]
}

// pods waits for the pods of the StatefulSet, in the order of their numbers.
func (w *workload) pods(ctx context.Context, rig *rigged.Rig) ([]*corev1.Pod, error) {
	var pods []*corev1.Pod
	for i := range int(*w.set.Spec.Replicas) {
		name := fmt.Sprintf("%s-%d", w.set.Name, i)
		err := poll(ctx, "pod "+w.set.Namespace+"/"+name, func() error {
			pod, err := rig.Client.CoreV1().Pods(w.set.Namespace).Get(ctx, name, metav1.GetOptions{})
			if err == nil {
				pods = append(pods, pod)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return pods, nil
}

// poll tries until there is no error, for half a minute.
func poll(ctx context.Context, what string, try func() error) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	for {
		err := try()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w (last: %w)", what, context.Cause(ctx), err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}
