package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stategraft/stategraft/agent/anna/setup"
	"github.com/stategraft/stategraft/patches"
)

// TestCommandsOfThePatches: what the injected containers of the golden results call by way
// of stategraft-agent is a command here. One that is not would keep a node from starting.
func TestCommandsOfThePatches(t *testing.T) {
	paths, err := filepath.Glob("../../test/corpus/golden/*.json")
	if err != nil || len(paths) == 0 {
		t.Fatalf("%d golden files, %v", len(paths), err)
	}
	var seen []string
	for _, file := range paths {
		text, err := os.ReadFile(file)
		must(t, err)
		var golden struct {
			Patch any `json:"patch"`
		}
		must(t, json.Unmarshal(text, &golden))
		for _, call := range calls(golden.Patch) {
			if !slices.Contains(seen, call) {
				seen = append(seen, call)
			}
		}
	}
	if len(seen) < 3 {
		t.Fatalf("the patches call %q", seen)
	}
	for _, call := range seen {
		command, rest, err := root().Find(strings.Fields(call))
		if err != nil || len(rest) > 0 || !command.Runnable() {
			t.Errorf("%s: not a command (%v)", call, err)
		}
	}
}

// calls collects what follows "anna" in the commands of a document.
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
		var words []string
		for _, arg := range command {
			text, _ := arg.(string)
			words = append(words, text)
		}
		if at := slices.Index(words, "anna"); at > 0 && filepath.Base(words[at-1]) == "stategraft-agent" {
			found = append(found, strings.Join(words[at+1:], " "))
		}
	}
	return found
}

// TestPlacesOfThePatches: the program looks where the patches mount.
func TestPlacesOfThePatches(t *testing.T) {
	t.Setenv("STATEGRAFT_ROOT", "")
	for what, got := range map[string]string{"serve": configDir(), "setup": setup.DirConfig} {
		if got != patches.DirConfig {
			t.Errorf("%s has %s, the patches %s", what, got, patches.DirConfig)
		}
	}
}
