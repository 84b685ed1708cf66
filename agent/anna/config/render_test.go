package config

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/stategraft/stategraft/test/golden"
)

// node is one of a cluster of two routing nodes and a monitor.
var example = Node{
	Public: "203.0.113.7", Private: "anna-memory-0.anna-memory.prod.svc.cluster.local",
	Seed:           "anna-routing-0.anna-routing.prod.svc.cluster.local",
	Routing:        []string{"anna-routing-0.anna-routing.prod.svc.cluster.local", "anna-routing-1.anna-routing.prod.svc.cluster.local"},
	Monitoring:     []string{"anna-monitoring-0.anna-monitoring.prod.svc.cluster.local"},
	Management:     "hydro-management.prod.svc.cluster.local",
	RoutingService: "anna-routing.prod.svc.cluster.local",
	Schedulers:     []string{"cloudburst-scheduler-0.cloudburst-scheduler.prod.svc.cluster.local"},
	Scheduler:      "cloudburst-scheduler.prod.svc.cluster.local",
	ThreadID:       2,
}

var (
	annaRoles       = []string{RoleMemory, RoleDisk, RoleRouting, RoleMonitoring, RoleBenchmark, RoleCache}
	cloudburstRoles = []string{RoleExecutor, RoleScheduler, RoleBenchmark}
)

func TestRender(t *testing.T) {
	alone := example
	alone.Management, alone.Monitoring = "", nil
	for _, dir := range []string{"plain", "rich"} {
		for name, node := range map[string]Node{"": example, "-alone": alone} {
			for _, role := range annaRoles {
				text := rendered(t, dir, func(c *Config) ([]byte, error) { return c.Anna(role, node) })
				golden.Compare(t, filepath.Join("testdata", dir, "anna-"+role+name+".golden.yml"), text)
				alike(t, text)
			}
			for _, role := range cloudburstRoles {
				text := rendered(t, dir, func(c *Config) ([]byte, error) { return c.Cloudburst(role, node) })
				golden.Compare(t, filepath.Join("testdata", dir, "cloudburst-"+role+name+".golden.yml"), text)
				alike(t, text)
			}
		}
	}
}

// rendered is the same twice, of a file that is read anew.
func rendered(t *testing.T, dir string, render func(*Config) ([]byte, error)) []byte {
	t.Helper()
	var texts [2][]byte
	for i := range texts {
		c, err := Load(filepath.Join("testdata", dir))
		if err != nil {
			t.Fatal(err)
		}
		if texts[i], err = render(c); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(texts[0], texts[1]) {
		t.Errorf("not the same twice:\n%s\n%s", texts[0], texts[1])
	}
	return texts[0]
}

// alike checks that a text means the same to yaml-cpp, which takes the first of a key
// and knows no null as a string, and to PyYAML, which takes the last: no key is there
// twice, and every scalar of ours is in quotes, a decimal, or true or false. The only
// null is mgmt_ip of Cloudburst's on a single machine, and what users write themselves.
func alike(t *testing.T, text []byte) {
	t.Helper()
	var document yaml.Node
	if err := yaml.Unmarshal(text, &document); err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	var walk func(path string, node *yaml.Node)
	walk = func(path string, node *yaml.Node) {
		switch node.Kind {
		case yaml.MappingNode:
			seen := map[string]bool{}
			for i := 0; i < len(node.Content); i += 2 {
				key := node.Content[i].Value
				if seen[key] {
					t.Errorf("%s/%s is there twice in\n%s", path, key, text)
				}
				seen[key] = true
				walk(path+"/"+key, node.Content[i+1])
			}
		case yaml.SequenceNode:
			for _, entry := range node.Content {
				walk(path+"/-", entry)
			}
		case yaml.AliasNode:
			t.Errorf("%s: an alias", path)
		case yaml.ScalarNode:
			quoted := node.Style&yaml.DoubleQuotedStyle != 0
			ours := !strings.HasPrefix(path, "/unknown") && !strings.HasSuffix(path, "/future") && path != "/log-level" && path != "/mgmt_ip"
			if ours && !quoted && !decimal.MatchString(node.Value) && node.Value != "true" && node.Value != "false" {
				t.Errorf("%s: %q is read in different ways", path, node.Value)
			}
		}
	}
	walk("", document.Content[0])
}

// Upstream's entry point appends a section of its own to the file at each start of the
// container (dockerfiles/start-anna.sh), which may be no YAML; ours stays the one that
// Anna reads.
func TestWhatIsAppendedChangesNothing(t *testing.T) {
	c, err := Load("testdata/plain")
	if err != nil {
		t.Fatal(err)
	}
	text, err := c.Anna(RoleMemory, example)
	if err != nil {
		t.Fatal(err)
	}
	before, err := ReadText(text)
	if err != nil {
		t.Fatal(err)
	}
	for _, public := range []string{"", "10.1.2.3", "<!DOCTYPE html>\n<html lang=en>\n\t@x: *y\n"} {
		appended := "server:\n    seed_ip: \n    public_ip: " + public + "\n    private_ip: 10.1.2.3\n    mgmt_ip: NULL\n    monitoring:\n\n    routing:\n        - 10.9.9.9\n\n"
		text = append(text, appended...)
		after, err := ReadText(text)
		if err != nil {
			t.Fatal(err)
		}
		if after.Self != before.Self || after.Seed != before.Seed || after.Management != before.Management ||
			strings.Join(after.Routing, " ") != strings.Join(example.Routing, " ") || after.Self.Private != example.Private {
			t.Errorf("read %+v", after)
		}
	}
}

func TestRenderRefuses(t *testing.T) {
	minimal := "capacities: {memory-cap: 1, ebs-cap: 0}\nthreads: {memory: 1, ebs: 1, routing: 1}\nreplication: {memory: 1, ebs: 0, local: 1}\n"
	c, err := Parse([]byte(minimal))
	if err != nil {
		t.Fatal(err)
	}
	for role, want := range map[string]string{
		RoleDisk:      "ebs is missing; write the directory",
		RoleBenchmark: "threads.benchmark is missing",
		RoleExecutor:  "none of Anna's",
		"":            "none of Anna's",
	} {
		if _, err := c.Anna(role, example); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", role, err)
		}
	}
	if _, err := c.Cloudburst(RoleMemory, example); err == nil {
		t.Error("Cloudburst has no memory role")
	}
	if c.Replication.Minimum != 1 {
		t.Errorf("minimum %d", c.Replication.Minimum)
	}
}

func FuzzParse(f *testing.F) {
	for _, dir := range []string{"plain", "rich"} {
		for _, name := range []string{File, FileCloudburst} {
			text, err := filepath.Glob(filepath.Join("testdata", dir, name))
			if err != nil {
				f.Fatal(err)
			}
			for _, path := range text {
				f.Add(read(f, path))
			}
		}
	}
	f.Add([]byte("a: &x [*x]\n"))
	f.Add([]byte("<<: {a: 1}\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		_, _ = ReadText(text)
		c, err := Parse(text)
		if err != nil {
			return
		}
		out, err := c.Anna(RoleMemory, example)
		if err != nil {
			t.Skip(err)
		}
		e, err := ReadText(out)
		if err != nil {
			t.Fatalf("%v in\n%s", err, out)
		}
		if e.Self.Private != example.Private || e.Self.Public != example.Public || e.Threads != c.Threads || e.Replication != c.Replication || e.Disk != c.Disk {
			t.Errorf("read %+v of\n%s", e, out)
		}
	})
}
