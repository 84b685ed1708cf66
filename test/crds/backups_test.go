package crds

import (
	"strings"
	"testing"
)

func TestBackupSpec(t *testing.T) {
	backups := load(t, "backups")
	for spec, say := range map[string]string{
		"pods: {names: [db-0]}":                                          "",
		"pods: {workload: {name: db}}":                                   "",
		"pods: {workload: {kind: Cassandra, name: db}}":                  "",
		"pods: {workload: {kind: statefulset, name: db}}":                "it takes a kind",
		"pods: {workload: {name: statefulset/db}}":                       "without its kind",
		"pods: {selector: {matchLabels: {a: b}}}":                        "",
		"pods: {selector: {}}":                                           "an empty selector",
		"pods: {selector: {matchExpressions: [{key: a, operator: In}]}}": "In or NotIn, with values",
		"pods: {names: [db-0], workload: {name: db}}":                    "by one of workload",
		"pods: {}":                             "by one of workload",
		"pods: {names: [pod/a]}":               "without pod/",
		"":                                     "say which pods to back up",
		"existing: {name: b1, prefix: prod-c}": "",
		"existing: {name: b1, prefix: prod-Test Cluster}":                        "",
		"existing: {name: b1, prefix: ''}":                                       "",
		"existing: {name: b1}":                                                   "Required",
		"existing: {name: b1, prefix: a/b}":                                      "no slash",
		"existing: {name: a/b, prefix: ''}":                                      "no slash",
		"existing: {name: a..b, prefix: ''}":                                     "no ..",
		"existing: {name: b1, prefix: ''}, pods: {names: [a]}":                   "not both",
		"existing: {name: b1, prefix: ''}, type: full":                           "beside existing",
		"existing: {name: b1, prefix: ''}, timeout: 1h":                          "beside existing",
		"existing: {name: b1, prefix: ''}, retries: 0":                           "beside existing",
		"existing: {name: b1, prefix: ''}, suspend: true":                        "beside existing",
		"existing: {name: b1, prefix: ''}, cancel: true":                         "beside existing",
		"existing: {name: b1, prefix: ''}, dryRun: true":                         "beside existing",
		"existing: {name: b1, prefix: ''}, parallel: 2":                          "beside existing",
		"existing: {name: b1, prefix: ''}, parallel: 0, dryRun: false":           "",
		"existing: {name: b1, prefix: ''}, pinned: true, deletionPolicy: Delete": "",
		"pods: {names: [a]}, timeout: 6h, retries: 0, type: full, parallel: 3":   "",
		"pods: {names: [a]}, timeout: 0s":                                        "longer than nothing",
		"pods: {names: [a]}, timeout: 1d":                                        "longer than nothing",
		"pods: {names: [a]}, timeout: 6":                                         "must be of type string",
		"pods: {names: [a]}, retries: 11":                                        "less than or equal",
		"pods: {names: [a]}, parallel: -1":                                       "greater than or equal",
		"pods: {names: [a]}, type: Full":                                         "Unsupported",
		"pods: {names: [a]}, deletionPolicy: Retain":                             "Unsupported",
	} {
		want(t, spec, backups.judge(backups.object(t, "b", spec, ""), nil), say)
	}
	long := strings.Repeat("b", 63)
	want(t, "63 characters", backups.judge(backups.object(t, long, "pods: {names: [a]}", ""), nil), "")
	want(t, "64 characters", backups.judge(backups.object(t, long+"b", "pods: {names: [a]}", ""), nil), "at most 63")
	// One that was found does not show what it was not asked for.
	spec := backups.object(t, "b", "existing: {name: b1, prefix: ''}", "")["spec"].(map[string]any)
	if len(spec) != 2 || spec["deletionPolicy"] != "Keep" {
		t.Errorf("existing comes to %v", spec)
	}
}

const accepted = "conditions: [{type: Accepted, status: 'True', reason: Accepted, message: '', lastTransitionTime: '2026-11-30T03:00:00Z'}]"

