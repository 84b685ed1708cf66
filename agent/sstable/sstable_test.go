package sstable

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// written is a Statistics.db that Cassandra 5.0.6 has written: of a table with four
// clustering columns, one of them reversed, two of a fixed length, and 171 rows.
func written(t *testing.T, version string) []byte {
	t.Helper()
	format := "big"
	if version == "da" {
		format = "bti"
	}
	file, err := os.Open("testdata/" + version + "-1-" + format + "-Statistics.db.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	unzip, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	content, err := io.ReadAll(unzip)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

func TestRows(t *testing.T) {
	for _, version := range versions {
		content := written(t, version)
		if n, err := rows(bytes.NewReader(content), int64(len(content)), version); n != 171 || err != nil {
			t.Errorf("%s: %d, %v", version, n, err)
		}
	}
	content := written(t, "nb")
	for _, version := range []string{"la", "ka", "pa", "nz", "", "ea"} {
		if _, err := rows(bytes.NewReader(content), int64(len(content)), version); !errors.Is(err, errVersion) {
			t.Errorf("%s: %v", version, err)
		}
	}
}

// TestRowsOfDamaged: whatever is cut off or changed is an error or the truth, and no
// panic.
func TestRowsOfDamaged(t *testing.T) {
	for _, version := range versions {
		whole := written(t, version)
		for n := 0; n < len(whole); n += 13 {
			content := whole[:n]
			if got, err := rows(bytes.NewReader(content), int64(n), version); err == nil && got != 171 {
				t.Errorf("%s: cut at %d: %d", version, n, got)
			}
		}
		for n := 0; n < len(whole); n += 7 {
			content := bytes.Clone(whole)
			content[n] ^= 0xff
			got, err := rows(bytes.NewReader(content), int64(len(content)), version)
			if err == nil && got != 171 && checksummed(version) {
				t.Errorf("%s: changed at %d: %d", version, n, got)
			}
		}
	}
}

func FuzzTotalRows(f *testing.F) {
	for i := range versions {
		f.Add(i, []byte{0, 0, 0, 1})
	}
	f.Fuzz(func(_ *testing.T, version int, content []byte) {
		r := &reader{left: content}
		r.totalRows(versions[uint(version)%uint(len(versions))])
	})
}

func TestFixed(t *testing.T) {
	for name, want := range map[string]int64{
		"org.apache.cassandra.db.marshal.Int32Type":                                                                  4,
		"org.apache.cassandra.db.marshal.ReversedType(org.apache.cassandra.db.marshal.TimeUUIDType)":                 16,
		"org.apache.cassandra.db.marshal.UTF8Type":                                                                   -1,
		"org.apache.cassandra.db.marshal.ShortType":                                                                  -1,
		"org.apache.cassandra.db.marshal.VectorType(org.apache.cassandra.db.marshal.FloatType , 3)":                  12,
		"org.apache.cassandra.db.marshal.VectorType(org.apache.cassandra.db.marshal.UTF8Type , 3)":                   -1,
		"org.apache.cassandra.db.marshal.FrozenType(org.apache.cassandra.db.marshal.ListType(Int32Type))":            -1,
		"org.apache.cassandra.db.marshal.TupleType(org.apache.cassandra.db.marshal.Int32Type,org.apache.x.LongType)": -1,
		"org.apache.cassandra.db.marshal.VectorType(broken":                                                          -1, "": -1,
	} {
		if got := fixed(name); got != want {
			t.Errorf("%s: %d", name, got)
		}
	}
}

func TestVInt(t *testing.T) { // as VIntCoding.java, writeUnsignedVInt
	for text, want := range map[string]int64{
		"\x00": 0, "\x7f": 127, "\x80\x80": 128, "\xbf\xff": 16383, "\xc0\x40\x00": 16384, "\xff\x00\x00\x00\x00\x00\x00\x01\x00": 256,
	} {
		r := &reader{left: []byte(text)}
		if got := r.vint(); got != want || r.err != nil || len(r.left) != 0 {
			t.Errorf("%x: %d, %v", text, got, r.err)
		}
	}
}

type place struct {
	t   *testing.T
	dir string
}

func (p place) put(name string, content []byte) {
	p.t.Helper()
	at := filepath.Join(p.dir, name)
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		p.t.Fatal(err)
	}
	if err := os.WriteFile(at, content, 0o600); err != nil {
		p.t.Fatal(err)
	}
}

func (p place) table(dir, prefix string, version string) {
	p.put(dir+"/"+prefix+"-Data.db", make([]byte, 100))
	p.put(dir+"/"+prefix+"-Statistics.db", written(p.t, version))
}

func counted(name string, sstables int, size, rows int64, counted bool) Table {
	return Table{Table: name, SSTables: sstables, Bytes: size, Rows: rows, Counted: counted}
}

func TestCount(t *testing.T) {
	p := place{t, t.TempDir()}
	p.table("d1/shop/orders-11aa", "nb-1-big", "nb")
	p.table("d1/shop/orders-11aa", "me-7-big", "me")
	p.table("d1/shop/orders-11aa/.by_day", "nb-1-big", "nb")
	p.table("d1/shop/orders-11aa/snapshots/t", "nb-2-big", "nb")
	p.table("d1/shop/orders-11aa/snapshots/t/.by_day", "nb-1-big", "nb")
	p.put("d1/shop/orders-11aa/snapshots/t/manifest.json", []byte("{}"))
	p.table("d1/shop/orders-11aa/backups", "nb-3-big", "nb")
	p.table("d2/shop/orders-11aa/snapshots/t", "oa-3gvw_0abc_1xyz2000000000000-big", "oa")
	p.table("d1/shop/new-22", "da-1-bti", "da")
	p.put("d1/shop/old-33/la-1-big-Data.db", []byte("x"))
	p.put("d1/shop/older-44/shop-older-ka-1-Data.db", []byte("x"))
	p.put("d1/shop/torn-55/nb-1-big-Data.db", []byte("x"))
	p.put("d1/shop/torn-55/nb-1-big-Statistics.db", []byte("x"))
	p.put("d1/shop/empty-66/x.txt", nil)
	p.put("d2/shop/x", nil)
	got, err := Count(filepath.Join(p.dir, "d1"))
	size := func(versions ...string) int64 {
		sum := int64(0)
		for _, v := range versions {
			sum += 100 + int64(len(written(t, v)))
		}
		return sum
	}
	want := []Table{
		counted("shop.empty", 0, 0, 0, true), counted("shop.new", 1, size("da"), 171, true), counted("shop.old", 1, 1, 0, false), counted("shop.older", 1, 1, 0, false),
		counted("shop.orders", 2, size("nb", "me"), 342, true), counted("shop.orders.by_day", 1, size("nb"), 171, true), counted("shop.torn", 1, 2, 0, false),
	}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%v\n%+v\nwant\n%+v", err, got, want)
	}
	got, err = CountSnapshot([]string{filepath.Join(p.dir, "d1"), filepath.Join(p.dir, "d2")}, "t")
	want = []Table{counted("shop.orders", 2, size("nb", "oa"), 342, true), counted("shop.orders.by_day", 1, size("nb"), 171, true)}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%v\n%+v\nwant\n%+v", err, got, want)
	}
	if _, err := Count(filepath.Join(p.dir, "none")); err == nil {
		t.Error("a directory that is not there is counted")
	}
	if got := CountDirs([]Dir{{"a", "b-1", filepath.Join(p.dir, "none")}}); len(got) != 1 || got[0].Counted {
		t.Errorf("%+v", got)
	}
}

