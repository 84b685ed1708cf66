package serve

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/stategraft/stategraft/agent/anna/config"
	"github.com/stategraft/stategraft/agent/anna/safejoin"
	"github.com/stategraft/stategraft/agent/anna/stage"
)

// ErrNothingToSave says that there was nothing to save, or nothing that should be: no
// reason to worry.
var ErrNothingToSave = safejoin.ErrNothing

// saveLimit is for all of it: the node waits meanwhile.
const saveLimit = 2*time.Minute + 30*time.Second

// SaveKeys copies the keys of the node's tier from those who have them before the node
// joins; the sidecar writes those that become the node's again then (package safejoin).
// The setup container calls it, when the node's file is written.
func SaveKeys(ctx context.Context, c Config) (keys int64, err error) {
	if !c.holdsData() || c.Conf == "" {
		return 0, ErrNothingToSave
	}
	if err := os.RemoveAll(Saved(c.Places)); err != nil {
		return 0, fmt.Errorf("remove what was saved before: %w", err)
	}
	staged, err := stage.All(Staged(c.Places))
	if err != nil || len(staged) > 0 {
		return 0, ErrNothingToSave // a restore is under way
	}
	a := newAnna(c)
	if !a.config().Options.SafeJoin {
		return 0, ErrNothingToSave
	}
	self, err := config.Self(c.Conf)
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, saveLimit, fmt.Errorf("not within %v", saveLimit))
	defer cancel()
	routing, err := a.routingHosts(ctx)
	if err != nil {
		return 0, err
	}
	client, err := newClient(ctx, c, a.config(), a.effective(), routing)
	if err != nil {
		return 0, err
	}
	defer client.Close()
	panicked := guarded(func() {
		keys, err = safejoin.Save(ctx, safejoin.Options{
			Client: client, Dir: Saved(c.Places), Self: self, Tier: a.tier(), Period: c.period, Log: c.Log,
			// With copies elsewhere a node that comes back has something to get from the others.
			Again: a.replicas() > 1,
		})
	})
	if panicked != nil {
		err = panicked
	}
	if err != nil && keys == 0 {
		_ = os.RemoveAll(Saved(c.Places)) // some keys are better than none
	}
	return keys, err
}
