package webhook

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"

	"github.com/stategraft/stategraft/patches"
)

// This file says what holds for every container that a pod is adopted with. The corpus and
// the random pods are held to it.

// allowedFields are those of an ephemeral container that the API server takes
// (k8s.io/kubernetes/pkg/apis/core/validation, allowedEphemeralContainerFields).
var allowedFields = []string{"name", "image", "command", "args", "workingDir", "envFrom", "env", "volumeMounts", "volumeDevices",
	"terminationMessagePath", "terminationMessagePolicy", "imagePullPolicy", "securityContext", "stdin", "stdinOnce", "tty", "resources"}

// ephemeralHolds checks containers for the pod that they are to be added to: what the API
// server asks of them, the restricted Pod Security Standard, and what adoption promises.
func ephemeralHolds(pod *corev1.Pod, list []corev1.EphemeralContainer) error {
	names, volumes := map[string]bool{}, map[string]bool{}
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		names[c.Name] = true
	}
	for _, c := range pod.Spec.EphemeralContainers {
		names[c.Name] = true
	}
	for _, v := range pod.Spec.Volumes {
		volumes[v.Name] = true
	}
	for i := range list {
		c := &list[i]
		if names[c.Name] || len(validation.IsDNS1123Label(c.Name)) > 0 {
			return fmt.Errorf("the name %s is taken, or none", c.Name)
		}
		names[c.Name] = true
		if err := ephemeralEncodes(c); err != nil {
			return fmt.Errorf("%s: %w", c.Name, err)
		}
		if err := ephemeralParts(c, volumes); err != nil {
			return fmt.Errorf("%s: %w", c.Name, err)
		}
		alone := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{corev1.Container(c.EphemeralContainerCommon)}}}
		if err := restricted(alone, anyContainer); err != nil {
			return fmt.Errorf("not restricted: %w", err)
		}
		if flag := c.SecurityContext.ReadOnlyRootFilesystem; flag == nil || *flag {
			return fmt.Errorf("%s has no place to write to", c.Name)
		}
	}
	return nil
}

func ephemeralEncodes(c *corev1.EphemeralContainer) error {
	text, err := json.Marshal(c)
	if err != nil {
		return err
	}
	var again corev1.EphemeralContainer
	if err := yaml.UnmarshalStrict(text, &again); err != nil {
		return err
	}
	if !reflect.DeepEqual(*c, again) {
		return fmt.Errorf("read again it is another: %s", text)
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(text, &fields); err != nil {
		return err
	}
	for name, value := range fields {
		if !slices.Contains(allowedFields, name) || name == "resources" && string(value) != "{}" {
			return fmt.Errorf("field %s is not allowed", name)
		}
	}
	return nil
}

func ephemeralParts(c *corev1.EphemeralContainer, volumes map[string]bool) error {
	if c.Image == "" || c.ImagePullPolicy == "" || c.ImagePullPolicy == corev1.PullAlways || len(c.Command) == 0 ||
		c.TerminationMessagePolicy != corev1.TerminationMessageFallbackToLogsOnError {
		return fmt.Errorf("image %q, pull policy %q, command %q, %s", c.Image, c.ImagePullPolicy, c.Command, c.TerminationMessagePolicy)
	}
	paths := map[string]bool{}
	for _, m := range c.VolumeMounts {
		switch {
		case !volumes[m.Name]:
			return fmt.Errorf("it mounts %s, which the pod has not", m.Name)
		case m.SubPath != "" || m.SubPathExpr != "":
			return fmt.Errorf("%s is mounted by subPath", m.MountPath)
		case paths[filepath.Clean(m.MountPath)]:
			return fmt.Errorf("%s mounted twice", m.MountPath)
		}
		paths[filepath.Clean(m.MountPath)] = true
	}
	env := map[string]corev1.EnvVar{}
	for _, v := range c.Env {
		if _, twice := env[v.Name]; twice {
			return fmt.Errorf("variable %s twice", v.Name)
		}
		env[v.Name] = v
		if err := ephemeralReference(v); err != nil {
			return fmt.Errorf("variable %s: %w", v.Name, err)
		}
	}
	for _, name := range []string{patches.EnvAdopted, patches.EnvAdoptedAt, patches.EnvAdoptedDigest, patches.EnvMemory, patches.EnvRoot} {
		if env[name].Value == "" {
			return fmt.Errorf("variable %s has no value", name)
		}
	}
	if from := env[patches.EnvPodUID].ValueFrom; from == nil || from.FieldRef == nil || from.FieldRef.FieldPath != "metadata.uid" {
		return fmt.Errorf("variable %s is not the pod's UID", patches.EnvPodUID)
	}
	return nil
}

// ephemeralReference: what we read is waited for, what the user's own container refers to
// is not.
func ephemeralReference(v corev1.EnvVar) error {
	content := slices.ContainsFunc(patches.Contents, func(c patches.Content) bool { return c.Env == v.Name })
	if content != strings.HasPrefix(v.Name, "STATEGRAFT_FILE_") {
		return fmt.Errorf("nobody reads it")
	}
	var flag *bool
	switch from := v.ValueFrom; {
	case from == nil && content:
		return fmt.Errorf("it has no source")
	case from == nil:
		return nil
	case v.Value != "":
		return fmt.Errorf("it has a value and a source")
	case from.ConfigMapKeyRef != nil:
		flag = from.ConfigMapKeyRef.Optional
	case from.SecretKeyRef != nil:
		flag = from.SecretKeyRef.Optional
	default:
		return nil
	}
	if flag == nil || *flag == content {
		return fmt.Errorf("optional is %v", flag)
	}
	return nil
}

// rolesOf gives the containers by their roles, in the order of their numbers, which begin
// with first.
func rolesOf(list []corev1.EphemeralContainer, first int) (map[patches.Role]*corev1.EphemeralContainer, error) {
	out, at := map[patches.Role]*corev1.EphemeralContainer{}, -1
	for i := range list {
		found := -1
		for j, role := range patches.Roles {
			if list[i].Name == fmt.Sprintf("%s-%d", role.Container(), first+i) && envOf(&list[i], patches.EnvAdopted) == fmt.Sprint(first+i) {
				found = j
			}
		}
		if found <= at {
			return nil, fmt.Errorf("%s is number %d", list[i].Name, i)
		}
		at = found
		out[patches.Roles[found]] = &list[i]
	}
	return out, nil
}

func envOf(c *corev1.EphemeralContainer, name string) string {
	for _, v := range c.Env {
		if v.Name == name {
			return v.Value
		}
	}
	return ""
}

// timeless is a container without what differs from one round to the next.
func timeless(c corev1.EphemeralContainer) corev1.EphemeralContainer {
	c.Name = ""
	c.Env = slices.DeleteFunc(slices.Clone(c.Env), func(v corev1.EnvVar) bool {
		return slices.Contains([]string{patches.EnvAdopted, patches.EnvAdoptedAt, patches.EnvAdoptedPair, patches.EnvAdoptedRenew, patches.EnvAdoptedDigest,
			patches.EnvAdoptedDir, patches.EnvAdoptedTakers}, v.Name)
	})
	return c
}
