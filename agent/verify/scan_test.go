package verify

import (
	"os"
	"strings"
	"testing"
)

// TestScan reads what the tool of Cassandra 5.0.6 printed.
func TestScan(t *testing.T) {
	text, err := os.ReadFile("testdata/scan-5.0.txt")
	if err != nil {
		t.Fatal(err)
	}
	const data = "/var/lib/cassandra/data/"
	batch := []*files{
		{dir: data + "shop/orders-d8cb8ea0ec6f11f19b19dfa6526835b9/.by_v", name: "nb-1-big", rows: -1},
		{dir: data + "shop/orders-d8cb8ea0ec6f11f19b19dfa6526835b9", name: "nb-1-big", rows: -1},
		{dir: data + "system/IndexInfo-9f5c6374d48532299a0a5094af9ad1e3", name: "nb-1-big", rows: -1},
	}
	s := newScan(batch)
	for line := range strings.Lines(string(text)) {
		s.line(strings.TrimRight(line, "\n"))
	}
	for i, want := range []int64{1000, 1000, 1} {
		if batch[i].rows != want || !batch[i].scanned {
			t.Errorf("%s: %d, read %v", batch[i].dir, batch[i].rows, batch[i].scanned)
		}
	}
	if s.done() != 3 || s.failure != "" {
		t.Errorf("%d done, %q", s.done(), s.failure)
	}
}

// TestScanFails: the one that it fails at is the next after those that it is done with.
func TestScanFails(t *testing.T) {
	for name, c := range map[string]struct {
		text    string
		done    int
		failure string
	}{
		"at once":           {"Exception in thread \"main\" java.lang.NoClassDefFoundError: x/Y", 0, "NoClassDefFoundError"},
		"opening the first": {"SSTable: /d/k/t/a\nException in thread \"main\" x.CorruptSSTableException: Corrupted: /d/k/t/a-Data.db", 0, "CorruptSSTableException in a-Data.db"},
		"before the second": {"SSTable: /d/k/t/a\nRows: 1\ntotalRows: 1\njava.lang.OutOfMemoryError: Java heap space", 1, "OutOfMemoryError"},
		"in the second":     {"SSTable: /d/k/t/a\nRows: 1\nSSTable: /d/k/t/b\nCaused by: x.y.CorruptBlockException: (secret)", 1, "CorruptBlockException"},
		"a link resolved":   {"SSTable: /mnt/k/t/a\nRows: 1\nSSTable: /mnt/k/t/b\nRows: 2", 2, ""},
		"keys":              {"SSTable: /d/k/t/a\nRows: 1\nWidest Partitions: \n  [x\nRows: 5\nSSTable: /d/k/u/b\n] 1", 1, ""},
		"a word":            {"SSTable: /d/k/t/a\nRows: many\nRows: -1", 0, ""},
	} {
		a, b := &files{dir: "/d/k/t", name: "a", rows: -1}, &files{dir: "/d/k/t", name: "b", rows: -1}
		s := newScan([]*files{a, b})
		for line := range strings.Lines(c.text) {
			s.line(strings.TrimRight(line, "\n"))
		}
		if s.done() != c.done || s.failure != c.failure || a.rows > 1 {
			t.Errorf("%s: %d done, %q, %d rows", name, s.done(), s.failure, a.rows)
		}
	}
}

func TestExceptionIn(t *testing.T) {
	for line, want := range map[string]string{
		"  [some key] 12":                         "",
		"Partitioner: org.apache.x.Murmur3":       "",
		"key with java.io.IOException: in it":     "",
		"java.io.EOFException":                    "EOFException",
		"java.io.IOException: whatever was there": "IOException",
	} {
		if got := exceptionIn(line); got != want {
			t.Errorf("%q: %q, want %q", line, got, want)
		}
	}
}
