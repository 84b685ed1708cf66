package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stategraft/stategraft/api/node"
)

// TestVerify has the agent look at restored data with an image's tool, at the lowest
// priority, and leave what it has found.
func TestVerify(t *testing.T) {
	root := t.TempDir()
	data, message := filepath.Join(root, "vol", "data"), filepath.Join(root, "dev", "termination-log")
	table := filepath.Join(data, "system", "IndexInfo-9f5c6374d48532299a0a5094af9ad1e3")
	files, err := filepath.Glob("../../agent/verify/testdata/sstable/*")
	if err != nil || len(files) == 0 {
		t.Fatalf("%v, %v", files, err)
	}
	write := func(path, text string) {
		t.Helper()
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o755)); err != nil {
			t.Fatal(err)
		}
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		write(filepath.Join(table, filepath.Base(file)), string(text))
	}
	write(message, "")
	write(filepath.Join(root, "contents.json"), `{"version":1,"tables":[{"table":"system.IndexInfo","sstables":1,"rows":1,"counted":true}]}`)
	write(filepath.Join(root, "opt/cassandra/tools/bin/sstablemetadata"), "#!/bin/sh\nnice >"+root+"/nice\necho \"SSTable: ${2%-Data.db}\"\necho Rows: 1\n")
	run := func(mount string) (string, error) {
		command := agent(t, nil, "verify")
		command.Env = append(command.Env, "PATH=/usr/bin:/bin", "STATEGRAFT_ROOT="+root, "STATEGRAFT_VERIFY_NODE=c-0", "STATEGRAFT_DATA_MOUNT="+mount,
			"STATEGRAFT_DATA_DIRECTORY="+filepath.Join(mount, "data"), "STATEGRAFT_CONTENTS_FILE="+filepath.Join(root, "contents.json"), "STATEGRAFT_VERIFY_HEAP=128")
		out, err := command.CombinedOutput()
		text, failed := os.ReadFile(message)
		if failed != nil {
			t.Fatal(failed)
		}
		if err != nil {
			return string(text), err
		}
		t.Log(string(out))
		return string(text), nil
	}
	text, err := run(filepath.Join(root, "vol"))
	v, bad := node.ParseVerified(text)
	if err != nil || bad != nil || !v.Sound() || v.Node != "c-0" || v.Rows != 1 || v.Digests != 1 || v.Compared != 1 || v.Method != node.CountedByScan {
		t.Errorf("%v, %v: %s", err, bad, text)
	}
	if nice, err := os.ReadFile(filepath.Join(root, "nice")); err != nil || strings.TrimSpace(string(nice)) != "19" {
		t.Errorf("priority %s, %v", nice, err)
	}
	// A finding is a result; that it cannot look is none.
	write(filepath.Join(table, "nb-1-big-Data.db"), "another")
	if text, err = run(filepath.Join(root, "vol")); err != nil || !strings.Contains(text, "another checksum") {
		t.Errorf("%v: %s", err, text)
	}
	text, err = run(filepath.Join(root, "nowhere"))
	if exit := new(exec.ExitError); !errors.As(err, &exit) || exit.ExitCode() != 1 || !strings.Contains(text, "cannot be looked at") {
		t.Errorf("%v: %s", err, text)
	}
	if _, err := node.ParseVerified(text); err == nil {
		t.Error("it is taken for a result")
	}
}
