package serve

import (
	"context"
	"fmt"
	"strings"

	"github.com/stategraft/stategraft/agent/anna/config"
	"github.com/stategraft/stategraft/api/node"
)

// Beside a node that was started without us backups are all that is done. Whether it joins
// and leaves well, who tells routing of it, whether it is to hand its keys over: all that is
// arranged by those who started it, and to do it a second time would do harm. Nor is what is
// known of its ConfigMap what it was started with.

// adopted is the configuration of such a sidecar.
func (c Config) adopted() Config {
	c.LifePort, c.TidyAfter = 0, 0
	return c
}

// decline answers who asks for a replay, which writes to the cluster, with one that has
// failed: so it is over at once for those who wait for it, and they are told why.
func (r *replays) decline(_ context.Context, q node.ReplayRequest) (node.Replay, error) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if last := r.state.Last; last != nil && last.ID == q.ID {
		return *last, nil
	}
	r.state.Last = &node.Replay{ID: q.ID, Backup: q.Backup, Phase: node.ReplayFailed, Started: now(), Ended: now(),
		Message: "pod " + r.Pod.Name + " was adopted while it ran, and is only backed up: no keys are written from here. Delete it, which has it created anew and injected, and ask again"}
	r.Log.Warn("a replay is declined", "id", q.ID, "backup", q.Backup, "why", r.state.Last.Message)
	return *r.state.Last, nil
}

// recognise finds out what the node is called, before somebody asks for a backup: where that
// cannot be known the cluster that was found may be another's, and what is missing is told.
func (a *anna) recognise(ctx context.Context) {
	a.mutex.Lock()
	skip, routing := a.known || a.client == nil, a.routing
	a.mutex.Unlock()
	if skip {
		return
	}
	self, err := a.self(ctx)
	a.mutex.Lock()
	defer a.mutex.Unlock()
	if err == nil {
		a.known, a.doubt = true, nil
		a.Log.Info("the node is known", "private", self.Private, "public", self.Public)
		return
	}
	err = fmt.Errorf("it cannot be found out what this node is called: its file %s cannot be seen, and of the cluster that routing nodes %s serve: %w; where that is another cluster, name the Services of the right one in section %s.services of the ConfigMap in annotation stategraft.io/config-map",
		config.File, strings.Join(routing, ", "), err, config.SectionOptions)
	if ctx.Err() == nil && (a.doubt == nil || a.doubt.Error() != err.Error()) {
		a.Log.Warn("degraded: no backups: the node cannot be recognised yet", "error", err.Error())
	}
	a.doubt = err
}

// Busy tells whether something is done that is better ended before the sidecar is.
func (s Sidecar) Busy() bool {
	return s.turn != nil && (s.turn.backup() != nil || s.turn.busy() != "")
}

// Hold keeps anything else from being begun, for good: who asks hears that the node is busy.
// It is false while something goes on.
func (s Sidecar) Hold() bool {
	if s.turn == nil || s.turn.is(aTakeOver) {
		return true
	}
	_, err := s.turn.take(aTakeOver, "")
	return err == nil
}
