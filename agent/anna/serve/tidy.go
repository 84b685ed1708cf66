package serve

import (
	"context"
	"time"

	"github.com/stategraft/stategraft/agent/anna/membership"
	"github.com/stategraft/stategraft/agent/anna/stage"
	"github.com/stategraft/stategraft/agent/anna/wire"
	"github.com/stategraft/stategraft/api/node"
)

// tidyPoll is how often is looked at what is kept.
const tidyPoll = 15 * time.Second

// tidy removes the disk tier's data from before a restore, when the node has served for
// TidyAfter without a break since this sidecar started, with all keys written again; and
// what was kept only because there was room, when there is none left.
func (s *server) tidy(ctx context.Context) {
	if s.TidyAfter <= 0 || s.Pod.DataDirectory == "" {
		<-ctx.Done()
		return
	}
	poll := tidyPoll
	if s.every > 0 {
		poll = s.every
	}
	var since time.Time
	said := ""
	for {
		if kept, err := stage.Previous(s.Pod.DataDirectory); err != nil || len(kept) > 0 {
			switch {
			case !s.settled(ctx):
				since = time.Time{}
			case since.IsZero():
				since = time.Now()
			}
			if err == nil {
				err = stage.Tidy(s.Pod.DataDirectory, !since.IsZero() && time.Since(since) >= s.TidyAfter, s.Log)
			}
			if err != nil && err.Error() != said {
				said = err.Error()
				s.Log.Warn("the data from before a restore stay on the volume", "error", said)
			}
		}
		if !wait(ctx, poll) {
			return
		}
	}
}

// settled tells that the node serves, and that no replay is under way or has failed: then
// somebody may want to go back.
func (s *server) settled(ctx context.Context) bool {
	if last := s.replays.last(); last != nil && last.Phase != node.ReplayDone {
		return false
	}
	return membership.Listens(ctx, s.anna.Local, wire.PortRequest)
}
