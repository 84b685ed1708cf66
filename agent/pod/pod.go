// Package pod is the agent container: it puts the agent where the other
// containers find it and keeps Medusa's configuration up to date. Setup does
// the same once, before a restore.
package pod

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/stategraft/stategraft/agent/files"
	"github.com/stategraft/stategraft/agent/render"
	"github.com/stategraft/stategraft/api/node"
)

// Config is what the container's environment says.
type Config struct {
	Places files.Places
	Pod    render.Pod
	// CassandraConfig is where the database's container mounts its
	// configuration: a directory, or cassandra.yaml itself. Empty where it is
	// only in the image.
	CassandraConfig string
	Owner           files.Owner // who gets what is written; nobody where the user is right already
	Poll            time.Duration
	// Alone is set where no other container waits for the agent's binary.
	Alone bool
	// Bare has Setup do without a medusa.ini: what follows needs none.
	Bare bool
	// TidyAfter is how long CQL has to answer until the data from before a restore
	// are removed from the data volume; 0 for never.
	TidyAfter time.Duration
	TidyPoll  time.Duration // between two looks at CQL; 0 for the usual
	Log       *slog.Logger
}

// State is what the agent tells in run/agent.json.
type State struct {
	State    string   `json:"state"` // ready or degraded
	Problems []string `json:"problems,omitempty"`
	Notes    []string `json:"notes,omitempty"`
	// Previous are the data from before a restore that are still on the volume.
	Previous []node.Previous `json:"previous,omitempty"`
	Updated  time.Time       `json:"updated"`
}

// Setup prepares a restore: the data volume belongs to the database, the agent
// and a complete configuration are in place. What is missing is an error, as no
// restore can go on without it, but those that need no backup.
func Setup(c Config) error {
	if c.Owner.Set && os.Geteuid() == 0 && c.Pod.DataMount != "" {
		changed, err := files.Own(c.Pod.DataMount, c.Owner)
		if err != nil {
			return err
		}
		if changed > 0 {
			c.Log.Info("gave the data volume to the database's user", "volume", c.Pod.DataMount,
				"uid", c.Owner.UID, "gid", c.Owner.GID, "changed", changed)
		}
	}
	if err := files.Place(c.Places.Binary(), c.Owner); err != nil {
		return err
	}
	state, err := c.update()
	if c.Bare {
		if err != nil {
			state.Problems = append(state.Problems, err.Error())
		}
		state.Notes, state.Problems, err = append(state.Notes, state.Problems...), nil, nil
	}
	if err != nil {
		return err
	}
	for _, note := range state.Notes {
		c.Log.Warn(note)
	}
	if len(state.Problems) > 0 {
		return errors.New(strings.Join(state.Problems, "; "))
	}
	if !c.Bare {
		c.Log.Info("configured", "file", c.Places.Ini())
	}
	return nil
}

// remind is how often a problem that stays is said again.
const remind = 10 * time.Minute

// Run places the agent and keeps the configuration up to date until the context
// ends. Nothing that goes wrong ends it: a container that exits would make the
// database's pod unready.
func Run(ctx context.Context, c Config) {
	placed := c.Alone
	kept := c.startTidy(ctx)
	var last State
	var said time.Time
	for {
		if !placed {
			if err := files.Place(c.Places.Binary(), c.Owner); err != nil {
				c.Log.Error("degraded: the other containers wait for the agent's binary", "error", err.Error())
			} else {
				placed = true
				c.Log.Info("placed the agent", "path", c.Places.Binary())
			}
		}
		state, err := c.update()
		if err != nil {
			state = State{State: degraded, Problems: []string{err.Error()}}
		}
		state.Previous = kept()
		changed := !slices.Equal(state.Previous, last.Previous) || !slices.Equal(state.Problems, last.Problems) || !slices.Equal(state.Notes, last.Notes) || state.State != last.State
		if changed || len(state.Problems) > 0 && time.Since(said) > remind {
			said = time.Now()
			c.say(state)
			state.Updated = said.UTC()
			if err := c.tell(state); err != nil {
				c.Log.Warn("the state cannot be written", "error", err.Error())
			}
		}
		last = state
		select {
		case <-ctx.Done():
			c.Log.Info("stopped")
			return
		case <-time.After(c.Poll):
		}
	}
}

const (
	ready    = "ready"
	degraded = "degraded"
)

func (c Config) say(state State) {
	for _, note := range state.Notes {
		c.Log.Warn(note)
	}
	for _, problem := range state.Problems {
		c.Log.Error("degraded: " + problem)
	}
	if state.State == ready {
		c.Log.Info("ready", "file", c.Places.Ini())
	}
}

func (c Config) tell(state State) error {
	path := c.Places.State("agent")
	if err := files.MakeDir(filepath.Dir(path), 0o755, c.Owner); err != nil {
		return err
	}
	return files.WriteJSON(path, state, 0o644, c.Owner)
}

// update renders once and writes what has changed. A configuration with a
// problem is not written: Medusa keeps the last that was complete.
func (c Config) update() (State, error) {
	user, err := os.ReadFile(filepath.Join(c.Places.User, "medusa.ini"))
	if errors.Is(err, fs.ErrNotExist) {
		return State{State: degraded, Problems: []string{
			"waiting for the ConfigMap with the key medusa.ini (annotation stategraft.io/medusa-config names it, by default it is called medusa)"}}, nil
	}
	if err != nil {
		return State{}, fmt.Errorf("read the user's medusa.ini: %w", err)
	}
	pod := c.Pod
	if pod.ManagementAPI == "" {
		if pod.Segment, err = files.MakeSegment(c.Places.Segment(), c.Owner); err != nil {
			return State{}, err
		}
	}
	if _, err := os.Stat(c.Places.Credentials()); err == nil {
		pod.KeyFile = c.Places.Credentials()
	}
	var state State
	shared, path, err := c.sharedYaml()
	if err != nil {
		state.Notes = append(state.Notes, fmt.Sprintf("the shared cassandra.yaml cannot be read, a stand-in is used: %v", err))
	}
	text, note, problem := render.Yaml(shared, pod)
	if note != "" {
		state.Notes = append(state.Notes, note)
	}
	if problem != "" {
		state.Problems = append(state.Problems, problem)
	}
	if pod.Yaml = path; text != "" {
		pod.Yaml = c.Places.Yaml()
		if err := c.write(pod.Yaml, text); err != nil {
			return State{}, err
		}
	}
	result := render.Render(string(user), pod)
	state.Notes = append(state.Notes, result.Notes...)
	state.Problems = append(state.Problems, result.Problems...)
	if len(state.Problems) > 0 {
		state.State = degraded
		return state, nil
	}
	state.State = ready
	return state, c.write(c.Places.Ini(), result.Text)
}

// sharedYaml reads the database's own cassandra.yaml where that is possible
// already: an entry point may put it into a shared directory only later.
func (c Config) sharedYaml() (content []byte, path string, err error) {
	if c.CassandraConfig == "" {
		return nil, "", nil
	}
	path = c.CassandraConfig
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		path = filepath.Join(path, "cassandra.yaml")
	}
	content, err = os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, "", nil
	}
	return content, path, err
}

// write replaces a file where its content is another. Only the pod's one user
// reads it: the address in it holds the snapshot server's secret path.
func (c Config) write(path, text string) error {
	if old, err := os.ReadFile(path); err == nil && bytes.Equal(old, []byte(text)) {
		return nil
	}
	if err := files.Write(path, []byte(text), 0o600, c.Owner); err != nil {
		return err
	}
	c.Log.Info("wrote", "file", path)
	return nil
}
