package main

import (
	"fmt"
	"os"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/stategraft/stategraft/agent/event"
)

// adoptedAnnaCommand is what the container calls that is added to a node of Anna's that runs
// (patches/adopt_kvs.go). It becomes the program beside this one.
func adoptedAnnaCommand() *cobra.Command {
	return &cobra.Command{
		Use: "anna", Short: "Back up a node of Anna's that was started without us: becomes " + annaProgram, Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			path, err := findAnna()
			if err == nil {
				err = syscall.Exec(path, []string{path, "adopted"}, os.Environ())
				err = fmt.Errorf("run %s: %w", path, err)
			}
			// The pod is Ready all the same; that it has ended, and why, is what is seen. The
			// root is one of this container's own, and not where the message is read.
			log, _ := logger("anna")
			log.Error(err.Error())
			event.Terminate("/dev/termination-log", err.Error())
			return err
		},
	}
}
