package verify

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stategraft/stategraft/api/node"
)

const id = "-d8cb8ea0ec6f11f19b19dfa6526835b9"

// volume is a data volume, and an image's root, with a fake of its tool.
type volume struct {
	*testing.T
	dir, root string
	config    Config
}

func newVolume(t *testing.T, tables ...string) *volume {
	t.Helper()
	v := &volume{T: t, dir: t.TempDir(), root: t.TempDir()}
	for _, table := range tables {
		v.add(table, "nb-1-big")
	}
	v.config = Config{Node: "c-0", DataMount: v.dir, DataDirectory: filepath.Join(v.dir, "data"), Contents: filepath.Join(v.dir, "contents.json"),
		Temp: t.TempDir(), Env: func(string) string { return "" }, Root: v.root, Batch: 2, Log: slog.New(slog.DiscardHandler)}
	return v
}

// add adds an SSTable: a real one with one row, under another name.
func (v *volume) add(table, name string) string {
	v.Helper()
	keyspace, rest, _ := strings.Cut(table, ".")
	plain, index, _ := strings.Cut(rest, ".")
	dir := filepath.Join(v.dir, "data", keyspace, plain+id)
	if index != "" {
		dir = filepath.Join(dir, "."+index)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		v.Fatal(err)
	}
	files, err := filepath.Glob("testdata/sstable/nb-1-big-*")
	if err != nil || len(files) != 8 {
		v.Fatalf("%v, %v", files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			v.Fatal(err)
		}
		v.write(filepath.Join(dir, name+strings.TrimPrefix(filepath.Base(file), "nb-1-big")), string(text), 0o644)
	}
	return filepath.Join(dir, name+"-Data.db")
}

func (v *volume) write(path, text string, mode os.FileMode) {
	v.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		v.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		v.Fatal(err)
	}
}

// tool puts the fake at a place of the image.
func (v *volume) tool(path string) {
	v.Helper()
	text, err := os.ReadFile("testdata/tool/sstablemetadata")
	if err != nil {
		v.Fatal(err)
	}
	v.write(filepath.Join(v.root, path), string(text), 0o755)
}

const officialTool = "/opt/cassandra/tools/bin/sstablemetadata"

func (v *volume) data(table, name string) string {
	keyspace, plain, _ := strings.Cut(table, ".")
	return filepath.Join(v.dir, "data", keyspace, plain+id, name+"-Data.db")
}

func counted(table string, sstables int, rows int64) node.Table {
	return node.Table{Table: table, SSTables: sstables, Rows: rows, Counted: true}
}

