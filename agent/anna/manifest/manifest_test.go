package manifest

import (
	"bytes"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stategraft/stategraft/agent/anna/pack"
	"github.com/stategraft/stategraft/test/golden"
)

func sample() Manifest {
	at := time.Date(2026, 11, 30, 8, 0, 0, 123456789, time.UTC)
	return Manifest{
		Version: Version, Name: "daily-20261130", Node: "anna-memory-0", Cluster: "anna", Role: "memory", Mode: Differential,
		Started: at, Finished: at.Add(time.Minute), Server: Server{"203.0.113.7", "anna-memory-0.anna-memory.hydro.svc.cluster.local"},
		Threads: 4, Tier: "MEMORY", Members: []Member{{"MEMORY", Server{"203.0.113.7", "anna-memory-0.anna-memory.hydro.svc.cluster.local"}}},
		Nodes: []string{"anna-memory-0"}, Keys: 3, Bytes: 300, ByLattice: map[string]int64{"SET": 1, "LWW": 2}, Digest: strings.Repeat("ab", 32),
		Missing: Missing{1, []MissingKey{{"<k>", "no answer"}}},
		Packs: []Pack{{"p/anna/packs/anna-memory-0/daily.1", 200, strings.Repeat("cd", 32), 8, 900, pack.Bitmap{1}},
			{"p/anna/packs/anna-memory-0/daily.2", 100, strings.Repeat("ef", 32), 2, 200, nil}},
	}
}

func TestGolden(t *testing.T) {
	content, err := sample().Encode()
	if err != nil {
		t.Fatal(err)
	}
	golden.Compare(t, "testdata/manifest.json", content)
	got, err := Parse(content)
	if err != nil {
		t.Fatal(err)
	}
	want := sample()
	want.Checksum = got.Checksum
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// Whatever byte is another or lacking, it is no manifest.
func TestDamaged(t *testing.T) {
	content, err := sample().Encode()
	if err != nil {
		t.Fatal(err)
	}
	for i := range content {
		for _, bit := range []byte{1, 2, 4, 8, 16, 32, 64, 128} {
			broken := bytes.Clone(content)
			broken[i] ^= bit
			if _, err := Parse(broken); !errors.Is(err, ErrDamaged) {
				t.Fatalf("byte %d, bit %d: %v", i, bit, err)
			}
		}
		if _, err := Parse(content[:i]); !errors.Is(err, ErrDamaged) {
			t.Fatalf("%d bytes of it: %v", i, err)
		}
	}
	if _, err := Parse(append(bytes.Clone(content), '\n')); !errors.Is(err, ErrDamaged) {
		t.Errorf("with a byte more: %v", err)
	}
}

func TestRefused(t *testing.T) {
	for name, change := range map[string]func(*Manifest){
		"no name":        func(m *Manifest) { m.Name = "" },
		"no node":        func(m *Manifest) { m.Node = "" },
		"a pack unnamed": func(m *Manifest) { m.Packs[0].Object = "" },
		"a negative":     func(m *Manifest) { m.Packs[0].Size = -1 },
		"no digest":      func(m *Manifest) { m.Packs[0].SHA256 = "ab" },
		"bitmap":         func(m *Manifest) { m.Packs[0].Used = make(pack.Bitmap, 3) },
	} {
		m := sample()
		change(&m)
		content, err := m.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Parse(content); !errors.Is(err, ErrDamaged) {
			t.Errorf("%s: %v", name, err)
		}
	}
	m := sample()
	m.Version = Version + 1
	content, _ := m.Encode()
	if _, err := Parse(content); err == nil || errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), "newer") {
		t.Errorf("a newer one: %v", err)
	}
}

func TestSum(t *testing.T) {
	a, b := [32]byte{1, 255}, [32]byte{31: 7, 0: 255}
	var x, y, both Sum
	x.Add(a)
	x.Add(b)
	y.Add(b)
	y.Add(a)
	if x != y || x.String() != y.String() || len(x.String()) != 64 {
		t.Errorf("%s and %s", x, y)
	}
	var one Sum
	one.Add(b)
	both.Add(a)
	both.Join(one)
	if both != x {
		t.Errorf("%s and %s", both, x)
	}
	y.Add(a)
	y.Add(a)
	if x == y {
		t.Error("the same twice more is not seen")
	}
}

func FuzzParse(f *testing.F) {
	content, _ := sample().Encode()
	f.Add(content)
	f.Add([]byte("{}"))
	f.Fuzz(func(t *testing.T, content []byte) {
		if m, err := Parse(content); err == nil && (m.Node == "" || m.Name == "") {
			t.Errorf("%+v", m)
		}
	})
}
