package patches_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/patches"
)

// The label and the annotation are added to what there is, by the narrowest
// operation, and nothing of the user's is replaced.
func TestMark(t *testing.T) {
	for _, member := range []string{"annotations", "labels"} {
		for text, path := range map[string]string{
			`null`:                              "/metadata/" + member,
			`{}`:                                "/metadata/" + member + "/stategraft.io~1injected",
			`{"a/b~c":"d"}`:                     "/metadata/" + member + "/stategraft.io~1injected",
			`{"stategraft.io/injected":"mine"}`: "",
			`absent`:                            "/metadata/" + member,
		} {
			metadata := `"metadata":{"name":"db-0","` + member + `":` + text + `,"x":1`
			if text == "absent" {
				metadata = `"metadata":{"name":"db-0","x":1`
			}
			raw := []byte(strings.Replace(string(pod("", "")), `"metadata":{"name":"db-0","labels":{"app":"db"}`, metadata, 1))
			p, patch := graft(t, raw, patches.Default())
			got := p.Labels
			if member == "annotations" {
				got = p.Annotations
			}
			want := map[string]string{}
			if text != "absent" {
				must(json.Unmarshal([]byte(text), &want))
			}
			for key, value := range want {
				if got[key] != value {
					t.Errorf("%s %s: %s became %q", member, text, key, got[key])
				}
			}
			if _, there := want[api.LabelInjected]; !there {
				if got[api.LabelInjected] != "cassandra" || len(got) != len(want)+1 {
					t.Errorf("%s %s became %v", member, text, got)
				}
			}
			added := ""
			for _, op := range patch.Operations {
				if strings.HasPrefix(op.Path, "/metadata/"+member) {
					added += op.Path
				}
			}
			if added != path {
				t.Errorf("%s %s: added at %q, want %q", member, text, added, path)
			}
		}
	}
}

// The label tells the kind, and comes back alone where a later webhook took it off.
func TestMarkOfKinds(t *testing.T) {
	for kind, raw := range map[string][]byte{"cassandra": pod("", ""), "anna": anna("", "")} {
		p, _ := graft(t, raw, patches.Default())
		if p.Labels[api.LabelInjected] != kind {
			t.Errorf("%s: label %q", kind, p.Labels[api.LabelInjected])
		}
		delete(p.Labels, api.LabelInjected)
		stripped, err := json.Marshal(p)
		must(err)
		patch, err := build(t, stripped, patches.Default())
		if err != nil || len(patch.Operations) != 1 || patch.Operations[0].Path != "/metadata/labels/stategraft.io~1injected" {
			t.Errorf("%s, stripped: %v, %+v", kind, err, patch)
		}
	}
}

// The pair of the gRPC service is mounted where that or the node's service runs, and
// nowhere else; off is said to each that would ask for it.
func TestGRPCTLS(t *testing.T) {
	for _, c := range []struct {
		what  string
		raw   []byte
		off   bool
		mount []string // containers
	}{
		{"on", pod("", ""), false, []string{patches.ContainerRestore, patches.ContainerMedusa}},
		{"management API", pod("", `"image":"k8ssandra/cass-management-api:4.1"`), false, []string{patches.ContainerRestore, patches.ContainerMedusa}},
		{"off", pod("", ""), true, nil},
		{"anna", anna("", ""), false, []string{patches.ContainerRestore, patches.ContainerAgent}},
	} {
		p, _ := graft(t, c.raw, settings(func(s *patches.Settings) { s.Restore, s.GRPCTLS = "b", !c.off }))
		volumes := slices.DeleteFunc(p.Spec.Volumes, func(v corev1.Volume) bool { return v.Name != patches.VolumeGRPCTLS })
		if (len(volumes) == 1) != (len(c.mount) > 0) {
			t.Errorf("%s: volumes %+v", c.what, volumes)
		}
		for _, v := range volumes {
			if v.Secret == nil || v.Secret.SecretName != "stategraft-grpc" || v.Secret.Optional == nil || !*v.Secret.Optional {
				t.Errorf("%s: volume %+v", c.what, v)
			}
		}
		var mounted, told []string
		for _, container := range slices.Concat(p.Spec.InitContainers, p.Spec.Containers) {
			for _, m := range container.VolumeMounts {
				if m.Name == patches.VolumeGRPCTLS {
					mounted = append(mounted, container.Name)
					if m.MountPath != "/etc/stategraft/grpc-tls" || !m.ReadOnly {
						t.Errorf("%s: mount %+v", c.what, m)
					}
				}
			}
			if variable(container, "STATEGRAFT_GRPC_TLS") == "off" {
				told = append(told, container.Name)
			}
		}
		if !slices.Equal(mounted, c.mount) {
			t.Errorf("%s: mounted in %q, want %q", c.what, mounted, c.mount)
		}
		// To those who write medusa.ini, and to those who serve with the pair.
		if want := []string{patches.ContainerSetup, patches.ContainerRestore, patches.ContainerAgent, patches.ContainerMedusa}; c.off && !slices.Equal(told, want) || !c.off && told != nil {
			t.Errorf("%s: off is told to %q", c.what, told)
		}
	}
}
