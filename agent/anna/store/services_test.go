package store

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stategraft/stategraft/agent/anna/manifest"
	"github.com/stategraft/stategraft/agent/anna/pack"
)

// commit writes the manifest of a part that is without packs.
func commit(t *testing.T, s *Store, name string, packs ...manifest.Pack) error {
	t.Helper()
	return s.Commit(t.Context(), manifest.Manifest{Version: 1, Name: name, Node: "n", Packs: packs})
}

// wholeLife is all that a Store does with a service that works.
func wholeLife(t *testing.T, s *Store, with *service) {
	t.Helper()
	p := makePack(t, s, "b1", "n", 1, 90000) // 19 MB: in parts
	lost := p
	lost.Object += "x"
	if err := commit(t, s, "b0", p, lost); !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), lost.Object) {
		t.Errorf("a lost pack: %v", err)
	}
	if names := with.names(); with.inParts != 1 || !slices.Equal(names, []string{p.Object}) {
		t.Errorf("%q; %d of them in parts", names, with.inParts)
	}
	makeBackup(t, s, "b1", "n", p)
	if want := []string{p.Object, "hydro/anna/backups/b1/n.started.json", "hydro/anna/backups/b1/n.json", "hydro/anna/index/n/b1"}; !slices.Equal(with.written, want) {
		t.Errorf("%q, want %q", with.written, want)
	}
	with.with(func(w *service) { w.cut = 4 })
	if n, err := count(s, t, p); n != 90000 || err != nil || with.cut != 0 {
		t.Errorf("%d, %v; %d", n, err, with.cut)
	}
	var whole []byte
	with.with(func(w *service) { whole, w.objects[p.Object] = w.objects[p.Object], w.objects[p.Object][:p.Size-1] })
	if _, err := count(s, t, p); !errors.Is(err, ErrDamaged) {
		t.Errorf("truncated: %v", err)
	}
	if err := commit(t, s, "b2", p); !errors.Is(err, ErrDamaged) {
		t.Errorf("with a truncated pack: %v", err)
	}
	with.with(func(w *service) { w.objects[p.Object] = whole })
	if err := commit(t, s, "b1", p); !errors.Is(err, ErrExists) {
		t.Errorf("again: %v", err)
	}
	if _, err := s.Manifest(t.Context(), "none", "n"); !errors.Is(err, ErrNoBackup) {
		t.Errorf("none: %v", err)
	}
	if err := s.Begin(t.Context(), Started{Name: "begun", Node: "n"}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Manifest(t.Context(), "begun", "n"); !errors.Is(err, ErrUnfinished) {
		t.Errorf("begun: %v", err)
	}
	if _, _, err := s.OpenIndex(t.Context(), "none", "n"); !errors.Is(err, ErrNoBackup) {
		t.Errorf("no index: %v", err)
	}
	commitAtOnce(t, s)
	with.with(func(w *service) { w.lost = 1 })
	if err := commit(t, s, "unheard"); err != nil || with.lost != 0 {
		t.Errorf("the answer was lost: %v", err)
	}
	aborted(t, s, with)
	for _, name := range []string{"b1", "begun", "once", "unheard"} {
		if n, err := s.Delete(t.Context(), name); n == 0 || err != nil {
			t.Errorf("%s: %d, %v", name, n, err)
		}
	}
	if names := with.names(); len(names) != 0 {
		t.Errorf("left: %q", names)
	}
}

// aborted gives up a pack of which some has been sent.
func aborted(t *testing.T, s *Store, with *service) {
	t.Helper()
	before := with.names()
	w, err := s.CreatePack(t.Context(), "b9", "n", 1)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(make([]byte, 2*partSize+1)); err != nil {
		t.Fatal(err)
	}
	w.Abort()
	if names := with.names(); !slices.Equal(names, before) {
		t.Errorf("aborted: %q, before %q", names, before)
	}
}

// refusing is what is made of a service that refuses what it did before: never a lost
// pack, a backup that is not there, or something removed.
func refusing(t *testing.T, s *Store, with *service, refuse func(*http.Request) int) {
	t.Helper()
	p := makePack(t, s, "b1", "n", 1, 4)
	makeBackup(t, s, "b1", "n", p)
	before := with.names()
	with.with(func(w *service) { w.refuse = refuse })
	check := func(what string, err error) {
		t.Helper()
		if err == nil || errors.Is(err, ErrDamaged) || errors.Is(err, ErrNoBackup) || errors.Is(err, ErrUnfinished) || errors.Is(err, ErrExists) {
			t.Errorf("%s: %v", what, err)
		}
	}
	_, err := s.Manifest(t.Context(), "b1", "n")
	check("manifest", err)
	_, _, err = s.OpenIndex(t.Context(), "b1", "n")
	check("index", err)
	_, err = s.Backups(t.Context())
	check("list", err)
	check("read", s.ReadPack(t.Context(), p, false, nil, func(pack.Record) error { return nil }))
	check("begin", s.Begin(t.Context(), Started{Name: "b2", Node: "n"}))
	check("commit", commit(t, s, "b2"))
	_, err = s.Discard(t.Context(), "b2", "n")
	check("discard", err)
	w, err := s.CreatePack(t.Context(), "b2", "n", 1)
	if err == nil {
		_, err = w.Close()
	}
	check("write", err)
	deleting(t, s, always(refuse(&http.Request{Method: http.MethodDelete}), http.MethodDelete), with)
	if names := with.names(); !slices.Equal(names, before) {
		t.Errorf("%q, before %q", names, before)
	}
}

// deleting is refused, and nothing else.
func deleting(t *testing.T, s *Store, refuse func(*http.Request) int, with *service) {
	t.Helper()
	with.with(func(w *service) { w.refuse = refuse })
	if n, err := s.Delete(t.Context(), "b1"); n != 0 || err == nil {
		t.Errorf("deleted: %d, %v", n, err)
	}
	with.with(func(w *service) { w.refuse = nil })
}

// whileBusy is a backup's life with a service that says at each request first that it is busy.
func whileBusy(t *testing.T, s *Store, with *service) {
	t.Helper()
	with.with(func(w *service) { w.refuse = busy() })
	p := makePack(t, s, "b1", "n", 1, 30000) // 6 MB: two parts
	makeBackup(t, s, "b1", "n", p)
	if n, err := count(s, t, p); n != 30000 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	if n, err := s.Delete(t.Context(), "b1"); n != 4 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
}
