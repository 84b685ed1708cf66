package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// TestBecomesAnna: the program beside the agent is run with the same arguments,
// environment and process; the containers' signals and exit codes are its own.
func TestBecomesAnna(t *testing.T) {
	dir := t.TempDir()
	own, err := os.Executable()
	check(t, err)
	// A link of another name: os.Executable is the file itself.
	content, err := os.ReadFile(own)
	check(t, err)
	copied := filepath.Join(dir, "stategraft-agent")
	check(t, os.WriteFile(copied, content, 0o755))
	check(t, os.WriteFile(filepath.Join(dir, annaProgram), []byte("#!/bin/sh\necho \"$$ $STATEGRAFT_BACKUP $*\"; exit 7\n"), 0o755))
	command := agent(t, []string{"STATEGRAFT_BACKUP=b1"}, "anna", "restore", "--flag=x", "and more")
	command.Path = copied
	out, err := command.CombinedOutput()
	if code := command.ProcessState.ExitCode(); code != 7 {
		t.Fatalf("exit code %d, %v, %s", code, err, out)
	}
	pid, rest, _ := strings.Cut(strings.TrimSpace(string(out)), " ")
	if rest != "b1 restore --flag=x and more" {
		t.Errorf("got %q", rest)
	}
	if want := command.ProcessState.Pid(); pid == "" || pid != strconv.Itoa(want) {
		t.Errorf("process %s, want %d", pid, want)
	}
}

// TestOnlyAProgramIsRun: what is no program beside the agent is passed over.
func TestOnlyAProgramIsRun(t *testing.T) {
	own, err := os.Executable()
	check(t, err)
	beside := filepath.Join(filepath.Dir(own), annaProgram)
	if _, err := os.Stat(beside); err == nil {
		t.Skip("there is one beside the test")
	}
	check(t, os.WriteFile(beside, []byte("x"), 0o600))
	defer os.Remove(beside)
	if path, err := findAnna(); err == nil && path != annaPlace || err != nil && !strings.Contains(err.Error(), "stategraft.io/agent-image") {
		t.Errorf("%s, %v", path, err)
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
