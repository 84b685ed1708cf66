package serve

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stategraft/stategraft/agent/files"
	"github.com/stategraft/stategraft/api/node"
)

// watch compares the ConfigMap as it is mounted now with how it was when the database was
// started: Anna and Cloudburst read their files once.
type watch struct {
	dir, path string
	every     time.Duration
	log       *slog.Logger

	mutex sync.Mutex
	is    node.Config // Started is empty where there is no ConfigMap
}

// startedPath is where the digest of what the database was started with is.
func startedPath(places files.Places) string { return filepath.Join(dir(places), "config.json") }

// NoteConfig writes down what the database is started with. The setup container does, so
// that a sidecar that is started anew later does not take what it finds then for that.
func NoteConfig(places files.Places, configDir string) error {
	digest, err := digestOf(configDir)
	if err != nil {
		return err
	}
	path := startedPath(places)
	if err := files.MakeDir(filepath.Dir(path), 0o755, files.Owner{}); err != nil {
		return err
	}
	return files.WriteJSON(path, node.Config{Started: digest}, 0o644, files.Owner{})
}

func newWatch(c Config) *watch {
	w := &watch{dir: c.Config, path: startedPath(c.Places), every: 15 * time.Second, log: c.Log}
	if c.every > 0 {
		w.every = c.every
	}
	if c.Adopted {
		w.dir = "" // what is in it now need not be what the node was started with
		return w
	}
	digest, err := digestOf(c.Config)
	if err != nil {
		w.log.Warn("the ConfigMap cannot be read", "error", err.Error())
	}
	w.is.Started = digest
	var noted node.Config
	if err := readJSON(w.path, &noted); err == nil && noted.Started != "" {
		w.is.Started = noted.Started
	} else if digest != "" {
		if err := NoteConfig(c.Places, c.Config); err != nil {
			w.log.Warn("what the database was started with cannot be written down", "error", err.Error())
		}
	}
	return w
}

func (w *watch) run(ctx context.Context) {
	for {
		w.look()
		if !wait(ctx, w.every) {
			return
		}
	}
}

// look looks whether the ConfigMap has changed, and says so once for each state.
func (w *watch) look() {
	digest, err := digestOf(w.dir)
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if err != nil || w.is.Started == "" || digest == "" {
		return // a ConfigMap that has gone changes nothing for whoever has read it
	}
	current := digest
	if current == w.is.Started {
		current = ""
	}
	if current == w.is.Current {
		return
	}
	if w.is.Current = current; current == "" {
		w.log.Info("the ConfigMap is again what the database was started with")
		return
	}
	w.log.Warn("the ConfigMap has changed: the database goes by it after its pod has been created anew; annotation stategraft.io/on-config-change: restart has that done, one pod after the other",
		"started", w.is.Started, "current", current)
}

// get is what is known; nil where there is no ConfigMap.
func (w *watch) get() *node.Config {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if w.is.Started == "" {
		return nil
	}
	is := w.is
	return &is
}

// digestOf is of the files of a ConfigMap, with their names; empty where there is none.
// Those that begin with two dots are kubelet's.
func digestOf(dir string) (string, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) || dir == "" {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	var names []string
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), "..") {
			names = append(names, e.Name())
		}
	}
	if len(names) == 0 {
		return "", nil
	}
	slices.Sort(names)
	sum := sha256.New()
	for _, name := range names {
		content, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return "", err
		}
		one := sha256.Sum256(content)
		sum.Write([]byte(name + "\x00"))
		sum.Write(one[:])
	}
	return hex.EncodeToString(sum.Sum(nil)[:16]), nil
}
