package offline_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/stategraft/stategraft/webhook"
	"github.com/stategraft/stategraft/webhook/offline"
	"github.com/stategraft/stategraft/workload"
)

func defaults() offline.Options {
	return offline.Options{Namespace: offline.Labelled(), Config: webhook.DefaultConfig()}
}

func one(t *testing.T, text string) offline.Document {
	t.Helper()
	documents, err := offline.Read(strings.NewReader(text), "f")
	if err != nil || len(documents) != 1 {
		t.Fatalf("%d documents, %v: %s", len(documents), err, text)
	}
	return documents[0]
}

const claims = "[{metadata: {name: data}, spec: {}}]"

// claimed is podSpec without its volume, which a claim template gives.
var claimed = strings.Replace(podSpec, "volumes: [{name: data, persistentVolumeClaim: {claimName: c}}], ", "", 1)

// TestKinds decides on the pods that each kind of object would make.
func TestKinds(t *testing.T) {
	for _, c := range []struct {
		what, text string
		verdict    workload.Verdict
		reason     workload.Reason
		prefix     string
	}{
		{"pod", podYAML, workload.Inject, "", ""},
		{"StatefulSet", "apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: s}\nspec: {serviceName: s, template: {metadata: {labels: {a: b}}, spec: {" + podSpec + "}}}\n", workload.Inject, "", "/spec/template"},
		{"StatefulSet with claims", "apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: s}\nspec: {volumeClaimTemplates: " + claims + ", template: {metadata: {}, spec: {" + claimed + "}}}\n", workload.Inject, "", "/spec/template"},
		{"StatefulSet without its claims", "apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: s}\nspec: {template: {metadata: {}, spec: {" + claimed + "}}}\n", workload.Skip, workload.ReasonDataNotOnVolume, ""},
		{"StatefulSet, no metadata in the template", "apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: s}\nspec: {template: {spec: {" + podSpec + "}}}\n", workload.Inject, "", "/spec/template"},
		{"StatefulSet, null metadata in the template", "apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: s}\nspec: {template: {metadata: null, spec: {" + podSpec + "}}}\n", workload.Inject, "", "/spec/template"},
		{"StatefulSet of another group", "apiVersion: apps.kruise.io/v1beta1\nkind: StatefulSet\nmetadata: {name: s}\nspec: {template: {metadata: {}, spec: {" + podSpec + "}}}\n", workload.Inject, "", "/spec/template"},
		{"Deployment", "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: s}\nspec: {template: {metadata: {}, spec: {" + podSpec + "}}}\n", workload.Skip, workload.ReasonNoStableIdentity, ""},
		{"DaemonSet", "apiVersion: apps/v1\nkind: DaemonSet\nmetadata: {name: s}\nspec: {template: {metadata: {}, spec: {" + podSpec + "}}}\n", workload.Skip, workload.ReasonNoStableIdentity, ""},
		{"Job", "apiVersion: batch/v1\nkind: Job\nmetadata: {name: s}\nspec: {template: {metadata: {}, spec: {" + podSpec + "}}}\n", workload.Skip, workload.ReasonJobOwned, ""},
		{"CronJob", "apiVersion: batch/v1\nkind: CronJob\nmetadata: {name: s}\nspec: {jobTemplate: {spec: {template: {metadata: {}, spec: {" + podSpec + "}}}}}\n", workload.Skip, workload.ReasonJobOwned, ""},
		{"PodTemplate", "apiVersion: v1\nkind: PodTemplate\nmetadata: {name: s}\ntemplate: {metadata: {}, spec: {" + podSpec + "}}\n", workload.Skip, workload.ReasonNoStableIdentity, ""},
		{"no metadata at all", "apiVersion: v1\nkind: Pod\nspec: {" + podSpec + "}\n", workload.Inject, "", ""},
		{"null metadata", "apiVersion: v1\nkind: Pod\nmetadata: null\nspec: {" + podSpec + "}\n", workload.Inject, "", ""},
	} {
		d := one(t, c.text)
		for _, annotations := range []map[string]string{nil, {"stategraft.io/medusa-config": "m"}} {
			options := defaults()
			options.Annotations = annotations
			result, err := offline.Decide(d, options)
			if err != nil {
				t.Errorf("%s: %v", c.what, err)
				continue
			}
			e := result.Explain()
			if e.Decision != c.verdict || e.Reason != c.reason || e.Message == "" {
				t.Errorf("%s: %s (%s) %s", c.what, e.Decision, e.Reason, e.Message)
			}
			for _, op := range result.Operations {
				if !strings.HasPrefix(op.Path, c.prefix) && !strings.Contains(op.Path, "/metadata") {
					t.Errorf("%s: operation at %s", c.what, op.Path)
				}
			}
			text, err := result.Apply()
			if err != nil {
				t.Errorf("%s, annotations %v: %v", c.what, annotations, err)
				continue
			}
			again, err := offline.Decide(one(t, string(text)), options)
			if err != nil || c.verdict == workload.Inject && again.Reason != workload.ReasonAlreadyInjected {
				t.Errorf("%s, again: %v %s (%s)", c.what, err, again.Verdict, again.Reason)
			}
		}
	}
}

