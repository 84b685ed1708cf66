package backup

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"filippo.io/age"

	"github.com/stategraft/stategraft/agent/anna/client"
	"github.com/stategraft/stategraft/agent/anna/manifest"
	"github.com/stategraft/stategraft/agent/anna/store"
	"github.com/stategraft/stategraft/agent/anna/wire"
	"github.com/stategraft/stategraft/api/node"
)

func TestFull(t *testing.T) {
	r, a := newRig(t), newAnna(3)
	a.fill(5000)
	var last Progress
	r.progress = func(p Progress) { last = p }
	m := r.run("b1", a)
	r.same("b1", a)
	if m.Mode != manifest.Full || m.Threads != 3 || m.Keys != 5000 || m.Missing.Count != 0 || m.Tier != "MEMORY" || m.Encrypted {
		t.Errorf("%+v", m)
	}
	if fmt.Sprint(m.ByLattice) != "map[LWW:4000 PRIORITY:500 SET:500]" || fmt.Sprint(m.Nodes) != "[10.0.0.9 anna-memory-0]" {
		t.Errorf("%v, %v", m.ByLattice, m.Nodes)
	}
	if last.Phase != node.Finishing || last.Keys != 5000 || last.Total != 5000 || last.Bytes != m.Bytes {
		t.Errorf("progress %+v", last)
	}
	if _, err := r.try("b1", a); !errors.Is(err, store.ErrExists) {
		t.Errorf("the same again: %v", err)
	}
}

func TestNothing(t *testing.T) {
	r := newRig(t)
	if m := r.run("b1", newAnna(1)); m.Keys != 0 || len(m.Packs) != 0 {
		t.Errorf("%+v", m)
	}
	if got := r.records("b1"); len(got) != 0 {
		t.Errorf("%v", got)
	}
}

func TestDifferential(t *testing.T) {
	r, a := newRig(t), newAnna(2)
	a.fill(4000)
	first := r.run("b1", a)
	for i := range 10 {
		a.put(0, fmt.Sprintf("key-%06d", 2*i), wire.TypeLWW, lww(9999, "changed"))
	}
	a.put(1, "new", wire.TypeLWW, lww(1, "new"))
	// The same set in another order is no change.
	a.threads[1]["key-000007"] = wire.Tuple{Lattice: wire.TypeSet, Payload: wire.AppendSet(nil, wire.Set{Values: [][]byte{[]byte("b"), []byte("a"), []byte("key-000007")}})}
	second := r.run("b2", a)
	if second.Mode != manifest.Differential || len(second.Packs) != 2 || second.Packs[1].Records != 11 || second.Packs[0].Object != first.Packs[0].Object {
		t.Fatalf("%+v", second.Packs)
	}
	if used := second.Packs[0].Used.Count(4000); used != 3990 {
		t.Errorf("%d of the first pack are used", used)
	}
	a.threads[1]["key-000007"] = wire.Tuple{Lattice: wire.TypeSet, Payload: r.records("b1")["key-000007"].Payload}
	r.same("b2", a)
	third := r.run("b3", a)
	if len(third.Packs) != 2 || third.Digest != second.Digest {
		t.Errorf("nothing has changed: %+v", third.Packs)
	}
	if n := r.objects("index/"); n != 1 {
		t.Errorf("%d indexes", n)
	}
	r.job.Full = true
	if m := r.run("b4", a); m.Mode != manifest.Full || len(m.Packs) != 1 || m.Packs[0].Records != 4001 || m.Digest != third.Digest {
		t.Errorf("full: %+v", m.Packs)
	}
	r.same("b4", a)
}

func TestIndexLost(t *testing.T) {
	for name, spoil := range map[string]func(r *rig, key string){
		"lost":      func(r *rig, key string) { check(r, r.bucket.Delete(r.Context(), key)) },
		"truncated": func(r *rig, key string) { r.change(key, func(b []byte) []byte { return b[:len(b)-24] }) },
		"a bit":     func(r *rig, key string) { r.change(key, func(b []byte) []byte { b[100] ^= 4; return b }) },
		"empty":     func(r *rig, key string) { r.change(key, func(b []byte) []byte { return nil }) },
		"of another": func(r *rig, key string) {
			r.change(key, func(b []byte) []byte { b[10] ^= 1; return b })
		},
	} {
		t.Run(name, func(t *testing.T) {
			r, a := newRig(t), newAnna(1)
			a.fill(100)
			r.run("b1", a)
			spoil(r, "hydro_anna/anna/index/anna-memory-0/b1")
			if m := r.run("b2", a); m.Mode != manifest.Full || len(m.Packs) != 1 || m.Packs[0].Records != 100 {
				t.Errorf("%+v", m)
			}
		})
	}
}

