package webhook

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/yaml"

	api "github.com/stategraft/stategraft/api/v1alpha1"
	"github.com/stategraft/stategraft/workload"
)

// quotas and ranges are read from YAML, as users write them.
func quotas(t *testing.T, texts ...string) (out []corev1.ResourceQuota) {
	t.Helper()
	for _, text := range texts {
		var q corev1.ResourceQuota
		if err := yaml.UnmarshalStrict([]byte(text), &q); err != nil {
			t.Fatal(err)
		}
		out = append(out, q)
	}
	return out
}

func ranges(t *testing.T, text string) []corev1.LimitRange {
	t.Helper()
	var r corev1.LimitRange
	if err := yaml.UnmarshalStrict([]byte("metadata: {name: lr}\nspec: {limits: ["+text+"]}"), &r); err != nil {
		t.Fatal(err)
	}
	return []corev1.LimitRange{r}
}

// The sidecars of cassandraPod ask for 120m and 224Mi, limited to 1472Mi.
func TestQuotas(t *testing.T) {
	sized := withSpec(t, cassandraPod, func(spec map[string]any) {
		spec["containers"].([]any)[0].(map[string]any)["resources"] = map[string]any{
			"requests": map[string]any{"cpu": "1", "memory": "4Gi"}, "limits": map[string]any{"cpu": "2", "memory": "4Gi"}}
		spec["priorityClassName"] = "high"
	})
	// Of init containers the largest counts, and this one is larger than all.
	large := withSpec(t, sized, func(spec map[string]any) {
		spec["initContainers"] = []any{map[string]any{"name": "i", "resources": map[string]any{"requests": map[string]any{"cpu": "8"}}}}
	})
	bestEffort := cassandraPod
	for _, c := range []struct {
		what, quota string
		raw         []byte
		exceeded    bool
	}{
		{"room", "{spec: {hard: {requests.cpu: '2', requests.memory: 5Gi}}}", sized, false},
		{"exactly", "{spec: {hard: {requests.cpu: 1120m}}}", sized, false},
		{"one too many", "{spec: {hard: {requests.cpu: 1119m}}}", sized, true},
		{"short name", "{spec: {hard: {cpu: 1119m}}}", sized, true},
		{"memory", "{spec: {hard: {memory: 4.1Gi}}}", sized, true},
		{"limits", "{spec: {hard: {limits.memory: 5Gi}}}", sized, true},
		{"used", "{spec: {hard: {cpu: '10'}}, status: {used: {cpu: '8900m'}}}", sized, true},
		{"used, with room", "{spec: {hard: {cpu: '10'}}, status: {used: {cpu: '8880m'}}}", sized, false},
		{"pods are not ours", "{spec: {hard: {pods: '0', count/configmaps: '0'}}}", sized, false},
		{"init container is larger", "{spec: {hard: {cpu: '8'}}}", large, false},
		{"terminating", "{spec: {hard: {cpu: '1'}, scopes: [Terminating]}}", sized, false},
		{"not terminating", "{spec: {hard: {cpu: '1'}, scopes: [NotTerminating]}}", sized, true},
		{"best effort", "{spec: {hard: {cpu: '1'}, scopes: [BestEffort]}}", sized, false},
		{"not best effort", "{spec: {hard: {cpu: '1'}, scopes: [NotBestEffort]}}", sized, true},
		{"priority in", "{spec: {hard: {cpu: '1'}, scopeSelector: {matchExpressions: [{scopeName: PriorityClass, operator: In, values: [high]}]}}}", sized, true},
		{"priority not in", "{spec: {hard: {cpu: '1'}, scopeSelector: {matchExpressions: [{scopeName: PriorityClass, operator: NotIn, values: [high]}]}}}", sized, false},
		{"priority of others", "{spec: {hard: {cpu: '1'}, scopeSelector: {matchExpressions: [{scopeName: PriorityClass, operator: In, values: [low]}]}}}", sized, false},
		{"no priority", "{spec: {hard: {cpu: '1'}, scopeSelector: {matchExpressions: [{scopeName: PriorityClass, operator: DoesNotExist}]}}}", sized, false},
		{"scope that only sidecars bring the pod into", "{spec: {hard: {pods: '0'}, scopes: [NotBestEffort]}}", bestEffort, true},
		{"the same with room", "{spec: {hard: {pods: '1'}, scopes: [NotBestEffort]}}", bestEffort, false},
		{"a scope it is in anyway", "{spec: {hard: {pods: '0'}, scopes: [NotBestEffort]}}", sized, false},
		{"two scopes, one not", "{spec: {hard: {cpu: '1'}, scopes: [NotTerminating, BestEffort]}}", sized, false},
		// A quota on a resource refuses a pod with a container that does not say it.
		{"storage not said", "{spec: {hard: {limits.ephemeral-storage: 100Gi}}}", sized, true},
		{"storage said for one", "{spec: {hard: {limits.ephemeral-storage: 100Gi}}}", annotated(t, sized, map[string]string{api.AnnotationSidecarResources: "limits: {ephemeral-storage: 1Gi}"}), true},
		{"memory kept where not said", "{spec: {hard: {limits.memory: 100Gi}}}", annotated(t, sized, map[string]string{api.AnnotationSidecarResources: "requests: {cpu: 1m}"}), false},
		{"cpu limit is added", "{spec: {hard: {limits.cpu: '100'}}}", sized, false},
	} {
		ns := labelled()
		ns.Quotas = quotas(t, "{metadata: {name: other}, spec: {hard: {pods: '1'}}}", strings.Replace(c.quota, "{", "{metadata: {name: q}, ", 1))
		checkQuota(t, c.what, c.raw, ns, c.exceeded)
	}
}

