package main

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/stategraft/stategraft/agent/event"
	"github.com/stategraft/stategraft/agent/process"
)

// annaProgram is the part of the agent that stands beside Anna and Cloudburst
// (cmd/stategraft-anna). It is a program of its own because it brings the clients of the
// object storages along, and lies beside this one in the agent's image only: the
// containers of Anna's pods have that image.
const annaProgram = "stategraft-anna"

// annaPlace is where the image has it.
const annaPlace = "/usr/local/bin/" + annaProgram

// annaCommand holds what the containers of Anna and Cloudburst call (patches/kvs.go). It
// becomes the other program, with the same arguments.
func annaCommand() *cobra.Command {
	return &cobra.Command{
		Use:                "anna",
		Short:              "Stands beside Anna and Cloudburst: becomes " + annaProgram,
		DisableFlagParsing: true,
		RunE:               func(_ *cobra.Command, args []string) error { return becomeAnna(args) },
	}
}

// becomeAnna ends only if it fails. What belongs to a running pod stays up then, and what
// stands before a database ends with an error that is read there.
func becomeAnna(args []string) error {
	path, err := findAnna()
	if err == nil {
		err = syscall.Exec(path, append([]string{path}, args...), os.Environ())
		err = fmt.Errorf("run %s: %w", path, err)
	}
	log, _ := logger("anna")
	if len(args) > 0 && args[0] == "serve" {
		ctx, cancel := signals()
		defer cancel()
		process.Reap()
		log.Error("degraded: nothing is backed up", "error", err.Error())
		<-ctx.Done()
		return nil
	}
	log.Error(err.Error())
	event.Terminate(terminationLog(), err.Error())
	return err
}

// findAnna finds the program: beside this one, or where the image has it.
func findAnna() (string, error) {
	places := []string{annaPlace}
	if own, err := os.Executable(); err == nil {
		places = append([]string{filepath.Join(filepath.Dir(own), annaProgram)}, places...)
	}
	for _, path := range places {
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return path, nil
		}
	}
	return "", fmt.Errorf("this image has no %s (looked at %q): name an agent image of this version in the annotation stategraft.io/agent-image", annaProgram, places)
}
