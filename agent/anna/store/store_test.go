package store

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"filippo.io/age"
	"gocloud.dev/blob/memblob"

	"github.com/stategraft/stategraft/agent/anna/manifest"
	"github.com/stategraft/stategraft/agent/anna/pack"
	"github.com/stategraft/stategraft/agent/ini"
)

func init() { pause, tries = time.Millisecond, 3 }

func newStore(t *testing.T, recipients ...string) *Store {
	t.Helper()
	b := memblob.OpenBucket(nil)
	t.Cleanup(func() { b.Close() })
	s, err := New(b, Config{Prefix: "p", Recipients: recipients})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// makePack writes one with so many records, of some kB each.
func makePack(t *testing.T, s *Store, name, node string, number, records int) manifest.Pack {
	t.Helper()
	to, err := s.CreatePack(t.Context(), name, node, number)
	if err != nil {
		t.Fatal(err)
	}
	w := pack.NewWriter(to)
	random := rand.New(rand.NewPCG(uint64(number), 1))
	for i := range records {
		payload := make([]byte, 200)
		for j := range payload {
			payload[j] = byte(random.IntN(256))
		}
		if err := w.Add(pack.Record{Key: fmt.Sprint("key ", i), Lattice: 1, Payload: payload}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	p, err := to.Close()
	if err != nil {
		t.Fatal(err)
	}
	p.Records, p.Plain = w.Records(), w.Plain()
	return p
}

func makeBackup(t *testing.T, s *Store, name, node string, packs ...manifest.Pack) {
	t.Helper()
	if err := s.Begin(t.Context(), Started{Name: name, Node: node, Started: time.Now()}); err != nil {
		t.Fatal(err)
	}
	if err := s.Commit(t.Context(), manifest.Manifest{Version: 1, Name: name, Node: node, Packs: packs}); err != nil {
		t.Fatal(err)
	}
	if err := s.WriteIndex(t.Context(), name, node, strings.NewReader("index")); err != nil {
		t.Fatal(err)
	}
}

func count(s *Store, t *testing.T, p manifest.Pack, identities ...age.Identity) (int, error) {
	n := 0
	err := s.ReadPack(t.Context(), p, len(s.recipients) > 0, identities, func(pack.Record) error { n++; return nil })
	return n, err
}

// Whatever happens to a pack, encrypted or not, it is found, and the pack is named.
func TestReadPack(t *testing.T) {
	key, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	for name, recipients := range map[string][]string{"plain": nil, "encrypted": {key.Recipient().String()}} {
		t.Run(name, func(t *testing.T) {
			s := newStore(t, recipients...)
			p := makePack(t, s, "b", "n", 1, 4)
			if n, err := count(s, t, p, key); n != 4 || err != nil {
				t.Fatalf("%d, %v", n, err)
			}
			whole, err := s.bucket.ReadAll(t.Context(), p.Object)
			if err != nil || int64(len(whole)) != p.Size || bytes.Contains(whole, []byte("key 0")) == (len(recipients) > 0) {
				t.Fatalf("%d bytes, %v", len(whole), err)
			}
			damaged := func(what string, content []byte) {
				t.Helper()
				if err := s.bucket.WriteAll(t.Context(), p.Object, content, nil); err != nil {
					t.Fatal(err)
				}
				if _, err := count(s, t, p, key); !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), p.Object) {
					t.Fatalf("%s: %v", what, err)
				}
			}
			for i := range whole {
				broken := bytes.Clone(whole)
				broken[i] ^= 1 << (i % 8)
				damaged(fmt.Sprint("bit of byte ", i), broken)
				damaged(fmt.Sprint("end at ", i), whole[:i])
			}
			damaged("more", append(bytes.Clone(whole), 0))
			other := makePack(t, s, "b", "n", 2, 4)
			same, _ := s.bucket.ReadAll(t.Context(), other.Object)
			if len(same) == len(whole) {
				damaged("another pack", same)
			}
			if err := s.bucket.Delete(t.Context(), p.Object); err != nil {
				t.Fatal(err)
			}
			if _, err := count(s, t, p, key); !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), p.Object) {
				t.Errorf("lost: %v", err)
			}
			mine := errors.New("mine")
			if err := s.ReadPack(t.Context(), other, name == "encrypted", []age.Identity{key}, func(pack.Record) error { return mine }); err != mine {
				t.Errorf("%v", err)
			}
		})
	}
}

