package webhook

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stategraft/stategraft/workload"
)

// hostile is JSON that is made to be misunderstood. Most of it no API server
// would send; none of it may crash, or refuse a pod that asks for no restore.
var hostile = []string{
	"", "null", "0", `""`, "[]", "{}", "{", `{"spec":`, "\x00", "\xff\xfe", `{"metadata":null,"spec":null}`,
	`{"metadata":{"annotations":null,"labels":null,"ownerReferences":null},"spec":{"containers":null,"initContainers":null,"volumes":null,"affinity":null}}`,
	`{"spec":{"containers":[]},"spec":{"containers":[]}}`,
	`{"Spec":{"Containers":[{"name":"cassandra","image":"cassandra"}]},"spec":{"containers":[]}}`,
	`{"Metadata":{"Annotations":{"stategraft.io/restore":"b"}},"spec":5}`,
	`{"metadata":{"annotations":{"stategraft.io/restore":"b"}},"spec":5}`,
	`{"metadata":{"annotations":{"stategraft.io/restore":5}},"spec":{"containers":[{"name":"cassandra"}]}}`,
	`{"metadata":{"annotations":{"stategraft\u002eio/restore":"b"}},"spec":{"containers":[{"name":"cassandra"}]}}`,
	`{"metadata":{"annotations":{"~":"/","a/b~0~1":""},"labels":{"~1/":"~"}},"spec":{"containers":[{"name":"~/0"}]}}`,
	`{"metadata":{"annotations":"x","labels":[]},"spec":{"containers":{"0":{}}}}`,
	`{"spec":{"containers":[null,null]}}`, `{"spec":{"containers":[[],{},0,"x"]}}`,
	`{"spec":{"containers":[{"name":"a","ports":[{"containerPort":99999999999}]}]}}`,
	`{"spec":{"containers":[{"name":"a","ports":[{"containerPort":1e400}]}],"activeDeadlineSeconds":-1e5}}`,
	`{"spec":{"securityContext":{"runAsUser":9223372036854775807},"containers":[{"resources":{"limits":{"cpu":"1e999999999"}}}]}}`,
	"{\"metadata\":{\"name\":\"\xff\"},\"spec\":{\"containers\":[{\"name\":\"\xc3\x28\"}]}}",
	strings.Repeat(`{"spec":`, 5000) + "1" + strings.Repeat("}", 5000),
	strings.Repeat("[", 20000),
	base(`"affinity":null`), base(`"affinity":{}`), base(`"affinity":[]`), base(`"affinity":{"podAntiAffinity":null}`),
	base(`"affinity":{"podAntiAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":null}}`),
	base(`"affinity":{"podAntiAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":[null]},"podAffinity":{}}`),
	base(`"affinity":{"podAntiAffinity":{"preferredDuringSchedulingIgnoredDuringExecution":[{"weight":1}]},"x":{}}`),
	base(`"initContainers":null`), base(`"initContainers":[]`), base(`"initContainers":[{"name":"stategraft-setup"}]`),
	base(`"resources":{"limits":{"cpu":"1","memory":"1Gi"}}`), base(`"hostNetwork":true,"dnsPolicy":"None"`),
	base(`"schedulingGates":null`), base(`"schedulingGates":[null,{}]`), base(`"schedulingGates":{}`), base(`"nodeName":"n"`),
	strings.Replace(base(`"x":1`), `"image"`, `"env":null,"image"`, 1), strings.Replace(base(`"x":1`), `"image"`, `"env":[null,{"name":"JVM_EXTRA_OPTS","valueFrom":{"x":{"optional":true}}}],"image"`, 1),
	base(`"volumes":null`), base(`"containers":[{"name":"stategraft-medusa"}]`),
}

// base is a Cassandra pod that asks for all that is added, with another member
// in its spec.
func base(member string) string {
	return `{"metadata":{"name":"db-0","labels":{"app":"db"},"annotations":{"stategraft.io/spread":"host,zone","stategraft.io/colocate-with":"a=b"}},` +
		`"spec":{"volumes":[{"name":"data","emptyDir":{}}],"containers":[{"name":"cassandra","image":"cassandra:4.1","ports":[{"containerPort":9042}],` +
		`"volumeMounts":[{"name":"data","mountPath":"/var/lib/cassandra"}]}],` + member + `}}`
}

// FuzzDecide gives the decision any bytes for a pod.
func FuzzDecide(f *testing.F) {
	for _, raw := range corpus(f) {
		f.Add(raw)
		f.Add(annotated(f, raw, map[string]string{"stategraft.io/restore": "b", "stategraft.io/spread": "zone"}))
	}
	for _, text := range hostile {
		f.Add([]byte(text))
	}
	config := DefaultConfig()
	f.Fuzz(func(t *testing.T, raw []byte) {
		in := Input{Pod: raw, Namespace: labelled(), Config: config, NativeSidecars: true}
		out := Decide(in)
		if err := decides(raw, in, out); err != nil {
			t.Fatal(err)
		}
		if !json.Valid(encode(t, answer(out))) {
			t.Fatal("the answer is no JSON")
		}
		in.Order = ordered(orderVariants["remote"]) // which adds the most
		if err := decidesOrder(raw, in, Decide(in)); err != nil {
			t.Fatal("with an order:", err)
		}
	})
}