// TestAcceptedBackup is that only four fields can be changed of one that was accepted,
// and all before. Each field of the spec is tried, so that a new one is not forgotten.
func TestAcceptedBackup(t *testing.T) {
	backups := load(t, "backups")
	const settled = "only deletionPolicy, pinned, suspend and cancel can be changed"
	const full = "pods: {names: [a, b]}, type: full, parallel: 2, retries: 1, timeout: 6h"
	cases := map[string]struct{ before, after, say string }{
		"nothing":                  {full, full, ""},
		"pods":                     {full, "pods: {names: [a]}, type: full, parallel: 2, retries: 1, timeout: 6h", settled},
		"pods, order":              {full, "pods: {names: [b, a]}, type: full, parallel: 2, retries: 1, timeout: 6h", ""},
		"pods, by workload":        {"pods: {names: [a]}", "pods: {workload: {name: a}}", settled},
		"pods, workload":           {"pods: {workload: {name: a}}", "pods: {workload: {name: b}}", settled},
		"pods, kind":               {"pods: {workload: {name: a}}", "pods: {workload: {kind: Cassandra, name: a}}", settled},
		"pods, kind said":          {"pods: {workload: {name: a}}", "pods: {workload: {kind: StatefulSet, name: a}}", ""},
		"pods, by labels":          {"pods: {names: [a]}", "pods: {selector: {matchLabels: {a: b}}}", settled},
		"pods, labels":             {"pods: {selector: {matchLabels: {a: b}}}", "pods: {selector: {matchLabels: {a: b, c: d}}}", settled},
		"pods, labels said":        {"pods: {selector: {matchLabels: {a: b}}}", "pods: {selector: {matchLabels: {a: b}, matchExpressions: []}}", ""},
		"pods, expressions":        {"pods: {selector: {matchExpressions: [{key: a, operator: Exists}]}}", "pods: {selector: {matchExpressions: [{key: b, operator: Exists}]}}", settled},
		"pods, expression instead": {"pods: {selector: {matchLabels: {a: b}}}", "pods: {selector: {matchExpressions: [{key: a, operator: Exists}]}}", settled},
		"type":                     {full, "pods: {names: [a, b]}, parallel: 2, retries: 1, timeout: 6h", settled},
		"parallel":                 {full, "pods: {names: [a, b]}, type: full, retries: 1, timeout: 6h", settled},
		"retries":                  {full, "pods: {names: [a, b]}, type: full, parallel: 2, timeout: 6h", settled},
		"timeout":                  {full, "pods: {names: [a, b]}, type: full, parallel: 2, retries: 1", settled},
		"timeout, said anew":       {full, "pods: {names: [a, b]}, type: full, parallel: 2, retries: 1, timeout: 6h0m0s", ""},
		"dryRun":                   {full, full + ", dryRun: true", settled},
		"defaults, said":           {"pods: {names: [a]}", "pods: {names: [a]}, type: differential, timeout: 24h0m0s, retries: 2, parallel: 0", ""},
		"suspend":                  {full, full + ", suspend: true", ""},
		"cancel":                   {full, full + ", cancel: true", ""},
		"pinned":                   {full, full + ", pinned: true", ""},
		"deletionPolicy":           {full, full + ", deletionPolicy: Delete", ""},
		"existing":                 {"existing: {name: b1, prefix: a}", "existing: {name: b1, prefix: a}, pinned: true", ""},
	}
	for field := range backups.structural.Properties["spec"].Properties {
		if _, tried := cases[field]; !tried {
			t.Errorf("spec.%s is not tried here", field)
		}
	}
	change := func(before, after, status string) string {
		return backups.judge(backups.object(t, "b", after, status), backups.object(t, "b", before, status))
	}
	for name, c := range cases {
		want(t, name, change(c.before, c.after, accepted), c.say)
		want(t, name+", before it is accepted", change(c.before, c.after, ""), "")
	}
	// What is so from the beginning.
	for name, c := range map[string]struct{ before, after, say string }{
		"cancelled":    {full + ", cancel: true", full, "cancelled stays so"},
		"another":      {"existing: {name: b1, prefix: a}", "existing: {name: b2, prefix: a}", "it says which backup this is"},
		"elsewhere":    {"existing: {name: b1, prefix: a}", "existing: {name: b1, prefix: c}", "it says which backup this is"},
		"made, found":  {full, "existing: {name: b1, prefix: a}", "it says which backup this is"},
		"found, made":  {"existing: {name: b1, prefix: a}", full, "it says which backup this is"},
		"found, empty": {"existing: {name: b1, prefix: a}", "", "say which pods"},
	} {
		want(t, name, change(c.before, c.after, ""), c.say)
	}
}

