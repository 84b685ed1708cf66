package restore

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stategraft/stategraft/agent/event"
	"github.com/stategraft/stategraft/agent/files"
	"github.com/stategraft/stategraft/agent/medusa"
)

// rig is a node's volume and a fake Medusa with a backup.
type rig struct {
	t   *testing.T
	dir string
	Config
	log bytes.Buffer
}

// content is the backup: path below the data directory → content.
var content = map[string]string{
	"system/local-77/nb-1-big-Data.db":          "host id and tokens",
	"shop/orders-11/nb-1-big-Data.db":           "orders",
	"shop/orders-11/nb-1-big-Rows.db":           "",
	"shop/orders-11/.by_name/nb-1-big-Index.db": "index",
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{t: t, dir: t.TempDir()}
	for path, text := range content {
		r.set("backup/"+path, text)
	}
	r.report(func(*Report) {})
	places := files.Places{Shared: r.path("shared"), Medusa: r.path("medusa"), Storage: r.path("secrets")}
	r.set("medusa/medusa.ini", "[storage]\nstorage_provider = s3\nbucket_name = b\n")
	r.set("secrets/credentials", "[default]\naws_secret_access_key = s3cret-key\n")
	if err := os.MkdirAll(r.path("vol"), 0o755); err != nil {
		t.Fatal(err)
	}
	secrets := &event.Secrets{}
	interpreter, err := filepath.Abs("testdata/python")
	if err != nil {
		t.Fatal(err)
	}
	r.Config = Config{
		Places: places, Image: medusa.Image{Home: r.dir, Python: interpreter}, Backup: "b1", PodName: "cassandra-0",
		DataMount: r.path("vol"), DataDirectory: r.path("vol/data"), Temp: r.path("vol"), Private: r.path("private"),
		PrecheckLimit: time.Minute, Progress: time.Minute, Secrets: secrets, Log: event.New(&r.log, secrets, "restore"),
	}
	t.Setenv("FAKE_DIR", r.dir)
	t.Setenv("FAKE_DATA", r.path("vol/data"))
	return r
}

func (r *rig) path(name string) string { return filepath.Join(r.dir, name) }

func (r *rig) set(name, text string) {
	r.t.Helper()
	if err := os.MkdirAll(filepath.Dir(r.path(name)), 0o755); err != nil {
		r.t.Fatal(err)
	}
	if err := os.WriteFile(r.path(name), []byte(text), 0o600); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) get(name string) string {
	text, _ := os.ReadFile(r.path(name))
	return string(text)
}

// report writes what the precheck answers.
func (r *rig) report(change func(*Report)) {
	r.t.Helper()
	answer := Report{
		FQDN: "cassandra-0", DataDirectory: r.path("vol/data"), SavedCachesDirectory: r.path("vol/saved_caches"),
		Backups: []string{"b0", "b1"}, Nodes: []string{"cassandra-0", "cassandra-1"}, Complete: true,
		TokenMap: []string{"cassandra-0", "cassandra-1"}, Tables: []Table{{Keyspace: "shop", Name: "empty-22"}},
	}
	answer.Tables = append(answer.Tables, tablesOf(content)...)
	change(&answer)
	text, err := json.Marshal(answer)
	if err != nil {
		r.t.Fatal(err)
	}
	r.set("report.json", string(text))
}

// tablesOf is what a manifest says of files.
func tablesOf(content map[string]string) []Table {
	found := map[string]*Table{}
	for path, text := range content {
		parts := strings.SplitN(path, "/", 3)
		id := parts[0] + "/" + parts[1]
		if found[id] == nil {
			found[id] = &Table{Keyspace: parts[0], Name: parts[1], Files: map[string]int64{}}
		}
		found[id].Files[parts[2]] = int64(len(text))
	}
	var tables []Table
	for _, table := range found {
		tables = append(tables, *table)
	}
	return tables
}

// data are the files below the data directory.
func (r *rig) data() map[string]string {
	found := map[string]string{}
	root := r.path("vol/data")
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		name, _ := filepath.Rel(root, path)
		found[name] = string(text)
		return err
	})
	if err != nil && !os.IsNotExist(err) {
		r.t.Fatal(err)
	}
	return found
}

func (r *rig) marker() Marker {
	r.t.Helper()
	m, err := ReadMarker(r.DataMount)
	if err != nil {
		r.t.Fatal(err)
	}
	return m
}

// restored checks that the volume holds the backup, and nothing of the work.
func (r *rig) restored() {
	r.t.Helper()
	got := r.data()
	for path, text := range content {
		if have, ok := got[path]; !ok || have != text {
			r.t.Errorf("%s holds %q, %v", path, have, ok)
		}
	}
	if left, _ := leftovers(r.Temp); len(left) > 0 {
		r.t.Errorf("left %v", left)
	}
	if _, err := os.Stat(nextPath(r.DataMount)); err == nil {
		r.t.Error("the next marker stays")
	}
	if m := r.marker(); m.Outcome != Finished || m.Doing != nil || m.Finished.IsZero() || m.Bytes != 29 || m.Tables != 3 {
		r.t.Errorf("marker %+v", m)
	}
}

func (r *rig) run() (string, error) {
	text, _, err := Run(r.t.Context(), r.Config)
	return text, err
}

func (r *rig) mustRun() string {
	r.t.Helper()
	message, err := r.run()
	if err != nil {
		r.t.Fatalf("%v\n%s", err, r.log.String())
	}
	return message
}
