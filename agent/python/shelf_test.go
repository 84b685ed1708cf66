package python

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stategraft/stategraft/api/node"
)

// storing stands for Medusa's storage: what lookup.py uses of it, on a directory. It
// notes what it is asked for, so that a test sees what an answer costs.
var storing = map[string]string{
	"medusa/__init__.py": "",
	"medusa/config.py": `
import configparser, collections, logging, os, sys, types
Storage = collections.namedtuple("Storage", "prefix base_path bucket_name fqdn")
def load_config(args, path):
    ini = configparser.ConfigParser()
    ini.read_string(path.read_text())
    if not ini.get("storage", "bucket_name", fallback=""):
        logging.error("Required configuration \"bucket_name\" is missing in [storage] section.")
        sys.exit(2)
    s = ini["storage"]
    return types.SimpleNamespace(storage=Storage(s.get("prefix"), s["base_path"], s["bucket_name"], os.environ["POD_IP"]),
                                 cassandra=types.SimpleNamespace(config_file=ini.get("cassandra", "config_file", fallback="")))
`,
	"medusa/cassandra_utils.py": `
import pathlib
class CassandraConfigReader:
    def __init__(self, path):
        self.root, self.commitlog_directory, self.saved_caches_directory = (pathlib.Path("/c") / each for each in ("data", "log", "caches"))
`,
	"medusa/storage/__init__.py": `
import collections, datetime, hashlib, json, logging, os, pathlib, types
Blob = collections.namedtuple("Blob", "name size hash last_modified")
class Fault(Exception):
    def __init__(self, code):
        super().__init__(code)
        self.response = {"Error": {"Code": code}}
class Driver:
    def __init__(self, root):
        self.root = root
    def note(self, what, name):
        with open(os.environ["CALLS"], "a") as calls:
            calls.write(what + " " + str(name) + "\n")
    def blob(self, path):
        text = path.read_bytes()
        return Blob(str(path.relative_to(self.root)), len(text), hashlib.md5(text).hexdigest(), datetime.datetime.fromtimestamp(path.stat().st_mtime))
    def list_objects(self, path):
        self.note("list", path)
        if os.environ.get("DOWN"):
            raise ConnectionError("no route to storage\nwith a second line")
        return [self.blob(p) for p in sorted(self.root.glob("**/*")) if not p.is_dir() and str(p.relative_to(self.root)).startswith(path)]
    def read_blob_as_string(self, blob):
        self.note("read", blob.name)
        if os.environ.get("FAULT"):
            raise Fault(os.environ["FAULT"])
        return (self.root / blob.name).read_text()
    def content(self, path):
        self.note("get", path)
        if os.environ.get("SICK") and str(path).endswith(os.environ["SICK"]):
            logging.error("An error occurred: SlowDown")
            return None
        return (self.root / path).read_text() if (self.root / path).exists() else None
    def get_blob_content_as_string(self, path):
        return self.content(path)
    def delete_objects(self, blobs):
        for blob in blobs:
            if os.environ.get("STUCK") and blob.name.endswith(os.environ["STUCK"]):
                raise Fault("AccessDenied")
            self.note("delete", blob.name)
            (self.root / blob.name).unlink()
class NodeBackup:
    def __init__(self, storage, fqdn, name):
        self.storage, self.meta = storage, storage._prefix / fqdn / name / "meta"
    def exists(self):
        return self.storage.storage_driver.content(self.meta / "schema.cql") is not None
    @property
    def manifest(self):
        return self.storage.storage_driver.content(self.meta / "manifest.json")
    @property
    def finished(self):
        return int((self.storage.storage_driver.root / self.meta / "manifest.json").stat().st_mtime)
    server_type = "cassandra"
    @property
    def release_version(self):
        return json.loads(self.storage.storage_driver.content(self.meta / "server_version.json") or '{"release_version": "unknown"}')["release_version"]
class Storage:
    def __init__(self, *, config):
        self._prefix = pathlib.Path(config.prefix or ".")
        self.prefix_path = str(self._prefix) + "/" if len(str(self._prefix)) > 1 else ""
        self.storage_driver = Driver(pathlib.Path(config.base_path) / config.bucket_name)
    def __enter__(self):
        return self
    def __exit__(self, *_):
        pass
    def get_node_backup(self, *, fqdn, name, differential_mode=False):
        return NodeBackup(self, fqdn, name)
    get_node_backup.retry = types.SimpleNamespace(stop=None, wait=None, retry=None)
`,
	"tenacity/__init__.py": "def retry_if_exception(predicate):\n    return predicate\n",
	"tenacity/stop.py":     "def stop_after_attempt(n):\n    return n\n",
	"tenacity/wait.py":     "def wait_fixed(n):\n    return n\n",
}

// shelf is a storage on disk, as Medusa's provider "local" has it.
type shelf struct {
	t           *testing.T
	interpreter string
	dir         string
	env         []string
	real        bool
}

