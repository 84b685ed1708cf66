package python

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// backing stands for what running.py and counting.py change in Medusa, and for a server
// that is asked this and that.
var backing = map[string]string{
	"grpc/__init__.py": "class StatusCode:\n    FAILED_PRECONDITION = 9\n", "grpc/aio.py": "server = None\n",
	"medusa/utils.py": "import os\nclass MedusaTempFile:\n    _tempfile_path = os.environ['MARKER']\n",
	"medusa/service/grpc/medusa_pb2_grpc.py": `
added = []
def add_MedusaServicer_to_server(servicer, server):
    added.append((servicer, server))
`,
	"medusa/backup_node.py": `
import json, os, pathlib, types
from medusa.utils import MedusaTempFile
def running():
    with open(os.environ["STATEGRAFT_RUNNING"]) as file:
        told = json.load(file)
    told.pop("since", None)
    return json.dumps(told, sort_keys=True)
def failed():
    with open(os.environ["STATEGRAFT_FAILED"]) as file:
        told = json.load(file)
    return " ".join([told.get("name", "nothing"), told.get("why", ""), "at" if told.get("at", "").endswith("Z") else ""])
class Snapshot:
    def find_dirs(self):
        yield types.SimpleNamespace(keyspace="shop", columnfamily="orders-11", path=pathlib.Path("/data/shop/orders-11/snapshots/medusa-b1"))
class Storage:
    storage_driver = None
    def __init__(self):
        self.storage_driver = self
    def upload_blob_from_string(self, path, text):
        if os.environ.get("FULL"):
            raise OSError("no room")
        print("stored", path, text)
def backup_snapshots(storage, manifest, node_backup, snapshot, enable_md5_checks, *more):
    print("uploading", node_backup.name, len(more), running())
    return 1, 2, 3
def add_backup_finish_to_index(storage, node_backup):
    print("finished", node_backup.name, running())
def handle_backup(config, backup_name_arg, stagger_time, enable_md5_checks_flag, mode, keep_snapshot=False):
    print("begun", backup_name_arg, mode, running())
    open(MedusaTempFile._tempfile_path, "w").close()
    backup = types.SimpleNamespace(name=backup_name_arg, manifest_path=pathlib.Path("p/n") / backup_name_arg / "meta" / "manifest.json")
    storage = Storage()
    counts = backup_snapshots(storage, [], backup, Snapshot(), False, "md5_check_concurrency")
    if mode == "fails":
        raise IOError("the snapshot fails\nand more of it")
    if mode == "exits":
        raise SystemExit(1)
    add_backup_finish_to_index(storage, backup)
    return counts
`,
	"medusa/service/grpc/server.py": `
import asyncio, os, threading, types
from concurrent.futures import ThreadPoolExecutor
from medusa import backup_node
from medusa.service.grpc import medusa_pb2_grpc
class Refused(Exception):
    pass
class Async:
    async def abort(self, code, details):
        raise Refused("{} {}".format(code, details))
class Sync:
    def abort(self, code, details):
        raise Refused("{} {}".format(code, details))
gate = threading.Event()
class Service:
    async def AsyncBackup(self, request, context):
        if request.mode == "refused":
            return types.SimpleNamespace(status=2)
        if request.mode == "raises":
            raise ValueError("odd")
        def run():
            gate.wait()
            return backup_node.handle_backup(None, request.name, None, False, request.mode)
        self.future = asyncio.get_running_loop().run_in_executor(ThreadPoolExecutor(), run)
        return types.SimpleNamespace(status=0)
    def Backup(self, request, context):
        return backup_node.handle_backup(config=None, backup_name_arg=request.name, stagger_time=None, enable_md5_checks_flag=False, mode="full")
    def DeleteBackup(self, request, context):
        print("deletes", request.name, backup_node.running())
    def PurgeBackups(self, request, context):
        print("purges", backup_node.running())
        raise SystemExit(1)
async def attempt(what, do):
    try:
        result = do()
        if asyncio.iscoroutine(result):
            result = await result
        print(what, "->", getattr(result, "status", result))
    except (Exception, SystemExit) as error:
        text = str(error)
        print(what, "->", type(error).__name__, text[:text.index(" since ")] if " since " in text else text)
async def main():
    medusa_pb2_grpc.add_MedusaServicer_to_server(Service(), "the server")
    servicer, server = medusa_pb2_grpc.added[0]
    print(server, backup_node.running(), backup_node.failed())
    ask = lambda name, mode="full": types.SimpleNamespace(name=name, mode=mode)
    await attempt("b1", lambda: servicer.AsyncBackup(ask("b1"), Async()))
    print("asked", backup_node.running())
    await attempt("b1 again", lambda: servicer.AsyncBackup(ask("b1"), Async()))
    await attempt("b2", lambda: servicer.AsyncBackup(ask("b2"), Async()))
    await attempt("sync", lambda: servicer.Backup(ask("b3"), Sync()))
    await attempt("delete", lambda: servicer.DeleteBackup(ask("b0"), Sync()))
    await attempt("purge", lambda: servicer.PurgeBackups(types.SimpleNamespace(), Sync()))
    gate.set()
    print("counts", await servicer.future, os.path.exists(os.environ["MARKER"]), backup_node.running())
    await attempt("delete", lambda: servicer.DeleteBackup(ask("b0"), Sync()))
    await attempt("purge", lambda: servicer.PurgeBackups(types.SimpleNamespace(), Sync()))
    await attempt("refused", lambda: servicer.AsyncBackup(ask("b4", "refused"), Async()))
    await attempt("raises", lambda: servicer.AsyncBackup(ask("b5", "raises"), Async()))
    gate.clear()
    await attempt("fails", lambda: servicer.AsyncBackup(ask("b6", "fails"), Async()))
    gate.set()
    try:
        await servicer.future
    except OSError as error:
        print("failed with", str(error).splitlines()[0], os.path.exists(os.environ["MARKER"]), backup_node.running(), backup_node.failed())
    gate.clear()
    await attempt("exits", lambda: servicer.AsyncBackup(ask("b6", "exits"), Async()))
    print("before it fails again", backup_node.failed())
    gate.set()
    try:
        await servicer.future
    except SystemExit:
        print("exited", backup_node.failed())
    await attempt("sync", lambda: servicer.Backup(ask("b7"), Sync()))
    print("at last", backup_node.failed())
if __name__ == "__main__":
    asyncio.run(main())
`,
}

