package workload_test

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/stategraft/stategraft/workload"
)

// FuzzParse gives the parser and recognition any bytes.
func FuzzParse(f *testing.F) {
	for _, dir := range []string{"../test/corpus/pods", "../test/corpus/extra/pods"} {
		files, _ := filepath.Glob(filepath.Join(dir, "*.yaml"))
		if len(files) == 0 {
			f.Fatalf("no pods in %s", dir)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				f.Fatal(err)
			}
			raw, err := yaml.YAMLToJSONStrict(text)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(raw, "", "")
			f.Add(raw, "cassandra", "data")
		}
	}
	for _, text := range []string{"", "null", "{}", "[]", `{"spec":null}`, `{"metadata":null}`, "{\"metadata\":{\"name\":\"\xff\"}}",
		`{"spec":{"containers":[{"image":"@:/"},{"image":"////"},{"image":":"},{"command":["/"],"args":[""]}]}}`,
		`{"spec":{"containers":[{"name":"a","volumeMounts":[{"name":"d","mountPath":"//..//"}],"volumeDevices":[{"name":"d","devicePath":""}]}],"volumes":[{"name":"d"}]}}`,
		`{"metadata":{"labels":{"stategraft.io/workload":"anna"}},"spec":{"containers":[{"name":"a","command":["anna-kvsanna-kvs"]}]}}`,
		`{"metadata":{"labels":{"stategraft.io/workload":"cloudburst"}},"spec":{"containers":[]}}`,
		`{"metadata":{"labels":{"stategraft.io/workload":"cassandra"}},"spec":{"initContainers":[{"name":"stategraft-x"}],"containers":[{"name":"stategraft-a"}]}}`,
		strings.Repeat(`{"spec":`, 20000)} {
		f.Add([]byte(text), "", "x")
	}
	f.Fuzz(func(t *testing.T, raw []byte, container, volume string) {
		pod, err := workload.Parse(raw)
		if err != nil {
			if pod != nil || err.Error() == "" {
				t.Fatalf("error %q with pod %v", err, pod)
			}
			return
		}
		hints := workload.Hints{NamespaceLabelled: true, Container: container, DataVolume: volume}
		d := workload.Recognize(pod, hints)
		if again := workload.Recognize(pod, hints); !reflect.DeepEqual(d, again) {
			t.Fatalf("two decisions:\n%+v\n%+v", d, again)
		}
		switch {
		case d.Verdict == workload.Skip && slices.Contains(workload.Reasons, d.Reason) && d.Message != "":
			return
		case d.Verdict != workload.Inject || d.Reason != "" || d.Message == "":
			t.Fatalf("decision %+v", d)
		}
		w := d.Workload
		n := len(pod.Spec.Containers)
		if w.Kind == workload.KindNone || w.Index >= n || w.Index < 0 && w.Kind != workload.KindCloudburst || w.Before >= len(pod.Spec.InitContainers) {
			t.Fatalf("workload %+v of %d containers", w, n)
		}
		if w.Index >= 0 && (pod.Spec.Containers[w.Index].Name != w.Container || workload.Own(w.Container)) {
			t.Fatalf("container %d is not %q", w.Index, w.Container)
		}
		if w.Kind == workload.KindCassandra {
			if v, ok := pod.Volume(w.Data.Volume); !ok || !v.Writable() || w.Data.ReadOnly || w.Snapshot == "" || w.UID == 0 {
				t.Fatalf("Cassandra without data, snapshot or user: %+v", w)
			}
		}
	})
}
