package backup

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stategraft/stategraft/agent/anna/manifest"
)

// An index that is larger than what is held in memory is made and read through scratch
// files, of which nothing stays.
func TestIndexBeyondMemory(t *testing.T) {
	defer func(a int64, b, c int) { inMemory, runEntries, runsInMemory = a, b, c }(inMemory, runEntries, runsInMemory)
	inMemory, runEntries, runsInMemory = 100, 64, 2
	of := manifest.Manifest{Checksum: strings.Repeat("ab", 32)}
	for _, n := range []int{0, 1, 63, 64, 65, 128, 129, 1000, 5000} {
		dir := t.TempDir()
		w := &indexWriter{scratch: dir}
		var all []entry
		for i := range n {
			sum := sha256.Sum256(binary.BigEndian.AppendUint32(nil, uint32(i)))
			e := entry{short(sum[:]), uint32(i % 3), uint32(i)}
			all = append(all, e)
			w.add(e)
		}
		var b bytes.Buffer
		if err := w.write(&b, of, []int{5, 6, 7}); err != nil {
			t.Fatal(err)
		}
		w.close()
		x, err := readIndex(bytes.NewReader(b.Bytes()), int64(b.Len()), of, dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range all {
			if number, record, ok := x.find(e.digest); !ok || number != e.pack+5 || record != e.record {
				t.Fatalf("of %d, %d: pack %d, record %d, %v", n, e.record, number, record, ok)
			}
		}
		if _, _, ok := x.find(digest{1, 2}); ok {
			t.Error("what is not there is found")
		}
		x.close()
		if left, err := os.ReadDir(dir); len(left) > 0 || err != nil {
			t.Errorf("%v, %v", left, err)
		}
	}
}

// Without a place for scratch files there is no index, and nothing else is lost.
func TestNoScratch(t *testing.T) {
	defer func(b, c int) { runEntries, runsInMemory = b, c }(runEntries, runsInMemory)
	runEntries, runsInMemory = 64, 1
	r, a := newRig(t), newAnna(1)
	r.job.Scratch = filepath.Join(r.job.Scratch, "none")
	a.fill(1000)
	r.run("b1", a)
	r.same("b1", a)
	if m := r.run("b2", a); m.Mode != manifest.Full {
		t.Errorf("%s", m.Mode)
	}
}

func TestDamagedIndex(t *testing.T) {
	of := manifest.Manifest{Checksum: strings.Repeat("ab", 32)}
	w := &indexWriter{}
	for i := range uint64(20) {
		w.add(entry{digest{i << 50, i}, 0, uint32(i)})
	}
	var b bytes.Buffer
	if err := w.write(&b, of, []int{0}); err != nil {
		t.Fatal(err)
	}
	read := func(content []byte, of manifest.Manifest) error {
		_, err := readIndex(bytes.NewReader(content), int64(len(content)), of, "")
		return err
	}
	for i := range b.Len() {
		broken := bytes.Clone(b.Bytes())
		broken[i] ^= 1
		if err := read(broken, of); !errors.Is(err, errIndex) {
			t.Fatalf("byte %d: %v", i, err)
		}
		if err := read(broken[:i], of); !errors.Is(err, errIndex) {
			t.Fatalf("%d bytes: %v", i, err)
		}
	}
	if err := read(b.Bytes(), manifest.Manifest{Checksum: strings.Repeat("cd", 32)}); !errors.Is(err, errIndex) {
		t.Errorf("of another: %v", err)
	}
}
