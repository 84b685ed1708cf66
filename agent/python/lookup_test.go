package python

import (
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stategraft/stategraft/api/node"
)

// TestLookupLists: complete is what every node of the token map has finished, and
// nothing odd keeps the others from being listed.
func TestLookupLists(t *testing.T) {
	s := newShelf(t)
	ring := ringOf("dc1", three...)
	for i, b := range []made{
		{name: "whole", nodes: three, tokenmap: ring},
		{name: "unfinished", nodes: three, tokenmap: ring, unfinished: []string{"c-1"}},
		{name: "getting-started_schema", nodes: three, tokenmap: ring, full: true},
		{name: "one-node-missing", nodes: []string{"c-0", "c-1"}, tokenmap: ring},
		{name: "by-addresses", nodes: three, tokenmap: ringOf("dc1", "10.0.0.1", "10.0.0.2", "10.0.0.3")},
		{name: "broken-map", nodes: three, tokenmap: "{"},
		{name: "strange-map", nodes: three, tokenmap: `{"c-0": 1}`},
		{name: "one-more-node", nodes: append([]string{"stranger"}, three...), tokenmap: ring, unfinished: []string{"stranger"}},
		{name: "last", nodes: three, tokenmap: ring},
	} {
		b.at, b.prefix = int64(i+1)*1000, "ns_c/"
		s.put(b)
	}
	// Two datacenters make one backup, each with a token map of its own.
	s.put(made{name: "two", nodes: three, at: 20000, tokenmap: ring, prefix: "ns_c/"})
	s.put(made{name: "two", nodes: []string{"d-0", "d-1"}, at: 20030, tokenmap: ringOf("dc2", "d-0", "d-1"), prefix: "ns_c/"})
	s.put(made{name: "half", nodes: three, at: 21000, tokenmap: ring, prefix: "ns_c/"})
	s.put(made{name: "half", nodes: []string{"d-0"}, at: 21000, tokenmap: ringOf("dc2", "d-0", "d-1"), prefix: "ns_c/"})
	for _, stray := range []string{"backup_index/stray", "backup_index/whole/nonsense", "backup_index/whole/deep/er/tokenmap_c-0.json", "backup_index/nothing/x.txt", "backup_index_old/b9/tokenmap_c-0.json"} {
		s.write("store/b/ns_c/index/"+stray, "x")
	}
	s.put(made{name: "elsewhere", nodes: three, at: 1, tokenmap: ring, prefix: "other/"})
	s.put(made{name: "bare", nodes: three, at: 1, tokenmap: ring})
	// The bucket has expired the oldest one's objects, not the index's.
	s.put(made{name: "expired", nodes: three, at: 10, tokenmap: ring, prefix: "ns_c/"})
	for _, n := range three {
		if err := os.RemoveAll(s.dir + "/store/b/ns_c/" + n + "/expired"); err != nil {
			t.Fatal(err)
		}
	}
	a, calls, printed := s.look([]string{""})
	var got []string
	for _, b := range a.Backups {
		got = append(got, fmt.Sprintf("%s %d %d %v", b.Name, b.Started.Unix(), max(b.Finished.Unix(), 0), b.Complete))
	}
	want := []string{
		"whole 1000 1060 true", "unfinished 2000 0 false", "getting-started_schema 3000 3060 true", "one-node-missing 4000 0 false",
		"by-addresses 5000 0 false", "broken-map 6000 0 false", "strange-map 7000 0 false", "one-more-node 8000 8060 true", "last 9000 9060 true",
		"two 20000 20090 true", "half 21000 0 false",
	}
	if a.Error != "" || a.Prefix != "ns_c" || !slices.Equal(got, want) {
		t.Errorf("got %s %s\n%s\nwant\n%s", a.Error, a.Prefix, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if nodes := a.Backups[7].Nodes; !slices.Equal(nodes, []string{"c-0", "c-1", "c-2", "stranger"}) {
		t.Errorf("nodes %v", nodes)
	}
	if !strings.Contains(printed, "token map of backup broken-map, node c-0 cannot be read: Odd: JSONDecodeError") {
		t.Errorf("printed %s", printed)
	}
	if !s.real {
		// One list, two heads, and of the token maps those that were not seen before.
		reads := 0
		for _, call := range calls {
			if strings.Contains(call, "manifest") {
				t.Errorf("asked for %s", call)
			}
			if strings.HasPrefix(call, "read") {
				reads++
			}
		}
		if len(calls)-reads != 3 || reads > 13 {
			t.Errorf("%d calls:\n%s", len(calls), strings.Join(calls, "\n"))
		}
	}
	for prefix, want := range map[string]string{"other": "elsewhere", ".": "bare", "none": ""} {
		a, _, _ := s.look([]string{prefix})
		var names []string
		for _, b := range a.Backups {
			names = append(names, b.Name)
		}
		if a.Error != "" || strings.Join(names, " ") != want {
			t.Errorf("prefix %s: got %q, %s", prefix, names, a.Error)
		}
	}
}

func TestLookupIntoOne(t *testing.T) {
	s := newShelf(t)
	ring := ringOf("dc1", three...)
	s.put(made{name: "b1", nodes: three, at: 1000, tokenmap: ring, prefix: "ns_c/"})
	s.put(made{name: "b1-other", nodes: three, at: 1000, tokenmap: ring, prefix: "ns_c/"})
	s.put(made{name: "b2", nodes: three, at: 2000, tokenmap: ring, prefix: "ns_c/", unfinished: []string{"c-1"}, full: true})
	s.put(made{name: "b3", nodes: three, at: 3000, tokenmap: ring, prefix: "ns_c/"})
	if err := os.Remove(s.dir + "/store/b/ns_c/c-2/b3/meta/manifest.json"); err != nil {
		t.Fatal(err)
	}
	s.put(made{name: "b4", nodes: three, at: 4000, tokenmap: ring, prefix: "ns_c/"})
	s.write("store/b/ns_c/c-2/b4/meta/manifest.json", `[{"keyspace": 1}`)

	a, calls, _ := s.look([]string{"", "b1"})
	part := node.Member{Node: "c-0", Complete: true, Started: time.Unix(1000, 0).UTC(), Finished: time.Unix(1060, 0).UTC(), Bytes: 12, Objects: 2, Tables: 2, Version: "4.1.5", Type: "differential"}
	if a.Error != "" || !a.Complete || len(a.Members) != 3 || a.Members[0] != part || a.Name != "b1" || a.Prefix != "ns_c" || a.Finished.Unix() != 1060 {
		t.Errorf("got %+v", a)
	}
	place := node.Ring{Tokens: []string{"100", "-9223372036854775808"}, Datacenter: "dc1", Rack: "r1"}
	if names := slices.Sorted(maps.Keys(a.Ring)); !slices.Equal(names, three) || !reflect.DeepEqual(a.Ring["c-1"], place) {
		t.Errorf("ring %+v", a.Ring)
	}
	if !s.real && (len(calls) != 8 || slices.ContainsFunc(calls, func(call string) bool { return strings.Contains(call, "b1-other") })) {
		t.Errorf("asked for %s", strings.Join(calls, "\n"))
	}
	for name, incomplete := range map[string]string{"b2": "c-1", "b3": "c-2", "b4": "c-2"} {
		a, _, _ := s.look([]string{"", name})
		var odd []string
		for _, m := range a.Members {
			if !m.Complete {
				odd = append(odd, m.Node)
			}
		}
		if a.Error != "" || a.Complete || !a.Finished.IsZero() || !slices.Equal(odd, []string{incomplete}) {
			t.Errorf("%s: got %+v", name, a)
		}
	}
	if a, _, _ := s.look([]string{"", "b"}); a.Error != "" || a.Name != "b" || a.Members == nil || len(a.Members) != 0 || a.Complete {
		t.Errorf("one that is not there: got %+v", a)
	}
}

// TestLookupTells: what cannot be known is an error, and not a backup that is not
// complete.
func TestLookupTells(t *testing.T) {
	s := newShelf(t)
	if s.real {
		t.Skip("the faults are the stand-in's")
	}
	s.put(made{name: "b1", nodes: three, at: 1000, tokenmap: ringOf("dc1", three...), prefix: "ns_c/"})
	for _, c := range []struct {
		args []string
		env  string
		want string
	}{
		{[]string{""}, "DOWN=1", "ConnectionError: no route to storage"},
		{[]string{"", "b1"}, "SICK=c-1/b1/meta/manifest.json", "Unclear: the manifest of node c-1: An error occurred: SlowDown"},
		{[]string{""}, "SICK=schema.cql", "Unclear: b1: An error occurred: SlowDown"},
	} {
		if a, _, _ := s.look(c.args, c.env); a.Error != c.want || len(a.Members)+len(a.Backups) > 0 {
			t.Errorf("%s: got %+v", c.env, a)
		}
	}
	s.write("medusa.ini", "[storage]\nbase_path = /x\n")
	if a, _, _ := s.look([]string{""}); !strings.Contains(a.Error, `"bucket_name" is missing`) {
		t.Errorf("got %+v", a)
	}
	// As many odd backups as there may be are no fault of the storage's; a token map
	// that it does not give is, unless it says that there is none.
	s = newShelf(t)
	for i := range 20 {
		s.put(made{name: fmt.Sprintf("b%d", i), nodes: three, at: int64(i), tokenmap: fmt.Sprintf("{%d", i), prefix: "ns_c/"})
	}
	s.put(made{name: "good", nodes: three, at: 100, tokenmap: ringOf("dc1", three...), prefix: "ns_c/"})
	if a, _, _ := s.look([]string{""}); a.Error != "" || len(a.Backups) != 21 || !a.Backups[20].Complete {
		t.Errorf("got %+v", a)
	}
	if a, calls, _ := s.look([]string{""}, "FAULT=SlowDown"); a.Error != "Fault: SlowDown" || len(calls) != 4 {
		t.Errorf("got %+v after %s", a, calls)
	}
	if a, _, _ := s.look([]string{""}, "FAULT=InvalidObjectState"); a.Error != "" || len(a.Backups) != 21 || a.Backups[20].Complete {
		t.Errorf("got %+v", a)
	}
}

// TestLookupSingleTokens: of a node with one token, a token map may have the token
// itself.
func TestLookupSingleTokens(t *testing.T) {
	s := newShelf(t)
	s.put(made{name: "b1", nodes: []string{"c-0", "c-1", "c-2"}, at: 1000, prefix: "ns_c/",
		tokenmap: `{"c-0": {"tokens": 0, "dc": "dc1", "rack": "r0"}, "c-1": {"tokens": "-3074457345618258603", "dc": "dc1", "rack": "r1"}, "c-2": {"tokens": [3074457345618258602], "dc": "dc1", "rack": "r2"}}`})
	a, _, _ := s.look([]string{"", "b1"})
	if a.Error != "" || !a.Complete {
		t.Fatalf("got %+v", a)
	}
	for name, want := range map[string]string{"c-0": "0", "c-1": "-3074457345618258603", "c-2": "3074457345618258602"} {
		if got := a.Ring[name].Tokens; !slices.Equal(got, []string{want}) {
			t.Errorf("%s: %q", name, got)
		}
	}
}
