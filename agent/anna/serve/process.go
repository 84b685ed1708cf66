package serve

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"github.com/stategraft/stategraft/agent/anna/config"
)

// annaKVS is the program of a data node (hydro-project/anna src/kvs), as its process is
// called.
const annaKVS = "anna-kvs"

// mostOfFile is of a node's file, in bytes.
const mostOfFile = 1 << 20

// Started finds out what a node was started with whose file may be in its container alone:
// from the directory conf, where there is one, or of a pod with shareProcessNamespace from
// the directory that the node's process runs in, which is readable for who runs as the same
// user (man 5 proc, /proc/PID/cwd). It reads, and changes nothing. proc is /proc. Where
// neither can be read that is not known, whatever the reason: all of it can be found out
// otherwise.
func Started(conf, proc string, log *slog.Logger) func() (*config.Effective, error) {
	var mutex sync.Mutex
	said := ""
	return func() (*config.Effective, error) {
		if conf != "" {
			if e, err := config.Read(conf); err == nil {
				return e, nil
			}
		}
		e, err := ofProcess(proc)
		mutex.Lock()
		defer mutex.Unlock()
		if text := fmt.Sprint(err); err != nil && text != said {
			log.Info("the node's own file cannot be seen: its threads are counted, and the others tell what it is called", "why", text)
			said = text
		}
		return e, err
	}
}

// ofProcess reads the file of the node's process. Each of its errors is fs.ErrNotExist: what
// cannot be seen is not known.
func ofProcess(proc string) (*config.Effective, error) {
	dir, err := processDir(proc)
	if err == nil {
		var text []byte
		if text, err = readBelow(dir, path.Join("conf", config.File)); err == nil {
			var e *config.Effective
			if e, err = config.ReadText(text); err == nil {
				return e, nil
			}
		}
	}
	return nil, fmt.Errorf("read the configuration of process %s: %w (%w)", annaKVS, err, fs.ErrNotExist)
}

// processDir is the directory that the node's process runs in.
func processDir(proc string) (string, error) {
	entries, err := os.ReadDir(proc)
	if err != nil {
		return "", err
	}
	own, err := os.ReadFile(filepath.Join(proc, "self", "cgroup"))
	if err != nil {
		return "", err
	}
	found := ""
	for _, e := range entries {
		if _, err := strconv.Atoi(e.Name()); err != nil {
			continue
		}
		at := filepath.Join(proc, e.Name())
		comm, err := os.ReadFile(filepath.Join(at, "comm"))
		if err != nil || strings.TrimSpace(string(comm)) != annaKVS {
			continue
		}
		// With hostPID others' are seen too.
		group, err := os.ReadFile(filepath.Join(at, "cgroup"))
		if err != nil || !siblings(string(own), string(group)) {
			continue
		}
		if found != "" {
			return "", errors.New("there are several such processes in the pod")
		}
		found = filepath.Join(at, "cwd")
	}
	if found == "" {
		return "", errors.New("there is none to be seen: the pod's containers do not share their processes (shareProcessNamespace)")
	}
	return found, nil
}

// readBelow reads a file that is really below a directory: links in the database's
// container must not lead into this one's.
func readBelow(dir, name string) ([]byte, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	info, err := root.Stat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > mostOfFile {
		return nil, fmt.Errorf("%s is no file of at most %d bytes", name, mostOfFile)
	}
	return root.ReadFile(name)
}

// siblings tells whether two containers are of one pod, by their control groups: those of a
// pod's containers are beside each other. Each is as this container sees it, which may be in
// a namespace where its own is the root and the other is /../NAME (man 7 cgroup_namespaces).
func siblings(own, other string) (found bool) {
	theirs := groups(other)
	for controllers, mine := range groups(own) {
		at, ok := theirs[controllers]
		if !ok || at == mine {
			continue
		}
		name, beside := strings.CutPrefix(at, "/../")
		if mine != "/" {
			name, beside = path.Base(at), path.Dir(at) == path.Dir(mine)
		}
		if !beside || name == "" || name == ".." || strings.Contains(name, "/") {
			return false
		}
		found = true
	}
	return found
}

// groups are the lines of a file cgroup, by their controllers (man 7 cgroups).
func groups(text string) map[string]string {
	all := map[string]string{}
	for line := range strings.Lines(text) {
		if parts := strings.SplitN(strings.TrimSpace(line), ":", 3); len(parts) == 3 {
			all[parts[1]] = parts[2]
		}
	}
	return all
}