func TestRun(t *testing.T) {
	right := []node.Table{counted("shop.orders", 2, 2), counted("shop.orders.by_v", 1, 1), counted("shop.empty", 0, 0), counted("system.local", 1, 1)}
	changed := func(i int, t node.Table) []node.Table {
		list := slices.Clone(right)
		list[i] = t
		return list
	}
	scan := node.Verified{Node: "c-0", Method: node.CountedByScan, Tables: 2, SSTables: 4, Bytes: 140, Digests: 4, Rows: 3, Compared: 4, Recorded: true}
	with := func(base node.Verified, change func(*node.Verified)) node.Verified {
		change(&base)
		return base
	}
	const noScan = "rows were not read: sstablemetadata of this image has no --scan; what the SSTables say of themselves counts"
	for name, c := range map[string]struct {
		fake   string
		counts []node.Table // nil for none
		change func(*volume)
		want   node.Verified
	}{
		"sound": {"new", right, nil, scan},
		"made by others": {"new", nil, nil, with(scan, func(v *node.Verified) {
			v.Compared, v.Recorded, v.Notes = 0, false, []string{"the backup has no counts to compare with: it was made by others, or by a version before"}
		})},
		"a row less": {"new", changed(0, counted("shop.orders", 2, 3)), nil, with(scan, func(v *node.Verified) {
			v.Differences = []node.Difference{{Table: "shop.orders", Want: 3, Have: 2}}
		})},
		"the scan finds less than the statistics say": {"new", right, func(v *volume) { v.write(v.data("system.local", "nb-1-big")+".rows", "0", 0o644) }, with(scan, func(v *node.Verified) {
			v.Rows, v.Differences = 2, []node.Difference{{Table: "system.local", Want: 1, Have: 0}}
		})},
		"an index differs": {"new", changed(1, counted("shop.orders.by_v", 1, 2)), nil, with(scan, func(v *node.Verified) {
			v.Differences = []node.Difference{{Table: "shop.orders.by_v", Want: 2, Have: 1}}
		})},
		"an SSTable less": {"new", changed(3, counted("system.local", 2, 1)), nil, with(scan, func(v *node.Verified) { v.Problems = []string{"system.local has 1 SSTables, not 2"} })},
		"a table less": {"new", append(slices.Clone(right), counted("shop.more", 1, 5)), nil, with(scan, func(v *node.Verified) {
			v.Compared, v.Problems, v.Differences = 5, []string{"shop.more has 0 SSTables, not 1"}, []node.Difference{{Table: "shop.more", Want: 5}}
		})},
		"a table more": {"new", right[:3], nil, with(scan, func(v *node.Verified) {
			v.Compared, v.Problems = 3, []string{"system.local is not among what the backup counted"}
		})},
		"not counted then": {"new", changed(3, node.Table{Table: "system.local", SSTables: 1}), nil, with(scan, func(v *node.Verified) {
			v.Compared, v.Notes = 3, []string{"the rows of 1 tables were not compared"}
		})},
		"a bit flipped": {"new", right, func(v *volume) { v.write(v.data("shop.orders", "nb-2-big"), strings.Repeat("x", 35), 0o644) }, with(scan, func(v *node.Verified) {
			v.Digests, v.Problems = 3, []string{"nb-2-big of shop.orders: Data.db is not what was written: it has another checksum"}
		})},
		"a file less": {"new", right, func(v *volume) {
			if err := os.Remove(strings.Replace(v.data("shop.orders", "nb-2-big"), "Data.db", "Index.db", 1)); err != nil {
				t.Fatal(err)
			}
		}, with(scan, func(v *node.Verified) { v.Problems = []string{"nb-2-big of shop.orders: missing Index.db"} })},
		"cannot be read": {"new", right, func(v *volume) {
			v.write(v.data("shop.orders", "nb-1-big")+".fails", "Exception in thread \"main\" org.apache.cassandra.io.sstable.CorruptSSTableException: Corrupted: /x/nb-1-big-Index.db\n\tat x\n", 0o644)
		}, with(scan, func(v *node.Verified) {
			v.Rows, v.Compared = 2, 3
			v.Problems = []string{"nb-1-big of shop.orders cannot be read: CorruptSSTableException in nb-1-big-Index.db"}
			v.Notes = []string{"the rows of 1 tables were not compared"}
		})},
		"ends too early": {"new", right, func(v *volume) {
			v.write(v.data("shop.orders", "nb-1-big")+".fails", "Exception in thread \"main\" java.io.IOError: java.io.EOFException\nCaused by: java.io.EOFException\n\tat x\n", 0o644)
		}, with(scan, func(v *node.Verified) {
			v.Rows, v.Compared = 2, 3
			v.Problems = []string{"nb-1-big of shop.orders cannot be read: EOFException"}
			v.Notes = []string{"the rows of 1 tables were not compared"}
		})},
		"corrupt by an early end": {"new", right, func(v *volume) {
			v.write(v.data("shop.orders", "nb-1-big")+".fails", "Exception in thread \"main\" x.CorruptSSTableException: Corrupted: /x/nb-1-big-Summary.db\nCaused by: java.io.EOFException\n", 0o644)
		}, with(scan, func(v *node.Verified) {
			v.Rows, v.Compared = 2, 3
			v.Problems = []string{"nb-1-big of shop.orders cannot be read: CorruptSSTableException in nb-1-big-Summary.db"}
			v.Notes = []string{"the rows of 1 tables were not compared"}
		})},
		"all corrupt": {"new", nil, func(v *volume) {
			for _, data := range []string{v.data("shop.orders", "nb-1-big"), v.data("shop.orders", "nb-2-big"), v.data("system.local", "nb-1-big"), filepath.Join(filepath.Dir(v.data("shop.orders", "x")), ".by_v", "nb-1-big-Data.db")} {
				v.write(data+".fails", "Exception in thread \"main\" x.CorruptSSTableException: Corrupted: /x/nb-1-big-Data.db\n", 0o644)
			}
		}, with(scan, func(v *node.Verified) {
			v.Rows, v.Compared, v.Recorded, v.Method = 0, 0, false, node.NotCounted
			v.Problems = []string{"nb-1-big of shop.orders cannot be read: CorruptSSTableException in nb-1-big-Data.db", "nb-2-big of shop.orders cannot be read: CorruptSSTableException in nb-1-big-Data.db",
				"nb-1-big of shop.orders.by_v cannot be read: CorruptSSTableException in nb-1-big-Data.db", "nb-1-big of system.local cannot be read: CorruptSSTableException in nb-1-big-Data.db"}
			v.Notes = []string{"the backup has no counts to compare with: it was made by others, or by a version before"}
		})},
		"of a format that it does not know": {"new", nil, func(v *volume) {
			v.write(v.add("shop.older", "zz-1-big")+".fails", "java.lang.UnsupportedOperationException: no\n", 0o644)
		}, with(scan, func(v *node.Verified) {
			v.Tables, v.SSTables, v.Bytes, v.Digests, v.Compared, v.Recorded = 3, 5, 175, 5, 0, false
			v.Notes = []string{"1 SSTables were not counted: UnsupportedOperationException", "the backup has no counts to compare with: it was made by others, or by a version before"}
		})},
		"no room for the tool": {"new", right, func(v *volume) {
			v.write(v.data("shop.orders", "nb-1-big")+".fails", "java.io.IOException: No space left on device\n", 0o644)
		}, with(scan, func(v *node.Verified) {
			v.Rows, v.Compared = 2, 3
			v.Notes = []string{"1 SSTables were not counted: IOException: No space left on device", "the rows of 1 tables were not compared"}
		})},
		"killed": {"new", right, func(v *volume) {
			v.write(v.data("shop.orders", "nb-1-big")+".fails", "", 0o644)
		}, with(scan, func(v *node.Verified) {
			v.Rows, v.Compared = 2, 3
			v.Notes = []string{"1 SSTables were not counted: exit status 1", "the rows of 1 tables were not compared"}
		})},
		"only beside others": {"new", right, func(v *volume) {
			v.write(v.data("shop.orders", "nb-2-big")+".crowded", "java.lang.OutOfMemoryError: Java heap space\n", 0o644)
		}, scan},
		"too small": {"new", right, func(v *volume) {
			v.write(v.data("shop.orders", "nb-1-big")+".fails", "java.lang.OutOfMemoryError: Java heap space\n", 0o644)
		}, with(scan, func(v *node.Verified) {
			v.Rows, v.Compared = 2, 3
			v.Notes = []string{"1 SSTables were not counted: OutOfMemoryError", "the rows of 1 tables were not compared"}
		})},
		"3.11": {"old", right, nil, with(scan, func(v *node.Verified) { v.Method, v.Notes = node.CountedByStatistics, []string{noScan} })},
		"no tool": {"new", right, func(v *volume) {
			if err := os.Remove(filepath.Join(v.root, officialTool)); err != nil {
				t.Fatal(err)
			}
		}, with(scan, func(v *node.Verified) {
			v.Method, v.Notes = node.CountedByStatistics, []string{"rows were not read: this image has no sstablemetadata, nor Cassandra's jars with a Java; what the SSTables say of themselves counts"}
		})},
		"no tool, and statistics that cannot be read any more": {"new", right, func(v *volume) {
			v.write(strings.Replace(v.data("shop.orders", "nb-1-big"), "Data.db", "Statistics.db", 1), "x", 0o644)
			if err := os.Remove(filepath.Join(v.root, officialTool)); err != nil {
				t.Fatal(err)
			}
		}, with(scan, func(v *node.Verified) {
			v.Rows, v.Compared, v.Method = 1, 3, node.CountedByStatistics
			v.Problems = []string{"the statistics of shop.orders cannot be read, and could when the backup was made"}
			v.Notes = []string{"rows were not read: this image has no sstablemetadata, nor Cassandra's jars with a Java; what the SSTables say of themselves counts", "the rows of 1 tables were not compared"}
		})},
		"broken tool": {"broken", right, nil, with(scan, func(v *node.Verified) {
			v.Method, v.Notes = node.CountedByStatistics, []string{"rows were not read: sstablemetadata of this image fails: exit status 1: Java executable not found (hint: set JAVA_HOME); what the SSTables say of themselves counts"}
		})},
		"nothing": {"new", right, func(v *volume) {
			if err := os.RemoveAll(filepath.Join(v.dir, "data", "shop")); err != nil {
				t.Fatal(err)
			}
			if err := os.RemoveAll(filepath.Join(v.dir, "data", "system", "local"+id)); err != nil {
				t.Fatal(err)
			}
		}, node.Verified{Node: "c-0", Method: node.NotCounted, Recorded: true, Problems: []string{"the restored data have no SSTable at all"}}},
	} {
		t.Run(name, func(t *testing.T) {
			v := newVolume(t, "shop.orders", "shop.orders.by_v", "system.local")
			v.add("shop.orders", "nb-2-big")
			v.write(filepath.Join(v.dir, "data", "shop", "orders"+id, "snapshots", "s", "nb-1-big-Data.db"), "not ours", 0o644)
			v.tool(officialTool)
			t.Setenv("FAKE", c.fake)
			if c.counts != nil {
				text, err := json.Marshal(node.Contents{Version: 1, Tables: c.counts})
				if err != nil {
					t.Fatal(err)
				}
				v.write(v.config.Contents, string(text), 0o644)
			}
			if c.change != nil {
				c.change(v)
			}
			got, err := Run(t.Context(), v.config)
			if err != nil || !reflect.DeepEqual(got, c.want) {
				t.Errorf("%v\n got %+v\nwant %+v", err, got, c.want)
			}
		})
	}
}

