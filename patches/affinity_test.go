package patches_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stategraft/stategraft/patches"
)

const (
	required  = "requiredDuringSchedulingIgnoredDuringExecution"
	preferred = "preferredDuringSchedulingIgnoredDuringExecution"
)

// TestAffinity adds to every combination of parents: absent, null, empty, and
// with terms of the user's, which have to stay first.
func TestAffinity(t *testing.T) {
	all := settings(func(s *patches.Settings) {
		s.SpreadHost, s.SpreadZone = true, true
		s.ColocateWith = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: metav1.LabelSelectorOpExists}}}
	})
	term, weighted := `{"topologyKey":"rack","x":1}`, `{"weight":1,"podAffinityTerm":{"topologyKey":"rack"},"x":1}`
	for _, anti := range []string{"", "null", "{}", `{"x":1}`, `{"R":null}`, `{"R":[]}`, `{"R":[T]}`, `{"P":null}`, `{"P":[W,W]}`, `{"R":[T,T],"P":[W]}`} {
		for _, with := range []string{"", "null", "{}", `{"R":[]}`, `{"R":[T]}`, `{"P":[W]}`} {
			expand := strings.NewReplacer(`"R"`, `"`+required+`"`, `"P"`, `"`+preferred+`"`, "T", term, "W", weighted).Replace
			members := []string{`"nodeAffinity":{"x":1}`}
			if anti != "" {
				members = append(members, `"podAntiAffinity":`+expand(anti))
			}
			if with != "" {
				members = append(members, `"podAffinity":`+expand(with))
			}
			p, patch := graft(t, pod(`"affinity":{`+strings.Join(members, ",")+`}`, ""), all)
			a := p.Spec.Affinity
			what := fmt.Sprintf("anti-affinity %s, affinity %s", anti, with)
			if len(patch.Warnings) > 0 {
				t.Errorf("%s: warnings %q", what, patch.Warnings)
			}
			if a == nil || a.NodeAffinity == nil || a.PodAntiAffinity == nil || a.PodAffinity == nil {
				t.Errorf("%s: %+v", what, a)
				continue
			}
			count := strings.Count
			hosts, zones, next := a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution, a.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution, a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution
			if len(hosts) != count(anti, "T")+1 || len(zones) != count(anti, "W")+1 || len(next) != count(with, "T")+1 ||
				len(a.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution) != count(with, "W") {
				t.Errorf("%s: %+v %+v", what, a.PodAntiAffinity, a.PodAffinity)
				continue
			}
			if hosts[len(hosts)-1].TopologyKey != "kubernetes.io/hostname" || hosts[0].TopologyKey == "rack" != (len(hosts) > 1) ||
				zones[len(zones)-1].PodAffinityTerm.TopologyKey != "topology.kubernetes.io/zone" || next[len(next)-1].LabelSelector.MatchExpressions[0].Key != "a" {
				t.Errorf("%s: %+v %+v", what, a.PodAntiAffinity, a.PodAffinity)
			}
		}
	}
	for _, affinity := range []string{`"x":1`, `"affinity":null`, `"affinity":{}`} {
		p, _ := graft(t, pod(affinity, ""), all)
		if a := p.Spec.Affinity; a == nil || a.PodAntiAffinity == nil || a.PodAffinity == nil {
			t.Errorf("%s: %+v", affinity, a)
		}
	}
}

// A term that the user has, in whatever order it is written, is not added again.
func TestAffinityThere(t *testing.T) {
	s := settings(func(s *patches.Settings) { s.SpreadHost = true })
	raw := pod(`"affinity":{"podAntiAffinity":{"`+required+`":[{"topologyKey":"kubernetes.io/hostname","labelSelector":{"matchLabels":{"app":"db"}}}]}}`, "")
	p, _ := graft(t, raw, s)
	if n := len(p.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution); n != 1 {
		t.Errorf("%d terms", n)
	}
}

