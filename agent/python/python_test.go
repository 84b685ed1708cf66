package python

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// modules stand for Medusa: the parts that restore.py changes, and a restore
// that notes what it sees.
var modules = map[string]string{
	"medusa/__init__.py": "", "medusa/service/__init__.py": "", "medusa/service/grpc/__init__.py": "",
	"medusa/storage/__init__.py": `
import types
class Storage:
    lookup_blob = None
    def get_node_backup(self):
        pass
    get_node_backup.retry = types.SimpleNamespace(stop=1, retry=None)
    def list_cluster_backups(self, index=None):
        yield types.SimpleNamespace(name="odd", node_backups={"n": 1}, expected_node_backups=lambda: [])
        yield types.SimpleNamespace(name="good", node_backups={"n": 1}, expected_node_backups=lambda: [1])
        yield types.SimpleNamespace(name="as of 0.28", node_backups={"n": 1})
`,
	"tenacity.py": "def retry_if_exception(predicate):\n    return predicate\n",
	"medusa/service/grpc/server.py": `
import sys, types
from medusa.storage import Storage
class Answer(Exception):
    pass
def again(code, status, nested=False):
    error = Answer()
    error.response = {"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": status}}
    if nested:
        inner, error = error, Answer()
        error.last_attempt = types.SimpleNamespace(exception=lambda: inner)
    return Storage.get_node_backup.retry.retry(error)
if __name__ == "__main__":
    print("config", sys.argv[2])
    print("again", again("SignatureDoesNotMatch", 403), again("NoSuchBucket", 404, True), again("NoSuchKey", 404), again("SlowDown", 503, True),
          Storage.get_node_backup.retry.retry(OSError()))
    print("listed", [b.name for b in Storage().list_cluster_backups()])
`,
	"medusa/storage/cluster_backup.py": "class ClusterBackup:\n    def __init__(self, name, nodes):\n        self.name = name\n",
	"medusa/listing.py":                "def get_backups(*a):\n    raise ValueError('min() arg is an empty sequence')\n",
	"medusa/restore_node.py": `
import os
def download_data(*a, **k):
    print("download")
    if os.environ.get("BROKEN"):
        raise RuntimeError("Not enough space available")
def maybe_restore_section(section, download_dir, cassandra_data_dir, in_place, keep_auth, use_sudo=True):
    if not in_place:
        if section['keyspace'] == 'system' and section['columnfamily'].startswith('local-') \
                or section['columnfamily'].startswith('peers'):
            return
        if section['keyspace'] == 'system_auth' and keep_auth:
            return
    print("section {}.{}".format(section['keyspace'], section['columnfamily']), use_sudo)
def restore_node():
    download_data("x", backup=1)
    print("apply", open(os.environ["MARKER"]).read())
    for keyspace, table in (("system", "local-7ad5"), ("system", "peers-37f7"), ("system", "peers_v2-c432"), ("system", "paxos-b759"),
                            ("system_auth", "roles-5bc5"), ("shop", "peers_of_ours-11"), ("shop", "orders-12")):
        maybe_restore_section({"keyspace": keyspace, "columnfamily": table}, "dl", "data", False, True, False)
`,
	"medusa/service/grpc/restore.py": `
import logging, pathlib, sys, types
import medusa.listing, medusa.restore_node
from medusa.storage import Storage
if __name__ == "__main__":
    logging.debug("noise")
    blob = lambda n: types.SimpleNamespace(name=n)
    blobs = {"unfinished": {"n": [blob("p/index/backup_index/unfinished/schema_n.cql"), blob("p/index/backup_index/unfinished/started_n_1.timestamp")]}}
    print("lookup", Storage.lookup_blob(None, blobs, "unfinished", "n", "finished"), Storage.lookup_blob(None, blobs, "unfinished", "n", "started").name[-21:])
    storage = types.SimpleNamespace(get_node_backup=lambda fqdn, name: types.SimpleNamespace(fqdn=fqdn, exists=lambda: (name, fqdn) == ("b1", "n")))
    config = types.SimpleNamespace(storage=types.SimpleNamespace(fqdn="n"))
    print("listed", [b.name for b in medusa.listing.get_backups(storage, config, False)])
    config.storage.fqdn = "other"
    print("other", medusa.listing.get_backups(storage, config, False))
    print("args", sys.argv[1:])
    print("owner", pathlib.Path(".").owner())
    medusa.restore_node.restore_node()
`,
}

