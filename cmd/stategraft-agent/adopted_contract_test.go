package main

import (
	"encoding/json"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/stategraft/stategraft/agent/adopted"
	"github.com/stategraft/stategraft/patches"
)

// adoptedContainers are those of the golden results of adoption.
func adoptedContainers(t *testing.T) (all []corev1.EphemeralContainer) {
	t.Helper()
	paths, err := filepath.Glob("../../test/corpus/adopted/*.json")
	if err != nil || len(paths) == 0 {
		t.Fatalf("%d golden files, %v", len(paths), err)
	}
	for _, file := range paths {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var golden struct {
			Containers []corev1.EphemeralContainer `json:"containers"`
		}
		if err := json.Unmarshal(text, &golden); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		all = append(all, golden.Containers...)
	}
	return all
}

// call is what a container of an adopted pod calls the agent with.
func call(c *corev1.EphemeralContainer) string {
	for i, arg := range c.Command {
		if path.Base(arg) == "stategraft-agent" {
			return strings.Join(c.Command[i+1:], " ")
		}
	}
	return ""
}

// TestAdoptedCommandsOfThePatches: a command that the agent does not know would end a
// container that is never started again.
func TestAdoptedCommandsOfThePatches(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range adoptedContainers(t) {
		seen[call(&c)] = true
	}
	got := slices.Sorted(maps.Keys(seen))
	if want := []string{"adopted anna", "adopted install", "adopted medusa", "adopted snapshot"}; !slices.Equal(got, want) {
		t.Errorf("the patches call %q, want %q", got, want)
	}
	for _, words := range got {
		command, rest, err := root().Find(strings.Fields(words))
		if err != nil || len(rest) > 0 || !command.Runnable() {
			t.Errorf("%s: not a command of the agent (%v)", words, err)
		}
	}
}

// unread are the variables that are there for the controllers, which read them on the pod.
var unread = []string{patches.EnvAdoptedAt, patches.EnvAdoptedPair, patches.EnvAdoptedRenew, patches.EnvAdoptedDigest}

// needed are the variables without which a command does nothing.
var needed = map[string][]string{
	"adopted install":  {patches.EnvAdoptedDir, patches.EnvAdoptedTakers},
	"adopted snapshot": {patches.EnvAdoptedDir, "STATEGRAFT_SNAPSHOT_PORT"},
	"adopted medusa": {patches.EnvAdoptedDir, "STATEGRAFT_FILE_INI", patches.EnvNodePort, "STATEGRAFT_GRPC_PORT", "STATEGRAFT_DATA_MOUNT", "STATEGRAFT_CQL_PORT",
		"POD_NAMESPACE", "POD_IP"},
	"adopted anna": {patches.EnvNodePort, "STATEGRAFT_GRPC_PORT"},
}

// TestAdoptedVariablesOfThePatches: what the patches tell the containers is read by the
// agent, and what that cannot do without is told.
func TestAdoptedVariablesOfThePatches(t *testing.T) {
	source := sources(t, ".", "../stategraft-anna", "../../agent")
	checked := map[string]bool{}
	for _, c := range adoptedContainers(t) {
		told := map[string]string{}
		for _, v := range c.Env {
			told[v.Name] = v.Value
			if name := v.Name; strings.HasPrefix(name, "STATEGRAFT_") && !checked[name] && !slices.Contains(unread, name) {
				checked[name] = true
				if !strings.Contains(source, `"`+name+`"`) {
					t.Errorf("nobody reads %s, which %s is told", name, c.Name)
				}
			}
		}
		for _, name := range append(needed[call(&c)], patches.EnvAdopted, patches.EnvPodUID, patches.EnvMemory, patches.EnvRoot) {
			if _, ok := told[name]; !ok {
				t.Errorf("%s (%s) is not told %s", c.Name, call(&c), name)
			}
		}
		if cql, ok := told["MEDUSA_CQL_K8S_SECRETS_PATH"]; ok && cql != told[patches.EnvRoot]+patches.DirCQL {
			t.Errorf("%s looks for the CQL user in %s", c.Name, cql)
		}
	}
	if len(checked) < 10 {
		t.Errorf("only %d variables were looked at", len(checked))
	}
}

// sources are the programs' own.
func sources(t *testing.T, dirs ...string) string {
	t.Helper()
	var all strings.Builder
	for _, dir := range dirs {
		err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
				return err
			}
			text, err := os.ReadFile(path)
			all.Write(text)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return all.String()
}

// TestContentsOfThePatches: what the patches put into variables is what the agent places.
func TestContentsOfThePatches(t *testing.T) {
	agents := adopted.Contents()
	if len(agents) != len(patches.Contents) {
		t.Fatalf("the agent has %d, the patches %d", len(agents), len(patches.Contents))
	}
	for i, c := range patches.Contents {
		if agents[i] != adopted.Content(c) {
			t.Errorf("the agent has %+v, the patches %+v", agents[i], c)
		}
	}
	for _, role := range patches.Roles {
		if got := (adopted.Taker{Role: string(role), Number: 7}).String(); got != role.Container()+"-7" {
			t.Errorf("the agent says %s, the patches %s", got, role.Container())
		}
	}
	if got := filepath.Base(patches.AgentInImage); got != adopted.Binary {
		t.Errorf("the agent brings %s, the patches call %s", adopted.Binary, got)
	}
}
