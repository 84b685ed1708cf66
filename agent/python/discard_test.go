package python

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stategraft/stategraft/api/node"
)

type discarded struct {
	node.Discarded
	Kept  string `json:"kept"`
	Error string `json:"error"`
}

func (s *shelf) discard(name string, env ...string) (d discarded, calls []string) {
	s.t.Helper()
	calls, _ = s.ask(Discard, &d, []string{name}, append([]string{"POD_IP=c-1"}, env...)...)
	return d, calls
}

// TestDiscard: of one node's part of one backup all goes, of anything else nothing:
// neither of those whose names begin with it, nor what differential backups share.
func TestDiscard(t *testing.T) {
	for _, full := range []bool{false, true} {
		s := newShelf(t)
		ring := ringOf("dc1", append([]string{"c-10", "x_c-1"}, three...)...)
		nodes := append([]string{"c-10", "x_c-1"}, three...)
		for _, name := range []string{"b1", "b10", "x-b1", "b1_c-1"} {
			s.put(made{name: name, nodes: nodes, at: 1000, tokenmap: ring, prefix: "ns_c/", full: full, unfinished: nodes})
		}
		s.put(made{name: "b1", nodes: three, at: 1000, tokenmap: ring, prefix: "ns_c2/", full: full, unfinished: three})
		s.write("store/b/ns_c/c-1/data/shop/orders-11/nb-1-big-Data.db", "shared")
		s.write("store/b/ns_c/c-1/b1/meta/stategraft.json", "{}")
		s.write("store/b/ns_c/index/backup_index/b1/nonsense_c-1", "x")
		before := s.stored()
		d, _ := s.discard("b1")
		var gone []string
		after := s.stored()
		for _, name := range before {
			if !slices.Contains(after, name) {
				gone = append(gone, name)
			}
		}
		want := []string{
			"ns_c/c-1/b1/meta/schema.cql", "ns_c/c-1/b1/meta/server_version.json", "ns_c/c-1/b1/meta/stategraft.json",
			"ns_c/index/backup_index/b1/schema_c-1.cql", "ns_c/index/backup_index/b1/started_c-1_1000.timestamp", "ns_c/index/backup_index/b1/tokenmap_c-1.json",
		}
		if full {
			want = append(want, "ns_c/c-1/b1/data/shop/orders-11/nb-1-big-Data.db")
		} else {
			want = append(want, "ns_c/index/backup_index/b1/differential_c-1")
		}
		slices.Sort(want)
		slices.Sort(gone)
		if d.Error+d.Kept != "" || d.Objects != len(want) || d.Node != "c-1" || d.Name != "b1" || !slices.Equal(gone, want) {
			t.Errorf("full %v: %+v\ngone\n%s\nwant\n%s", full, d, strings.Join(gone, "\n"), strings.Join(want, "\n"))
		}
		if d, _ := s.discard("b1"); d.Error+d.Kept != "" || d.Objects != 0 || !slices.Equal(s.stored(), after) {
			t.Errorf("a second time: %+v", d)
		}
	}
}

// TestDiscardKeeps what is complete, and what may be. One that is complete and has
// nothing in it is none.
func TestDiscardKeeps(t *testing.T) {
	s := newShelf(t)
	for _, name := range []string{"whole", "odd", "empty", "data"} {
		s.put(made{name: name, nodes: three, at: 1000, tokenmap: ringOf("dc1", three...), prefix: "ns_c/"})
	}
	s.write("store/b/ns_c/c-1/odd/meta/manifest.json", "{")
	s.write("store/b/ns_c/c-1/empty/meta/manifest.json", `[{"keyspace": "shop", "columnfamily": "empty-22", "objects": []}]`)
	before := s.stored()
	for name, want := range map[string]string{
		"whole": "it is complete", "odd": "its manifest is there and cannot be read: JSONDecodeError",
		"data": "no backup is called so", "index": "no backup is called so", "..": "no backup is called so", "": "no backup is called so", "a/b": "no backup is called so",
	} {
		if d, _ := s.discard(name); !strings.HasPrefix(d.Kept, want) || !slices.Equal(s.stored(), before) {
			t.Errorf("%q: %+v", name, d)
		}
	}
	if d, _ := s.discard("empty"); d.Objects != 9 || d.Kept+d.Error != "" {
		t.Errorf("%+v", d)
	}
}

