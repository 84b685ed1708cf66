package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stategraft/stategraft/agent/medusa"
)

// TestAdoptedStays: a container that cannot work stays, says why, and ends when it is
// asked to. What a newer one would do is then missed by nobody.
func TestAdoptedStays(t *testing.T) {
	t.Parallel()
	uid := fmt.Sprintf("%08x-0000-4000-8000-%012x", os.Getpid(), time.Now().UnixNano()&(1<<48-1))
	for _, c := range []struct {
		name string
		env  []string
		args []string
		want string
	}{
		{"no number", []string{"POD_UID=" + uid}, []string{"adopted", "medusa"}, "STATEGRAFT_ADOPTED"},
		{"no pod", []string{"STATEGRAFT_ADOPTED=1"}, []string{"adopted", "snapshot"}, "POD_UID"},
		{"wrong port", []string{"POD_UID=" + uid, "STATEGRAFT_ADOPTED=1", "STATEGRAFT_GRPC_PORT=x"}, []string{"adopted", "medusa"}, "STATEGRAFT_GRPC_PORT"},
		{"wrong memory", []string{"POD_UID=" + uid, "STATEGRAFT_ADOPTED=1", "STATEGRAFT_MEMORY=1Gi"}, []string{"adopted", "install"}, "STATEGRAFT_MEMORY"},
		{"wrong directory", []string{"POD_UID=" + uid, "STATEGRAFT_ADOPTED=2", "STATEGRAFT_ADOPTED_DIR=/nowhere"}, []string{"adopted", "install"}, "STATEGRAFT_ADOPTED_DIR"},
		{"no snapshot port", []string{"POD_UID=" + uid, "STATEGRAFT_ADOPTED=3"}, []string{"adopted", "snapshot"}, "STATEGRAFT_SNAPSHOT_PORT"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			command := agent(t, c.env, c.args...)
			out := &lines{}
			command.Stdout, command.Stderr = out, out
			if err := command.Start(); err != nil {
				t.Fatal(err)
			}
			defer func() { _ = command.Process.Kill() }()
			for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
				if text := out.String(); strings.Contains(text, "degraded") && strings.Contains(text, c.want) {
					break
				}
				if time.Now().After(deadline) {
					t.Fatalf("it does not say what is wrong: %s", out)
				}
			}
			if err := command.Process.Signal(syscall.SIGTERM); err != nil {
				t.Errorf("it has ended: %v", err)
			}
			// An agent that has brought nothing does not end well.
			if err := command.Wait(); (err != nil) != (c.args[1] == "install") {
				t.Errorf("it ended with %v", err)
			}
		})
	}
}

// TestServesBelowRoot: an image's entry point knows one place for its configuration.
func TestServesBelowRoot(t *testing.T) {
	for _, c := range []struct {
		image medusa.Image
		root  string
		waits bool
	}{
		{medusa.Image{Python: "/p", Entry: "/e"}, "/tmp/x", false}, {medusa.Image{Python: "/p"}, "/tmp/x", false},
		{medusa.Image{Entry: "/e"}, "/tmp/x", true}, {medusa.Image{Entry: "/e"}, "", false},
	} {
		t.Setenv("STATEGRAFT_ROOT", c.root)
		if err := servesBelowRoot(c.image); errors.Is(err, medusa.ErrNone) != c.waits || err != nil && !c.waits {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// TestAdoptedWaits: of what is wrong with medusa.ini the pod tells itself, as no other
// container does.
func TestAdoptedWaits(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	port := freePort(t)
	command := agent(t, nil, "adopted", "medusa")
	command.Env = append(command.Env, "STATEGRAFT_ROOT="+root, fmt.Sprintf("POD_UID=%08x-0000-4000-8000-%012x", os.Getpid(), time.Now().UnixNano()&(1<<48-1)), "STATEGRAFT_ADOPTED=3", "POD_IP=cassandra-0",
		"STATEGRAFT_FILE_INI=[storage]\nstorage_provider = s3\n", "STATEGRAFT_NODE_PORT="+port, "STATEGRAFT_DATA_MOUNT="+root, "STATEGRAFT_GRPC_TLS=off",
		"STATEGRAFT_SNAPSHOT_PORT=9188", "STATEGRAFT_DATABASE_FIRST=0s", "STATEGRAFT_POLL=20ms", "STATEGRAFT_MEDUSA_PYTHON=/bin/true", "STATEGRAFT_MEDUSA_COMMAND=/bin/true")
	out := &lines{}
	command.Stdout, command.Stderr = out, out
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = command.Process.Kill() }()
	for deadline := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		_, body := serving{address: "127.0.0.1:" + port}.ask("/v1/node")
		if strings.Contains(body, `"waiting":"medusa.ini: [storage] bucket_name is missing"`) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("got %s\n%s", body, out)
		}
	}
	if err := command.Process.Signal(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	if err := command.Wait(); err != nil {
		t.Errorf("it ended with %v", err)
	}
}

// TestAdoptedKeepsBelow: a Medusa that takes more than the container may is ended, whatever
// it does, and started again; the container stays.
func TestAdoptedKeepsBelow(t *testing.T) {
	t.Parallel()
	if info, ok := debug.ReadBuildInfo(); ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"}) {
		t.Skip("the race detector needs more than the container may take")
	}
	root := t.TempDir()
	greedy := filepath.Join(root, "greedy")
	// What reads the end of a pipe keeps all of it.
	if err := os.WriteFile(greedy, []byte("#!/bin/sh\necho $MALLOC_ARENA_MAX >>"+root+"/starts\nhead -c 150000000 /dev/zero | tail -c 150000000 | { read x; sleep 100; }\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	command := agent(t, nil, "adopted", "medusa")
	command.Env = append(command.Env, "STATEGRAFT_ROOT="+root, fmt.Sprintf("POD_UID=%08x-0000-4000-8000-%012x", os.Getpid(), time.Now().UnixNano()&(1<<48-1)), "STATEGRAFT_ADOPTED=3",
		"STATEGRAFT_FILE_INI=[storage]\nstorage_provider = s3\nbucket_name = b\n", "STATEGRAFT_MEMORY=104857600", "STATEGRAFT_GRPC_TLS=off", "STATEGRAFT_SNAPSHOT_PORT=9188",
		"STATEGRAFT_DATABASE_FIRST=0s", "STATEGRAFT_POLL=20ms", "STATEGRAFT_MEDUSA_PYTHON=/bin/true", "STATEGRAFT_MEDUSA_COMMAND="+greedy)
	out := &lines{}
	command.Stdout, command.Stderr = out, out
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = command.Process.Kill() }()
	for deadline := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		starts, _ := os.ReadFile(root + "/starts")
		if strings.Contains(out.String(), "it takes more memory than it may") && strings.HasPrefix(string(starts), "2\n2\n") {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("it was not started again: %q\n%s", starts, out)
		}
	}
	if err := command.Process.Signal(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	if err := command.Wait(); err != nil {
		t.Errorf("it ended with %v", err)
	}
}