// install writes the modules and finds an interpreter.
func install(t *testing.T) (interpreter, dir string) {
	t.Helper()
	interpreter, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("no python3")
	}
	dir = t.TempDir()
	for name, text := range modules {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return interpreter, dir
}

func TestServeScript(t *testing.T) {
	interpreter, dir := install(t)
	command := exec.Command(interpreter, "-c", Serve, "server.py", "/own/medusa.ini")
	command.Env = append(os.Environ(), "PYTHONPATH="+dir)
	out, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{"config /own/medusa.ini\n", "listed ['good', 'as of 0.28']\n", "Backup odd is left out", "again False False True True True\n"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
}

// TestServeScriptNeverInTheClear: where TLS is asked for, a Medusa that knows none
// ends with the reason.
func TestServeScriptNeverInTheClear(t *testing.T) {
	interpreter, dir := install(t)
	for path, text := range map[string]string{
		"grpc/__init__.py": "",
		"grpc/aio.py":      "class Server:\n    def add_insecure_port(self, address):\n        print('in the clear', address)\n    def add_secure_port(self, address):\n        print('secure', address)\ndef server(*a, **k):\n    return Server()\n",
		"medusa/service/grpc/server.py": "import sys\nfrom grpc import aio\nserver = aio.server(10, options=[])\n" +
			"server.add_secure_port('[::]:1')\nserver.add_insecure_port('[::]:2')\n",
		"tls.ini":   "[grpc]\ntls_cert = /x\n",
		"clear.ini": "[grpc]\nenabled = 1\ntls_cert =\n",
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, path)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, path), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for config, want := range map[string]string{"tls.ini": "secure [::]:1\ngRPC is not served in the clear, and this Medusa knows no TLS", "clear.ini": "secure [::]:1\nin the clear [::]:2\n"} {
		command := exec.Command(interpreter, "-u", "-c", Serve, "server.py", filepath.Join(dir, config))
		command.Env = append(os.Environ(), "PYTHONPATH="+dir)
		out, err := command.CombinedOutput()
		if !strings.Contains(string(out), want) || (err != nil) != (config == "tls.ini") {
			t.Errorf("%s: %v, no %q in\n%s", config, err, want, out)
		}
	}
}

