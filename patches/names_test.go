package patches_test

import (
	"errors"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stategraft/stategraft/patches"
	"github.com/stategraft/stategraft/workload"
)

// TestConflicts has something of the user's stand where ours would: it is never
// taken for ours, nor is the pod made one that the API server refuses.
func TestConflicts(t *testing.T) {
	both := func(s *patches.Settings) {
		s.SpreadHost, s.ColocateWith = true, &metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}}
	}
	other := func(s *patches.Settings) {
		s.SpreadHost, s.ColocateWith = true, &metav1.LabelSelector{MatchLabels: map[string]string{"app": "cache"}}
	}
	nothing := func(*patches.Settings) {}
	for _, c := range []struct {
		what   string
		raw    []byte
		change func(*patches.Settings)
		reason workload.Reason
		say    string
	}{
		{"container of our name", pod(`"containers":[`+container(pod("", ""))+`,{"name":"stategraft-agent","image":"busybox"}]`, ""), nothing, workload.ReasonNameConflict, "stategraft-agent"},
		{"init container of our name", pod(`"initContainers":[{"name":"stategraft-setup","command":["true"]}]`, ""), nothing, workload.ReasonNameConflict, "stategraft-setup"},
		{"name that is not one of ours", pod(`"initContainers":[{"name":"stategraft-mine","command":["true"]}]`, ""), nothing, "", ""},
		{"volume of our name", pod(`"volumes":[{"name":"data","emptyDir":{}},{"name":"stategraft-shared","configMap":{"name":"x"}}]`, ""), nothing, workload.ReasonNameConflict, "stategraft-shared"},
		{"volume of our name that is no Secret", pod(`"volumes":[{"name":"data","emptyDir":{}},{"name":"stategraft-grpc-tls","emptyDir":{}}]`, ""), nothing, workload.ReasonNameConflict, "stategraft-grpc-tls"},
		{"variable of an envFrom", pod("", `"envFrom":[{"configMapRef":{"name":"x"}}],"volumeMounts":[{"name":"data","mountPath":"/var/lib/cassandra","subPathExpr":"$(BASE)/x"}]`), nothing, workload.ReasonNameConflict, "BASE"},
		{"variable that means another thing", pod("", `"env":[{"name":"POD_IP","valueFrom":{"fieldRef":{"fieldPath":"status.podIP"}}}],"volumeMounts":[{"name":"data","mountPath":"/var/lib/cassandra","subPathExpr":"$(POD_IP)"}]`), nothing, workload.ReasonNameConflict, "POD_IP"},
		{"variable that means the same", pod("", `"env":[{"name":"POD_NAME","valueFrom":{"fieldRef":{"fieldPath":"metadata.name"}}}],"volumeMounts":[{"name":"data","mountPath":"/var/lib/cassandra","subPathExpr":"$(POD_NAME)"}]`), nothing, "", ""},
		{"apart from and beside the same pods", pod("", ""), both, workload.ReasonBadAnnotation, "colocate-with"},
		{"apart from some, beside others", pod("", ""), other, "", ""},
	} {
		_, err := build(t, c.raw, settings(c.change))
		var conflict *patches.Conflict
		switch {
		case c.reason == "" && err != nil:
			t.Errorf("%s: %v", c.what, err)
		case c.reason != "" && (!errors.As(err, &conflict) || conflict.Reason != c.reason || !strings.Contains(conflict.Message, c.say)):
			t.Errorf("%s: error %v, want %s that says %q", c.what, err, c.reason, c.say)
		}
	}
}

// TestDataAtOurPlaces names a data volume that is mounted where one of ours goes.
func TestDataAtOurPlaces(t *testing.T) {
	for _, at := range []string{"/tmp", "/etc/medusa", "/stategraft"} {
		raw := []byte(strings.ReplaceAll(string(pod("", "")), "/var/lib/cassandra", at))
		p, err := workload.Parse(raw)
		must(err)
		d := workload.Recognize(p, workload.Hints{NamespaceLabelled: true, DataVolume: "data"})
		_, err = patches.Build(p, d.Workload, patches.Default())
		var conflict *patches.Conflict
		if !errors.As(err, &conflict) || conflict.Reason != workload.ReasonNameConflict || !strings.Contains(conflict.Message, at) {
			t.Errorf("%s: %v", at, err)
		}
	}
}

// TestNoToken keeps the service account's token, which the API server mounts into
// every container that has nothing in its place, out of ours.
func TestNoToken(t *testing.T) {
	const at = "/var/run/secrets/kubernetes.io/serviceaccount"
	with := pod(`"volumes":[{"name":"data","emptyDir":{}},{"name":"kube-api-access-x","projected":{"sources":[]}}]`,
		`"volumeMounts":[{"name":"data","mountPath":"/var/lib/cassandra"},{"name":"kube-api-access-x","mountPath":"`+at+`","readOnly":true}]`)
	for _, c := range []struct {
		raw    []byte
		masked bool
	}{{with, true}, {pod("", ""), false}} {
		p, _ := graft(t, c.raw, settings(func(s *patches.Settings) { s.Restore = "b" }))
		for _, container := range append(p.Spec.InitContainers, p.Spec.Containers[1:]...) {
			volume := ""
			for _, m := range container.VolumeMounts {
				if m.MountPath == at {
					volume = m.Name
				}
			}
			if (volume == patches.VolumeNoToken) != c.masked {
				t.Errorf("%s has volume %q on the token's path, masked %v", container.Name, volume, c.masked)
			}
		}
	}
}
