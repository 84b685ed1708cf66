package adopted_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/stategraft/stategraft/operations/adopted"
	"github.com/stategraft/stategraft/operations/adopted/adoptedtest"
	"github.com/stategraft/stategraft/patches"
	"github.com/stategraft/stategraft/workload"
)

const repo = "../.."

// Whoever reads an injected pod reads the same in the view of an adopted one.
func TestViewIsAsInjected(t *testing.T) {
	for name, pair := range adoptedtest.Corpus(t, repo) {
		before := asJSON(t, pair.Adopted)
		view := adopted.View(pair.Adopted)
		for _, difference := range differences(pair, view) {
			t.Errorf("%s: %s", name, difference)
		}
		if again := adopted.View(view); again != view {
			t.Errorf("%s: the view of the view is another", name)
		}
		if !adopted.Is(view) {
			t.Errorf("%s: the view is not adopted", name)
		}
		if asJSON(t, pair.Adopted) != before {
			t.Errorf("%s: the pod has changed", name)
		}
	}
}

// differences tells what is not the same in two pods of what the controllers read.
func differences(pair adoptedtest.Pair, view *corev1.Pod) (all []string) {
	injected, kind := pair.Injected, pair.Workload.Kind
	for _, role := range patches.Roles {
		was, is := container(injected, role.Container()), container(view, role.Container())
		if was == nil || is == nil {
			if was != is {
				all = append(all, fmt.Sprintf("%s is there %v, and was %v", role, is != nil, was != nil))
			}
			continue
		}
		all = append(all, compare(role, "image", []string{was.Image}, []string{is.Image})...)
		all = append(all, compare(role, "command", was.Command, is.Command)...)
		masked := func(list []string) (all []string) {
			for _, text := range list {
				all = append(all, pair.Text(text))
			}
			return all
		}
		all = append(all, compare(role, "port", masked(ports(was)), masked(ports(is)))...)
		all = append(all, compare(role, "variable", masked(env(was, kind)), masked(env(is, kind)))...)
		all = append(all, compare(role, "mount", mounts(injected, was, kind), mounts(view, is, kind))...)
		if !runs(view, role.Container()) {
			all = append(all, string(role)+" does not run")
		}
	}
	return all
}

func compare(role patches.Role, what string, was, is []string) (all []string) {
	for _, each := range was {
		if !slices.Contains(is, each) {
			all = append(all, fmt.Sprintf("%s lacks %s %s", role, what, each))
		}
	}
	for _, each := range is {
		if !slices.Contains(was, each) {
			all = append(all, fmt.Sprintf("%s has %s %s", role, what, each))
		}
	}
	return all
}

func container(pod *corev1.Pod, name string) *corev1.Container {
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			if list[i].Name == name {
				return &list[i]
			}
		}
	}
	return nil
}

func runs(pod *corev1.Pod, name string) bool {
	return slices.ContainsFunc(pod.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool { return s.Name == name && s.State.Running != nil && s.Ready })
}

// ports are the container's, but for the one by which an injected agent of Anna hands keys
// over.
func ports(c *corev1.Container) (all []string) {
	for _, p := range c.Ports {
		if p.Name != patches.PortLife {
			all = append(all, fmt.Sprintf("%s=%d/%s host %d", p.Name, p.ContainerPort, p.Protocol, p.HostPort))
		}
	}
	return all
}

// ofAnna are the variables that controllers read of Anna's agent: an adopted one has not all
// of the others.
var ofAnna = []string{"STATEGRAFT_KIND", "STATEGRAFT_ROLE", "STATEGRAFT_CLUSTER", "POD_NAME", "POD_NAMESPACE", "STATEGRAFT_GRPC_PORT", patches.EnvNodePort, patches.EnvResponsePort}

func env(c *corev1.Container, kind workload.Kind) (all []string) {
	for _, v := range c.Env {
		if kind != workload.KindAnna || slices.Contains(ofAnna, v.Name) {
			from := ""
			if v.ValueFrom != nil && v.ValueFrom.FieldRef != nil {
				from = v.ValueFrom.FieldRef.FieldPath
			}
			all = append(all, v.Name+"="+v.Value+from)
		}
	}
	return all
}

// mounts are those of a container with what is mounted. Of Anna's agent the node's own
// volumes are left out, as an adopted one does not look for what restores leave there.
func mounts(pod *corev1.Pod, c *corev1.Container, kind workload.Kind) (all []string) {
	for _, m := range c.VolumeMounts {
		if m.Name == patches.VolumeNoToken || kind == workload.KindAnna && (!workload.Own(m.Name) || m.Name == patches.VolumeConf) {
			continue
		}
		what := "nothing"
		for _, v := range pod.Spec.Volumes {
			if v.Name == m.Name {
				text, err := json.Marshal(v.VolumeSource)
				what = fmt.Sprintf("%s %v", text, err)
			}
		}
		all = append(all, fmt.Sprintf("%s at %s%s%s read-only %v: %s", m.Name, m.MountPath, m.SubPath, m.SubPathExpr, m.ReadOnly, what))
	}
	return all
}

func asJSON(t *testing.T, object any) string {
	t.Helper()
	text, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
