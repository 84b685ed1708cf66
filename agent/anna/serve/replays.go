package serve

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/stategraft/stategraft/agent/anna/stage"
	"github.com/stategraft/stategraft/agent/files"
	"github.com/stategraft/stategraft/agent/nodeserver"
	"github.com/stategraft/stategraft/api/node"
)

// replaying is what is done with the node for a replay.
type replaying interface {
	replay(ctx context.Context, s stage.Staged, tell func(node.Replay)) error
	// heal writes what a join of this node has hidden (package safejoin). Where nothing is
	// to be healed it ends at once.
	heal(ctx context.Context, tell func(node.Replay)) error
}

// replays are what is to be written to the cluster again: what the restore container has
// staged, and what the controllers ask for in the running cluster. One is done after the
// other, and goes on after a new start of the sidecar.
type replays struct {
	*server
	path string // of the state, on the pod's emptyDir
	wake chan struct{}

	mutex sync.Mutex
	state replayState
}

// replayState is what a sidecar that is started anew has to know.
type replayState struct {
	// Request is what the controllers have asked for and is not over; nil for none.
	Request *node.ReplayRequest `json:"request,omitempty"`
	Last    *node.Replay        `json:"last,omitempty"`
	// Since is when what Last is about was staged: the same id staged anew, as after the
	// node of the pod was started anew, is replayed anew.
	Since time.Time   `json:"since,omitzero"`
	Done  []node.Done `json:"done,omitempty"`
}

// remembered is how many replays that are done are.
const remembered = 50

func newReplays(s *server) *replays {
	r := &replays{server: s, path: filepath.Join(dir(s.Places), "replay.json"), wake: make(chan struct{}, 1)}
	if err := readJSON(r.path, &r.state); err != nil {
		s.Log.Warn("what was replayed before cannot be read", "error", err.Error())
	}
	// Who asks at once is to hear of it.
	for _, staged := range r.staged() {
		r.state.Last, r.state.Since = waitingFor(staged), staged.Since
	}
	return r
}

// readJSON reads a file that may not be there.
func readJSON(path string, into any) error {
	content, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = json.Unmarshal(content, into)
	}
	if err != nil {
		return fmt.Errorf("read %s: %w", filepath.Base(path), err)
	}
	return nil
}

func waitingFor(s stage.Staged) *node.Replay {
	return &node.Replay{ID: s.ID, Backup: s.Backup, Phase: node.ReplayWaiting, Total: s.Keys, Started: now()}
}

func now() time.Time { return time.Now().UTC().Truncate(time.Second) }

// last is how far the last one is; nil where there was none.
func (r *replays) last() *node.Replay {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if r.state.Last == nil {
		return nil
	}
	last := *r.state.Last
	return &last
}

// done are the replays of this pod that are done.
func (r *replays) done() []node.Done {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return slices.Clone(r.state.Done)
}

// staged is what waits to be replayed. What is done and was not removed any more is.
func (r *replays) staged() (todo []stage.Staged) {
	all, err := stage.All(Staged(r.Places))
	if err != nil {
		r.Log.Error("what is staged cannot be read", "error", err.Error())
	}
	for _, s := range all {
		r.mutex.Lock()
		last, since := r.state.Last, r.state.Since
		r.mutex.Unlock()
		if last != nil && last.ID == s.ID && last.Phase == node.ReplayDone && since.Equal(s.Since) {
			if err := s.Remove(); err != nil {
				r.Log.Warn("what was replayed cannot be removed", "directory", s.Dir, "error", err.Error())
			}
			continue
		}
		todo = append(todo, s)
	}
	slices.SortStableFunc(todo, func(a, b stage.Staged) int { return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.ID, b.ID)) })
	return todo
}

func (r *replays) remove(s stage.Staged) {
	if err := os.RemoveAll(s.Dir); err != nil {
		r.Log.Warn("what was replayed cannot be removed", "directory", s.Dir, "error", err.Error())
	}
}

// ask takes a request of the controllers. Asked again it is the same replay.
func (r *replays) ask(_ context.Context, q node.ReplayRequest) (node.Replay, error) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	last := r.state.Last
	over := last == nil || last.Phase == node.ReplayDone || last.Phase == node.ReplayFailed
	switch {
	case last != nil && last.ID == q.ID:
		return *last, nil
	case r.state.Request != nil && r.state.Request.ID == q.ID:
		return node.Replay{ID: q.ID, Backup: q.Backup, Phase: node.ReplayStaging}, nil
	case !over || r.state.Request != nil:
		other := ""
		if last != nil {
			other = last.ID
		}
		return node.Replay{}, fmt.Errorf("%w: replay %s goes on", nodeserver.ErrKept, other)
	}
	if _, err := r.shelf.current(); err != nil {
		return node.Replay{}, err
	}
	r.state.Request = &q
	r.state.Last = &node.Replay{ID: q.ID, Backup: q.Backup, Phase: node.ReplayStaging, Started: now()}
	r.state.Since = time.Time{}
	if err := r.write(); err != nil {
		r.state.Request, r.state.Last = nil, last
		return node.Replay{}, err
	}
	r.Log.Info("a replay is asked for", "id", q.ID, "backup", q.Backup, "sources", q.Sources)
	select {
	case r.wake <- struct{}{}:
	default:
	}
	return *r.state.Last, nil
}

// write writes the state down. The mutex is held.
func (r *replays) write() error {
	if err := files.MakeDir(filepath.Dir(r.path), 0o755, files.Owner{}); err != nil {
		return err
	}
	return files.WriteJSON(r.path, r.state, 0o644, files.Owner{})
}

// tell takes over how far a replay is. Its ends are written down.
func (r *replays) tell(p node.Replay) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	last := r.state.Last
	if last != nil && last.ID == p.ID && !last.Started.IsZero() {
		p.Started = last.Started
	}
	changed := last == nil || last.ID != p.ID || last.Phase != p.Phase
	r.state.Last = &p
	if changed {
		if err := r.write(); err != nil {
			r.Log.Warn("how far a replay is cannot be written down", "error", err.Error())
		}
	}
}

// run replays what there is, and then what is asked for.
func (r *replays) run(ctx context.Context) {
	todo := r.staged()
	for _, s := range todo {
		r.restore(ctx, s)
	}
	if len(todo) > 0 {
		// What peers had before a restore is not to come back.
		if err := os.RemoveAll(Saved(r.Places)); err != nil {
			r.Log.Warn("the keys of peers cannot be removed", "error", err.Error())
		}
	} else {
		r.healed(ctx)
	}
	for ctx.Err() == nil {
		r.mutex.Lock()
		request := r.state.Request
		r.mutex.Unlock()
		if request != nil {
			r.merge(ctx, *request)
			continue
		}
		select {
		case <-r.wake:
		case <-ctx.Done():
		}
	}
}
