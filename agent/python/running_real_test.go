package python

import (
	"context"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/stategraft/stategraft/api/medusa"
)

// database stands for Cassandra where the real Medusa is asked: its snapshot is a
// directory, and it waits until there is a file.
const database = `
import os, pathlib, sys, time, types
import medusa.backup_node as b
class Snapshot:
    def __enter__(self):
        return self
    def __exit__(self, *_):
        pass
    def find_dirs(self):
        from medusa.cassandra_utils import SnapshotPath
        return [SnapshotPath(pathlib.Path(os.environ["SNAPSHOT"]), "shop", "orders-11")]
class Cassandra:
    def __init__(self, config):
        pass
    def create_snapshot(self, *a, **k):
        while not os.path.exists(os.environ["GO"]):
            time.sleep(0.02)
        return Snapshot()
b.Cassandra = Cassandra
b.get_schema_and_tokenmap = lambda c: ("schema", {"c-0": {"tokens": [1], "is_up": True, "dc": "dc1", "rack": "r1"}})
b.get_server_type_and_version = lambda c: ("cassandra", "5.0.6")
b.throttle_backup = lambda: None
`

// TestServeRealMedusa: the hooks fit the Medusa of STATEGRAFT_TEST_MEDUSA, behind its own
// gRPC.
func TestServeRealMedusa(t *testing.T) {
	s := newShelf(t)
	if !s.real {
		t.Skip("STATEGRAFT_TEST_MEDUSA is not set")
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := strconv.Itoa(listener.Addr().(*net.TCPAddr).Port)
	listener.Close()
	s.write("modules/sitecustomize.py", database)
	s.write("snapshot/nb-1-big-Data.db", "01234")
	s.write("count", "#!/bin/sh\n"+countsWell)
	if err := os.Chmod(s.dir+"/count", 0o700); err != nil {
		t.Fatal(err)
	}
	s.write("medusa.ini", "[storage]\nstorage_provider = local\nbucket_name = b\nprefix = ns_c\nbase_path = "+s.dir+"/store\nconcurrent_transfers = 1\n"+
		"[cassandra]\nconfig_file = "+s.dir+"/cassandra.yaml\n[grpc]\nenabled = 1\nport = "+port+"\n[kubernetes]\nenabled = True\ncassandra_url = http://127.0.0.1\n")
	s.write("store/b/ns_c/x", "x")
	command := exec.Command(s.interpreter, "-u", "-c", Serve, "server.py", s.dir+"/medusa.ini")
	command.Env = []string{"PATH=" + os.Getenv("PATH"), "PYTHONPATH=" + s.dir + "/modules", "POD_IP=c-0", "SNAPSHOT=" + s.dir + "/snapshot", "GO=" + s.dir + "/go",
		"STATEGRAFT_RUNNING=" + s.dir + "/running.json", "STATEGRAFT_FAILED=" + s.dir + "/failed.json", "STATEGRAFT_AGENT=" + s.dir + "/count", "COUNTED=" + s.dir + "/counted", "TMPDIR=" + t.TempDir()}
	var said strings.Builder
	command.Stdout, command.Stderr = &said, &said
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait()
		if t.Failed() || strings.Contains(said.String(), "is run without") {
			t.Errorf("Medusa said\n%s", said.String())
		}
	})
	connection, err := grpc.NewClient("passthrough:///127.0.0.1:"+port, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	m := medusa.NewMedusaClient(connection)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	ask := func(name string) error {
		_, err := m.AsyncBackup(ctx, &medusa.BackupRequest{Name: name, Mode: medusa.BackupRequest_FULL}, grpc.WaitForReady(true))
		return err
	}
	if err := ask("b1"); err != nil {
		t.Fatal(err)
	}
	if told, _ := os.ReadFile(s.dir + "/running.json"); !strings.Contains(string(told), `"name": "b1"`) {
		t.Errorf("it does not tell: %s", told)
	}
	_, purge := m.PurgeBackups(ctx, &medusa.PurgeBackupsRequest{})
	_, removal := m.DeleteBackup(ctx, &medusa.DeleteBackupRequest{Name: "b0"})
	for _, err := range []error{ask("b1"), ask("b2"), purge, removal} {
		if status.Code(err) != codes.FailedPrecondition || !strings.Contains(err.Error(), "busy with backup b1") {
			t.Errorf("%v", err)
		}
	}
	s.write("go", "")
	await(t, func() bool {
		answer, err := m.BackupStatus(ctx, &medusa.BackupStatusRequest{BackupName: "b1"})
		return err == nil && answer.GetStatus() != medusa.StatusType_IN_PROGRESS
	})
	if text, _ := os.ReadFile(s.dir + "/store/b/ns_c/c-0/b1/meta/stategraft.json"); string(text) != `{"version": 1, "tables": [{"table": "shop.orders", "rows": 3}]}` {
		t.Errorf("counts %s", text)
	}
	answer, err := m.GetBackup(ctx, &medusa.GetBackupRequest{BackupName: "b1"})
	if err != nil || answer.GetStatus() != medusa.StatusType_SUCCESS {
		t.Errorf("%v %v", answer, err)
	}
	if told, _ := os.ReadFile(s.dir + "/running.json"); string(told) != "{}" {
		t.Errorf("it still tells: %s", told)
	}
	if _, err := m.DeleteBackup(ctx, &medusa.DeleteBackupRequest{Name: "b1"}); err != nil {
		t.Error(err)
	}
	if left := s.stored(); slices.ContainsFunc(left, func(name string) bool { return strings.Contains(name, "/b1/") }) {
		t.Errorf("left: %s", left)
	}
}

// await waits for what another process does.
func await(t *testing.T, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if done() {
			return
		}
	}
	t.Fatal("it does not come to pass")
}
