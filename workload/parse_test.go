package workload_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/stategraft/stategraft/workload"
)

// The parser reads as the API server does: names by case, null as absent, and
// nothing twice. What it does not read it does not look into.
func TestParse(t *testing.T) {
	for _, c := range []struct{ what, text, at string }{ // at: where the error is; - for none
		{"empty object", `{}`, "-"},
		{"unknown members", `{"x":1,"spec":{"x":[],"containers":[{"x":{}}]}}`, "-"},
		{"nulls", `{"metadata":{"labels":null,"ownerReferences":null},"spec":{"containers":null,"volumes":[{"name":null,"emptyDir":null}],"securityContext":null,"os":null}}`, "-"},
		{"null container", `{"spec":{"containers":[null]}}`, "-"},
		{"quantities", `{"spec":{"containers":[{"resources":{"limits":{"cpu":1,"memory":"1Gi","x":1e3}}}]}}`, "-"},
		{"ports of probes", `{"spec":{"containers":[{"livenessProbe":{"httpGet":{"port":"http"},"tcpSocket":{"port":80},"grpc":{"port":1}}}]}}`, "-"},
		{"another case", `{"Spec":{"containers":5},"SPEC":[]}`, "-"},
		{"empty", ``, ""},
		{"a list", `[]`, ""},
		{"twice", `{"spec":{},"spec":{}}`, "/spec"},
		{"twice in what is not read", `{"status":{"a":1,"a":2}}`, "/status/a"},
		{"containers in a mapping", `{"spec":{"containers":{}}}`, "/spec/containers"},
		{"number for a name", `{"spec":{"containers":[{"name":"a"},{"name":5}]}}`, "/spec/containers/1/name"},
		{"text for a port", `{"spec":{"containers":[{"ports":[{"containerPort":"80"}]}]}}`, "/spec/containers/0/ports/0/containerPort"},
		{"large port", `{"spec":{"containers":[{"ports":[{"containerPort":4294967296}]}]}}`, "/spec/containers/0/ports/0/containerPort"},
		{"quantity in a list", `{"spec":{"initContainers":[{"resources":{"limits":{"a/b":[]}}}]}}`, "/spec/initContainers/0/resources/limits/a~1b"},
		{"port in a mapping", `{"spec":{"containers":[{"startupProbe":{"grpc":{"port":{}}}}]}}`, "/spec/containers/0/startupProbe/grpc/port"},
		{"text for a flag", `{"spec":{"hostNetwork":"true"}}`, "/spec/hostNetwork"},
		{"label that is a number", `{"metadata":{"labels":{"a":1}}}`, "/metadata/labels/a"},
		{"invalid UTF-8", "{\"metadata\":{\"name\":\"\xff\"}}", "/metadata/name"},
		{"something after", `{} {}`, ""},
	} {
		pod, err := workload.Parse([]byte(c.text))
		if c.at == "-" {
			if err != nil || pod == nil {
				t.Errorf("%s: %v", c.what, err)
			}
			continue
		}
		var at jsontext.Pointer
		var semantic *json.SemanticError
		var syntactic *jsontext.SyntacticError
		switch {
		case errors.As(err, &semantic):
			at = semantic.JSONPointer
		case errors.As(err, &syntactic):
			at = syntactic.JSONPointer
		}
		if err == nil || pod != nil || string(at) != c.at {
			t.Errorf("%s: error %v at %q, want one at %q", c.what, err, at, c.at)
		}
	}
}

// An absent, a null and an empty parent differ for a patch.
func TestParseParents(t *testing.T) {
	for text, want := range map[string][3]bool{
		`{"metadata":{},"spec":{}}`: {false, true, true},
		`{}`:                        {true, true, true},
		`{"metadata":null,"spec":{"volumes":null}}`:                        {true, true, true},
		`{"metadata":{"annotations":{}},"spec":{"volumes":[]}}`:            {false, false, false},
		`{"metadata":{"annotations":null},"spec":{"volumes":[{}]}}`:        {false, true, false},
		`{"metadata":{"name":"a","annotations":null},"spec":{}}`:           {false, true, true},
		`{"metadata":{"annotations":{"a":"b"}},"spec":{"volumes":[null]}}`: {false, false, false},
	} {
		pod, err := workload.Parse([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		got := [3]bool{!pod.HasMetadata(), pod.Metadata.Annotations == nil, pod.Spec.Volumes == nil}
		if got != want {
			t.Errorf("%s: no metadata, annotations, volumes: %v, want %v", text, got, want)
		}
	}
}

// A message never repeats all of what a user wrote.
func TestMessagesAreShort(t *testing.T) {
	long := strings.Repeat("ü", 10000)
	for _, text := range []string{
		`{"metadata":{"labels":{"stategraft.io/inject":"` + long + `"}},"spec":{}}`,
		`{"metadata":{"labels":{"stategraft.io/workload":"` + long + `"}},"spec":{}}`,
		`{"metadata":{},"spec":{"restartPolicy":"` + long + `","volumes":[{"name":"d"}],"containers":[{"name":"cassandra","image":"cassandra","volumeMounts":[{"name":"d","mountPath":"/var/lib/cassandra"}]}]}}`,
	} {
		pod, err := workload.Parse([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if d := workload.Recognize(pod, workload.Hints{NamespaceLabelled: true}); d.Verdict != workload.Skip || len(d.Message) > 400 {
			t.Errorf("%s (%s): message of %d bytes", d.Verdict, d.Reason, len(d.Message))
		}
	}
}

// The volume that is named may be mounted in parts: it is still that volume.
func TestDataVolumeInParts(t *testing.T) {
	const pod = `{"metadata":{"name":"kvs-0"},"spec":{"volumes":[{"name":"disk","hostPath":{"path":"/d"}}],"containers":[{"name":"kvs","image":"hydroproject/anna",
	 "env":[{"name":"SERVER_TYPE","value":"ebs"}],"volumeMounts":[{"name":"disk","mountPath":"/ebs/ebs_0","subPath":"0"},{"name":"disk","mountPath":"/ebs/ebs_1","subPath":"1"}]}]}}`
	parsed, err := workload.Parse([]byte(pod))
	if err != nil {
		t.Fatal(err)
	}
	for _, volume := range []string{"", "disk"} {
		if d := workload.Recognize(parsed, workload.Hints{NamespaceLabelled: true, DataVolume: volume}); d.Verdict != workload.Inject {
			t.Errorf("data-volume %q: %s (%s) %s", volume, d.Verdict, d.Reason, d.Message)
		}
	}
}
