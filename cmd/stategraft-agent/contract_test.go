package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stategraft/stategraft/agent/files"
	"github.com/stategraft/stategraft/patches"
)

// TestCommandsOfThePatches finds every command that an injected container of the
// golden results calls: one that the agent does not know would keep a database
// behind an init container from starting.
func TestCommandsOfThePatches(t *testing.T) {
	paths, err := filepath.Glob("../../test/corpus/golden/*.json")
	if err != nil || len(paths) == 0 {
		t.Fatalf("%d golden files, %v", len(paths), err)
	}
	var seen []string
	for _, file := range paths {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var golden struct {
			Patch any `json:"patch"`
		}
		if err := json.Unmarshal(text, &golden); err != nil {
			t.Fatal(err)
		}
		for _, call := range calls(golden.Patch) {
			if !slices.Contains(seen, call) {
				seen = append(seen, call)
			}
		}
	}
	slices.Sort(seen)
	want := []string{"anna restore", "anna serve", "anna setup", "medusa restore", "medusa serve", "pod", "setup", "snapshot-server"}
	if !slices.Equal(seen, want) {
		t.Errorf("the patches call %q, want %q", seen, want)
	}
	for _, call := range seen {
		command, rest, err := root().Find(strings.Fields(call))
		if command.DisableFlagParsing {
			continue // it becomes another program, whose test looks for the rest
		}
		if err != nil || len(rest) > 0 || !command.Runnable() {
			t.Errorf("%s: not a command of the agent (%v)", call, err)
		}
	}
}

// TestPlacesOfThePatches: the agent looks where the patches mount.
func TestPlacesOfThePatches(t *testing.T) {
	want := files.Places{Shared: patches.DirShared, Medusa: patches.DirMedusa, User: patches.DirMedusaConfig,
		Storage: patches.DirStorage, JMX: patches.DirJMX, GRPCTLS: patches.DirGRPCTLS}
	if got := files.Standard(""); got != want {
		t.Errorf("the agent has %+v, the patches %+v", got, want)
	}
	if got := files.Standard("").Binary(); got != patches.AgentShared {
		t.Errorf("the agent puts itself at %s, the patches call %s", got, patches.AgentShared)
	}
}

// calls collects what follows the agent's name in the commands of a document.
func calls(value any) []string {
	var found []string
	switch v := value.(type) {
	case []any:
		for _, item := range v {
			found = append(found, calls(item)...)
		}
	case map[string]any:
		for _, item := range v {
			found = append(found, calls(item)...)
		}
		command, _ := v["command"].([]any)
		for i, arg := range command {
			text, _ := arg.(string)
			if filepath.Base(text) != "stategraft-agent" {
				continue
			}
			var words []string
			for _, word := range command[i+1:] {
				words = append(words, word.(string))
			}
			found = append(found, strings.Join(words, " "))
		}
	}
	return found
}