// TestCannotLook: what is no finding is an error, and another try.
func TestCannotLook(t *testing.T) {
	for name, change := range map[string]func(*volume){
		"no data":      func(v *volume) { v.config.DataMount, v.config.DataDirectory = v.root, "" },
		"bad counts":   func(v *volume) { v.write(v.config.Contents, "{", 0o644) },
		"later counts": func(v *volume) { v.write(v.config.Contents, `{"version":2}`, 0o644) },
	} {
		v := newVolume(t, "system.local")
		change(v)
		if got, err := Run(t.Context(), v.config); err == nil {
			t.Errorf("%s: %+v", name, got)
		}
	}
	v := newVolume(t, "system.local")
	ended, end := context.WithCancel(t.Context())
	end()
	if got, err := Run(ended, v.config); err == nil {
		t.Errorf("interrupted: %+v", got)
	}
}

// TestDataDirectory finds the data where the webhook does not know the layout.
func TestDataDirectory(t *testing.T) {
	for _, below := range []string{"", "data", "data/data"} {
		dir := t.TempDir()
		want := filepath.Join(dir, below)
		if err := os.MkdirAll(filepath.Join(want, "system"), 0o755); err != nil {
			t.Fatal(err)
		}
		if got, err := (Config{DataMount: dir}).dataDirectory(); err != nil || got != want {
			t.Errorf("%s: %s, %v", want, got, err)
		}
	}
}
