package verify

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/stategraft/stategraft/agent/process"
)

// homes are where images keep Cassandra, besides $CASSANDRA_HOME.
var homes = []string{
	"/opt/cassandra", "/opt/bitnami/cassandra", "/opt/dse/resources/cassandra", "/opt/hcd/resources/cassandra",
	"/usr/share/cassandra", "/usr/local/apache-cassandra*", "/opt/apache-cassandra*", "/opt/elassandra*", "/usr/local/cassandra",
}

// javas are where images keep Java, besides $JAVA_HOME and PATH.
var javas = []string{
	"/opt/java/openjdk/bin", "/opt/bitnami/java/bin", "/opt/java/bin", "/usr/lib/jvm/*/bin", "/usr/local/openjdk-*/bin", "/opt/jdk*/bin", "/usr/bin",
}

// viewer is the class behind sstablemetadata.
const viewer = "org.apache.cassandra.tools.SSTableMetadataViewer"

// tool is a way to run sstablemetadata.
type tool struct {
	what string
	path string
	args []string
	env  []string
}

func (t tool) spec(args ...string) process.Spec {
	return process.Spec{Path: t.path, Args: append(slices.Clone(t.args), args...), Env: t.env, Dir: "/"}
}

// usualHeap is of the tool's Java, in MiB, as sstablemetadata has it by itself.
const usualHeap = 256

// tools are the ways to run it that the image has, the likeliest first: its own script,
// which knows its Java best, and Java itself, where the script is missing or reads a
// configuration that is made only when the database starts.
func (c Config) tools() ([]tool, error) {
	heap := c.Heap
	if heap <= 0 {
		heap = usualHeap
	}
	var found []tool
	env := c.toolEnv(heap)
	for _, path := range c.scripts() {
		found = append(found, tool{what: path, path: path, env: env})
	}
	lib, java := c.lib(), c.java()
	if lib == "" || java == "" {
		return found, nil
	}
	conf, err := c.configuration()
	if err != nil {
		return nil, err
	}
	args := []string{fmt.Sprintf("-Xmx%dM", heap)}
	if modular(java) {
		args = append(args, opens()...)
	}
	args = append(args, "-Dcassandra.config=file://"+filepath.Join(conf, "cassandra.yaml"), "-Dlogback.configurationFile="+filepath.Join(conf, "logback.xml"),
		"-Dcassandra.storagedir="+conf, "-cp", conf+":"+lib, viewer)
	return append(found, tool{what: java + " " + viewer, path: java, args: args, env: env}), nil
}

// toolEnv is the container's environment without what the image gives its database:
// a heap as large as that would be.
func (c Config) toolEnv(heap int) (env []string) {
	own := []string{"MAX_HEAP_SIZE", "HEAP_NEWSIZE", "JVM_OPTS", "JVM_EXTRA_OPTS", "JAVA_TOOL_OPTIONS", "JAVA_AGENT", "HOME", "TMPDIR"}
	for _, entry := range os.Environ() {
		name, _, _ := strings.Cut(entry, "=")
		if !slices.Contains(own, name) {
			env = append(env, entry)
		}
	}
	return append(env, fmt.Sprintf("MAX_HEAP_SIZE=%dM", heap), "HOME="+c.Temp, "TMPDIR="+c.Temp,
		"JAVA_TOOL_OPTIONS=-XX:+UseSerialGC -XX:-UsePerfData -Djava.io.tmpdir="+c.Temp)
}

func (c Config) scripts() (found []string) {
	var dirs []string
	for _, home := range c.homes() {
		dirs = append(dirs, filepath.Join(home, "tools", "bin"), filepath.Join(home, "bin"))
	}
	dirs = append(dirs, filepath.SplitList(c.Env("PATH"))...)
	for _, dir := range append(dirs, c.Root+"/usr/bin", c.Root+"/usr/local/bin") {
		for _, path := range glob(filepath.Join(dir, "sstablemetadata")) {
			if executable(path) && !slices.Contains(found, path) {
				found = append(found, path)
			}
		}
	}
	return found
}

// homes are the directories that may hold Cassandra, with patterns.
func (c Config) homes() (dirs []string) {
	if home := c.Env("CASSANDRA_HOME"); home != "" {
		dirs = append(dirs, home)
	}
	for _, home := range homes {
		dirs = append(dirs, c.Root+home)
	}
	return dirs
}