func checkQuota(t *testing.T, what string, raw []byte, ns Namespace, exceeded bool) {
	t.Helper()
	out := Decide(Input{Pod: raw, Namespace: ns, Config: DefaultConfig(), NativeSidecars: true})
	if got := out.Reason == workload.ReasonQuotaExceeded; got != exceeded || !got && out.Verdict != workload.Inject {
		t.Errorf("%s: %s (%s) %s", what, out.Verdict, out.Reason, out.Message)
	}
	if !exceeded {
		return
	}
	if !strings.Contains(out.Message, "q") || !strings.Contains(out.Message, "sidecars' resources") {
		t.Errorf("%s: message %q", what, out.Message)
	}
	asking := Decide(Input{Pod: annotated(t, raw, wantsRestore), Namespace: ns, Config: DefaultConfig()})
	if asking.Verdict != workload.Refuse || asking.Reason != workload.ReasonQuotaExceeded {
		t.Errorf("%s, with a restore: %s (%s)", what, asking.Verdict, asking.Reason)
	}
}

func TestLimitRanges(t *testing.T) {
	for _, c := range []struct {
		what, limits string
		annotations  map[string]string
		exceeded     bool
	}{
		{"none", "", nil, false},
		{"room", "{type: Container, max: {memory: 2Gi}, min: {memory: 16Mi}}", nil, false},
		{"max of memory", "{type: Container, max: {memory: 512Mi}}", nil, true},
		{"max of cpu has a limit added", "{type: Container, max: {cpu: '2'}}", nil, false},
		{"max of cpu is too small", "{type: Container, max: {cpu: 200m}}", nil, true},
		{"min of memory", "{type: Container, min: {memory: 128Mi}}", nil, true},
		{"min of cpu", "{type: Container, min: {cpu: 100m}}", nil, true},
		{"ratio", "{type: Container, maxLimitRequestRatio: {memory: '2'}}", nil, true},
		{"ratio with room", "{type: Container, maxLimitRequestRatio: {memory: '8'}}", nil, false},
		{"no limit at all", "{type: Container, max: {ephemeral-storage: 1Gi}}", nil, true},
		{"memory kept where not said", "{type: Container, max: {memory: 2Gi}}", map[string]string{api.AnnotationSidecarResources: "requests: {cpu: 1m}"}, false},
		{"resources that fit", "{type: Container, max: {memory: 512Mi}}", map[string]string{api.AnnotationSidecarResources: "limits: {memory: 500Mi}"}, false},
		{"pod", "{type: Pod, max: {memory: 1Gi}}", nil, true},
		{"a default below our request", "{type: Container, default: {cpu: 20m}, defaultRequest: {cpu: 10m}}", nil, false}, // ours have a limit then
		{"claims are not ours", "{type: PersistentVolumeClaim, max: {storage: 1Gi}}", nil, false},
	} {
		ns := labelled()
		ns.LimitRanges = ranges(t, c.limits)
		raw := withSpec(t, annotated(t, cassandraPod, c.annotations), func(spec map[string]any) {
			spec["containers"].([]any)[0].(map[string]any)["resources"] = map[string]any{
				"requests": map[string]any{"cpu": "100m", "memory": "256Mi"}, "limits": map[string]any{"memory": "512Mi"}}
		})
		out := Decide(Input{Pod: raw, Namespace: ns, Config: DefaultConfig()})
		if got := out.Reason == workload.ReasonQuotaExceeded; got != c.exceeded || !got && out.Verdict != workload.Inject {
			t.Errorf("%s: %s (%s) %s", c.what, out.Verdict, out.Reason, out.Message)
		}
		if c.exceeded && (!strings.Contains(out.Message, "LimitRange lr") || !out.Reason.Wanted()) {
			t.Errorf("%s: message %q", c.what, out.Message)
		}
	}
}

