package deploy_test

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// rights are all that the roles give, by role: what to, and the verbs. Names are
// in brackets. A right more or less has to be written down here too.
func rights(mode string) map[string]map[string]string {
	const read, write = "get list watch", "create patch"
	const own, whole = read + " update patch", read + " create update patch"
	const configuration = "mutatingwebhookconfigurations.admissionregistration.k8s.io[stategraft]"
	controller := map[string]string{
		"namespaces": read + " patch", "resourcequotas": read, "limitranges": read,
		"pods": read + " patch delete create", "pods/status": "patch", "statefulsets.apps": read, "nodes": "list get", "pods/ephemeralcontainers": "patch",
		"restores.stategraft.io": whole, "restores/status.stategraft.io": "get update patch", "restores/finalizers.stategraft.io": "update",
		"backups.stategraft.io": whole + " delete", "backups/status.stategraft.io": "get update patch",
		"backupschedules.stategraft.io": whole + " delete", "backupschedules/status.stategraft.io": "get update patch",
		"configmaps[stategraft-catalogue]": whole, "configmaps": "get", "services": read + " create patch delete", "pods/eviction": "create",
		"poddisruptionbudgets.policy": "list",
		"secrets[stategraft-grpc]":    whole, configuration: read,
		"events": "list " + write, "events.events.k8s.io": write,
	}
	home := map[string]string{
		"secrets[stategraft-ca stategraft-webhook-tls]": read,
		"configmaps[stategraft-held-back]":              own, "configmaps": "create",
		"leases.coordination.k8s.io[stategraft-controller]": own, "leases.coordination.k8s.io": "create",
	}
	if mode == selfSigned {
		controller[configuration] = read + " patch"
		home["secrets[stategraft-ca stategraft-webhook-tls]"] = whole
	}
	return map[string]map[string]string{
		"ClusterRole/stategraft-webhook": {
			"namespaces": read, "resourcequotas": read, "limitranges": read, "restores.stategraft.io": read,
			"events": write, "events.events.k8s.io": write,
		},
		"Role/stategraft-webhook":           {"configmaps[stategraft-held-back]": read},
		"ClusterRole/stategraft-controller": controller,
		"Role/stategraft-controller":        home,
		"ClusterRole/stategraft-view":       {"restores.stategraft.io": read, "backups.stategraft.io": read, "backupschedules.stategraft.io": read},
		"ClusterRole/stategraft-restore":    {"restores.stategraft.io": "create update patch delete"},
		"ClusterRole/stategraft-backup": {
			"backups.stategraft.io": "create update patch delete", "backupschedules.stategraft.io": "create update patch delete",
			"configmaps[stategraft-catalogue]": "get patch",
		},
	}
}

func rightsAreTheLeast(t *testing.T, docs []document, mode string) {
	want := rights(mode)
	// Who does not adopt may not.
	if args := deployments(t, docs)[1].Spec.Template.Spec.Containers[0].Args; !slices.Contains(args, "--adopt=true") {
		controller := want["ClusterRole/stategraft-controller"]
		controller["nodes"] = "list"
		delete(controller, "pods/ephemeralcontainers")
	}
	for _, d := range docs {
		rules, name := rulesOf(d.object)
		if name == "" {
			continue
		}
		if got := given(rules); !maps.Equal(got, want[name]) {
			t.Errorf("%s gives\n  %v\nwant\n  %v", name, got, want[name])
		}
		delete(want, name)
		if found, without := unreasoned(d.text); found != len(rules) || len(without) > 0 {
			t.Errorf("%s: no reason is given for rules %v of %d (%d in the text)", name, without, len(rules), found)
		}
	}
	for name := range want {
		t.Errorf("no %s", name)
	}
	rolesAreBound(t, docs)
}

func rulesOf(o runtime.Object) (rules []rbacv1.PolicyRule, name string) {
	switch role := o.(type) {
	case *rbacv1.ClusterRole:
		return role.Rules, "ClusterRole/" + role.Name
	case *rbacv1.Role:
		return role.Rules, "Role/" + role.Name
	}
	return nil, ""
}

// given writes rules the way that rights does.
func given(rules []rbacv1.PolicyRule) map[string]string {
	all := map[string]string{}
	for _, rule := range rules {
		for _, group := range rule.APIGroups {
			for _, what := range rule.Resources {
				if group != "" {
					what += "." + group
				}
				if len(rule.ResourceNames) > 0 {
					what += fmt.Sprint(rule.ResourceNames)
				}
				all[what] = strings.TrimSpace(all[what] + " " + strings.Join(rule.Verbs, " "))
			}
		}
	}
	return all
}

// unreasoned counts the rules in a role's text, and names those (from 1) that
// have no comment before them.
func unreasoned(text []byte) (rules int, without []int) {
	var before []byte
	for line := range bytes.Lines(text) {
		line = bytes.TrimLeft(line, " ")
		if bytes.HasPrefix(line, []byte("- apiGroups:")) {
			rules++
			if !bytes.HasPrefix(before, []byte("#")) {
				without = append(without, rules)
			}
		}
		before = line
	}
	return rules, without
}

// rolesAreBound wants each role bound to the account of its name and to no other, and
// those for people to nobody.
func rolesAreBound(t *testing.T, docs []document) {
	var bound []string
	for _, d := range docs {
		var ref rbacv1.RoleRef
		var subjects []rbacv1.Subject
		switch b := d.object.(type) {
		case *rbacv1.ClusterRoleBinding:
			ref, subjects = b.RoleRef, b.Subjects
		case *rbacv1.RoleBinding:
			ref, subjects = b.RoleRef, b.Subjects
		default:
			continue
		}
		bound = append(bound, ref.Kind+"/"+ref.Name)
		home := deployments(t, docs)[0].Namespace
		want := rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Name: ref.Name, Namespace: home}
		if !slices.Equal(subjects, []rbacv1.Subject{want}) {
			t.Errorf("%s is bound to %v", ref.Name, subjects)
		}
	}
	slices.Sort(bound)
	want := slices.DeleteFunc(slices.Sorted(maps.Keys(rights(selfSigned))), func(name string) bool { return forPeople[name] != nil })
	if !slices.Equal(bound, want) {
		t.Errorf("bound are %v, want %v", bound, want)
	}
	for _, d := range deployments(t, docs) {
		if d.Spec.Template.Spec.ServiceAccountName != d.Name {
			t.Errorf("%s runs as %s", d.Name, d.Spec.Template.Spec.ServiceAccountName)
		}
	}
}

func TestUnreasoned(t *testing.T) {
	rules, without := unreasoned([]byte("rules:\n- apiGroups: [a]\n# because\n- apiGroups: [b]\n  verbs: [get]\n- apiGroups: [c]\n"))
	if rules != 3 || !slices.Equal(without, []int{1, 3}) {
		t.Errorf("%d rules, without a reason %v", rules, without)
	}
}