// runRestore runs the script with an agent that gives an answer when it is asked.
func runRestore(t *testing.T, interpreter, dir, answer string, env ...string) (out string, asked bool, err error) {
	t.Helper()
	marker := filepath.Join(dir, "marker")
	if err := os.WriteFile(marker, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	asks, ask, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	back, answers, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	command := exec.Command(interpreter, "-c", Restore, "/ini", "key", "3", "4")
	command.Env = append(append(os.Environ(), "PYTHONPATH="+dir, "MARKER="+marker, "BACKUP_NAME=b1"), env...)
	command.Dir = dir
	command.ExtraFiles = []*os.File{ask, back}
	var text strings.Builder
	command.Stdout, command.Stderr = &text, &text
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	ask.Close()
	back.Close()
	question, err := io.ReadAll(asks)
	if err != nil {
		t.Fatal(err)
	}
	if asked = string(question) == "?"; asked {
		if err := os.WriteFile(marker, []byte("new"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	_, _ = answers.WriteString(answer) // it may have ended
	answers.Close()
	err = command.Wait()
	return text.String(), asked, err
}

func TestRestoreScript(t *testing.T) {
	interpreter, dir := install(t)
	out, asked, err := runRestore(t, interpreter, dir, "go")
	if err != nil || !asked {
		t.Fatalf("%v, asked %v\n%s", err, asked, out)
	}
	for _, want := range []string{
		"lookup None started_n_1.timestamp\n", "listed ['b1']\n", "other []\n", "args ['/ini', 'key']\n",
		"download\napply new\n", // the data change only after this
		// Of the nodes' own tables none, of the users' all.
		"apply new\nsection system.paxos-b759 False\nsection shop.peers_of_ours-11 False\nsection shop.orders-12 False\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if strings.Contains(out, "noise") {
		t.Error("debug lines are printed")
	}
	out, asked, err = runRestore(t, interpreter, dir, "go", "BROKEN=yes")
	if err == nil || asked || !strings.Contains(out, "RuntimeError: Not enough space") {
		t.Errorf("a failed download: %v, asked %v\n%s", err, asked, out)
	}
}

// TestRestoreScriptNeedsLeave: without the agent's word, also where the agent has
// ended, nothing changes.
func TestRestoreScriptNeedsLeave(t *testing.T) {
	interpreter, dir := install(t)
	for _, answer := range []string{"", "g", "gone"} {
		out, asked, err := runRestore(t, interpreter, dir, answer)
		if err == nil || !asked || strings.Contains(out, "apply") || !strings.Contains(out, "the agent does not let the data be replaced") {
			t.Errorf("answer %q: %v, asked %v\n%s", answer, err, asked, out)
		}
	}
}

// TestRestoreScriptOtherRelease: of a Medusa whose download cannot be told from the
// rest, all counts as a change of the data.
func TestRestoreScriptOtherRelease(t *testing.T) {
	interpreter, dir := install(t)
	other := "def fetch():\n    print('fetch')\ndef restore_node():\n    fetch()\n    print('apply')\n"
	if err := os.WriteFile(filepath.Join(dir, "medusa/restore_node.py"), []byte(other), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, asked, err := runRestore(t, interpreter, dir, "go"); err != nil || !asked || !strings.Contains(out, "fetch\napply\n") {
		t.Errorf("%v, asked %v\n%s", err, asked, out)
	}
	if out, asked, err := runRestore(t, interpreter, dir, ""); err == nil || !asked || strings.Contains(out, "fetch") {
		t.Errorf("refused: %v, asked %v\n%s", err, asked, out)
	}
}

// TestPrecheckTells: whatever goes wrong there is an answer.
func TestPrecheckTells(t *testing.T) {
	interpreter, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("no python3")
	}
	answer := filepath.Join(t.TempDir(), "answer.json")
	command := exec.Command(interpreter, "-c", Precheck, "/ini", "b1", answer)
	command.Env = []string{"PATH=" + os.Getenv("PATH")}
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if text, _ := os.ReadFile(answer); !strings.Contains(string(text), `"error": "ModuleNotFoundError: `) {
		t.Errorf("%s", text)
	}
}

// TestRestoreScriptTellsOfTries: of what botocore tries again something is heard, and
// nothing of what goes well.
func TestRestoreScriptTellsOfTries(t *testing.T) {
	interpreter, dir := install(t)
	script := `
import logging
console = logging.StreamHandler()
console.setLevel(logging.INFO)
console.setFormatter(logging.Formatter("[t] %(levelname)s: %(message)s"))
logging.getLogger("").setLevel(logging.DEBUG)
logging.getLogger("").addHandler(console)
log = logging.getLogger("botocore.endpoint")
log.debug("Sending http request: with a signature")
try:
    raise ConnectionError("refused by minio")
except ConnectionError:
    log.debug("Exception received when sending HTTP request.", exc_info=True)
`
	if err := os.WriteFile(filepath.Join(dir, "medusa/service/grpc/restore.py"), []byte(script), 0o600); err != nil {
		t.Fatal(err)
	}
	out, _, err := runRestore(t, interpreter, dir, "go")
	if err != nil || out != "[t] WARNING: the storage does not answer: ConnectionError: refused by minio\n" {
		t.Errorf("%v, %q", err, out)
	}
}
