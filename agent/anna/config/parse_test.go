package config

import (
	"errors"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"
)

func read(t testing.TB, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// with is the plain file with a text replaced, or something appended.
func with(t *testing.T, old, text string) []byte {
	t.Helper()
	plain := string(read(t, "testdata/plain/anna-config.yml"))
	if old == "" {
		return []byte(plain + text)
	}
	if strings.Count(plain, old) != 1 {
		t.Fatalf("%q is there %d times", old, strings.Count(plain, old))
	}
	return []byte(strings.Replace(plain, old, text, 1))
}

func TestLoad(t *testing.T) {
	c, err := Load("testdata/rich")
	if err != nil {
		t.Fatal(err)
	}
	want := Options{
		Services: Services{Memory: "anna-memory", Disk: "anna-ebs", Routing: "anna-routing", Scheduler: "cloudburst-scheduler",
			Executor: "executors", Management: "hydro.tools"},
		Domain: "corp.example", DepartAfter: 90 * time.Second, ResponsePort: 9980,
	}
	if c.Options != want {
		t.Errorf("options %+v", c.Options)
	}
	if c.Threads != (Threads{4, 2, 4, 4}) || c.Replication != (Replication{2, 1, 3, 1}) || c.Capacities != (Capacities{45, 256}) ||
		c.Policy != (Policy{}) || c.Disk != "/ebs/data" || c.Threads.Of(RoleDisk) != 2 || c.Threads.Of(RoleRouting) != 0 {
		t.Errorf("read %+v", c)
	}
	if len(c.Warnings) != 1 || !strings.Contains(c.Warnings[0], "section server") {
		t.Errorf("warnings %q", c.Warnings)
	}
	if c, err = Load("testdata/plain"); err != nil || c.Options != DefaultOptions() || c.Warnings != nil {
		t.Errorf("plain: %+v, %v", c, err)
	}
}

func TestLoadWithoutFile(t *testing.T) {
	c, err := Load(t.TempDir())
	if !errors.Is(err, ErrNoFile) || c == nil || !reflect.DeepEqual(c.Options, DefaultOptions()) {
		t.Errorf("%+v, %v", c, err)
	}
	if !strings.Contains(err.Error(), "stategraft.io/config-map") {
		t.Errorf("no remedy in %q", err)
	}
	if _, err := c.Anna(RoleMemory, example); !errors.Is(err, ErrNoFile) {
		t.Errorf("rendered without a file: %v", err)
	}
	if _, err := c.Cloudburst(RoleExecutor, example); err != nil {
		t.Errorf("Cloudburst needs none: %v", err)
	}
}

// Each error names the thing, where it is, and the remedy.
func TestBadFiles(t *testing.T) {
	for name, c := range map[string]struct {
		old, text string
		want      []string
	}{
		"tab":                {"  memory: 1\n  ebs: 1\n  routing", "\tmemory: 1\n  ebs: 1\n  routing", []string{"not YAML", "line 6", "indent with spaces"}},
		"no sections":        {"", "---\na: b\n", []string{"more than one document", "take out the line ---"}},
		"key twice":          {"", "threads: {memory: 4}\n", []string{"threads is there twice, lines 5 and 19", "take one out"}},
		"key twice below":    {"  routing: 4", "  routing: 4\n  memory: 2", []string{"threads.memory is there twice, lines 6 and 9"}},
		"twice in unknown":   {"", "other: [{a: 1, a: 2}]\n", []string{"other.a is there twice"}},
		"merge":              {"  routing: 4", "  <<: {routing: 4}", []string{"line 8", "no <<"}},
		"alias":              {"ebs: /ebs", "x: &x /ebs\nebs: *x", []string{"line 2", "*x", "write it out"}},
		"alias of itself":    {"", "x: &x [*x]\n", []string{"*x", "write it out"}},
		"section is a list":  {"policy:\n  elasticity: false\n  selective-rep: false\n  tiering: false\n", "policy: [tiering]\n", []string{"line 15", "policy is no section"}},
		"threads missing":    {"threads:\n  memory: 1\n  ebs: 1\n  routing: 4\n  benchmark: 1\n", "", []string{"threads.memory is missing", "from 1 to 50"}},
		"no routing threads": {"  routing: 4\n", "", []string{"threads.routing is missing"}},
		"0 threads":          {"  routing: 4", "  routing: 0", []string{"line 8", `threads.routing is "0"`}},
		"51 threads":         {"  routing: 4", "  routing: 51", []string{`is "51"`, "from 1 to 50"}},
		"octal":              {"  routing: 4", "  routing: 04", []string{`is "04"`}},
		"a fraction":         {"  ebs-cap: 8", "  ebs-cap: 8.5", []string{"line 4", `capacities.ebs-cap is "8.5"`, "whole number of GB"}},
		"a quantity":         {"  ebs-cap: 8", "  ebs-cap: 8Gi", []string{`is "8Gi"`}},
		"too many GB":        {"  ebs-cap: 8", "  ebs-cap: 5000", []string{"from 0 to 4294"}},
		"negative":           {"  minimum: 2", "  minimum: -1", []string{`replication.minimum is "-1"`, "sum of memory and ebs"}},
		"a list":             {"  minimum: 2", "  minimum: [2]", []string{"replication.minimum is a list"}},
		"no copies":          {"  memory: 1\n  ebs: 1\n  minimum", "  memory: 0\n  ebs: 0\n  minimum", []string{"no node would hold a key"}},
		"local":              {"  local: 1", "  local: 2", []string{"replication.local is 2", "1 threads", "at most 1"}},
		"no boolean":         {"  tiering: false", "  tiering: 0", []string{"line 18", `policy.tiering is "0"`, "true or false"}},
		"null for a string":  {"ebs: /ebs", "ebs: NULL", []string{"line 1", "no string to Anna"}},
		"empty string":       {"ebs: /ebs", "ebs:", []string{"ebs is"}},
		"slip in ours":       {"", "stategraft: {service: {}}\n", []string{"stategraft.service is not known", "services, domain"}},
		"slip in services":   {"", "stategraft: {services: {disk: x}}\n", []string{"stategraft.services.disk is not known", "memory, ebs"}},
		"bad service":        {"", "stategraft: {services: {ebs: Anna_EBS}}\n", []string{"stategraft.services.ebs", "name of a Service"}},
		"no routing":         {"", `stategraft: {services: {routing: ""}}` + "\n", []string{"services.routing is empty"}},
		"bad domain":         {"", "stategraft: {domain: a..b}\n", []string{"stategraft.domain", "cluster.local"}},
		"short wait":         {"", "stategraft: {depart-after: 5s}\n", []string{"at least 10s"}},
		"no wait":            {"", "stategraft: {depart-after: soon}\n", []string{`is "soon"`}},
		"port of Anna's":     {"", "stategraft: {response-port: 6199}\n", []string{"among the ports of Anna"}},
		"port of management": {"", "stategraft: {response-port: 6999}\n", []string{"among the ports of Anna"}},
		"low port":           {"", "stategraft: {response-port: 80}\n", []string{"from 1024"}},
		"safe-join":          {"", "stategraft: {safe-join: maybe}\n", []string{"stategraft.safe-join"}},
	} {
		_, err := Parse(with(t, c.old, c.text))
		if err == nil {
			t.Errorf("%s: accepted", name)
			continue
		}
		for _, want := range append(c.want, File) {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: no %q in %q", name, want, err)
			}
		}
	}
	if _, err := Parse([]byte("just text\n")); err == nil || !strings.Contains(err.Error(), "no section with keys") {
		t.Errorf("a file that is a text: %v", err)
	}
	if _, err := Parse(nil); err == nil || !strings.Contains(err.Error(), "threads.memory is missing") {
		t.Errorf("an empty file: %v", err)
	}
}