func TestManifest(t *testing.T) {
	s := newStore(t)
	p := makePack(t, s, "b", "n", 1, 4)
	if _, err := s.Manifest(t.Context(), "b", "n"); !errors.Is(err, ErrNoBackup) {
		t.Errorf("none: %v", err)
	}
	if err := s.Begin(t.Context(), Started{Name: "b", Node: "n"}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Manifest(t.Context(), "b", "n"); !errors.Is(err, ErrUnfinished) {
		t.Errorf("begun: %v", err)
	}
	if err := s.Begin(t.Context(), Started{Name: "b", Node: "n"}); !errors.Is(err, ErrExists) {
		t.Errorf("begun twice: %v", err)
	}
	lost := p
	lost.Object += "x"
	if err := s.Commit(t.Context(), manifest.Manifest{Version: 1, Name: "b", Node: "n", Packs: []manifest.Pack{p, lost}}); !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), lost.Object) {
		t.Errorf("a lost pack: %v", err)
	}
	if err := s.Commit(t.Context(), manifest.Manifest{Version: 1, Name: "b", Node: "n", Packs: []manifest.Pack{p}}); err != nil {
		t.Fatal(err)
	}
	key := "p/anna/backups/b/n.json"
	content, err := s.bucket.ReadAll(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	for n := range content {
		if err := s.bucket.WriteAll(t.Context(), key, content[:n], nil); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Manifest(t.Context(), "b", "n"); !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), key) {
			t.Fatalf("%d bytes: %v", n, err)
		}
	}
	if err := s.bucket.WriteAll(t.Context(), "p/anna/backups/b/m.json", content, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Manifest(t.Context(), "b", "m"); !errors.Is(err, ErrDamaged) {
		t.Errorf("of another node: %v", err)
	}
	for _, name := range []string{"", "..", "a/b", ".x", "a\nb"} {
		if _, err := s.Manifest(t.Context(), name, "n"); err == nil || errors.Is(err, ErrNoBackup) {
			t.Errorf("%q: %v", name, err)
		}
	}
	if err := CheckNames("b", "n.started"); err == nil {
		t.Error("a node's name is taken for a mark")
	}
}

// Of many who write the same manifest one has written it.
func commitAtOnce(t *testing.T, s *Store) {
	t.Helper()
	var wait sync.WaitGroup
	results := make([]error, 8)
	for i := range results {
		wait.Go(func() {
			results[i] = s.Commit(t.Context(), manifest.Manifest{Version: 1, Name: "once", Node: "n", Keys: int64(i)})
		})
	}
	wait.Wait()
	m, err := s.Manifest(t.Context(), "once", "n")
	if err != nil {
		t.Fatal(err)
	}
	for i, err := range results {
		if (err == nil) != (int64(i) == m.Keys) || err != nil && !errors.Is(err, ErrExists) {
			t.Errorf("%d: %v; that of %d is there", i, err, m.Keys)
		}
	}
}

func TestOnce(t *testing.T) { commitAtOnce(t, newStore(t)) }

