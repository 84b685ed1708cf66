package main

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stategraft/stategraft/agent/files"
	"github.com/stategraft/stategraft/api/node"
)

// serving is a sidecar that runs.
type serving struct {
	root, address string
}

// sidecar starts "medusa serve" with a volume and a fake interpreter.
func sidecar(t *testing.T, env ...string) serving {
	t.Helper()
	port := freePort(t)
	root := t.TempDir()
	places := files.Standard(root)
	for path, text := range map[string]string{
		places.Ini():         "[storage]\nstorage_provider = s3\nbucket_name = b\nprefix = ns_c\n",
		root + "/python":     "#!/bin/sh\nshift 2\necho '{\"prefix\": \"ns_c\", \"backups\": [{\"name\": \"'\"$POD_IP\"'\"}]}' >$2\n",
		root + "/volume/x":   "data",
		root + "/shared/run": "",
	} {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	command := agent(t, nil, "medusa", "serve")
	command.Env = append(command.Env, append([]string{
		"STATEGRAFT_ROOT=" + root, "STATEGRAFT_NODE_PORT=" + port, "STATEGRAFT_DATA_MOUNT=" + root + "/volume", "STATEGRAFT_CQL_PORT=1",
		"STATEGRAFT_MEDUSA_PYTHON=" + root + "/python", "POD_IP=cassandra-0", "POD_NAME=not-this", "MEDUSA_CQL_K8S_SECRETS_PATH=/not/there",
	}, env...)...)
	out, err := os.Create(root + "/log")
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	command.Stdout, command.Stderr = out, out
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		start := time.Now()
		_ = command.Process.Signal(syscall.SIGTERM)
		if err := command.Wait(); err != nil || time.Since(start) > atOnce {
			t.Errorf("it ended with %v after %v", err, time.Since(start))
		}
	})
	return serving{root, "127.0.0.1:" + port}
}

func (s serving) log() string {
	text, _ := os.ReadFile(s.root + "/log")
	return string(text)
}

// ask answers status and body, once the service is there.
func (s serving) ask(path string) (int, string) {
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		response, err := http.Get("http://" + s.address + path)
		if err != nil {
			continue
		}
		defer response.Body.Close()
		body, _ := io.ReadAll(response.Body)
		return response.StatusCode, string(body)
	}
	return 0, s.log()
}

// TestTellsWhyABackupFailed: what Medusa has told, without the secrets in it, also before it
// is started.
func TestTellsWhyABackupFailed(t *testing.T) {
	s := sidecar(t, "STATEGRAFT_GRPC_TLS=off")
	for path, text := range map[string]string{
		files.Standard(s.root).Credentials():   "[default]\naws_access_key_id = AKIA\naws_secret_access_key = s3cret-key-0123456789\n",
		s.root + "/tmp/stategraft/failed.json": `{"name": "b1", "at": "2026-11-30T10:00:00Z", "why": "OSError: s3cret-key-0123456789 is refused"}`,
	} {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var r node.Report
	status, body := s.ask(node.PathReport)
	if err := json.Unmarshal([]byte(body), &r); err != nil || status != http.StatusOK || r.WhyFailed("b1") != "OSError: *** is refused" {
		t.Errorf("%d %s %v", status, body, err)
	}
}

// TestServesTheNode: the node's service is there while Medusa still lets the
// database go first, and looks into the storage.
func TestServesTheNode(t *testing.T) {
	t.Parallel()
	run := sidecar(t, "STATEGRAFT_GRPC_TLS=off")
	report := func() (r node.Report, text string) {
		_, text = run.ask(node.PathReport)
		if err := json.Unmarshal([]byte(text), &r); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		return r, text
	}
	// The service is there a moment before the supervisor tells anything.
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if r, _ := report(); r.Waiting != "" {
			break
		}
	}
	if r, text := report(); r.Node != "cassandra-0" || r.Prefix != "ns_c" || r.Size < r.Free || r.Free <= 0 || r.Waiting != "the database starts first" || len(r.Done) > 0 || r.Restore != nil {
		t.Errorf("got %s", text)
	}
	if status, body := run.ask(node.PathBackups); status != 200 || !strings.Contains(body, `"name":"stategraft-lookup"`) {
		t.Errorf("got %d %s", status, body)
	}
	if status, body := run.ask(node.PathBackup + "?name=b1"); status != 200 {
		t.Errorf("got %d %s", status, body)
	}
	if err := os.MkdirAll(run.root+"/volume/.stategraft", 0o755); err != nil {
		t.Fatal(err)
	}
	marker := run.root + "/volume/.stategraft/restore.json"
	if err := os.WriteFile(marker, []byte(`{"id": "b1", "backup": "b1", "source": "c-0", "outcome": "done", "started": "2026-01-01T00:00:00Z", "finished": "2026-01-01T00:01:00Z"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if r, text := report(); len(r.Done) != 1 || r.Done[0].ID != "b1" || r.Done[0].Finished.IsZero() {
		t.Errorf("got %s", text)
	}
	// A marker that cannot be read is no volume without restores.
	if err := os.WriteFile(marker, []byte(`{`), 0o600); err != nil {
		t.Fatal(err)
	}
	if status, body := run.ask(node.PathReport); status != 500 || !strings.Contains(body, "marker") {
		t.Errorf("got %d %s", status, body)
	}
}

// TestServesNothingInTheClear: without a word about TLS there has to be a pair.
func TestServesNothingInTheClear(t *testing.T) {
	t.Parallel()
	run := sidecar(t)
	for deadline := time.Now().Add(patience); !strings.Contains(run.log(), "waiting for Secret stategraft-grpc"); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("log %s", run.log())
		}
	}
	if conn, err := net.Dial("tcp", run.address); err == nil {
		conn.Close()
		t.Error("something is served")
	}
}
