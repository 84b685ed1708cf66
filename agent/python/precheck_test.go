package python

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stategraft/stategraft/api/node"
)

// prechecked is what the script tells (agent/restore, Report).
type prechecked struct {
	Error, FQDN, DataDirectory string
	Backups, Nodes, TokenMap   []string
	Complete                   bool
	ServerVersion              string
	Tables                     []struct {
		Keyspace, Table string
		Files           map[string]int64
	}
	Contents *node.Contents
}

// precheck runs the script for a node.
func (s *shelf) precheck(fqdn, name string, env ...string) (p prechecked) {
	s.t.Helper()
	out := filepath.Join(s.t.TempDir(), "answer.json")
	command := exec.Command(s.interpreter, "-c", Precheck, s.dir+"/medusa.ini", name, out)
	command.Env = append(append([]string{"PATH=" + os.Getenv("PATH"), "POD_IP=" + fqdn, "CALLS=/dev/null"}, s.env...), env...)
	text, err := command.CombinedOutput()
	if err != nil {
		s.t.Fatalf("%v\n%s", err, text)
	}
	content, err := os.ReadFile(out)
	if err == nil {
		err = json.Unmarshal(content, &p)
	}
	if err != nil {
		s.t.Fatalf("%v\n%s\n%s", err, content, text)
	}
	return p
}

func TestPrecheck(t *testing.T) {
	s := newShelf(t)
	ring := ringOf("dc1", three...)
	s.put(made{name: "expired", nodes: three, at: 10, tokenmap: ring, prefix: "ns_c/"})
	s.put(made{name: "b1", nodes: three, at: 1000, tokenmap: ring, prefix: "ns_c/"})
	s.put(made{name: "b2", nodes: three, at: 2000, tokenmap: ring, prefix: "ns_c/", unfinished: []string{"c-1"}, full: true})
	s.put(made{name: "getting-started_schema", nodes: three, at: 3000, tokenmap: ringOf("dc1", "10.0.0.1"), prefix: "ns_c/"})
	for _, gone := range []string{"c-0/expired", "c-1/expired", "c-2/expired", "c-2/b1"} {
		if err := os.RemoveAll(s.dir + "/store/b/ns_c/" + gone); err != nil {
			t.Fatal(err)
		}
	}
	// One name that Medusa does not write ends Medusa's own listing.
	for _, stray := range []string{"b1/nonsense", "b1/notes.txt", "stray", "b1/deep/er/tokenmap_c-0.json"} {
		s.write("store/b/ns_c/index/backup_index/"+stray, "x")
	}
	p := s.precheck("c-0", "b1")
	if p.Error != "" || !p.Complete || p.FQDN != "c-0" || p.DataDirectory != "/c/data" || p.ServerVersion != "4.1.5" || !slices.Equal(p.Nodes, three) || !slices.Equal(p.TokenMap, three) ||
		!slices.Equal(p.Backups, []string{"b1", "b2", "getting-started_schema"}) {
		t.Errorf("%+v", p)
	}
	if len(p.Tables) != 2 || p.Tables[0].Table != "orders-11" || p.Tables[0].Files["b-Data.db"] != 7 || len(p.Tables[1].Files) != 0 {
		t.Errorf("%+v", p.Tables)
	}
	if p := s.precheck("c-1", "b2"); p.Error != "" || p.Complete || len(p.Tables) != 0 || len(p.Nodes) != 3 {
		t.Errorf("unfinished: %+v", p)
	}
	if p := s.precheck("c-0", "getting-started_schema"); p.Error != "" || !p.Complete || slices.Contains(p.TokenMap, "c-0") {
		t.Errorf("names that do not resolve: %+v", p)
	}
	for _, name := range []string{"expired", "b", "nonsense"} {
		if p := s.precheck("c-0", name); p.Error != "" || len(p.Nodes) != 0 || len(p.Backups) != 3 {
			t.Errorf("%s: %+v", name, p)
		}
	}
	if p := s.precheck("c-2", "b1"); p.Error != "" || !slices.Equal(p.Nodes, []string{"c-0", "c-1"}) {
		t.Errorf("expired for one node: %+v", p)
	}
}

// TestPrecheckUnclear: a storage that gives no answer is an error, which is tried
// again, and not a backup that was never finished, which is not.
func TestPrecheckUnclear(t *testing.T) {
	s := newShelf(t)
	if s.real {
		t.Skip("the faults are the stand-in's")
	}
	s.put(made{name: "b1", nodes: three, at: 1000, tokenmap: ringOf("dc1", three...), prefix: "ns_c/"})
	for env, want := range map[string]string{
		"DOWN=1":                         "ConnectionError: no route to storage",
		"SICK=c-0/b1/meta/manifest.json": "Unclear: the manifest of node c-0: An error occurred: SlowDown",
		"SICK=schema.cql":                "Unclear: b1: An error occurred: SlowDown",
		"FAULT=SlowDown":                 "Fault: SlowDown",
	} {
		if p := s.precheck("c-0", "b1", env); p.Error != want {
			t.Errorf("%s: %+v, want %s", env, p, want)
		}
	}
	s.write("medusa.ini", "[storage]\nbase_path = /x\n")
	if p := s.precheck("c-0", "b1"); !strings.Contains(p.Error, `"bucket_name" is missing`) {
		t.Errorf("%+v", p)
	}
}