// The object stays what it was, with a template that is still one.
func TestStatefulSet(t *testing.T) {
	text := "apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: s, generation: 3}\nspec: {replicas: 3, volumeClaimTemplates: " + claims + ", template: {metadata: {labels: {a: b}}, spec: {" + claimed + "}}}\n"
	result, err := offline.Decide(one(t, text), defaults())
	if err != nil {
		t.Fatal(err)
	}
	raw, err := result.Apply()
	if err != nil {
		t.Fatal(err)
	}
	var before, after appsv1.StatefulSet
	if err := yaml.UnmarshalStrict([]byte(text), &before); err != nil {
		t.Fatal(err)
	}
	if err := yaml.UnmarshalStrict(raw, &after); err != nil {
		t.Fatal(err)
	}
	if len(after.Spec.Template.Spec.Containers) != 4 || after.Generation != 3 || len(after.Spec.VolumeClaimTemplates) != 1 {
		t.Errorf("%s", raw)
	}
	if len(after.Spec.Template.OwnerReferences)+len(after.Spec.Template.Name)+len(after.Spec.Template.Spec.Subdomain) > 0 {
		t.Error("what only the pod has is in the template")
	}
	for _, m := range after.Spec.Template.Spec.Containers[3].VolumeMounts {
		if m.Name == "data" && !m.ReadOnly {
			t.Errorf("mount %+v", m)
		}
	}
}

// Wrong types name the field, as kubectl writes it.
func TestWrongTypes(t *testing.T) {
	for _, c := range []struct{ from, to, field, say string }{
		{"containerPort: 9042", "containerPort: http", "containers[0].ports[0].containerPort", "number"},
		{"image: \"cassandra:4.1\"", "image: 5", "containers[0].image", "string"},
		{"image: \"cassandra:4.1\"", "env: {A: B}", "containers[0].env", "list"},
		{"image: \"cassandra:4.1\"", "env: [{name: A, value: 5}]", "containers[0].env[0].value", "string"},
		{"image: \"cassandra:4.1\"", "command: [1]", "containers[0].command[0]", "string"},
		{"image: \"cassandra:4.1\"", "resources: {limits: {cpu: [1]}}", "containers[0].resources.limits.cpu", ""},
		{"volumes: [", "hostNetwork: yes please, volumes: [", "hostNetwork", "boolean"},
		{"volumes: [", "securityContext: [], volumes: [", "securityContext", "mapping"},
		{"volumes: [", "nodeSelector: {a: 5}, volumes: [", "nodeSelector.a", "string"},
		{"claimName: c", "readOnly: 1", "volumes[0].persistentVolumeClaim.readOnly", "boolean"},
	} {
		for prefix, text := range map[string]string{"spec.": podYAML,
			"spec.template.spec.": "apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: s}\nspec: {template: {metadata: {}, spec: {" + podSpec + "}}}\n"} {
			if !strings.Contains(text, c.from) {
				t.Fatalf("%q is not in the document", c.from)
			}
			_, err := offline.Decide(one(t, strings.Replace(text, c.from, c.to, 1)), defaults())
			var input *offline.InputError
			if !errors.As(err, &input) || input.Field != prefix+c.field || input.Document != 1 || input.File != "f" || !strings.Contains(input.Message, c.say) {
				t.Errorf("%s: %v, want field %s and %q", c.to, err, prefix+c.field, c.say)
			}
		}
	}
}

