package serve

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stategraft/stategraft/agent/anna/config"
)

// fakeProc is a /proc in which the node's process has its file.
func fakeProc(t *testing.T, file string) string {
	t.Helper()
	proc := t.TempDir()
	process(t, proc, "self", "stategraft-anna", "0::/\n")
	process(t, proc, "1", "pause", "0::/../cri-containerd-1.scope\n")
	process(t, proc, "17", "anna-kvs", "0::/../cri-containerd-2.scope\n")
	conf := filepath.Join(proc, "17", "cwd", "conf")
	must(t, os.MkdirAll(conf, 0o755))
	must(t, os.WriteFile(filepath.Join(conf, config.File), []byte(file), 0o600))
	return proc
}

func process(t *testing.T, proc, pid, comm, cgroup string) {
	t.Helper()
	must(t, os.MkdirAll(filepath.Join(proc, pid), 0o755))
	must(t, os.WriteFile(filepath.Join(proc, pid, "comm"), []byte(comm+"\n"), 0o600))
	must(t, os.WriteFile(filepath.Join(proc, pid, "cgroup"), []byte(cgroup), 0o600))
}

func TestStarted(t *testing.T) {
	t.Parallel()
	const file = "threads: {memory: 3}\nserver: {public_ip: 10.0.0.1, private_ip: m-0}\n"
	for name, c := range map[string]struct {
		change func(proc string)
		want   string // in the error; empty: the file is read
	}{
		"shared": {func(string) {}, ""},
		"nobody": {func(proc string) { must(t, os.RemoveAll(filepath.Join(proc, "17"))) }, "shareProcessNamespace"},
		"another pod's": {func(proc string) {
			process(t, proc, "17", "anna-kvs", "0::/../../kubepods-pod2.slice/cri-containerd-2.scope\n")
		}, "shareProcessNamespace"},
		"two":     {func(proc string) { process(t, proc, "18", "anna-kvs", "0::/../cri-containerd-3.scope\n") }, "several"},
		"no file": {func(proc string) { must(t, os.RemoveAll(filepath.Join(proc, "17", "cwd"))) }, "no such file"},
		"a link that leads out of its directory": {func(proc string) {
			secret := filepath.Join(t.TempDir(), "secret")
			must(t, os.WriteFile(secret, []byte(file), 0o600))
			at := filepath.Join(proc, "17", "cwd", "conf", config.File)
			must(t, os.Remove(at))
			must(t, os.Symlink(secret, at))
		}, "escapes"},
		"no YAML": {func(proc string) {
			must(t, os.WriteFile(filepath.Join(proc, "17", "cwd", "conf", config.File), []byte("a: [\n"), 0o600))
		}, "line"},
		"a huge file": {func(proc string) {
			must(t, os.Truncate(filepath.Join(proc, "17", "cwd", "conf", config.File), mostOfFile+1))
		}, "at most"},
	} {
		t.Run(name, func(t *testing.T) {
			proc := fakeProc(t, file)
			c.change(proc)
			e, err := Started("", proc, slog.New(slog.DiscardHandler))()
			switch {
			case c.want == "" && (err != nil || e.Threads.Memory != 3 || e.Self.Private != "m-0"):
				t.Errorf("%+v, %v", e, err)
			case c.want != "" && (!errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), c.want)):
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
	// The volume is what tells where there is one, and what is said is said once.
	dir, log := t.TempDir(), &lines{}
	started := Started(dir, fakeProc(t, file), slog.New(slog.NewTextHandler(log, nil)))
	if e, err := started(); err != nil || e.Threads.Memory != 3 {
		t.Errorf("%+v, %v", e, err)
	}
	must(t, os.WriteFile(filepath.Join(dir, config.File), []byte("threads: {memory: 4}\n"), 0o600))
	if e, err := started(); err != nil || e.Threads.Memory != 4 {
		t.Errorf("%+v, %v", e, err)
	}
	none := Started("", "/nowhere", slog.New(slog.NewTextHandler(log, nil)))
	for range 3 {
		if _, err := none(); !errors.Is(err, fs.ErrNotExist) {
			t.Error(err)
		}
	}
	if n := strings.Count(log.String(), "cannot be seen"); n != 1 {
		t.Errorf("it was said %d times", n)
	}
}

func TestSiblings(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		own, other string
		want       bool
	}{
		{"0::/", "0::/../b.scope", true},
		{"0::/", "0::/", false}, // the container itself
		{"0::/", "0::/../..", false},
		{"0::/", "0::/..", false},
		{"0::/", "0::/../../pod2/b.scope", false},
		{"0::/", "0::/../a/b", false},
		{"0::/kubepods/pod1/a", "0::/kubepods/pod1/b", true},
		{"0::/kubepods/pod1/a", "0::/kubepods/pod2/b", false},
		{"0::/kubepods/pod1/a", "0::/kubepods/pod1", false},
		{"5:cpu:/kubepods/pod1/a\n1:name=systemd:/\n", "5:cpu:/kubepods/pod1/b\n1:name=systemd:/\n", true},
		{"5:cpu:/kubepods/pod1/a\n1:pids:/kubepods/pod1/a\n", "5:cpu:/kubepods/pod1/b\n1:pids:/kubepods/pod2/b\n", false},
		{"", "0::/../b", false},
		{"nonsense", "nonsense", false},
	} {
		if got := siblings(c.own, c.other); got != c.want {
			t.Errorf("%q and %q: %v", c.own, c.other, got)
		}
	}
	if siblings("0::/", fmt.Sprintf("0::/../%s", strings.Repeat("a", 10))) != true {
		t.Error("a pod's containers are beside each other")
	}
}
