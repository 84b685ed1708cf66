package restore

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/stategraft/stategraft/agent/ini"
)

// own is the directory of ours on the data volume.
const own = ".stategraft"

// The parts of a node's data, each a directory.
const (
	partData   = "data"
	partLog    = "commitlog"
	partCaches = "saved_caches"
	partHints  = "hints"
)

// place is a directory with a part of the data.
type place struct {
	Part string `json:"part"`
	Path string `json:"path"`
}

// layout are the places of a node's data. The first is the data directory.
type layout []place

func newLayout(data, log, caches, hints string) layout {
	beside := func(path, name string) string {
		if path == "" {
			return filepath.Join(filepath.Dir(data), name)
		}
		return filepath.Clean(path)
	}
	return layout{
		{partData, filepath.Clean(data)}, {partLog, beside(log, partLog)},
		{partCaches, beside(caches, partCaches)}, {partHints, beside(hints, partHints)},
	}
}

func (l layout) data() string { return l[0].Path }

// layout is where the data are without asking Medusa: as the cassandra.yaml that
// it reads says, else as the webhook knows, else as the volume looks.
func (c Config) layout() (layout, error) {
	var read struct {
		Data   []string `json:"data_file_directories"`
		Log    string   `json:"commitlog_directory"`
		Caches string   `json:"saved_caches_directory"`
		Hints  string   `json:"hints_directory"`
	}
	text := []byte(c.yaml())
	if path := c.yamlPath(); path != "" && (len(text) == 0 || path != c.Places.Yaml()) {
		// Without it the environment knows as much.
		text, _ = os.ReadFile(path)
	}
	if err := yaml.Unmarshal(text, &read); err != nil {
		c.Log.Warn("cassandra.yaml cannot be read: the places of the data are taken from the pod", "error", err.Error())
	}
	switch {
	case len(read.Data) > 1:
		return nil, fmt.Errorf("cassandra.yaml: data_file_directories has %d entries; only one is supported", len(read.Data))
	case len(read.Data) == 1:
	case c.DataDirectory != "":
		read.Data = []string{c.DataDirectory}
	case filepath.Base(c.DataMount) == partData:
		read.Data = []string{c.DataMount}
	default:
		read.Data = []string{filepath.Join(c.DataMount, partData)}
		if err := c.elsewhere(read.Data[0]); err != nil {
			return nil, err
		}
	}
	if read.Log == "" {
		read.Log = c.Commitlog
	}
	if read.Caches == "" {
		read.Caches = c.SavedCaches
	}
	return newLayout(read.Data[0], read.Log, read.Caches, read.Hints), nil
}

// elsewhere tells whether a node's data are on the volume, but not where they are
// looked for.
func (c Config) elsewhere(dir string) error {
	if _, err := os.Stat(filepath.Join(dir, "system")); err == nil {
		return nil
	}
	for at := "[^.]*"; strings.Count(at, "/") < 3; at = filepath.Join(at, "*") {
		found, err := fs.Glob(os.DirFS(c.DataMount), filepath.Join(at, "system", "local-*"))
		if err != nil {
			return fmt.Errorf("look for the data: %w", err)
		}
		for _, name := range found {
			if !strings.HasPrefix(name, "medusa-restore-") {
				return fmt.Errorf("%s holds a node's data, which were looked for in %s; annotation stategraft.io/data-volume, or cassandra.yaml, tells where they are",
					filepath.Join(c.DataMount, filepath.Dir(filepath.Dir(name))), dir)
			}
		}
	}
	return nil
}

// yamlPath is the cassandra.yaml that the effective medusa.ini names, if there is
// one already.
func (c Config) yamlPath() string {
	content, err := os.ReadFile(c.Places.Ini())
	if err != nil {
		return ""
	}
	file, err := ini.Parse(string(content))
	if err != nil {
		return ""
	}
	path, _ := file.Get("cassandra", "config_file")
	return path
}

// item is a file or directory of a place.
type item struct {
	path string // below the place
	info fs.FileInfo
}

// real is the directory of a place, which may be behind a symbolic link as Medusa
// and the database follow it. It is empty where there is none yet.
func (at place) real() (string, error) {
	root, err := filepath.EvalSymlinks(at.Path)
	if !errors.Is(err, fs.ErrNotExist) {
		return root, err
	}
	for path := at.Path; path != filepath.Dir(path); path = filepath.Dir(path) {
		info, err := os.Lstat(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil && info.Mode()&fs.ModeSymlink != 0 {
			err = fmt.Errorf("the %s directory %s cannot be seen: %s is a symbolic link that leads to nothing in this container", at.Part, at.Path, path)
		}
		return "", err
	}
	return "", nil
}

// walk passes all of a place on, directories before what is in them: not what is
// ours, nor the file system's, nor another place, nor snapshots, which a restore
// drops like nodetool does.
func (l layout) walk(at place, each func(item) error) error {
	root, err := at.real()
	if err != nil || root == "" {
		return err
	}
	return filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if path == root {
			return nil
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		path = filepath.Join(at.Path, name)
		if l.foreign(at, path) || at.Part == partData && strings.Count(name, "/") == 2 && filepath.Base(name) == "snapshots" {
			if entry.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		return each(item{name, info})
	})
}

// foreign tells whether what is directly in a place is not part of the data.
func (l layout) foreign(at place, path string) bool {
	if filepath.Dir(path) == at.Path {
		name := filepath.Base(path)
		if strings.HasPrefix(name, own) || name == "lost+found" || strings.HasPrefix(name, "medusa-restore-") {
			return true
		}
	}
	for _, other := range l {
		if other != at && (path == other.Path || strings.HasPrefix(other.Path, path+"/")) {
			return true
		}
	}
	return false
}

// wipe empties all places. The directories stay: they may be volumes of their own.
func (l layout) wipe() error {
	for _, at := range l {
		entries, err := os.ReadDir(at.Path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return fmt.Errorf("remove the data: %w", err)
		}
		for _, entry := range entries {
			path := filepath.Join(at.Path, entry.Name())
			if l.foreign(at, path) {
				continue
			}
			step("wipe")
			if err := os.RemoveAll(path); err != nil {
				return fmt.Errorf("remove the data: %w", err)
			}
		}
	}
	return nil
}

// step is called before each change of a volume. Tests stop there.
var step = func(string) {}