// TestCountFollowsNoLink: neither to a file nor to a directory.
func TestCountFollowsNoLink(t *testing.T) {
	p := place{t, t.TempDir()}
	p.table("outside/secret-1", "nb-1-big", "nb")
	p.put("data/shop/orders-11/nb-1-big-Data.db", []byte("x"))
	for from, to := range map[string]string{
		"data/shop/orders-11/nb-1-big-Statistics.db": "../../../outside/secret-1/nb-1-big-Statistics.db",
		"data/shop/orders-11/nb-2-big-Data.db":       "../../../outside/secret-1/nb-1-big-Data.db",
		"data/shop/linked-1":                         "../../outside/secret-1",
		"data/other":                                 "../outside",
	} {
		if err := os.Symlink(to, filepath.Join(p.dir, from)); err != nil {
			t.Fatal(err)
		}
	}
	got, err := Count(filepath.Join(p.dir, "data"))
	if want := []Table{counted("shop.orders", 1, 1, 0, false)}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%v %+v", err, got)
	}
}

// TestCheckDigest: of a Data.db that Cassandra 5.0.6 has compressed.
func TestCheckDigest(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"oa-2-big-Data.db", "oa-2-big-Digest.crc32"} {
		content, err := os.ReadFile("testdata/" + name)
		if err != nil {
			t.Fatal(err)
		}
		place{t, dir}.put(name, content)
	}
	data := filepath.Join(dir, "oa-2-big-Data.db")
	if err := CheckDigest(t.Context(), data); err != nil {
		t.Error(err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if err := CheckDigest(ended, data); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	content, err := os.ReadFile(data)
	if err != nil {
		t.Fatal(err)
	}
	content[len(content)/2] ^= 1
	place{t, dir}.put("oa-2-big-Data.db", content)
	if err := CheckDigest(t.Context(), data); !errors.Is(err, ErrDigest) {
		t.Errorf("%v", err)
	}
	place{t, dir}.put("oa-2-big-Digest.crc32", []byte("what"))
	if err := CheckDigest(t.Context(), data); !errors.Is(err, ErrDigest) || !strings.Contains(err.Error(), "what") {
		t.Errorf("%v", err)
	}
	if err := os.Remove(filepath.Join(dir, "oa-2-big-Digest.crc32")); err != nil {
		t.Fatal(err)
	}
	if err := CheckDigest(t.Context(), data); !errors.Is(err, ErrNoDigest) {
		t.Errorf("%v", err)
	}
}