func TestReadNamespace(t *testing.T) {
	const ns = "apiVersion: v1\nkind: Namespace\nmetadata: {name: team, labels: {a: b}, annotations: {c: d}}\n"
	const quota = "apiVersion: v1\nkind: ResourceQuota\nmetadata: {name: q}\nspec: {hard: {cpu: '1'}}\n"
	const limits = "apiVersion: v1\nkind: LimitRange\nmetadata: {name: l}\nspec: {limits: []}\n"
	got, err := offline.ReadNamespace(strings.NewReader(quota+"---\n"+ns+"---\n"+limits+"---\n"+quota), "f")
	if err != nil || got.Name != "team" || got.Labels["a"] != "b" || got.Annotations["c"] != "d" || len(got.Quotas) != 2 || len(got.LimitRanges) != 1 {
		t.Errorf("%v: %+v", err, got)
	}
	if got.Labelled() {
		t.Error("it counts as labelled, and is not")
	}
	for _, c := range []struct{ text, say string }{
		{quota, "no Namespace"}, {ns + "---\n" + ns, "document 2: field kind"}, {ns + "---\n" + podYAML, "document 2: field kind"},
		{strings.Replace(ns, "labels", "label", 1), "document 1"}, {"", "no document"},
	} {
		if _, err := offline.ReadNamespace(strings.NewReader(c.text), "f"); err == nil || !strings.HasPrefix(err.Error(), "f: ") || !strings.Contains(err.Error(), c.say) {
			t.Errorf("%q: %v", c.text, err)
		}
	}
}

// The keys of the JSON are a contract with scripts: all are there, lists are
// never null.
func TestExplainKeys(t *testing.T) {
	for _, text := range []string{podYAML, podJSON} {
		result, err := offline.Decide(one(t, text), defaults())
		if err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		if err := result.Explain().JSON(&out); err != nil {
			t.Fatal(err)
		}
		var got map[string]json.RawMessage
		if err := json.Unmarshal([]byte(out.String()), &got); err != nil || strings.Count(out.String(), "\n") != 1 {
			t.Fatalf("%v: %q", err, out.String())
		}
		for _, key := range []string{"name", "decision", "reason", "message", "workload", "warnings", "adds"} {
			if len(got[key]) == 0 || string(got[key]) == "null" {
				t.Errorf("%s is %q", key, got[key])
			}
		}
		for key, inner := range map[string][]string{"workload": {"kind", "container", "dataVolume", "dataPath", "snapshot"}, "adds": {"initContainers", "containers", "volumes"}} {
			var part map[string]json.RawMessage
			if err := json.Unmarshal(got[key], &part); err != nil {
				t.Fatal(err)
			}
			for _, name := range inner {
				if len(part[name]) == 0 || string(part[name]) == "null" {
					t.Errorf("%s.%s is %q", key, name, part[name])
				}
			}
		}
	}
}

// Numbers of the document are not read as floats on the way.
func TestApplyKeepsNumbers(t *testing.T) {
	text := strings.Replace(podYAML, "spec: {", "spec: {x-large: 9007199254740993, x-small: 1.50, ", 1)
	text = strings.Replace(text, "apiVersion: v1", "apiVersion: v1\nx: \"<&>\"", 1)
	result, err := offline.Decide(one(t, text), defaults())
	if err != nil {
		t.Fatal(err)
	}
	raw, err := result.Apply()
	if err != nil || !strings.Contains(string(raw), "9007199254740993") {
		t.Errorf("%v: %s", err, raw)
	}
	var after corev1.Pod
	if err := json.Unmarshal(raw, &after); err != nil || len(after.Spec.Containers) != 4 {
		t.Errorf("%v: %d containers", err, len(after.Spec.Containers))
	}
}