func TestDelete(t *testing.T) {
	s := newStore(t)
	one := makePack(t, s, "b1", "n", 1, 2)
	two := makePack(t, s, "b1", "n", 2, 2)
	makeBackup(t, s, "b1", "n", one, two)
	makeBackup(t, s, "b1", "m", makePack(t, s, "b1", "m", 1, 2))
	three := makePack(t, s, "b10", "n", 1, 2)
	makeBackup(t, s, "b10", "n", two, three)
	running := makePack(t, s, "b3", "n", 1, 2)
	if err := s.Begin(t.Context(), Started{Name: "b3", Node: "n", Packs: []string{three.Object}}); err != nil {
		t.Fatal(err)
	}
	there := func(want ...manifest.Pack) {
		t.Helper()
		packs, err := s.Packs(t.Context(), "n")
		for _, p := range want {
			if _, is := packs[p.Object]; !is {
				t.Errorf("%s is gone", p.Object)
			}
		}
		if err != nil || len(packs) != len(want) {
			t.Errorf("%v, %v", packs, err)
		}
	}
	if _, err := s.Discard(t.Context(), "b1", "n"); !errors.Is(err, ErrExists) {
		t.Errorf("a complete one is discarded: %v", err)
	}
	if n, err := s.Delete(t.Context(), "b1", "n"); n != 3 || err != nil { // manifest, mark, one
		t.Errorf("%d, %v", n, err)
	}
	there(two, three, running)
	if entries, err := s.Backups(t.Context()); err != nil || len(entries) != 3 || entries[0].Node != "m" || !entries[0].Complete() || entries[2].Complete() {
		t.Errorf("%+v, %v", entries, err)
	}
	if n, err := s.Delete(t.Context(), "b10"); n != 4 || err != nil { // manifest, mark, index, two
		t.Errorf("%d, %v", n, err)
	}
	there(three, running) // three is what a running one may use
	if n, err := s.Discard(t.Context(), "b3", "n"); n != 3 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	there()
	if n, err := s.Delete(t.Context(), "b1"); n != 4 || err != nil {
		t.Errorf("the other node: %d, %v", n, err)
	}
	if n, err := s.Delete(t.Context(), "b1"); n != 0 || err != nil {
		t.Errorf("again: %d, %v", n, err)
	}
	if entries, err := s.Backups(t.Context()); len(entries) != 0 || err != nil {
		t.Errorf("%v, %v", entries, err)
	}
}

// While it is not known what a damaged manifest uses, nothing is removed but that part itself.
func TestDeleteBesideDamaged(t *testing.T) {
	s := newStore(t)
	one := makePack(t, s, "b1", "n", 1, 2)
	makeBackup(t, s, "b1", "n", one)
	makeBackup(t, s, "b2", "n", one)
	if err := s.bucket.WriteAll(t.Context(), "p/anna/backups/b2/n.json", []byte("{"), nil); err != nil {
		t.Fatal(err)
	}
	if n, err := s.Delete(t.Context(), "b1"); n != 0 || !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), "b2/n.json") {
		t.Errorf("%d, %v", n, err)
	}
	if _, err := s.Manifest(t.Context(), "b1", "n"); err != nil {
		t.Errorf("%v", err)
	}
	if n, err := s.Delete(t.Context(), "b2"); n == 0 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	if _, err := count(s, t, one); err != nil {
		t.Errorf("%v", err)
	}
	if n, err := s.Delete(t.Context(), "b1"); n == 0 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
}

func openINI(t *testing.T, text string) (*Store, error) {
	t.Helper()
	file, err := ini.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	c, err := FromINI(file, Defaults{Prefix: "hydro"})
	if err != nil {
		t.Fatal(err)
	}
	return Open(t.Context(), c)
}

func TestLocal(t *testing.T) {
	dir := t.TempDir()
	s, err := openINI(t, "[storage]\nstorage_provider = local\nbucket_name = b\nbase_path = "+dir+"\n")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	p := makePack(t, s, "b1", "n", 1, 100)
	makeBackup(t, s, "b1", "n", p)
	if n, err := count(s, t, p); n != 100 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "b", "hydro", "anna", "backups", "b1", "n.json")); err != nil {
		t.Error(err)
	}
	commitAtOnce(t, s)
}

