package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/stategraft/stategraft/test/controlplane/compare"
)

// addition is one thing that a pod has and its template has not.
type addition struct{ what, name, detail string }

// additions lists what was added to the pod of a template, by the kinds of
// things that Stategraft adds.
func additions(template *corev1.PodTemplateSpec, pod *corev1.Pod) []addition {
	var found []addition
	containers := func(what string, before, after []corev1.Container) {
		for _, c := range after {
			i := slices.IndexFunc(before, func(b corev1.Container) bool { return b.Name == c.Name })
			if i < 0 {
				kind := what
				if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
					kind = "sidecar"
				}
				found = append(found, addition{kind, c.Name, c.Image})
				continue
			}
			if hook := c.Lifecycle; hook != nil && hook.PreStop != nil && hook.PreStop.HTTPGet != nil && (before[i].Lifecycle == nil || before[i].Lifecycle.PreStop == nil) {
				found = append(found, addition{"preStop hook", hook.PreStop.HTTPGet.Path, "of container " + c.Name + ", at port " + hook.PreStop.HTTPGet.Port.String()})
			}
			for _, m := range c.VolumeMounts {
				if !slices.ContainsFunc(before[i].VolumeMounts, func(b corev1.VolumeMount) bool { return b.MountPath == m.MountPath }) &&
					strings.HasPrefix(m.Name, "stategraft-") {
					found = append(found, addition{"mount", m.MountPath, "in container " + c.Name})
				}
			}
		}
	}
	containers("init container", template.Spec.InitContainers, pod.Spec.InitContainers)
	containers("container", template.Spec.Containers, pod.Spec.Containers)
	var volumes []string
	for _, v := range pod.Spec.Volumes {
		if strings.HasPrefix(v.Name, "stategraft-") {
			volumes = append(volumes, strings.TrimPrefix(v.Name, "stategraft-")+source(v))
		}
	}
	if len(volumes) > 0 {
		found = append(found, addition{"volumes", "stategraft-…", strings.Join(volumes, ", ")})
	}
	if a := pod.Spec.Affinity; a != nil && a.PodAntiAffinity != nil && template.Spec.Affinity == nil {
		for _, term := range a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution {
			found = append(found, addition{"anti-affinity", term.TopologyKey, "no two pods of this workload together"})
		}
	}
	for _, key := range slices.Sorted(maps.Keys(pod.Annotations)) {
		if _, ok := template.Annotations[key]; !ok {
			found = append(found, addition{"annotation", key, pod.Annotations[key]})
		}
	}
	return found
}

// source tells which object of the user's a volume shows.
func source(v corev1.Volume) string {
	switch {
	case v.ConfigMap != nil:
		return " (ConfigMap " + v.ConfigMap.Name + ")"
	case v.Secret != nil:
		return " (Secret " + v.Secret.SecretName + ")"
	}
	return ""
}

// kept checks that a pod has everything of its template, as it was.
func kept(template *corev1.PodTemplateSpec, pod *corev1.Pod) error {
	before, err := compare.JSON(template.Spec)
	if err != nil {
		return fmt.Errorf("encoding the template: %w", err)
	}
	after, err := compare.JSON(pod.Spec)
	if err != nil {
		return fmt.Errorf("encoding the pod: %w", err)
	}
	if lost := compare.Lost(before, after); len(lost) > 0 {
		return fmt.Errorf("pod %s/%s lost something of its template: spec%s", pod.Namespace, pod.Name, strings.Join(lost, ", spec"))
	}
	return nil
}

// containerNames are those of the added containers, init containers first.
func containerNames(found []addition) []string {
	var names []string
	for _, a := range found {
		switch a.what {
		case "init container", "container", "sidecar":
			names = append(names, a.name)
		}
	}
	return names
}