func check(r *rig, err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

func (r *rig) change(key string, change func([]byte) []byte) {
	r.Helper()
	content, err := r.bucket.ReadAll(r.Context(), key)
	check(r, err)
	check(r, r.bucket.WriteAll(r.Context(), key, change(content), nil))
}

// A pack that is mostly of the past is not used again, and neither are many small ones.
func TestPacksGoOutOfUse(t *testing.T) {
	r, a := newRig(t), newAnna(1)
	a.fill(1000)
	r.run("b1", a)
	for i := range 600 {
		a.put(0, fmt.Sprintf("key-%06d", i), wire.TypeLWW, lww(9999, "changed"))
	}
	if m := r.run("b2", a); len(m.Packs) != 2 || m.Packs[0].Used.Count(1000) != 400 {
		t.Fatalf("%+v", m.Packs)
	}
	if m := r.run("b3", a); len(m.Packs) != 2 || m.Packs[0].Records != 600 || m.Packs[1].Records != 400 {
		t.Fatalf("%+v", m.Packs)
	}
	most := 0
	for i := range 80 {
		a.put(0, fmt.Sprintf("more-%d", i), wire.TypeLWW, lww(1, "x"))
		most = max(most, len(r.run(fmt.Sprintf("c%02d", i), a).Packs))
	}
	if most > 34 {
		t.Errorf("a backup needs %d packs", most)
	}
	r.same("c79", a)
}

func TestEncrypted(t *testing.T) {
	key, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	other, _ := age.GenerateX25519Identity()
	r, a := newRig(t, key.Recipient().String()), newAnna(1)
	a.fill(1000)
	r.run("b1", a)
	m := r.run("b2", a)
	if !m.Encrypted || m.Mode != manifest.Full || len(m.Packs) != 1 || r.objects("index/") != 0 {
		t.Errorf("%+v", m)
	}
	r.same("b2", a, other, key)
	for _, identities := range [][]age.Identity{nil, {other}} {
		err := r.store.ReadPack(t.Context(), m.Packs[0], true, identities, nil)
		if !errors.Is(err, store.ErrNoKey) || errors.Is(err, store.ErrDamaged) || !strings.Contains(err.Error(), m.Packs[0].Object) {
			t.Errorf("without the key: %v", err)
		}
	}
	plain, err := store.New(r.bucket, store.Config{Prefix: "hydro_anna"})
	if err != nil {
		t.Fatal(err)
	}
	r.store = plain
	if m := r.run("b3", a); m.Encrypted || m.Mode != manifest.Full {
		t.Errorf("after encrypted ones: %+v", m)
	}
}

func TestMissing(t *testing.T) {
	r, a := newRig(t), newAnna(1)
	a.fill(200)
	answer := func(key string, lattice wire.Lattice, code wire.Code, payload []byte) {
		a.put(0, key, lattice, payload)
		a.threads[0][key] = wire.Tuple{Lattice: lattice, Error: code, Payload: payload}
	}
	answer("tombstone", wire.TypeLWW, wire.KeyDNE, lww(7, ""))
	answer("empty set", wire.TypeSet, wire.KeyDNE, nil)
	answer("moved", wire.None, wire.WrongThread, nil)
	a.moved["moved"] = wire.Tuple{Lattice: wire.TypeLWW, Payload: lww(3, "there")}
	answer("went", wire.None, wire.KeyDNE, nil)
	a.moved["went"] = wire.Tuple{Lattice: wire.TypeLWW, Payload: lww(4, "there too")}
	answer("gone\x00", wire.None, wire.KeyDNE, nil)
	answer("moving", wire.None, wire.WrongThread, nil)
	a.moved["moving"] = wire.Tuple{Error: wire.WrongThread}
	answer("silent", wire.None, wire.Timeout, nil)
	answer("garbage", wire.TypeLWW, wire.NoError, []byte("\xff\xff"))
	answer("ANNA_METADATA|size|x", wire.TypeLWW, wire.NoError, lww(1, "x"))
	m := r.run("b1", a)
	said := map[string]string{}
	for _, k := range m.Missing.Keys {
		said[k.Key], _, _ = strings.Cut(k.Reason, ":")
	}
	want := map[string]string{`"gone\x00"`: "KEY_DNE", "moving": "WRONG_THREAD", "silent": "TIMEOUT", "garbage": "its value cannot be read, and so could not be written again"}
	if m.Missing.Count != 4 || fmt.Sprint(said) != fmt.Sprint(want) {
		t.Errorf("%d: %v, want %v", m.Missing.Count, said, want)
	}
	got := r.records("b1")
	if len(got) != 204 || string(got["moved"].Payload) != string(lww(3, "there")) || string(got["went"].Payload) != string(lww(4, "there too")) {
		t.Errorf("%d keys, moved %q", len(got), got["moved"].Payload)
	}
	if k, is := got["tombstone"]; !is || string(k.Payload) != string(lww(7, "")) || got["empty set"].Lattice != wire.TypeSet {
		t.Errorf("tombstone %+v, %+v", k, got["empty set"])
	}
}

// On the disk tier an empty value looks as one that was lost: it is told. One of a priority
// would keep later ones out.
func TestHollow(t *testing.T) {
	r, a := newRig(t), newAnna(1)
	r.job.Tier, r.job.Role = wire.Disk, "ebs"
	for key, lattice := range map[string]wire.Lattice{"plain": wire.TypeLWW, "first": wire.TypePriority} {
		a.put(0, key, lattice, nil)
		a.threads[0][key] = wire.Tuple{Lattice: lattice, Error: wire.KeyDNE}
	}
	m := r.run("b1", a)
	if m.Keys != 1 || m.Missing.Count != 1 || m.Missing.Keys[0].Key != "first" || len(m.Notes) != 1 || !strings.Contains(m.Notes[0], "plain") {
		t.Errorf("%+v", m)
	}
}

// The directories that keys name are in the manifest, of an encrypted backup for those who
// can read that.
func TestFolders(t *testing.T) {
	key, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	a := newAnna(1)
	for _, key := range []string{"funcs/a", "funcs/b", "plain", "/top", "x/y/z", strings.Repeat("long", 300) + "/k"} {
		a.put(0, key, wire.TypeLWW, lww(1, "v"))
	}
	want := []string{"funcs", "x/y"}
	if m := newRig(t).run("b1", a); !slices.Equal(m.Folders, want) || m.Sealed != nil || len(m.Notes) != 1 {
		t.Errorf("%q, %q", m.Folders, m.Notes)
	}
	m := newRig(t, key.Recipient().String()).run("b1", a)
	if _, err := store.Unseal(m.Sealed, nil); !errors.Is(err, store.ErrNoKey) || m.Folders != nil {
		t.Errorf("%q, %v", m.Folders, err)
	}
	content, err := store.Unseal(m.Sealed, []age.Identity{key})
	if err != nil || string(content) != `["funcs","x/y"]` {
		t.Errorf("%s, %v", content, err)
	}
	m.Sealed[len(m.Sealed)-1]++
	if _, err := store.Unseal(m.Sealed, []age.Identity{key}); !errors.Is(err, store.ErrDamaged) {
		t.Errorf("%v", err)
	}
}

func TestManyMissing(t *testing.T) {
	r, a := newRig(t), newAnna(1)
	a.fill(500)
	clear(a.threads[0])
	if m := r.run("b1", a); m.Missing.Count != 500 || len(m.Missing.Keys) != manifest.MissingKeys || a.found != 500 {
		t.Errorf("%d, %d named, %d looked for", m.Missing.Count, len(m.Missing.Keys), a.found)
	}
}

// A thread that answers nothing ends the backup, and not only after every key was tried.
func TestSilent(t *testing.T) {
	r, a := newRig(t), newAnna(1)
	a.fill(20000)
	for key := range a.threads[0] {
		a.threads[0][key] = wire.Tuple{Error: wire.Timeout}
	}
	if _, err := r.try("b1", a); !errors.Is(err, ErrSilent) || a.got > 20000/2 {
		t.Errorf("%v after %d keys", err, a.got)
	}
	if _, err := r.store.Manifest(t.Context(), "b1", r.job.Node); !errors.Is(err, store.ErrUnfinished) {
		t.Errorf("%v", err)
	}
	if n, err := r.store.Discard(t.Context(), "b1", r.job.Node); n != 1 || err != nil || r.objects("") != 0 {
		t.Errorf("%d, %v; %d objects stay", n, err, r.objects(""))
	}
}

// A backup that is removed while another builds upon it keeps its packs; where they go
// all the same, no manifest is written.
func TestBaseRemoved(t *testing.T) {
	r, a := newRig(t), newAnna(1)
	a.fill(300)
	r.run("b1", a)
	a.before = func([]string) {
		if n, err := r.store.Delete(context.Background(), "b1"); err != nil { // not the test's: it is another time there
			t.Errorf("%d, %v", n, err)
		}
	}
	if m := r.run("b2", a); m.Mode != manifest.Differential {
		t.Errorf("%+v", m)
	}
	a.before = nil
	r.same("b2", a)
	pack := r.run("b3", a).Packs[0].Object
	a.before = func([]string) { r.bucket.Delete(context.Background(), pack) } //nolint:errcheck // more than once
	if _, err := r.try("b4", a); !errors.Is(err, ErrBase) || !errors.Is(err, store.ErrDamaged) || !strings.Contains(err.Error(), pack) {
		t.Errorf("%v", err)
	}
	a.before = nil
	if m := r.run("b5", a); len(m.Packs) != 1 || m.Packs[0].Records != 300 {
		t.Errorf("%+v", m)
	}
	r.same("b5", a)
}

func TestCancelled(t *testing.T) {
	r, a := newRig(t), newAnna(1)
	a.fill(1000)
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		a.before = func([]string) { cancel() }
		if _, err := Run(ctx, r.job, a, r.store, nil); !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
	})
	if _, err := r.store.Discard(t.Context(), "b1", r.job.Node); err != nil || r.objects("") != 0 {
		t.Errorf("%v; %d objects stay", err, r.objects(""))
	}
}