// A storage that sends nothing more, and keeps the connection, is asked again.
func TestStall(t *testing.T) {
	before := stall
	stall = time.Second
	defer func() { stall = before }()
	b, server := serveS3(t)
	s, err := openINI(t, s3INI(t, server.Listener.Addr().String(), "key-id"))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	p := makePack(t, s, "b1", "n", 1, 1000)
	makeBackup(t, s, "b1", "n", p)
	b.mutex.Lock()
	b.stalls = 1
	b.mutex.Unlock()
	if n, err := count(s, t, p); n != 1000 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
}

func TestS3(t *testing.T) {
	for name, noConditions := range map[string]bool{"": false, "without conditions": true} {
		t.Run(name, func(t *testing.T) {
			b, server := serveS3(t)
			b.noConditions = noConditions
			s, err := openINI(t, s3INI(t, server.Listener.Addr().String(), "key-id"))
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			p := makePack(t, s, "b1", "n", 1, 90000) // 19 MB: in parts
			makeBackup(t, s, "b1", "n", p)
			if len(b.parts) != 1 || len(b.parts["0"]) < 3 {
				t.Errorf("%d uploads in parts", len(b.parts))
			}
			b.cut = 4
			if n, err := count(s, t, p); n != 90000 || err != nil {
				t.Errorf("%d, %v", n, err)
			}
			b.mutex.Lock()
			b.objects[p.Object] = b.objects[p.Object][:p.Size-1]
			b.mutex.Unlock()
			if _, err := count(s, t, p); !errors.Is(err, ErrDamaged) {
				t.Errorf("truncated: %v", err)
			}
			if noConditions != (b.refused > 0) {
				t.Errorf("%d conditions refused", b.refused)
			}
			if _, err := s.Manifest(t.Context(), "none", "n"); !errors.Is(err, ErrNoBackup) {
				t.Errorf("%v", err)
			}
			if err := s.Commit(t.Context(), manifest.Manifest{Version: 1, Name: "b1", Node: "n"}); !errors.Is(err, ErrExists) {
				t.Errorf("again: %v", err)
			}
			if !noConditions {
				commitAtOnce(t, s)
			}
			if _, err := s.Delete(t.Context(), "b1"); err != nil {
				t.Error(err)
			}
			if packs, err := s.Packs(t.Context(), "n"); len(packs) != 0 || err != nil {
				t.Errorf("%v, %v", packs, err)
			}
		})
	}
}

func s3INI(t *testing.T, address, id string) string {
	t.Helper()
	key := filepath.Join(t.TempDir(), "credentials")
	if err := os.WriteFile(key, []byte("[default]\naws_access_key_id = "+id+"\naws_secret_access_key = s\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("[storage]\nstorage_provider = s3_compatible\nbucket_name = backups\nhost = %s\nport = %s\nsecure = False\nkey_file = %s\n", host, port, key)
}

func TestOpenErrors(t *testing.T) {
	_, server := serveS3(t)
	good := s3INI(t, server.Listener.Addr().String(), "key-id")
	for name, c := range map[string]struct{ text, want string }{
		"no bucket":      {strings.Replace(good, "= backups", "= other", 1), "make it, or correct [storage] bucket_name"},
		"wrong key":      {s3INI(t, server.Listener.Addr().String(), "other"), "correct the Secret"},
		"http":           {strings.Replace(good, "secure = False", "secure = True", 1), "secure = False"},
		"no credentials": {strings.Replace(good, "key_file = ", "key_file = /none", 1), "leave [storage] key_file out"},
		"no profile":     {good + "api_profile = other\n", "[default] section"},
		"nobody there":   {strings.Replace(good, "host = 127.0.0.1", "host = 127.0.0.1\nread_timeout = 1\n", 1), ""},
	} {
		s, err := openINI(t, c.text)
		if c.want == "" {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			} else {
				s.Close()
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