// An affinity of the wrong shape is the user's all the same: nothing of it may
// be replaced.
func TestAffinityUnreadable(t *testing.T) {
	s := settings(func(s *patches.Settings) { s.SpreadHost = true })
	for _, affinity := range []string{`[]`, `"x"`, `{"podAntiAffinity":"x"}`, `{"podAntiAffinity":[1]}`, `{"podAntiAffinity":{"` + required + `":{"a":1}}}`, `{"podAntiAffinity":{"` + required + `":"x"}}`} {
		patch, err := build(t, pod(`"affinity":`+affinity, ""), s)
		if err != nil {
			t.Errorf("%s: %v", affinity, err)
			continue
		}
		for _, op := range patch.Operations {
			if strings.HasPrefix(op.Path, "/spec/affinity") {
				t.Errorf("%s: %s %s replaces it", affinity, op.Operation, op.Path)
			}
		}
		if len(patch.Warnings) == 0 {
			t.Errorf("%s: no warning", affinity)
		}
	}
}

// The selector names the workload and not what differs between its pods.
func TestSpreadSelector(t *testing.T) {
	s := settings(func(s *patches.Settings) { s.SpreadHost, s.SpreadZone = true, true })
	for labels, want := range map[string]map[string]string{
		`{"app":"db","pod-template-hash":"1","controller-revision-hash":"2"}`:                                               {"app": "db"},
		`{"app.kubernetes.io/name":"c","app.kubernetes.io/instance":"i","app.kubernetes.io/version":"4"}`:                   {"app.kubernetes.io/name": "c", "app.kubernetes.io/instance": "i"},
		`{"cassandra.datastax.com/cluster":"c","cassandra.datastax.com/rack":"r1","cassandra.datastax.com/node-state":"S"}`: {"cassandra.datastax.com/cluster": "c"},
		`{"statefulset.kubernetes.io/pod-name":"db-0","apps.kubernetes.io/pod-index":"0"}`:                                  nil,
		`null`: nil, `{}`: nil,
	} {
		raw := []byte(strings.Replace(string(pod("", "")), `{"app":"db"}`, labels, 1))
		p, patch := graft(t, raw, s)
		if want == nil {
			if p.Spec.Affinity != nil || len(patch.Warnings) != 1 || !strings.Contains(patch.Warnings[0], "stategraft.io/spread") {
				t.Errorf("%s: %+v, warnings %q", labels, p.Spec.Affinity, patch.Warnings)
			}
			continue
		}
		anti := p.Spec.Affinity.PodAntiAffinity
		if got := anti.RequiredDuringSchedulingIgnoredDuringExecution[0].LabelSelector.MatchLabels; !reflect.DeepEqual(got, want) {
			t.Errorf("%s: selector %v, want %v", labels, got, want)
		}
		if got := anti.PreferredDuringSchedulingIgnoredDuringExecution[0]; got.Weight != 100 || !reflect.DeepEqual(got.PodAffinityTerm.LabelSelector.MatchLabels, want) {
			t.Errorf("%s: %+v", labels, got)
		}
	}
}

// What was added the first time stands, whatever became of the labels since; a
// mark that was copied from a live pod is no first time.
func TestAffinityOfAMarkedPod(t *testing.T) {
	s := settings(func(s *patches.Settings) { s.SpreadHost = true })
	copied := []byte(strings.Replace(string(pod("", "")), `"labels"`, `"annotations":{"stategraft.io/injected":"cassandra"},"labels"`, 1))
	for what, raw := range map[string][]byte{"Cassandra": copied, "Anna": []byte(strings.Replace(string(anna("", "")), `"labels"`, `"annotations":{"stategraft.io/injected":"anna"},"labels"`, 1))} {
		p, _ := graft(t, raw, s)
		if p.Spec.Affinity == nil {
			t.Errorf("%s: no affinity in a pod with a copied mark", what)
		}
		p.Labels["app"], p.Kind, p.APIVersion = "changed later", "Pod", "v1"
		again, err := json.Marshal(p)
		must(err)
		if patch, err := build(t, again, s); err != nil || len(patch.Operations) > 0 {
			t.Errorf("%s: changed labels give %v, %+v", what, err, patch)
		}
	}
}
