package main

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stategraft/stategraft/agent/event"
	"github.com/stategraft/stategraft/agent/files"
	"github.com/stategraft/stategraft/api/node"
	api "github.com/stategraft/stategraft/api/v1alpha1"
)

// TestRestoreTellsItsOutcome: the termination message of a container that did what
// was asked for, and of one that finds it done, holds the same outcome. It takes no
// Medusa and no configuration to leave a volume empty and to go back. What was there before
// is kept whatever room this machine has: how much is needed is for agent/restore to test.
func TestRestoreTellsItsOutcome(t *testing.T) {
	root := t.TempDir()
	mount := filepath.Join(root, "vol")
	file := filepath.Join(mount, "data/shop/orders-11/nb-1-big-Data.db")
	terminated := filepath.Join(root, "dev/termination-log")
	for _, path := range []string{file, terminated} {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("orders"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	run := func(id, action, undo string) (string, node.Done) {
		t.Helper()
		env := []string{"STATEGRAFT_ROOT=" + root, "STATEGRAFT_DATA_MOUNT=" + mount, "POD_NAME=cassandra-0", "STATEGRAFT_KEEP_PREVIOUS=Always",
			"STATEGRAFT_RESTORE_ID=" + id, "STATEGRAFT_RESTORE_ACTION=" + action, "STATEGRAFT_RESTORE_UNDO=" + undo}
		for _, args := range [][]string{{"setup"}, {"medusa", "restore"}} {
			command := agent(t, nil, args...)
			command.Env = append(command.Env, env...)
			if out, err := command.CombinedOutput(); err != nil {
				t.Fatalf("%v, %s", err, out)
			}
		}
		content, err := os.ReadFile(terminated)
		if err != nil {
			t.Fatal(err)
		}
		text, done, err := node.ParseOutcome(string(content))
		if err != nil {
			t.Fatalf("%v in %s", err, content)
		}
		return text, done
	}
	text, first := run("e1/1", "empty", "")
	if first.ID != "e1/1" || !first.Previous || first.Runs != 1 || !strings.Contains(text, "the volume is empty") {
		t.Errorf("%s, %+v", text, first)
	}
	if _, err := os.Stat(file); err == nil {
		t.Error("it is not empty")
	}
	if text, again := run("e1/1", "empty", ""); again != first || !strings.Contains(text, "nothing to do") {
		t.Errorf("%s, %+v, want %+v", text, again, first)
	}
	run("u1/1", "undo", "e1/1")
	if content, err := os.ReadFile(file); err != nil || string(content) != "orders" {
		t.Errorf("%s, %v", content, err)
	}
}

// TestRestoreTellsItsCause: who goes by the termination message of a container that
// failed is told whether the backup is to blame, and not only in words.
func TestRestoreTellsItsCause(t *testing.T) {
	for answer, want := range map[string]node.Cause{`{"fqdn":"cassandra-0","nodes":[]}`: node.CauseNoBackup, `{"error":"there is no backup"}`: node.CauseNone} {
		root := t.TempDir()
		mount, terminated, python := filepath.Join(root, "vol"), filepath.Join(root, "dev/termination-log"), filepath.Join(root, "python")
		ini := filepath.Join(files.Standard(root).Medusa, "medusa.ini")
		for path, text := range map[string]string{filepath.Join(mount, "x"): "", terminated: "", ini: "[storage]\nstorage_provider = local\nbucket_name = b\nbase_path = /b\n",
			python: "#!/bin/sh\necho '" + answer + "' >\"$5\"\n"} {
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		command := agent(t, nil, "medusa", "restore")
		command.Env = append(command.Env, "STATEGRAFT_ROOT="+root, "STATEGRAFT_DATA_MOUNT="+mount, "POD_NAME=cassandra-0", "STATEGRAFT_BACKUP=b1",
			"STATEGRAFT_MEDUSA_PYTHON="+python, "STATEGRAFT_GRPC_TLS=off")
		out, _ := command.CombinedOutput()
		content, err := os.ReadFile(terminated)
		text, cause := node.ParseFailure(string(content))
		if err != nil || cause != want || !strings.Contains(text, "there is no backup") {
			t.Errorf("%s: %v, %q, %q\n%s", answer, err, text, cause, out)
		}
	}
}

// TestNameOfTheID: the policies look for the variable that the agent reads.
func TestNameOfTheID(t *testing.T) {
	if envRestoreID != api.EnvRestoreID {
		t.Errorf("%s, want %s", envRestoreID, api.EnvRestoreID)
	}
}

// TestRestoreReports: while it runs, the container tells how far it is.
func TestRestoreReports(t *testing.T) {
	port := freePort(t)
	for name, value := range map[string]string{"STATEGRAFT_NODE_PORT": port, "STATEGRAFT_GRPC_TLS": "off", "POD_IP": "cassandra-0"} {
		t.Setenv(name, value)
	}
	var out bytes.Buffer
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	tell := report(ctx, t.TempDir(), node.Progress{ID: "r1/1", Phase: node.LookingUp}, event.New(&out, &event.Secrets{}, "test"))
	tell(node.Progress{ID: "r1/1", Phase: node.Downloading, Bytes: 1, BytesTotal: 2})
	var got node.Report
	for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		answer, err := http.Get("http://127.0.0.1:" + port + node.PathReport)
		if err == nil {
			err = json.NewDecoder(answer.Body).Decode(&got)
			answer.Body.Close()
		}
		if err == nil && got.Size > 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
	if got.Node != "cassandra-0" || got.Free <= 0 || got.Restore == nil || got.Restore.Bytes != 1 || got.Restore.ID != "r1/1" {
		t.Errorf("%+v", got)
	}
}

// TestOutcomeFits: however much there is to say, what was done is not cut off. It is
// all that the controller goes by.
func TestOutcomeFits(t *testing.T) {
	path := filepath.Join(t.TempDir(), "termination-log")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	done := node.Done{ID: strings.Repeat("i", 300), Backup: strings.Repeat("b", 512), Source: strings.Repeat("s", 253), Tables: 7}
	event.Terminate(path, outcome("restored\n"+strings.Repeat("größer als alles, ", 500), done))
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	text, got, err := node.ParseOutcome(string(content))
	if err != nil || got != done || !strings.HasPrefix(text, "restored größer") || !strings.HasSuffix(text, " …") || !utf8.ValidString(text) {
		t.Errorf("%v, %+v, %s", err, got, text)
	}
}

// TestRestoreReportsFromTheStart: the first answer of a container says already that
// nothing is replaced, long before anything is looked up. Here it hangs before that: its
// medusa.ini is a pipe that nobody writes to.
func TestRestoreReportsFromTheStart(t *testing.T) {
	root := t.TempDir()
	mount, etc := filepath.Join(root, "vol"), files.Standard(root).Medusa
	for _, dir := range []string{mount, etc} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(filepath.Join(etc, "medusa.ini"), 0o600); err != nil {
		t.Fatal(err)
	}
	port := freePort(t)
	command := agent(t, nil, "medusa", "restore")
	command.Env = append(command.Env, "STATEGRAFT_ROOT="+root, "STATEGRAFT_DATA_MOUNT="+mount, "POD_NAME=cassandra-0", "STATEGRAFT_RESTORE_ID=r1/1", "STATEGRAFT_BACKUP=b1",
		"STATEGRAFT_MEDUSA_PYTHON=/bin/sh", "STATEGRAFT_GRPC_TLS=off", "STATEGRAFT_NODE_PORT="+port)
	var out bytes.Buffer
	command.Stdout, command.Stderr = &out, &out
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = command.Process.Kill(); _ = command.Wait() }()
	var got node.Report
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		answer, err := http.Get("http://127.0.0.1:" + port + node.PathReport)
		if err == nil {
			err = json.NewDecoder(answer.Body).Decode(&got)
			answer.Body.Close()
			if err != nil {
				t.Fatal(err)
			}
			break
		}
		if time.Now().After(deadline) {
			_ = command.Process.Kill()
			_ = command.Wait()
			t.Fatalf("%v\n%s", err, out.String())
		}
	}
	if p := got.Restore; p == nil || p.ID != "r1/1" || p.Phase != node.LookingUp || p.Started.IsZero() {
		t.Errorf("%+v", got)
	}
}
