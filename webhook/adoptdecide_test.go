package webhook

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/patches"
	"github.com/stategraft/stategraft/workload"
)

// TestAdoptDecides: who would not be injected is not adopted, for the same reason.
func TestAdoptDecides(t *testing.T) {
	owned := withSpec(t, cassandraPod, func(spec map[string]any) {})
	held := func(namespace, kind, name string) (api.HeldBack, bool) { return api.HeldBack{}, true }
	owned = []byte(strings.Replace(string(owned), `"name":"db-0"`, `"name":"db-0","ownerReferences":[{"apiVersion":"apps/v1","kind":"StatefulSet","name":"db","controller":true,"uid":"u"}]`, 1))
	for what, c := range map[string]struct {
		in      Input
		verdict workload.Verdict
		reason  workload.Reason
		names   string
	}{
		"plain":                    {adoptInput(cassandraPod), workload.Inject, "", "agent-4 snapshot-5 medusa-6"},
		"opted out":                {adoptInput(withMetadata(t, cassandraPod, "labels", map[string]string{api.LabelInject: api.InjectDisabled})), workload.Skip, workload.ReasonOptedOut, ""},
		"not labelled":             {Input{Pod: cassandraPod, Config: DefaultConfig()}, workload.Skip, workload.ReasonNamespaceNotLabelled, ""},
		"a bad value":              {adoptInput(annotated(t, cassandraPod, map[string]string{api.AnnotationGRPCPort: "1"})), workload.Skip, workload.ReasonBadAnnotation, ""},
		"a bad value of its own":   {adoptInput(annotated(t, cassandraPod, map[string]string{api.AnnotationAdopt: "yes"})), workload.Inject, "", "agent-4 snapshot-5 medusa-6"},
		"held back":                {Input{Pod: owned, Namespace: labelled(), Config: DefaultConfig(), HeldBack: held}, workload.Skip, workload.ReasonHeldBack, ""},
		"not held back":            {adoptInput(owned), workload.Inject, "", "agent-4 snapshot-5 medusa-6"},
		"unreadable":               {adoptInput([]byte(`{`)), workload.Skip, workload.ReasonUnreadablePod, ""},
		"a restore in its pod":     {adoptInput(annotated(t, cassandraPod, map[string]string{api.AnnotationRestore: "b1"})), workload.Inject, "", "agent-4 snapshot-5 medusa-6"},
		"a restore that cannot":    {adoptInput(annotated(t, cassandraPod, map[string]string{api.AnnotationRestore: "b/1"})), workload.Refuse, workload.ReasonBadAnnotation, ""},
		"injected":                 {adoptInput(mustPatch(t, cassandraPod, decideOn(cassandraPod))), workload.Skip, workload.ReasonAlreadyInjected, ""},
		"injected in part":         {adoptInput(withoutContainer(t, mustPatch(t, cassandraPod, decideOn(cassandraPod)), patches.ContainerMedusa)), workload.Skip, workload.ReasonAlreadyInjected, ""},
		"a volume mounted by path": {adoptInput([]byte(strings.Replace(string(cassandraPod), `"mountPath":`, `"subPath":"x","mountPath":`, 1))), workload.Skip, workload.ReasonSubPath, ""},
	} {
		a := firstAdoption
		a.Next = 4
		out, containers := Adopt(c.in, a)
		var names []string
		for _, e := range containers {
			names = append(names, strings.TrimPrefix(e.Name, workload.OwnPrefix))
		}
		if out.Verdict != c.verdict || out.Reason != c.reason || strings.Join(names, " ") != c.names || (out.Patch != nil) != (c.verdict == workload.Inject) || out.Message == "" {
			t.Errorf("%s: %s (%s) %s, %q, want %s (%s) and %q", what, out.Verdict, out.Reason, out.Message, names, c.verdict, c.reason, c.names)
		}
	}
}

func withoutContainer(t *testing.T, raw []byte, name string) []byte {
	t.Helper()
	return withSpec(t, raw, func(spec map[string]any) {
		var kept []any
		for _, c := range spec["containers"].([]any) {
			if c.(map[string]any)["name"] != name {
				kept = append(kept, c)
			}
		}
		spec["containers"] = kept
	})
}

// What a pod that runs uses of a quota is not counted twice: the sidecars have to fit beside
// it, as they would when it is created anew.
func TestAdoptQuota(t *testing.T) {
	raw := withSpec(t, cassandraPod, func(spec map[string]any) {
		spec["containers"].([]any)[0].(map[string]any)["resources"] = map[string]any{"requests": map[string]any{"memory": "2Gi"}}
	})
	quota := func(hard, used string, scopes ...corev1.ResourceQuotaScope) corev1.ResourceQuota {
		list := func(text string) corev1.ResourceList {
			return corev1.ResourceList{corev1.ResourceRequestsMemory: resource.MustParse(text), corev1.ResourcePods: resource.MustParse("3")}
		}
		return corev1.ResourceQuota{Spec: corev1.ResourceQuotaSpec{Hard: list(hard), Scopes: scopes}, Status: corev1.ResourceQuotaStatus{Used: list(used)}}
	}
	for what, c := range map[string]struct {
		quota  corev1.ResourceQuota
		reason workload.Reason
	}{
		"room for the sidecars":     {quota("10500Mi", "10Gi"), ""},
		"room for none":             {quota("10Gi", "10Gi"), workload.ReasonQuotaExceeded},
		"not counted yet":           {quota("2500Mi", "1Gi"), ""},
		"of other pods":             {quota("10Gi", "10Gi", corev1.ResourceQuotaScopeBestEffort), ""},
		"room for another such pod": {quota("20Gi", "10Gi"), ""},
	} {
		in := adoptInput(raw)
		in.Namespace.Quotas = []corev1.ResourceQuota{c.quota}
		before := c.quota.DeepCopy()
		if out, list := Adopt(in, firstAdoption); out.Reason != c.reason || (len(list) == 0) != (c.reason != "") {
			t.Errorf("%s: %s (%s) %s", what, out.Verdict, out.Reason, out.Message)
		}
		if used := in.Namespace.Quotas[0].Status.Used[corev1.ResourceRequestsMemory]; used.Cmp(before.Status.Used[corev1.ResourceRequestsMemory]) != 0 {
			t.Errorf("%s: the quota was changed", what)
		}
	}
}
