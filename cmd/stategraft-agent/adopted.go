package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/stategraft/stategraft/agent/adopted"
	"github.com/stategraft/stategraft/agent/event"
	"github.com/stategraft/stategraft/agent/files"
	"github.com/stategraft/stategraft/agent/medusa"
	"github.com/stategraft/stategraft/agent/pod"
	"github.com/stategraft/stategraft/agent/process"
	"github.com/stategraft/stategraft/agent/supervise"
)

// adoptedCommand holds what the containers call that are added to a pod that runs
// (patches.Adopt). None of them is started again: one that ends is missed until the
// controllers add another, of which a pod cannot have many. So they stay, degraded, where
// something is wrong, and end where a newer one has come, with status 0.
func adoptedCommand() *cobra.Command {
	command := &cobra.Command{Use: "adopted", Short: "Works in a container that was added to a pod that runs"}
	command.AddCommand(
		&cobra.Command{Use: "install", Short: "Bring the agent's binary to the pod's volume until it was taken", Args: cobra.NoArgs, RunE: adoptedInstall},
		&cobra.Command{Use: "medusa", Short: "Serve Medusa's gRPC API and keep it running", Args: cobra.NoArgs, RunE: adoptedMedusa},
		&cobra.Command{Use: "snapshot", Short: "Take and clear snapshots for Medusa by nodetool", Args: cobra.NoArgs, RunE: adoptedSnapshot},
		adoptedAnnaCommand(),
	)
	return command
}

// adoptive is a container of an adopted pod: what all of them do.
type adoptive struct {
	role    string
	env     adopted.Environment
	log     *slog.Logger
	secrets *event.Secrets
	newer   bool // after run: it has ended as a newer one has come
}

// begin reads what the container is told and keeps it small. Of what has gone wrong by
// then, wrong is what it cannot work with.
func begin(role, part string) (a *adoptive, wrong error) {
	a = &adoptive{role: role}
	a.log, a.secrets = logger(part)
	a.env, wrong = adopted.Read()
	if err := adopted.Place(os.Getenv("STATEGRAFT_ROOT"), a.secrets); err != nil {
		a.log.Error("not all of the configuration could be written", "error", err.Error())
	}
	// What is below runs in a program that has none of the secrets in its environment.
	if err := adopted.Bound(a.env.Memory); err != nil {
		a.log.Warn("the container is not bounded in all respects", "error", err.Error())
	}
	a.discard()
	a.log.Info("adopted", "container", fmt.Sprintf("stategraft-%s-%d", role, a.env.Number), "bounds", adopted.Bounds())
	return a, wrong
}

// discard removes the copy of the agent that the container has taken and now runs: on the
// node's disk it would count towards what the pod may have there, and stay, when the
// container has ended, for as long as the pod lives.
func (a *adoptive) discard() {
	own, err := os.Executable()
	if err != nil || a.role == adopted.RoleAgent || filepath.Base(own) != adopted.Binary {
		return
	}
	if dir := filepath.Dir(own); dir != "/tmp" && dir != os.TempDir() { // patches, takeAndRun
		return
	}
	if err := os.Remove(own); err != nil {
		a.log.Warn("the copy of the agent stays", "error", err.Error())
	}
}

// run has the container serve when its turn has come, until it is asked to end or a newer
// one comes. Work ends with its context.
func (a *adoptive) run(wrong error, seat adopted.Seat, work func(context.Context)) error {
	ctx, cancel := signals()
	defer cancel()
	process.Reap()
	if wrong != nil {
		a.log.Error("degraded: the container's environment is wrong", "error", wrong.Error())
		<-ctx.Done()
		return nil
	}
	seat.PodUID, seat.Role, seat.Number, seat.Log = a.env.PodUID, a.role, a.env.Number, a.log
	left, err := adopted.Own(ctx, seat)
	if err != nil {
		a.log.Info("nothing to do", "reason", err.Error())
		a.newer = errors.Is(err, adopted.ErrNewer)
		return nil
	}
	ctx, leave := context.WithCancel(ctx)
	defer leave()
	go func() {
		select {
		case <-left:
			leave()
		case <-ctx.Done():
		}
	}()
	work(ctx)
	select {
	case <-left:
		a.newer = true
	default:
	}
	return nil
}

