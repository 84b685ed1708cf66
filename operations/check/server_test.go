package check

import (
	"strings"
	"testing"
)

func TestServer(t *testing.T) {
	for _, c := range []struct {
		version  string
		policies bool
		want     string
	}{
		{"v1.37.2", true, "ok : Kubernetes v1.37.2"},
		{"v1.32.0", true, "ok : v1.32.0"},
		{"v1.30.4-eks-036c24b", true, "info : ordinary container"},
		{"v1.31.9+k3s1", true, "info : ordinary container"},
		{"v1.29.15", false, "fail : older than 1.30"},
		{"v1.29.15", true, "fail : older than 1.30"},
		{"v1.33.1", false, "fail : does not serve ValidatingAdmissionPolicies"},
		{"dev", true, "skip : no version"},
	} {
		expect(t, c.version, judgeServer(c.version, c.policies), c.want)
	}
}

func TestNodes(t *testing.T) {
	good, old, older := kubelet{"a", "v1.31.2"}, kubelet{"b", "v1.28.9-gke.1"}, kubelet{"c", "v1.27.1"}
	for _, c := range []struct {
		what, server, configured string
		kubelets                 []kubelet
		want                     []string
	}{
		{"all know them", "v1.33.0", "auto", []kubelet{good, good}, []string{"ok : 2 nodes"}},
		{"one", "v1.33.0", "auto", []kubelet{good}, []string{"ok : 1 node,"}},
		{"none", "v1.33.0", "auto", nil, []string{"ok : no node"}},
		{"old", "v1.33.0", "auto", []kubelet{old, good, older}, []string{"warn : kubelet v1.27.1 on c", "warn : kubelet v1.28.9-gke.1 on b"}},
		{"old, and an API server for which none are used", "v1.31.0", "auto", []kubelet{old}, []string{"info : none are used"}},
		{"old, and they are asked for", "v1.31.0", "always", []kubelet{old}, []string{"warn : does not start"}},
		{"old, and they are switched off", "v1.33.0", "never", []kubelet{old}, []string{"info : none are used"}},
		{"many", "v1.33.0", "auto", []kubelet{{"g", "v1.28.0"}, {"f", "v1.28.0"}, {"e", "v1.28.0"}, {"d", "v1.28.0"}, {"c", "v1.28.0"}, {"b", "v1.28.0"}, {"a", "v1.28.0"}},
			[]string{"warn : a, b, c, d, e and 2 more knows"}},
	} {
		expect(t, c.what, judgeNodes(c.server, c.configured, c.kubelets), c.want...)
	}
}

func TestRights(t *testing.T) {
	missing := []right{{Verb: "list", Resource: "nodes"}, {Verb: "get", Group: "apps", Resource: "deployments", Name: "d", Namespace: "ns"}}
	const list = "get deployments.apps/d in namespace ns, list nodes"
	expect(t, "all", judgeRights(nil, Doctor), "ok : look at everything")
	expect(t, "all, before", judgeRights(nil, Preflight), "ok : install")
	expect(t, "doctor", judgeRights(missing, Doctor), "info : you may not: "+list)
	expect(t, "preflight", judgeRights(missing, Preflight), "fail : you may not: "+list)
}

// What the cluster holds may not write to the terminal.
func TestFindingIsOneLine(t *testing.T) {
	f := finding(Fail, "", "%s", "two\nlines\x1b[31m "+strings.Repeat("x", 2*messageLimit))
	if strings.ContainsAny(f.Message, "\n\x1b") || len(f.Message) > messageLimit {
		t.Errorf("%q", f.Message)
	}
}
