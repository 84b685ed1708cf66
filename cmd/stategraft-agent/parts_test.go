package main

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stategraft/stategraft/api/node"
)

// do asks with another method than GET, of a service that is there.
func (s serving) do(t *testing.T, method, path string) (int, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, "http://"+s.address+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(body)
}

// TestDiscardsItsOwn: below its own prefix, and not while Medusa makes a backup.
func TestDiscardsItsOwn(t *testing.T) {
	s := sidecar(t, "STATEGRAFT_GRPC_TLS=off")
	if status, body := s.ask("/v1/node"); status != http.StatusOK || strings.Contains(body, "backupRunning") {
		t.Fatalf("%d %s", status, body)
	}
	for prefix, want := range map[string]int{"": 200, "ns_c": 200, "ns_other": 409, ".": 409} {
		if status, body := s.do(t, http.MethodDelete, "/v1/backup?name=b1&prefix="+prefix); status != want {
			t.Errorf("%q: %d %s", prefix, status, body)
		}
	}
	file, err := os.OpenFile(filepath.Join(s.root, "tmp/stategraft/running.json"), os.O_RDWR, 0)
	if err == nil {
		err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	}
	if err == nil {
		_, err = file.WriteString(`{"kind": "backup", "name": "b7", "since": "2026-11-30T10:00:00Z", "phase": "uploading"}`)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if status, body := s.do(t, http.MethodDelete, "/v1/backup?name=b1"); status != http.StatusConflict || !strings.Contains(body, "busy: backup b7") {
		t.Errorf("while a backup runs: %d %s", status, body)
	}
	if _, body := s.ask("/v1/node"); !strings.Contains(body, `"backupRunning":true,"backup":{"name":"b7"`) {
		t.Errorf("%s", body)
	}
	// Nothing was counted, as the answer of this interpreter says.
	if status, body := s.ask("/v1/contents?name=b1"); status != http.StatusNotFound {
		t.Errorf("%d %s", status, body)
	}
}

func TestCounts(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "nb-1-big-Data.db"), []byte("01234"), 0o600); err != nil {
		t.Fatal(err)
	}
	dirs, err := json.Marshal([]map[string]string{{"keyspace": "shop", "table": "orders-11", "path": dir}})
	if err != nil {
		t.Fatal(err)
	}
	command := agent(t, nil, "count")
	command.Stdin = strings.NewReader(string(dirs))
	out, err := command.Output()
	var got node.Contents
	if err == nil {
		err = json.Unmarshal(out, &got)
	}
	want := node.Table{Table: "shop.orders", SSTables: 1, Bytes: 5}
	if err != nil || got.Version != node.ContentsVersion || len(got.Tables) != 1 || got.Tables[0] != want {
		t.Errorf("%v %s", err, out)
	}
	command = agent(t, nil, "count")
	command.Stdin = strings.NewReader("{")
	if err := command.Run(); err == nil {
		t.Error("what cannot be read is counted")
	}
}