func adoptedInstall(*cobra.Command, []string) error {
	a, wrong := begin(adopted.RoleAgent, "agent")
	done := false
	err := a.run(wrong, adopted.Seat{}, func(ctx context.Context) {
		err := adopted.Install(ctx, a.env.Dir, a.env.PodUID, a.env.Takers, a.log)
		done = err == nil
		if err != nil && ctx.Err() == nil {
			a.log.Error("degraded: the agent's binary is not brought", "error", err.Error())
			<-ctx.Done()
		}
	})
	if err == nil && !done && !a.newer {
		// Status 0 would say that all have it, and nobody would bring it to who waits.
		err = errors.New("asked to end before all had taken the agent's binary")
	}
	return err
}

func adoptedMedusa(*cobra.Command, []string) error {
	a, wrong := begin(adopted.RoleMedusa, "medusa")
	config, err := podConfig(a.log)
	wrong = errors.Join(wrong, err)
	config.Alone = true
	held := make(chan func(), 1) // which keeps it, until the process ends
	seat := adopted.Seat{
		Busy: func() bool { _, busy := medusa.Running(private(), medusa.BackupMarker); return busy },
		Hold: func() bool {
			release, err := medusa.Hold(private(), medusa.BackupMarker)
			if err == nil {
				held <- release
			}
			return !errors.Is(err, medusa.ErrBusy)
		},
	}
	return a.run(wrong, seat, func(ctx context.Context) {
		pressure := adopted.NewPressure(a.env.Memory, a.log)
		config.Log, _ = logger("agent")
		go pod.Run(ctx, config)
		awaitAgent(ctx, config.Places)
		serveMedusa(ctx, a.log, a.secrets, func(c *supervise.Config) {
			c.Halt = pressure.Halt
			c.Prepare = prepareAdopted(config.Places, pressure, c.Prepare)
		})
	})
}

// prepareAdopted tells what else Medusa waits for, before what it waits for everywhere.
func prepareAdopted(places files.Places, pressure *adopted.Pressure, prepare func() (process.Spec, error)) func() (process.Spec, error) {
	return func() (process.Spec, error) {
		if err := pressure.Wait(); err != nil {
			return process.Spec{}, err
		}
		if err := configured(places); err != nil {
			return process.Spec{}, err
		}
		if image, err := medusa.Find(medusa.Home, os.Getenv("STATEGRAFT_MEDUSA_PYTHON")); err == nil {
			if err := servesBelowRoot(image); err != nil {
				return process.Spec{}, err
			}
		}
		return prepare()
	}
}

// servesBelowRoot tells whether an image's Medusa can be given a configuration below
// STATEGRAFT_ROOT: its own entry point reads the one in /etc/medusa, which is mounted in
// injected pods alone.
func servesBelowRoot(image medusa.Image) error {
	if image.Wrapped() || os.Getenv("STATEGRAFT_ROOT") == "" {
		return nil
	}
	return fmt.Errorf("%w that can be added to a pod that runs: its Python, .venv/bin/python in %s, cannot be run; take another image (annotation stategraft.io/medusa-image)", medusa.ErrNone, image.Home)
}

// awaitAgent waits a moment for the first look at the configuration, so that nothing is
// said to be missing that is there.
func awaitAgent(ctx context.Context, places files.Places) {
	for range 200 {
		if _, err := os.Stat(places.State("agent")); err == nil || ctx.Err() != nil {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// configured tells why there is no medusa.ini yet: of an injected pod another container
// says so.
func configured(places files.Places) error {
	if _, err := os.Stat(places.Ini()); err == nil {
		return nil
	}
	content, err := os.ReadFile(places.State("agent"))
	var state pod.State
	if err != nil || json.Unmarshal(content, &state) != nil || len(state.Problems) == 0 {
		return errors.New("the configuration is not written yet")
	}
	return errors.New(strings.Join(state.Problems, "; "))
}

func adoptedSnapshot(*cobra.Command, []string) error {
	a, wrong := begin(adopted.RoleSnapshot, "snapshot")
	busy := func() bool { return adopted.Busy(context.Background(), a.env.PodUID, adopted.RoleMedusa) }
	return a.run(wrong, adopted.Seat{Busy: busy}, func(ctx context.Context) {
		serveSnapshots(ctx, a.log, a.secrets, busy)
	})
}