// lib is the class path of the first directory that has Cassandra's own jar.
func (c Config) lib() string {
	for _, home := range c.homes() {
		for _, dir := range []string{filepath.Join(home, "lib"), home} {
			for _, name := range []string{"apache-cassandra-*.jar", "cassandra-all-*.jar", "apache-cassandra.jar", "dse-db-*.jar"} {
				found := glob(filepath.Join(dir, name))
				if len(found) == 0 {
					continue
				}
				path := filepath.Join(filepath.Dir(found[0]), "*")
				if dir == home { // Debian's packages have the libraries below
					path += ":" + filepath.Join(filepath.Dir(found[0]), "lib", "*")
				}
				return path
			}
		}
	}
	return ""
}

func (c Config) java() string {
	var dirs []string
	if home := c.Env("JAVA_HOME"); home != "" {
		dirs = append(dirs, filepath.Join(home, "bin"))
	}
	dirs = append(dirs, filepath.SplitList(c.Env("PATH"))...)
	for _, dir := range javas {
		dirs = append(dirs, c.Root+dir)
	}
	for _, dir := range dirs {
		for _, path := range glob(filepath.Join(dir, "java")) {
			if executable(path) {
				return path
			}
		}
	}
	return ""
}

func glob(pattern string) []string {
	found, _ := filepath.Glob(pattern) // of a pattern that is none nothing is found
	return found
}

func executable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}

// modular tells whether a Java is 9 or later, which keeps its own classes to itself.
func modular(java string) bool {
	if real, err := filepath.EvalSymlinks(java); err == nil {
		java = real
	}
	_, err := os.Stat(filepath.Join(filepath.Dir(filepath.Dir(java)), "lib", "modules"))
	return err == nil
}

// opens are the classes of Java's own that Cassandra uses (conf/jvm17-server.options
// and its like).
func opens() (args []string) {
	for _, name := range []string{
		"java.base/java.io", "java.base/java.lang", "java.base/java.lang.module", "java.base/java.lang.reflect", "java.base/java.math",
		"java.base/java.net", "java.base/java.nio", "java.base/java.util", "java.base/java.util.concurrent", "java.base/java.util.concurrent.atomic",
		"java.base/jdk.internal.loader", "java.base/jdk.internal.math", "java.base/jdk.internal.misc", "java.base/jdk.internal.module",
		"java.base/jdk.internal.ref", "java.base/jdk.internal.reflect", "java.base/jdk.internal.util.jar", "java.base/sun.nio.ch",
		"java.management.rmi/com.sun.jmx.remote.internal.rmi", "java.rmi/sun.rmi.registry", "java.rmi/sun.rmi.server", "java.sql/java.sql",
		"jdk.management/com.sun.management.internal",
	} {
		args = append(args, "--add-exports", name+"=ALL-UNNAMED", "--add-opens", name+"=ALL-UNNAMED")
	}
	return args
}

// configuration writes what Cassandra's tools insist on reading: a cassandra.yaml that
// is complete, and where to log to, which is nowhere. The keys are those that all
// releases from 3.0 on take.
func (c Config) configuration() (string, error) {
	dir := filepath.Join(c.Temp, "cassandra")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("write a configuration for sstablemetadata: %w", err)
	}
	var yaml strings.Builder
	fmt.Fprintf(&yaml, "cluster_name: verify\npartitioner: org.apache.cassandra.dht.Murmur3Partitioner\ncommitlog_sync: periodic\ncommitlog_sync_period_in_ms: 10000\n"+
		"endpoint_snitch: SimpleSnitch\ndata_file_directories: [%s/data]\n", dir)
	for _, name := range []string{"commitlog", "saved_caches", "hints", "cdc_raw"} {
		fmt.Fprintf(&yaml, "%s_directory: %s/%s\n", name, dir, name)
	}
	yaml.WriteString("seed_provider:\n- class_name: org.apache.cassandra.locator.SimpleSeedProvider\n  parameters:\n  - seeds: 127.0.0.1\n")
	for name, text := range map[string]string{"cassandra.yaml": yaml.String(), "logback.xml": "<configuration><root level=\"OFF\"/></configuration>\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			return "", fmt.Errorf("write a configuration for sstablemetadata: %w", err)
		}
	}
	return dir, nil
}
