package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"

	"github.com/spf13/cobra"

	"github.com/stategraft/stategraft/agent/anna/serve"
	"github.com/stategraft/stategraft/agent/anna/setup"
	"github.com/stategraft/stategraft/agent/event"
)

// setupPod prepares the pod's processes. Where it fails they could not start either: why is
// the container's last word.
func setupPod(*cobra.Command, []string) error {
	log, secrets := logger("setup")
	ctx, cancel := signals()
	defer cancel()
	if err := prepare(ctx, log); err != nil {
		text := secrets.Hide(err.Error())
		log.Error(text)
		event.Terminate(rooted("/dev/termination-log"), text)
		os.Exit(1)
	}
	return nil
}

func prepare(ctx context.Context, log *slog.Logger) error {
	s, err := setup.FromEnvironment(os.Getenv, log)
	if err != nil {
		return fmt.Errorf("the container's environment is wrong: %w", err)
	}
	s.Config, s.Info = configDir(), rooted(setup.DirInfo)
	// Before it is read: what changes in between is noticed.
	if err := serve.NoteConfig(places(), s.Config); err != nil {
		log.Warn("what the database is started with cannot be written down: that it changes is noticed late", "error", err.Error())
	}
	if err := s.Run(ctx); err != nil {
		return err
	}
	c, _ := serveConfig(log, nil)
	if dir := rendered(s); dir != "" {
		c.Conf = dir
	}
	if asked := os.Getenv("STATEGRAFT_BACKUP") + os.Getenv("STATEGRAFT_RESTORE_ID"); asked != "" {
		return nil // the peers' keys are not to come back
	}
	c.Resolver = net.DefaultResolver
	keys, err := serve.SaveKeys(ctx, c)
	switch {
	case errors.Is(err, context.Canceled):
		return err
	case errors.Is(err, serve.ErrNothingToSave):
	case err != nil:
		log.Warn("the keys that a join hides could not be saved: the node starts all the same; if keys are missed, kubectl stategraft repair writes them again from a backup", "error", err.Error())
	default:
		log.Info("saved the keys of the node's tier, of which it writes those again that are its own when it has joined", "keys", keys)
	}
	return nil
}

// rendered is the directory of the file that was written for the data node.
func rendered(s *setup.Setup) string {
	for _, r := range s.Renders {
		if r.Kind == setup.KindAnna {
			return r.Dir
		}
	}
	return ""
}