// serveWith runs the script with these modules over the usual ones, and an agent that
// counts.
func serveWith(t *testing.T, change map[string]string, agent string, env ...string) string {
	t.Helper()
	interpreter, dir := install(t)
	for _, some := range []map[string]string{backing, change} {
		for name, text := range some {
			path := filepath.Join(dir, name)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	counter := filepath.Join(dir, "agent")
	if err := os.WriteFile(counter, []byte("#!/bin/sh\n"+agent), 0o700); err != nil {
		t.Fatal(err)
	}
	command := exec.Command(interpreter, "-u", "-c", Serve, "server.py", "/own/medusa.ini")
	command.Env = append(append(os.Environ(), "PYTHONPATH="+dir, "MARKER="+dir+"/marker", "STATEGRAFT_RUNNING="+dir+"/running.json", "STATEGRAFT_FAILED="+dir+"/failed.json", "STATEGRAFT_AGENT="+counter, "COUNTED="+dir+"/counted"), env...)
	out, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if counted, err := os.ReadFile(dir + "/counted"); err == nil {
		out = append(out, "asked to count "+string(counted)...)
	}
	return string(out)
}

const countsWell = `[ "$1" = count ] && cat >"$COUNTED" && echo '{"version": 1, "tables": [{"table": "shop.orders", "rows": 3}]}'`

// TestServeOneAtATime: whatever meets a backup, a deletion or a purge is refused, and
// what runs is told from when it was agreed to to its end.
func TestServeOneAtATime(t *testing.T) {
	got := serveWith(t, nil, countsWell)
	backup := func(name, phase string) string {
		return `{"kind": "backup", "name": "` + name + `", "phase": "` + phase + `"}` + "\n"
	}
	stored := func(name string) string {
		return "stored p/n/" + name + `/meta/stategraft.json {"version": 1, "tables": [{"table": "shop.orders", "rows": 3}]}` + "\n"
	}
	run := func(name, mode string) string {
		return "begun " + name + " " + mode + " " + backup(name, "preparing") + "uploading " + name + " 1 " + backup(name, "uploading")
	}
	want := "the server {} nothing  \nb1 -> 0\nasked " + backup("b1", "preparing") +
		"b1 again -> Refused 9 this node is busy with backup b1\nb2 -> Refused 9 this node is busy with backup b1\nsync -> Busy this node is busy with backup b1\n" +
		"delete -> Refused 9 this node is busy with backup b1\npurge -> Refused 9 this node is busy with backup b1\n" +
		run("b1", "full") + stored("b1") + "finished b1 " + backup("b1", "finishing") + "counts (1, 2, 3) False {}\n" +
		`deletes b0 {"kind": "the deletion of backup", "name": "b0", "phase": "preparing"}` + "\ndelete -> None\n" +
		`purges {"kind": "a purge", "name": "", "phase": "preparing"}` + "\npurge -> SystemExit 1\n" +
		"refused -> 2\nraises -> ValueError odd\nfails -> 0\n"
	if !strings.HasPrefix(got, want) {
		t.Fatalf("got\n%s\nwant\n%s", got, want)
	}
	for _, want := range []string{
		"failed with the snapshot fails False {} b6 OSError: the snapshot fails at\n",
		"exits -> 0\nbefore it fails again nothing  \n", "exited b6 Medusa has ended it; its log tells why at\n", "at last nothing  \n",
		run("b7", "full") + stored("b7") + "finished b7 " + backup("b7", "finishing") + "sync -> (1, 2, 3)\n",
		`asked to count [{"keyspace": "shop", "table": "orders-11", "path": "/data/shop/orders-11/snapshots/medusa-b1"}]`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	if strings.Count(got, "stored") != 2 {
		t.Errorf("counts of a backup that has failed are stored:\n%s", got)
	}
}

// TestServeCountingFails: the backup is made all the same.
func TestServeCountingFails(t *testing.T) {
	for name, c := range map[string]struct{ agent, env, want string }{
		"status":  {"echo no such table >&2; exit 1", "X=1", "The rows of the backup are not counted: RuntimeError: no such table"},
		"answer":  {"echo oops", "X=1", "The rows of the backup are not counted: JSONDecodeError"},
		"another": {`echo '{}'`, "X=1", "The rows of the backup are not counted: KeyError"},
		"none":    {"", "STATEGRAFT_AGENT=/nowhere", "The rows of the backup are not counted: FileNotFoundError"},
		"full":    {countsWell, "FULL=1", "The counts of the backup are not stored: OSError: no room"},
	} {
		got := serveWith(t, nil, c.agent, c.env)
		if !strings.Contains(got, c.want) || !strings.Contains(got, "counts (1, 2, 3) False {}\n") || strings.Contains(got, "stored p/n") {
			t.Errorf("%s: no %q in\n%s", name, c.want, got)
		}
	}
}

// TestServeOtherRelease: hooks that do not fit leave the service as it is.
func TestServeOtherRelease(t *testing.T) {
	other := strings.NewReplacer("def backup_snapshots(storage, manifest, node_backup, snapshot, enable_md5_checks, *more)", "def upload(storage, manifest, node_backup, snapshot, enable_md5_checks, *more)",
		"counts = backup_snapshots(", "counts = upload(").Replace(backing["medusa/backup_node.py"])
	got := serveWith(t, map[string]string{"medusa/backup_node.py": other}, countsWell)
	if !strings.Contains(got, "Medusa is run without counting: module 'medusa.backup_node' has no attribute 'backup_snapshots'") || !strings.Contains(got, "counts (1, 2, 3) False {}\n") {
		t.Errorf("%s", got)
	}
	// Called in another way, there is nothing to count, and no harm done.
	other = strings.NewReplacer("manifest, node_backup, snapshot, enable_md5_checks, *more)", "node_backup, snapshot, *more)",
		`storage, [], backup, Snapshot(), False, "md5_check_concurrency")`, `storage, backup, Snapshot(), "x")`).Replace(backing["medusa/backup_node.py"])
	got = serveWith(t, map[string]string{"medusa/backup_node.py": other}, countsWell)
	if !strings.Contains(got, "The rows of the backup are not counted: AttributeError") || !strings.Contains(got, "counts (1, 2, 3) False {}\n") {
		t.Errorf("%s", got)
	}
	bare := map[string]string{"medusa/backup_node.py": "", "medusa/service/grpc/medusa_pb2_grpc.py": "", "medusa/service/grpc/server.py": "print('serves')\n"}
	got = serveWith(t, bare, countsWell)
	if !strings.HasSuffix(got, "serves\n") || strings.Count(got, "Medusa is run without") != 3 {
		t.Errorf("%s", got)
	}
}