// newShelf makes an empty one, and finds a Medusa: STATEGRAFT_TEST_MEDUSA names an
// interpreter that has the real one.
func newShelf(t *testing.T) *shelf {
	t.Helper()
	s := &shelf{t: t, dir: t.TempDir(), interpreter: os.Getenv("STATEGRAFT_TEST_MEDUSA")}
	if s.real = s.interpreter != ""; !s.real {
		interpreter, err := exec.LookPath("python3")
		if err != nil {
			t.Skip("no python3")
		}
		s.interpreter = interpreter
		for name, text := range storing {
			s.write(filepath.Join("modules", name), text)
		}
		s.env = append(s.env, "PYTHONPATH="+s.dir+"/modules")
	}
	s.write("cassandra.yaml", "data_file_directories: [/c/data]\ncommitlog_directory: /c/log\nsaved_caches_directory: /c/caches\nlisten_address: 127.0.0.1\n")
	s.write("medusa.ini", "[storage]\nstorage_provider = local\nbucket_name = b\nprefix = ns_c\nbase_path = "+s.dir+"/store\n[cassandra]\nconfig_file = "+s.dir+"/cassandra.yaml\n[kubernetes]\nenabled = True\ncassandra_url = http://127.0.0.1\n")
	return s
}

func (s *shelf) write(name, text string) {
	s.t.Helper()
	path := filepath.Join(s.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// made is a backup as Medusa leaves it.
type made struct {
	name       string
	nodes      []string
	at         int64
	tokenmap   string
	unfinished []string
	full       bool
	prefix     string // with its slash
}

const manifest = `[{"keyspace": "shop", "columnfamily": "orders-11", "objects": [{"path": "p/a-Data.db", "MD5": "x", "size": 5}, {"path": "p/b-Data.db", "MD5": "x", "size": 7}]},
 {"keyspace": "shop", "columnfamily": "empty-22", "objects": []}]`

func (s *shelf) put(b made) {
	store := "store/b/" + b.prefix
	index := store + "index/backup_index/" + b.name + "/"
	for _, n := range b.nodes {
		meta := store + n + "/" + b.name + "/meta/"
		if b.full {
			s.write(store+n+"/"+b.name+"/data/shop/orders-11/nb-1-big-Data.db", "01234")
		}
		s.write(index+"tokenmap_"+n+".json", b.tokenmap)
		s.write(index+"schema_"+n+".cql", "x")
		s.write(fmt.Sprintf("%sstarted_%s_%d.timestamp", index, n, b.at), "x")
		if !b.full {
			s.write(index+"differential_"+n, "differential")
		}
		s.write(meta+"schema.cql", "x")
		s.write(meta+"server_version.json", `{"server_type": "cassandra", "release_version": "4.1.5"}`)
		if !slices.Contains(b.unfinished, n) {
			s.write(meta+"manifest.json", manifest)
			s.write(index+"manifest_"+n+".json", manifest)
			s.write(fmt.Sprintf("%sfinished_%s_%d.timestamp", index, n, b.at+60), "x")
		}
	}
}

type answered struct {
	node.Backup
	Backups []node.Summary `json:"backups"`
	Error   string         `json:"error"`
}

// look runs the script, and tells what the storage was asked for.
func (s *shelf) look(args []string, env ...string) (a answered, calls []string, printed string) {
	s.t.Helper()
	calls, printed = s.ask(Lookup, &a, args, env...)
	return a, calls, printed
}

// ask runs a script and reads its answer.
func (s *shelf) ask(script string, a any, args []string, env ...string) (calls []string, printed string) {
	s.t.Helper()
	out, noted := filepath.Join(s.t.TempDir(), "answer.json"), filepath.Join(s.t.TempDir(), "calls")
	command := exec.Command(s.interpreter, append([]string{"-c", script, s.dir + "/medusa.ini", out}, args...)...)
	command.Env = append(append([]string{"PATH=" + os.Getenv("PATH"), "POD_IP=stategraft-lookup", "CALLS=" + noted}, s.env...), env...)
	text, err := command.CombinedOutput()
	if err != nil {
		s.t.Fatalf("%v\n%s", err, text)
	}
	content, err := os.ReadFile(out)
	if err == nil {
		err = json.Unmarshal(content, a)
	}
	if err != nil {
		s.t.Fatalf("%v\n%s\n%s", err, content, text)
	}
	listed, _ := os.ReadFile(noted)
	return strings.Split(strings.TrimSpace(string(listed)), "\n"), string(text)
}

func ringOf(dc string, nodes ...string) string {
	ring := map[string]any{}
	for i, n := range nodes {
		ring[n] = map[string]any{"tokens": []any{int64(i) * 100, -9223372036854775808}, "is_up": true, "rack": fmt.Sprintf("r%d", i%2), "dc": dc}
	}
	text, err := json.Marshal(ring)
	if err != nil {
		panic(err)
	}
	return string(text)
}

var three = []string{"c-0", "c-1", "c-2"}

// stored are the names of all objects.
func (s *shelf) stored() []string {
	s.t.Helper()
	root := filepath.Join(s.dir, "store", "b")
	var names []string
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			names = append(names, strings.TrimPrefix(path, root+"/"))
		}
		return err
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return names
}
