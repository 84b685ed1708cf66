package webhook

import (
	"reflect"
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

// No quota and no limit range keeps a pod from being adopted, or changes with what: ephemeral
// containers have no resources. The same pod would not be injected there.
func TestAdoptQuota(t *testing.T) {
	full := corev1.ResourceList{corev1.ResourceRequestsMemory: resource.MustParse("10Gi"), corev1.ResourceLimitsCPU: resource.MustParse("1")}
	none := resource.MustParse("1Mi")
	for what, set := range map[string]func(*Namespace){
		"a quota that is used up": func(n *Namespace) {
			n.Quotas = []corev1.ResourceQuota{{Spec: corev1.ResourceQuotaSpec{Hard: full}, Status: corev1.ResourceQuotaStatus{Used: full}}}
		},
		"a limit range that has room for none": func(n *Namespace) {
			n.LimitRanges = []corev1.LimitRange{{Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{{Type: corev1.LimitTypeContainer,
				Max: corev1.ResourceList{corev1.ResourceMemory: none}}}}}}
		},
	} {
		in := adoptInput(cassandraPod)
		_, want := Adopt(in, firstAdoption)
		in.Namespace = labelled()
		set(&in.Namespace)
		if out := Decide(in); out.Reason != workload.ReasonQuotaExceeded {
			t.Errorf("%s: to be injected it is %s (%s), so nothing is shown here", what, out.Verdict, out.Reason)
		}
		if out, got := Adopt(in, firstAdoption); out.Verdict != workload.Inject || len(got) == 0 || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %s (%s) %s, %d containers", what, out.Verdict, out.Reason, out.Message, len(got))
		}
	}
}
