package serve

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stategraft/stategraft/agent/anna/manifest"
	"github.com/stategraft/stategraft/agent/nodeserver"
	"github.com/stategraft/stategraft/api/node"
)

// TestLists: a backup is complete when each node that the cluster had has finished.
func TestLists(t *testing.T) {
	t.Parallel()
	byAddress := func(of, private string, nodes ...string) *manifest.Manifest {
		m := part("b", of, nodes...)
		m.Server.Private = private
		return m
	}
	for name, c := range map[string]struct {
		parts    map[string]*manifest.Manifest
		damaged  string
		complete bool
		ring     string
	}{
		"whole":                   {map[string]*manifest.Manifest{"m-0": part("b", "m-0", "m-0", "e-0"), "e-0": part("b", "e-0", "m-0", "e-0")}, "", true, "e-0 m-0"},
		"one has not finished":    {map[string]*manifest.Manifest{"m-0": part("b", "m-0", "m-0", "e-0"), "e-0": nil}, "", false, "e-0 m-0"},
		"one is not there":        {map[string]*manifest.Manifest{"m-0": part("b", "m-0", "m-0", "e-0")}, "", false, "e-0 m-0"},
		"none has finished":       {map[string]*manifest.Manifest{"m-0": nil}, "", false, ""},
		"one joined meanwhile":    {map[string]*manifest.Manifest{"m-0": part("b", "m-0", "m-0"), "m-1": part("b", "m-1", "m-0", "m-1")}, "", true, "m-0 m-1"},
		"known by addresses":      {map[string]*manifest.Manifest{"m-0": byAddress("m-0", "10.0.0.1", "10.0.0.1", "10.0.0.2"), "m-1": byAddress("m-1", "10.0.0.2", "10.0.0.1", "10.0.0.2")}, "", true, "m-0 m-1"},
		"one of those is missing": {map[string]*manifest.Manifest{"m-0": byAddress("m-0", "10.0.0.1", "10.0.0.1", "10.0.0.2")}, "", false, "10.0.0.2 m-0"},
		"one is damaged":          {map[string]*manifest.Manifest{"m-0": part("b", "m-0", "m-0", "m-1"), "m-1": part("b", "m-1", "m-0", "m-1")}, "m-1", false, "m-0 m-1"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			for of, m := range c.parts {
				r.bucket.put("b", of, m)
			}
			s := newServer(r.Config)
			if c.damaged != "" {
				r.bucket.damaged["b/"+c.damaged] = true
			}
			b, err := s.backup(t.Context(), "", "b")
			must(t, err)
			ring := []string{}
			for n := range b.Ring {
				ring = append(ring, n)
			}
			slices.Sort(ring)
			if b.Complete != c.complete || strings.Join(ring, " ") != c.ring || len(b.Members) != len(c.parts) || b.Prefix != "hydro_anna" || b.Complete == b.Finished.IsZero() {
				t.Errorf("%+v", b)
			}
			for _, m := range b.Members {
				if m.Complete && (m.Objects != 2 || m.Keys != 7 || m.Tables != 2 || m.Type != "differential") {
					t.Errorf("%+v", m)
				}
				if m.Complete == m.Finished.IsZero() || m.Node == c.damaged && m.Complete {
					t.Errorf("%+v", m)
				}
			}
			list, err := s.backups(t.Context(), "")
			must(t, err)
			// A damaged manifest is seen by who looks into it.
			if len(list.Backups) != 1 || list.Backups[0].Complete != (c.complete || c.damaged != "") || len(list.Backups[0].Nodes) != len(c.parts) {
				t.Errorf("listed: %+v", list)
			}
		})
	}
}

// TestListCosts: a list of many backups reads a manifest of each, once.
func TestListCosts(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, name := range []string{"b1", "b2", "b3"} {
		for _, n := range []string{"m-0", "m-1", "e-0"} {
			r.bucket.put(name, n, part(name, n, "m-0", "m-1", "e-0"))
		}
	}
	s := newServer(r.Config)
	for range 3 {
		list, err := s.backups(t.Context(), "")
		if err != nil || len(list.Backups) != 3 || !list.Backups[2].Complete {
			t.Fatalf("%+v, %v", list, err)
		}
	}
	if r.bucket.reads != 3 {
		t.Errorf("%d manifests were read", r.bucket.reads)
	}
	r.bucket.trouble = errors.New("no route to storage")
	if _, err := s.backups(t.Context(), ""); err == nil || !strings.Contains(err.Error(), "no route to storage") {
		t.Errorf("%v", err)
	}
}

// TestOtherPrefix: what is below another prefix is another cluster's.
func TestOtherPrefix(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.bucket.put("b1", "m-0", nil)
	s := newServer(r.Config)
	if b, err := s.backup(t.Context(), "other", "b1"); err != nil || len(b.Members) != 0 || b.Prefix != "other" {
		t.Errorf("%+v, %v", b, err)
	}
	for _, prefix := range []string{"other", "."} {
		if _, err := s.discard(t.Context(), prefix, "b1"); !errors.Is(err, nodeserver.ErrKept) {
			t.Errorf("%s: %v", prefix, err)
		}
	}
	if list, err := s.backups(t.Context(), "."); err != nil || list.Prefix != "" {
		t.Errorf("%+v, %v", list, err)
	}
	if b, err := s.backup(t.Context(), "", "none"); err != nil || b.Members == nil || len(b.Members) != 0 || b.Ring == nil {
		t.Errorf("%+v, %v", b, err)
	}
}

// TestContents: a table for each type of value, of this node where none is named.
func TestContents(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.bucket.put("b1", "m-0", part("b1", "m-0", "m-0"))
	missing := part("b1", "m-1", "m-0")
	missing.Missing = manifest.Missing{Count: 3, Keys: []manifest.MissingKey{{Key: "a", Reason: "gone"}}}
	r.bucket.put("b1", "m-1", missing)
	s := newServer(r.Config)
	c, err := s.contents(t.Context(), "", "b1", "")
	if err != nil || len(c.Tables) != 2 || c.Tables[0] != (node.Table{Table: "LWW", Rows: 5, Counted: true}) {
		t.Errorf("%+v, %v", c, err)
	}
	if _, err := s.contents(t.Context(), "", "b1", "m-7"); !errors.Is(err, nodeserver.ErrNone) {
		t.Errorf("%v", err)
	}
	b, err := s.backup(t.Context(), "", "b1")
	must(t, err)
	if m, _ := b.Member("m-1"); m.Missing == nil || m.Missing.Count != 3 || m.Missing.Keys[0] != "a" || !m.Complete {
		t.Errorf("%+v", m)
	}
	if m, _ := b.Member("m-0"); m.Missing != nil {
		t.Errorf("%+v", m)
	}
}

// TestStorageComes: without a configuration that can be used the sidecar says what is
// missing, and goes by it when it is there.
func TestStorageComes(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.configure("[storage]\nbucket_name = b\n")
	s := newServer(r.Config)
	report, err := s.report(t.Context())
	if err != nil || !strings.Contains(report.Waiting, "storage_provider") || report.Prefix != "" {
		t.Errorf("%+v, %v", report, err)
	}
	if _, err := s.backups(t.Context(), ""); err == nil || !strings.Contains(err.Error(), "storage_provider") {
		t.Errorf("%v", err)
	}
	r.configure("[storage]\nstorage_provider = local\nbase_path = /x\nbucket_name = b\nprefix = mine\n")
	s.shelf.looked = time.Time{}
	if report, err := s.report(t.Context()); err != nil || report.Waiting != "" || report.Prefix != "mine" {
		t.Errorf("%+v, %v", report, err)
	}
}
