package verify

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stategraft/stategraft/api/node"
)

// TestScripts finds the tool where images have it.
func TestScripts(t *testing.T) {
	for _, path := range []string{
		officialTool, "/opt/cassandra/bin/sstablemetadata", "/opt/bitnami/cassandra/tools/bin/sstablemetadata", "/usr/bin/sstablemetadata",
		"/opt/apache-cassandra-3.11.19/tools/bin/sstablemetadata", "/opt/dse/resources/cassandra/tools/bin/sstablemetadata",
	} {
		v := newVolume(t, "system.local")
		v.tool(path)
		if found := v.config.scripts(); !slices.Equal(found, []string{v.root + path}) {
			t.Errorf("%s: %q", path, found)
		}
	}
	v := newVolume(t)
	v.tool("/home/cassandra/tools/bin/sstablemetadata")
	v.config.Env = func(name string) string {
		return map[string]string{"CASSANDRA_HOME": v.root + "/home/cassandra"}[name]
	}
	if found := v.config.scripts(); len(found) != 1 {
		t.Errorf("$CASSANDRA_HOME: %q", found)
	}
}

// TestJars: an image with the jars alone counts too, and so does one whose script does
// not work without the configuration of a database that has started.
func TestJars(t *testing.T) {
	for _, script := range []bool{false, true} {
		v := newVolume(t, "system.local", "shop.orders")
		log := filepath.Join(t.TempDir(), "arguments")
		v.write(v.root+"/opt/bitnami/cassandra/lib/apache-cassandra-4.1.3.jar", "", 0o644)
		v.write(v.root+"/opt/bitnami/java/lib/modules", "", 0o644)
		v.tool("/opt/bitnami/java/bin/real")
		v.write(v.root+"/opt/bitnami/java/bin/java", "#!/bin/sh\necho \"$@\" >>"+log+"\nwhile [ \"$1\" != "+viewer+" ]; do shift; done; shift\nexec \"${0%java}real\" \"$@\"\n", 0o755)
		if script {
			v.write(v.root+"/opt/bitnami/cassandra/bin/sstablemetadata", "#!/bin/sh\necho 'Exception in thread \"main\" org.apache.cassandra.exceptions.ConfigurationException: no yaml'\nexit 3\n", 0o755)
		}
		t.Setenv("FAKE", "new")
		t.Setenv("FAKE_LOG", log)
		t.Setenv("MAX_HEAP_SIZE", "31G")
		v.config.Heap = 200
		got, err := Run(t.Context(), v.config)
		if err != nil || got.Method != node.CountedByScan || got.Rows != 2 {
			t.Fatalf("with a script %v: %+v, %v", script, got, err)
		}
		text, err := os.ReadFile(log)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"-Xmx200M", "--add-opens java.base/java.lang=ALL-UNNAMED", v.root + "/opt/bitnami/cassandra/lib/*", "-Dcassandra.config=file://", "run 200M"} {
			if !strings.Contains(string(text), want) {
				t.Errorf("%s is not in %s", want, text)
			}
		}
		if strings.Contains(string(text), "31G") {
			t.Error("it has the database's heap")
		}
		yaml, err := os.ReadFile(filepath.Join(v.config.Temp, "cassandra", "cassandra.yaml"))
		if err != nil || !strings.Contains(string(yaml), "partitioner: ") {
			t.Errorf("%v: %s", err, yaml)
		}
	}
}
