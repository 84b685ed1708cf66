package ask

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// Of a StatefulSet the pods that are there are enough, and each pod is meant once.
func TestLive(t *testing.T) {
	objects := slices.Concat(set("cassandra", 3, "10", "2", "0"), set("short", 3, "0"), set("down", 0), set("leaving", 0, "1"), set("lost", 1))
	for _, c := range []struct{ args, selector, names, err string }{
		{"pod/cassandra-2", "", "cassandra-2", ""},
		{"statefulset/cassandra pod/cassandra-10", "", "cassandra-0 cassandra-2 cassandra-10", ""},
		{"statefulset/short", "", "short-0", ""},
		{"statefulset/leaving", "", "leaving-1", ""},
		{"", "app=short", "short-0 short-stray", ""},
		{"", "", "", "which pods?"},
		{"statefulset/down", "", "", "is scaled to 0: no pod of it runs"},
		{"statefulset/lost", "", "", "is to have 1 pods and none of them is there: kubectl -n db get events says why"},
		{"statefulset/none", "", "", "there is no statefulset none"},
		{"pod/none", "", "", "there is no pod none in namespace db; there are "},
		{"pod/short-0", "a=b", "", "exclude one another"},
		{"", "a b", "", "-l a b: "},
		{"", " ", "", "it selects every pod"},
		{"", "a=none", "", "no pod of namespace db has the labels a=none"},
	} {
		targets, err := ParseTargetsTo("adopted", "", strings.Fields(c.args))
		var got []corev1.Pod
		if err == nil {
			got, err = Live(t.Context(), store(nil, objects...), "db", targets, c.selector)
		}
		if c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) || c.err == "" && (err != nil || strings.Join(names(got), " ") != c.names) {
			t.Errorf("%s %s: %q, %v, want %s%s", c.args, c.selector, names(got), err, c.names, c.err)
		}
	}
}
