package controlplane

import (
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/patches"
	"github.com/stategraft/stategraft/workload"
)

const enforce = "pod-security.kubernetes.io/enforce"

// TestPodSecurity has the API server itself judge injected pods by the Pod
// Security Standards.
func TestPodSecurity(t *testing.T) {
	ctx, rig := start(t)
	pods := filepath.Join(rig.Root, "test", "corpus", "pods")

	t.Run("restricted", func(t *testing.T) {
		const in = "standard-restricted"
		namespace(ctx, t, in, labelled(enforce, "restricted"), nil)
		// With and without a restore, which has other containers.
		for _, backup := range []string{"", "nightly"} {
			pod := readPod(t, filepath.Join(pods, "plain-official-restricted.yaml"))
			if backup != "" {
				annotate(pod, api.AnnotationRestore, backup)
			}
			got, _ := mustCreate(ctx, t, in, pod)
			mine := addedTo(typed(t, got))
			if len(mine.containers) != 3 || (backup != "") != (len(mine.init) == 2) {
				t.Errorf("backup %q: added %+v", backup, mine)
			}
		}
		// That the standard is enforced at all.
		if _, _, err := create(ctx, t, in, readPod(t, filepath.Join(pods, "plain-official-41.yaml"))); err == nil {
			t.Error("the namespace takes a pod that the standard forbids")
		}
	})

	t.Run("host network in baseline", func(t *testing.T) {
		const in = "standard-baseline"
		namespace(ctx, t, in, labelled(enforce, "baseline"), nil)
		pod := readPod(t, filepath.Join(pods, "plain-official-restricted.yaml"))
		annotate(pod, api.AnnotationHostNetwork, "true")
		got, told := mustCreate(ctx, t, in, pod)
		if out := typed(t, got); out.Spec.HostNetwork || addedTo(out).none() {
			t.Errorf("hostNetwork %v, added %+v", out.Spec.HostNetwork, addedTo(out))
		}
		if text := strings.Join(told, "\n"); !strings.Contains(text, api.AnnotationHostNetwork) || !strings.Contains(text, "baseline") {
			t.Errorf("warnings %q", told)
		}
	})

	t.Run("host network in privileged", func(t *testing.T) {
		const in = "standard-privileged"
		namespace(ctx, t, in, labelled(enforce, "privileged"), nil)
		for _, name := range []string{"plain-official-restricted", "anna-memory"} {
			pod := readPod(t, filepath.Join(pods, name+".yaml"))
			annotate(pod, api.AnnotationHostNetwork, "true")
			created, told := mustCreate(ctx, t, in, pod)
			got := typed(t, created)
			if !got.Spec.HostNetwork || got.Spec.DNSPolicy != corev1.DNSClusterFirstWithHostNet {
				t.Errorf("%s: hostNetwork %v, dnsPolicy %s, warnings %q", name, got.Spec.HostNetwork, got.Spec.DNSPolicy, told)
			}
			ports := 0
			for _, list := range [][]corev1.Container{got.Spec.InitContainers, got.Spec.Containers} {
				for _, c := range list {
					for _, p := range c.Ports {
						ports++
						if p.HostPort != p.ContainerPort {
							t.Errorf("%s: container %s: port %d is %d on the host", name, c.Name, p.ContainerPort, p.HostPort)
						}
					}
				}
			}
			if ports < 2 {
				t.Errorf("%s: %d ports declared", name, ports)
			}
		}
	})
}

// annotate puts an annotation on a pod.
// TestNoToken finds the service account's token in the database's container and
// in none of ours, and the pod asked about only once for it.
func TestNoToken(t *testing.T) {
	ctx, _ := start(t)
	const in, at = "token", "/var/run/secrets/kubernetes.io/serviceaccount"
	namespace(ctx, t, in, labelled(), nil)
	pod := needy(t)
	unstructured.RemoveNestedField(pod.Object, "spec", "automountServiceAccountToken")
	got, _ := mustCreate(ctx, t, in, pod)
	for _, c := range typed(t, got).Spec.Containers {
		mounted := ""
		for _, m := range c.VolumeMounts {
			if m.MountPath == at {
				mounted = m.Name
			}
		}
		if ours := workload.Own(c.Name); ours != (mounted == patches.VolumeNoToken) || mounted == "" {
			t.Errorf("container %s has volume %q on %s", c.Name, mounted, at)
		}
	}
}

func annotate(pod *unstructured.Unstructured, key, value string) {
	annotations := pod.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[key] = value
	pod.SetAnnotations(annotations)
}