// What refuses the pod anyway is not blamed on the sidecars, and a pod with
// resources as a whole has sidecars that use what is there.
func TestQuotaAnyway(t *testing.T) {
	ns := labelled()
	ns.LimitRanges = ranges(t, "{type: Pod, max: {memory: 1Gi}}")
	raw := withSpec(t, cassandraPod, func(spec map[string]any) {
		spec["containers"].([]any)[0].(map[string]any)["resources"] = map[string]any{"limits": map[string]any{"cpu": "1", "memory": "4Gi"}}
	})
	if out := Decide(Input{Pod: raw, Namespace: ns, Config: DefaultConfig()}); out.Verdict != workload.Inject {
		t.Errorf("over the limit by itself: %s (%s) %s", out.Verdict, out.Reason, out.Message)
	}
	ns = labelled()
	ns.Quotas = quotas(t, "{metadata: {name: q}, spec: {hard: {cpu: '2', limits.cpu: '2'}}}")
	raw = withSpec(t, cassandraPod, func(spec map[string]any) {
		spec["resources"] = map[string]any{"requests": map[string]any{"cpu": "2"}, "limits": map[string]any{"cpu": "2", "memory": "4Gi"}}
	})
	out := Decide(Input{Pod: raw, Namespace: ns, Config: DefaultConfig()})
	if out.Verdict != workload.Inject {
		t.Fatalf("resources of the pod: %s (%s) %s", out.Verdict, out.Reason, out.Message)
	}
	for _, c := range out.Patch.Containers {
		if c.Resources.Requests.CPU != "" || c.Resources.Limits.Memory != "" {
			t.Errorf("container %s has resources %+v beside the pod's", c.Name, c.Resources)
		}
	}
}

// A LimitRange that fills in resources would give the sidecars of a pod with
// resources as a whole more than the pod has.
func TestLimitRangeFillsIn(t *testing.T) {
	whole := withSpec(t, cassandraPod, func(spec map[string]any) {
		spec["resources"] = map[string]any{"requests": map[string]any{"cpu": "1"}, "limits": map[string]any{"cpu": "1"}}
	})
	for limits, want := range map[string]workload.Reason{
		"{type: Container, default: {cpu: 500m}}":          workload.ReasonQuotaExceeded,
		"{type: Container, defaultRequest: {cpu: 100m}}":   workload.ReasonQuotaExceeded,
		"{type: PersistentVolumeClaim, max: {storage: 1}}": "",
	} {
		ns := labelled()
		ns.LimitRanges = ranges(t, limits)
		if out := Decide(Input{Pod: whole, Namespace: ns, Config: DefaultConfig()}); out.Reason != want {
			t.Errorf("%s: %s (%s) %s", limits, out.Verdict, out.Reason, out.Message)
		}
		if out := Decide(Input{Pod: cassandraPod, Namespace: ns, Config: DefaultConfig()}); out.Reason != "" {
			t.Errorf("%s, resources by container: %s (%s) %s", limits, out.Verdict, out.Reason, out.Message)
		}
	}
}

// A Guaranteed pod stays so whatever resources the sidecars are given.
func TestGuaranteed(t *testing.T) {
	raw := withSpec(t, cassandraPod, func(spec map[string]any) {
		spec["containers"].([]any)[0].(map[string]any)["resources"] = map[string]any{"limits": map[string]any{"cpu": 1, "memory": "4Gi"}}
	})
	for _, text := range []string{"", "limits: {cpu: 200m, memory: 1Gi}", "requests: {cpu: 300m, memory: 64Mi}", "requests: {memory: 64Mi}, limits: {memory: 128Mi}",
		"requests: {cpu: '2'}", "limits: {cpu: '1'}", "requests: {ephemeral-storage: 1Gi}"} {
		pod := annotated(t, raw, wantsRestore)
		if text != "" {
			pod = annotated(t, pod, map[string]string{api.AnnotationSidecarResources: "{" + text + "}"})
		}
		out := decideOn(pod)
		if out.Verdict != workload.Inject {
			t.Fatalf("%q: %s", text, out.Message)
		}
		var before, after corev1.Pod
		if err := yaml.Unmarshal(pod, &before); err != nil {
			t.Fatal(err)
		}
		if err := yaml.UnmarshalStrict(mustPatch(t, pod, out), &after); err != nil {
			t.Fatal(err)
		}
		if qosClass(&before) != corev1.PodQOSGuaranteed || qosClass(&after) != corev1.PodQOSGuaranteed {
			t.Errorf("%q: QoS was %s and is %s", text, qosClass(&before), qosClass(&after))
		}
		for _, c := range after.Spec.Containers[1:] {
			if storage := c.Resources.Requests[corev1.ResourceEphemeralStorage]; strings.Contains(text, "ephemeral") && c.Name == "stategraft-medusa" && storage.Cmp(resource.MustParse("1Gi")) != 0 {
				t.Errorf("%q: the request of storage is %s", text, storage.String())
			}
		}
	}
}