func TestSelectiveReplicationBelowMemory(t *testing.T) {
	text := with(t, "  memory: 1\n  ebs: 1\n  minimum: 2", "  memory: 2\n  ebs: 1\n  minimum: 1")
	if _, err := Parse(text); err != nil {
		t.Errorf("without the policy it is only a number: %v", err)
	}
	text = []byte(strings.Replace(string(text), "selective-rep: false", "selective-rep: true", 1))
	if _, err := Parse(text); err == nil || !strings.Contains(err.Error(), "four thousand million") {
		t.Errorf("%v", err)
	}
}

func TestWarnings(t *testing.T) {
	for name, c := range map[string]struct{ old, text, want string }{
		"relative":    {"ebs: /ebs", "ebs: ./", "path where the volume is mounted"},
		"elasticity":  {"elasticity: false", "elasticity: yes", "nothing does so here"},
		"selective":   {"selective-rep: false\n  tiering: false\n", "selective-rep: true\nx: 1\n", ""},
		"tiering":     {"tiering: false", "tiering: true", "moves keys between the tiers"},
		"only disk":   {"  memory: 1\n  ebs: 1\n  minimum", "  memory: 0\n  ebs: 1\n  minimum", "a memory node is needed"},
		"own section": {"", "monitoring: {ip: 10.0.0.1}\n", "section monitoring"},
	} {
		conf, err := Parse(with(t, c.old, c.text))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := strings.Join(conf.Warnings, "\n"); c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%s: warnings %q", name, got)
		}
	}
}

func TestHost(t *testing.T) {
	for service, want := range map[string]string{
		"": "", "anna": "anna.prod.svc.cluster.local", "anna.other": "anna.other.svc.cluster.local",
		"anna.other.svc": "anna.other.svc.cluster.local", "anna.example.com": "anna.example.com", "anna.": "anna",
	} {
		if got := DefaultOptions().Host(service, "prod"); got != want {
			t.Errorf("%q: %q", service, got)
		}
	}
}

func TestDomainOf(t *testing.T) {
	for text, want := range map[string]string{
		"": "cluster.local", "nameserver 10.0.0.10\n": "cluster.local",
		"search prod.svc.corp.example svc.corp.example corp.example\noptions ndots:5\n": "corp.example",
		"search svc.\n": "cluster.local",
	} {
		if got := DomainOf([]byte(text)); got != want {
			t.Errorf("%q: %q", text, got)
		}
	}
}
