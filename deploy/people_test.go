package deploy_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
)

// forPeople are the roles that nobody is bound to here, with the cluster's own roles
// that they are part of.
var forPeople = map[string][]string{
	"ClusterRole/stategraft-view":    {"view"},
	"ClusterRole/stategraft-restore": {"admin", "edit"},
	"ClusterRole/stategraft-backup":  {"admin", "edit"},
}

// Of the roles those for people, and no other, are part of the cluster's own, unless
// that is switched off. See
// https://kubernetes.io/docs/reference/access-authn-authz/rbac/#aggregated-clusterroles
func TestRolesForPeople(t *testing.T) {
	for value, want := range map[string]map[string][]string{"true": forPeople, "false": {}} {
		found, there := map[string][]string{}, 0
		for _, d := range rendered(t, "--set", "rbac.aggregate="+value) {
			role, ok := d.object.(*rbacv1.ClusterRole)
			if !ok {
				continue
			}
			if _, ok := forPeople["ClusterRole/"+role.Name]; ok {
				there++
			}
			for label, is := range role.Labels {
				if name, ok := strings.CutPrefix(label, "rbac.authorization.k8s.io/aggregate-to-"); ok && is == "true" {
					found["ClusterRole/"+role.Name] = append(found["ClusterRole/"+role.Name], name)
				}
			}
			slices.Sort(found["ClusterRole/"+role.Name])
		}
		maps.DeleteFunc(found, func(_ string, of []string) bool { return len(of) == 0 })
		if there != len(forPeople) || !maps.EqualFunc(found, want, slices.Equal) {
			t.Errorf("rbac.aggregate=%s: %d roles for people, part of %v; want %d and %v", value, there, found, len(forPeople), want)
		}
	}
}

// What ConfigMaps of other names say, the controller may read only where that is left on.
func TestReadingConfigMaps(t *testing.T) {
	for value, want := range map[string]string{"true": "get", "false": ""} {
		found := false
		for _, d := range rendered(t, "--set", "rbac.readConfigMaps="+value) {
			rules, name := rulesOf(d.object)
			if name != "ClusterRole/stategraft-controller" {
				continue
			}
			found = true
			if got := given(rules)["configmaps"]; got != want {
				t.Errorf("rbac.readConfigMaps=%s: %q", value, got)
			}
		}
		if !found {
			t.Errorf("rbac.readConfigMaps=%s: the role is not there", value)
		}
	}
}
