package workload

import (
	"strings"
	"testing"
)

// Which variable options are appended to, by the table of OptionsVariable.
func TestOptionsVariable(t *testing.T) {
	short, long := "-Da=b", strings.Repeat("x", 2000)
	for _, c := range []struct{ what, container, text, want string }{
		{"official", `{"image":"cassandra:4.1"}`, long, "JVM_EXTRA_OPTS"},
		{"official of a mirror", `{"image":"mirror.local:5000/library/cassandra@sha256:0"}`, long, "JVM_EXTRA_OPTS"},
		{"management API", `{"image":"k8ssandra/cass-management-api:4.1"}`, long, "JVM_EXTRA_OPTS"},
		{"DSE", `{"image":"datastax/dse-server:6.8"}`, long, "JVM_EXTRA_OPTS"},
		{"DSE, management API", `{"image":"datastax/dse-mgmtapi-6_8:6.8.1"}`, short, "JVM_EXTRA_OPTS"},
		{"samples", `{"image":"gcr.io/google-samples/cassandra:v14"}`, short, "JVM_EXTRA_OPTS"},
		{"bitnami", `{"image":"docker.io/bitnami/cassandra:5.0"}`, short, "JVM_EXTRA_OPTS"},
		{"declared on an image that is not known", `{"image":"me/db","env":[{"name":"JVM_EXTRA_OPTS"}]}`, long, "JVM_EXTRA_OPTS"},
		{"AxonOps sets it in the image", `{"image":"ghcr.io/axonops/k8ssandra/cassandra:4.1"}`, short, "JAVA_TOOL_OPTIONS"},
		{"AxonOps, replaced by the user", `{"image":"ghcr.io/axonops/cassandra:4.1","env":[{"name":"JVM_EXTRA_OPTS","value":"-Xmx1g"}]}`, short, "JVM_EXTRA_OPTS"},
		{"AxonOps, too long for Java 8", `{"image":"ghcr.io/axonops/cassandra:4.1"}`, long, "JVM_OPTS"},
		{"not known", `{"image":"me/db"}`, short, "JAVA_TOOL_OPTIONS"},
		{"not known, the longest", `{"image":"me/db"}`, long[:toolOptsLimit], "JAVA_TOOL_OPTIONS"},
		{"not known, one more", `{"image":"me/db"}`, long[:toolOptsLimit+1], "JVM_OPTS"},
		{"not known, with what is there", `{"image":"me/db","env":[{"name":"JAVA_TOOL_OPTIONS","value":"-Dc=d"}]}`, long[:toolOptsLimit-6], "JAVA_TOOL_OPTIONS"},
		{"not known, one more with what is there", `{"image":"me/db","env":[{"name":"JAVA_TOOL_OPTIONS","value":"-Dc=d"}]}`, long[:toolOptsLimit-5], "JVM_OPTS"},
		{"of a length that is not known", `{"image":"me/db","env":[{"name":"JAVA_TOOL_OPTIONS","value":"$(X)"}]}`, short, "JVM_OPTS"},
		{"of a Secret", `{"image":"me/db","env":[{"name":"JAVA_TOOL_OPTIONS","valueFrom":{"secretKeyRef":{"name":"s","key":"k"}}}]}`, short, "JVM_OPTS"},
		{"appended already", `{"image":"me/db","env":[{"name":"JAVA_TOOL_OPTIONS","value":"-Dc=d"},{"name":"JAVA_TOOL_OPTIONS","value":"$(JAVA_TOOL_OPTIONS) -Da=b"}]}`, short, "JAVA_TOOL_OPTIONS"},
		{"envFrom", `{"image":"cassandra:4.1","envFrom":[{}]}`, short, "JAVA_TOOL_OPTIONS"},
		{"envFrom, and declared", `{"image":"cassandra:4.1","envFrom":[{}],"env":[{"name":"JVM_EXTRA_OPTS"}]}`, short, "JVM_EXTRA_OPTS"},
		{"instaclustr", `{"image":"gcr.io/cassandra-operator/cassandra-3.11.9:latest","env":[{"name":"JVM_EXTRA_OPTS"}]}`, short, "JVM_OPTS"},
		{"Elassandra", `{"image":"strapdata/elassandra-node:6.8"}`, short, "JVM_OPTS"},
	} {
		pod, err := Parse([]byte(`{"spec":{"containers":[` + c.container + `]}}`))
		if err != nil {
			t.Fatalf("%s: %v", c.what, err)
		}
		if got := pod.Spec.Containers[0].OptionsVariable(c.text); got != c.want {
			t.Errorf("%s: %s, want %s", c.what, got, c.want)
		}
	}
}

func TestMayBeAbsent(t *testing.T) {
	for text, want := range map[string]bool{
		`{"name":"A"}`: false, `{"name":"A","value":"x"}`: false, `{"name":"A","valueFrom":null}`: false,
		`{"name":"A","valueFrom":{"fieldRef":{"fieldPath":"metadata.name"}}}`:                             false,
		`{"name":"A","valueFrom":{"secretKeyRef":{"name":"s","key":"k"}}}`:                                false,
		`{"name":"A","valueFrom":{"secretKeyRef":{"name":"s","key":"k","optional":false}}}`:               false,
		`{"name":"A","valueFrom":{"secretKeyRef":{"name":"s","key":"k","optional":true}}}`:                true,
		`{"name":"A","valueFrom":{"configMapKeyRef":{"name":"s","key":"k","optional":true}}}`:             true,
		`{"name":"A","valueFrom":{"fileKeyRef":{"volumeName":"v","path":"p","key":"k","optional":true}}}`: true,
		`{"name":"A","valueFrom":{"someday":5}}`:                                                          true,
	} {
		pod, err := Parse([]byte(`{"spec":{"containers":[{"env":[` + text + `]}]}}`))
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if got := pod.Spec.Containers[0].Env[0].MayBeAbsent(); got != want {
			t.Errorf("%s: %v", text, got)
		}
	}
}