// decidesOrder checks what must hold for any bytes where there is an order for every
// pod with a name.
func decidesOrder(raw []byte, in Input, out Outcome) error {
	if err := holds(raw, in, out); err != nil && wellTyped(raw) {
		return err
	}
	pending := in.order(restoreIn(raw).name).Pending
	if pending && out.Verdict == workload.Skip && out.Reason != workload.ReasonAlreadyInjected && json.Valid(raw) && wellTyped(raw) {
		return stringError("admitted as it was, with a pending order")
	}
	return nil
}

// decides checks what must hold for any bytes.
func decides(raw []byte, in Input, out Outcome) error {
	if err := holds(raw, in, out); err != nil && wellTyped(raw) {
		return err
	}
	if out.Verdict == workload.Refuse && !bytes.Contains(unescaped(raw), []byte("stategraft.io/restore")) {
		return errUnasked
	}
	return nil
}

type stringError string

func (e stringError) Error() string { return string(e) }

const errUnasked = stringError("refused, and no restore was asked for")

// wellTyped tells whether an affinity, which is kept as it was written, is one:
// a list where a mapping has to be could not have passed the API server.
func wellTyped(raw []byte) bool {
	var pod struct {
		Spec struct {
			Affinity map[string]map[string]json.RawMessage `json:"affinity"`
		} `json:"spec"`
	}
	if json.Unmarshal(raw, &pod) != nil {
		return false
	}
	for kind, lists := range pod.Spec.Affinity {
		for _, list := range lists {
			var entries []any
			if kind != "nodeAffinity" && json.Unmarshal(list, &entries) != nil {
				return false
			}
		}
	}
	return true
}

// unescaped undoes the escapes of JSON, by which a key may hide.
func unescaped(raw []byte) []byte {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	out := bytes.Clone(raw)
	for {
		token, err := decoder.Token()
		if err != nil {
			return out
		}
		if text, ok := token.(string); ok {
			out = append(append(out, '\n'), text...)
		}
	}
}

// TestHostile runs the hostile pods in every go test, with and without what
// would be added.
func TestHostile(t *testing.T) {
	for _, text := range hostile {
		in := Input{Pod: []byte(text), Namespace: labelled(), Config: DefaultConfig(), NativeSidecars: true}
		out := Decide(in)
		if err := decides(in.Pod, in, out); err != nil {
			t.Errorf("%.200s: %v", text, err)
		}
		for variant, order := range orderVariants {
			in.Order = ordered(order)
			if err := decidesOrder(in.Pod, in, Decide(in)); err != nil {
				t.Errorf("%s: %.200s: %v", variant, text, err)
			}
		}
	}
}

// FuzzSettings gives the annotations any keys and values.
func FuzzSettings(f *testing.F) {
	for _, c := range annotationCases {
		f.Add(c.key, c.value)
	}
	for _, key := range []string{"", "~", "a/b", "stategraft.io/", "stategraft.io/restor", "stategraft.io/Restore", strings.Repeat("x", 500)} {
		f.Add(key, strings.Repeat("é", 200))
	}
	pod := []byte(base(`"x":1`))
	config := DefaultConfig()
	f.Fuzz(func(t *testing.T, key, value string) {
		if !utf8.ValidString(key) || !utf8.ValidString(value) {
			return // the API server sends none
		}
		for _, prefix := range []string{"", "stategraft.io/"} {
			in := Input{Pod: annotated(t, pod, map[string]string{prefix + key: value}), Namespace: labelled(), Config: config}
			out := Decide(in)
			if err := holds(in.Pod, in, out); err != nil {
				t.Fatalf("%q: %q: %v", prefix+key, value, err)
			}
			if out.Verdict == workload.Refuse && prefix+key != "stategraft.io/restore" {
				t.Fatalf("%q: %q refuses the pod", prefix+key, value)
			}
			checkWarnings(t, answer(out).Warnings)
			// The same from the namespace: never a refusal either but for a restore.
			ns := labelled()
			ns.Annotations = map[string]string{prefix + key: value}
			in = Input{Pod: pod, Namespace: ns, Config: config}
			if err := holds(pod, in, Decide(in)); err != nil {
				t.Fatalf("namespace, %q: %q: %v", prefix+key, value, err)
			}
		}
	})
}

// checkWarnings holds warnings to what the API server and kubectl can show.
func checkWarnings(tb testing.TB, warnings []string) {
	tb.Helper()
	if len(warnings) > 10 {
		tb.Errorf("%d warnings", len(warnings))
	}
	for _, text := range warnings {
		if len(text) > 250 || !utf8.ValidString(text) || strings.ContainsAny(text, "\n\r\x00") || !strings.HasPrefix(text, "stategraft: ") {
			tb.Errorf("warning of %d bytes: %q", len(text), text)
		}
	}
}
