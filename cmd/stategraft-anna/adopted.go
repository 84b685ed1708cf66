package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stategraft/stategraft/agent/adopted"
	"github.com/stategraft/stategraft/agent/anna/serve"
	"github.com/stategraft/stategraft/agent/event"
	"github.com/stategraft/stategraft/agent/files"
	"github.com/stategraft/stategraft/agent/process"
)

// terminationLog is where kubelet reads a container's last message. Below STATEGRAFT_ROOT
// there is none: that is a directory of the container's own here.
const terminationLog = "/dev/termination-log"

// serveAdopted backs up a node that runs already, in a container that was added to its pod.
// It ends well when it is asked to, or a newer container takes over, and with an error where
// it can do nothing: the pod stays Ready, and another container follows.
func serveAdopted(*cobra.Command, []string) error {
	log, secrets := logger("anna")
	ctx, cancel := signals()
	defer cancel()
	if err := beside(ctx, log, secrets); err != nil {
		text := secrets.Hide(err.Error())
		log.Error(text)
		event.Terminate(terminationLog, text)
		os.Exit(1)
	}
	return nil
}

func beside(ctx context.Context, log *slog.Logger, secrets *event.Secrets) error {
	// First the files: what has them in variables is another process then.
	if err := adopted.Place(os.Getenv("STATEGRAFT_ROOT"), secrets); err != nil {
		log.Error("degraded: what the container was given cannot be written down", "error", secrets.Hide(err.Error()))
	}
	memory, err := number("STATEGRAFT_MEMORY")
	if err != nil {
		return err
	}
	if err := adopted.Bound(int64(memory)); err != nil {
		log.Warn("the container cannot be kept as small as it should be", "error", err.Error())
	}
	process.Reap()
	own, err := number("STATEGRAFT_ADOPTED")
	if err != nil {
		return err
	}
	c, wrong := adoptedConfig(log, secrets)
	for _, err := range wrong {
		log.Error("degraded: the container's environment is wrong", "error", err.Error())
	}
	if err := files.MakeDir(c.Places.Shared, 0o700, files.Owner{}); err != nil {
		return err
	}
	log.Info("backing up a node that was started without us", "number", own, "bounds", adopted.Bounds())
	return inTurn(ctx, adopted.Seat{PodUID: os.Getenv("POD_UID"), Role: adopted.RoleAgent, Number: own, Log: log}, c)
}

// inTurn runs the sidecar from when the container before has ended until a newer one wants
// to: they have the same ports, as whoever asks for backups knows the pod's only. What goes on
// is ended first, and nothing else begun.
func inTurn(ctx context.Context, seat adopted.Seat, c serve.Config) error {
	sidecar := serve.New(c)
	seat.Busy, seat.Hold = sidecar.Busy, sidecar.Hold
	left, err := adopted.Own(ctx, seat)
	switch {
	case errors.Is(err, adopted.ErrNewer):
		c.Log.Info("a newer container backs this node up: this one ends", "why", err.Error())
		return nil
	case ctx.Err() != nil:
		return nil
	case err != nil:
		return fmt.Errorf("take over from the container before: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-left:
			c.Log.Info("a newer container takes over: this one ends")
			cancel()
		case <-ctx.Done():
		}
	}()
	sidecar.Run(ctx)
	return nil
}

// adoptedConfig reads what patches/adopt_kvs.go tells. What is said of the node is on volumes
// of the pod, and not below the container's own root; what it was started with its process
// may show.
func adoptedConfig(log *slog.Logger, secrets *event.Secrets) (serve.Config, []error) {
	c, wrong := serveConfig(log, secrets)
	c.Adopted = true
	c.Conf = os.Getenv("STATEGRAFT_CONF_DIR")
	c.Node = serve.Started(c.Conf, "/proc", log)
	c.Routing = strings.Fields(os.Getenv("STATEGRAFT_NODE_ROUTING"))
	c.Local = c.Pod.IP // Anna binds every address of the pod's
	if _, err := os.Stat(c.Config); err != nil {
		c.Config = dirConfig // the pod's own volume, where there is one
	}
	return c, wrong
}
