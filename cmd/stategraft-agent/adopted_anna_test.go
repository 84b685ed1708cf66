package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// TestAdoptedAnna: the container that is added to a node of Anna's becomes the program beside
// the agent, and where there is none it ends, and says so.
func TestAdoptedAnna(t *testing.T) {
	dir := t.TempDir()
	own, err := os.Executable()
	check(t, err)
	content, err := os.ReadFile(own)
	check(t, err)
	copied := filepath.Join(dir, "stategraft-agent")
	check(t, os.WriteFile(copied, content, 0o755))
	if _, err := os.Stat(annaPlace); err != nil {
		command := agent(t, nil, "adopted", "anna")
		command.Path = copied
		out, err := command.CombinedOutput()
		if code := command.ProcessState.ExitCode(); code != 1 || !strings.Contains(string(out), "stategraft.io/agent-image") {
			t.Errorf("without the program: exit code %d, %v, %s", code, err, out)
		}
	}
	check(t, os.WriteFile(filepath.Join(dir, annaProgram), []byte("#!/bin/sh\necho \"$$ $STATEGRAFT_ADOPTED $*\"; exit 7\n"), 0o755))
	command := agent(t, []string{"STATEGRAFT_ADOPTED=3"}, "adopted", "anna")
	command.Path = copied
	out, err := command.CombinedOutput()
	pid, rest, _ := strings.Cut(strings.TrimSpace(string(out)), " ")
	if code := command.ProcessState.ExitCode(); code != 7 || rest != "3 adopted" || pid != strconv.Itoa(command.ProcessState.Pid()) {
		t.Errorf("exit code %d, %v, %s", code, err, out)
	}
}