// node15 reports as Anna does: every 15 s, from a phase of its own.
type node15 struct {
	*anna
	begun time.Time
	phase time.Duration
	late  time.Time // when the key was written
	asked int
	bad   func(asked int) (client.Report, error, bool)
	used  []uint64
}

func (n *node15) Report(ctx context.Context, s wire.Server, tier wire.Tier, tid int) (client.Report, error) {
	n.asked++
	if n.bad != nil {
		if r, err, is := n.bad(n.asked); is {
			return r, err
		}
	}
	if tid > 0 {
		return client.Report{Never: true}, nil
	}
	since := time.Since(n.begun) - n.phase
	if since < 0 {
		return client.Report{Never: true}, nil
	}
	at := n.begun.Add(n.phase + since.Truncate(15*time.Second))
	// The report was made a second before it could be read.
	list := wire.AppendKeySize(nil, wire.KeySize{Key: "old"})
	if at.Add(-time.Second).After(n.late) {
		list = wire.AppendKeySize(list, wire.KeySize{Key: "late"})
	}
	stamp := uint64(at.UnixMilli()) * 10
	n.used = append(n.used, stamp)
	return client.Report{Stamp: stamp, Sizes: list}, nil
}

// What was acknowledged before a backup begins is in it, wherever between two reports
// that is, and a node that does not report is waited for and then given up.
func TestReportsAdvanceTwice(t *testing.T) {
	for phase := range 16 {
		for name, bad := range map[string]func(int) (client.Report, error, bool){
			"": nil,
			"no answer": func(asked int) (client.Report, error, bool) {
				return client.Report{}, client.ErrTimeout, asked > 2 && asked < 8
			},
			"reports lost": func(asked int) (client.Report, error, bool) { return client.Report{Never: true}, nil, asked == 3 },
		} {
			t.Run(fmt.Sprint(phase, name), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					r := newRig(t)
					n := &node15{anna: newAnna(1), begun: time.Now(), phase: time.Duration(phase) * time.Second, bad: bad}
					n.put(0, "old", wire.TypeLWW, lww(1, "x"))
					n.put(0, "late", wire.TypeLWW, lww(2, "y"))
					time.Sleep(20 * time.Second)
					n.late = time.Now()
					m, err := Run(t.Context(), r.job, n, r.store, nil)
					if err != nil {
						t.Fatal(err)
					}
					took := time.Since(n.late)
					if m.Keys != 2 || took < 15*time.Second || bad == nil && took > 40*time.Second {
						t.Errorf("%d keys after %s", m.Keys, took)
					}
					if bad == nil && n.asked > 10 {
						t.Errorf("asked %d times", n.asked)
					}
				})
			})
		}
	}
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		begun := time.Now()
		n := &node15{anna: newAnna(1), begun: begun.Add(time.Hour)}
		if _, err := Run(t.Context(), r.job, n, r.store, nil); !errors.Is(err, ErrSilent) || time.Since(begun) > 5*time.Minute {
			t.Errorf("never: %v after %s", err, time.Since(begun))
		}
	})
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.job.Threads = 2
		n := &node15{anna: newAnna(1), begun: time.Now()}
		if _, err := Run(t.Context(), r.job, n, r.store, nil); !errors.Is(err, ErrSilent) || !strings.Contains(err.Error(), "thread 1") {
			t.Errorf("too many threads: %v", err)
		}
	})
}