func TestBackupStatus(t *testing.T) {
	backups := load(t, "backups")
	const spec = "pods: {names: [a]}"
	const complete = "name: n1, prefix: p, finished: '2026-11-30T03:00:00Z', phase: Complete"
	for name, c := range map[string]struct{ before, after, say string }{
		"complete":               {"", complete + ", pods: [{name: a, phase: Complete, objects: 3}]", ""},
		"complete of no pod":     {"", complete, "Complete only with"},
		"complete of none":       {"", complete + ", pods: []", "Complete only with"},
		"complete without name":  {"", "finished: '2026-11-30T03:00:00Z', phase: Complete, pods: [{name: a, phase: Complete, objects: 3}]", "Complete only with"},
		"complete without time":  {"", "name: n1, phase: Complete, pods: [{name: a, phase: Complete, objects: 3}]", "Complete only with"},
		"complete, a pod is not": {"", complete + ", pods: [{name: a, phase: Complete, objects: 3}, {name: b, phase: Failed}]", "write Partial or Failed"},
		"complete with nothing":  {"", complete + ", pods: [{name: a, phase: Complete}]", "a backup of nothing"},
		"a pod with nothing":     {"", "name: n1, phase: Running, pods: [{name: a, phase: Complete, objects: 0}]", "a backup of nothing"},
		"partial":                {"", "name: n1, phase: Partial, pods: [{name: a, phase: Complete, objects: 1}, {name: b, phase: Gone}]", ""},
		"pods without name":      {"", "phase: Running, pods: [{name: a, phase: Running}]", "write status.name"},
		"planned":                {"", "phase: Planned, pods: [{name: a, phase: Waiting}]", ""},
		"deleting":               {complete + ", pods: [{name: a, phase: Complete, objects: 3}]", "name: n1, prefix: p, phase: Deleting, pods: [{name: a, phase: Complete, objects: 3}]", ""},
		"another name":           {"name: n1, prefix: p", "name: m1, prefix: p", "stay as they are"},
		"another prefix":         {"name: n1, prefix: p", "name: n1, prefix: q", "stay as they are"},
		"no prefix any more":     {"name: n1, prefix: p", "name: n1", "stay as they are"},
		"no name any more":       {"name: n1", "", "stay as they are"},
		"without prefix":         {"name: n1", "name: n1, phase: Running", ""},
		"accepted":               {accepted, accepted + ", name: n1", ""},
		"accepted no more":       {accepted, "", "stays so"},
	} {
		want(t, name, backups.judge(backups.object(t, "b", spec, c.after), backups.object(t, "b", spec, c.before)), c.say)
	}
	// The largest there may be costs no more than the API server allows.
	pod := "{name: " + strings.Repeat("a", 253) + ", phase: Complete, objects: 3}"
	large := complete + ", " + accepted + ", pods: [" + strings.Repeat(pod+", ", 999) + pod + "]"
	o := backups.object(t, "b", spec, large)
	want(t, "a thousand pods", backups.judge(o, o), "")
	o = backups.object(t, "b", spec, strings.TrimSuffix(large, "]")+", "+pod+"]")
	want(t, "more", backups.judge(o, nil), "at most 1000 items")
}