// TestDiscardTells: a storage that does not give or take is an error; what is left is
// found again, and known to the catalogue until all is gone.
func TestDiscardTells(t *testing.T) {
	s := newShelf(t)
	if s.real {
		t.Skip("the faults are the stand-in's")
	}
	s.put(made{name: "b1", nodes: three, at: 1000, tokenmap: ringOf("dc1", three...), prefix: "ns_c/", full: true, unfinished: three})
	s.put(made{name: "b2", nodes: three, at: 1000, tokenmap: ringOf("dc1", three...), prefix: "ns_c/"})
	before := s.stored()
	if d, _ := s.discard("b1", "DOWN=1"); d.Error != "ConnectionError: no route to storage" || !slices.Equal(s.stored(), before) {
		t.Errorf("%+v", d)
	}
	if d, _ := s.discard("b2", "FAULT=SlowDown"); d.Error != "Fault: SlowDown" || !slices.Equal(s.stored(), before) {
		t.Errorf("a manifest that is not given: %+v", d)
	}
	for _, stuck := range []string{"Data.db", "schema.cql", "tokenmap_c-1.json"} {
		if d, _ := s.discard("b1", "STUCK="+stuck); d.Error != "Fault: AccessDenied" {
			t.Errorf("%s: %+v", stuck, d)
		}
		if a, _, _ := s.look([]string{"", "b1"}); len(a.Nodes) != 3 && stuck != "tokenmap_c-1.json" {
			t.Errorf("%s: nobody knows of it any more, and there is something: %+v", stuck, a)
		}
	}
	if d, _ := s.discard("b1"); d.Error+d.Kept != "" || d.Objects != 1 {
		t.Errorf("%+v", d)
	}
	if _, err := os.Stat(s.dir + "/store/b/ns_c/c-0/b1/data"); err != nil {
		t.Error(err)
	}
}

func TestContents(t *testing.T) {
	s := newShelf(t)
	for _, prefix := range []string{"ns_c/", "other/"} {
		s.put(made{name: "b1", nodes: three, at: 1000, tokenmap: ringOf("dc1", three...), prefix: prefix})
	}
	s.write("store/b/ns_c/c-1/b1/meta/stategraft.json", `{"version": 1, "tables": [{"table": "shop.orders", "sstables": 1, "bytes": 12, "rows": 9007199254740993, "counted": true}], "more": 1}`)
	s.write("store/b/other/c-1/b1/meta/stategraft.json", `{"version": 1}`)
	type told struct {
		Contents *node.Contents `json:"contents"`
		Error    string         `json:"error"`
	}
	ask := func(prefix, name, of string, env ...string) (a told) {
		s.ask(Contents, &a, []string{prefix, name, of}, append([]string{"POD_IP=x"}, env...)...)
		return a
	}
	if a := ask("", "b1", "c-1"); a.Error != "" || a.Contents == nil || len(a.Contents.Tables) != 1 || a.Contents.Tables[0].Rows != 9007199254740993 {
		t.Errorf("%+v", a)
	}
	for _, of := range []string{"c-2", "nobody"} {
		if a := ask("", "b1", of); a.Error != "" || a.Contents != nil {
			t.Errorf("%s: %+v", of, a)
		}
	}
	if a := ask("other", "b1", "c-1"); !strings.HasPrefix(a.Error, "Odd: the counts of node c-1: KeyError") {
		t.Errorf("%+v", a)
	}
	if !s.real {
		if a := ask("", "b1", "c-1", "SICK=stategraft.json"); !strings.HasPrefix(a.Error, "Unclear: the counts of node c-1") {
			t.Errorf("%+v", a)
		}
	}
	// The restore is told of them where it asks.
	if p := s.precheck("c-1", "b1"); p.Contents != nil || p.Error != "" {
		t.Errorf("nobody has asked: %+v", p)
	}
	if p := s.precheck("c-1", "b1", "STATEGRAFT_CONTENTS_FILE=/x"); p.Contents == nil || p.Error != "" {
		t.Errorf("%+v", p)
	}
}
