package main

import (
	"errors"
	"os"

	"github.com/spf13/cobra"

	"github.com/stategraft/stategraft/agent/event"
	"github.com/stategraft/stategraft/agent/process"
)

// annaCommand holds what the containers of Anna and Cloudburst call (patches/kvs.go).
// This version backs neither up. It says so, and keeps the two promises that
// hold without that: the node starts, and a restore that was asked for is not
// passed over.
func annaCommand() *cobra.Command {
	anna := &cobra.Command{Use: "anna", Short: "Stands beside Anna and Cloudburst; without backup in this version"}
	anna.AddCommand(
		&cobra.Command{Use: "setup", Short: "Let the node start", Args: cobra.NoArgs, RunE: annaSetup},
		&cobra.Command{Use: "serve", Short: "Stay up, degraded", Args: cobra.NoArgs, RunE: annaServe},
		&cobra.Command{Use: "restore", Short: "Refuse: this version cannot restore Anna", Args: cobra.NoArgs, RunE: annaRestore},
	)
	return anna
}

func annaSetup(*cobra.Command, []string) error {
	log, _ := logger("anna")
	log.Info("nothing is prepared: this version leaves Anna's configuration to the pod's own commands")
	return nil
}

func annaServe(*cobra.Command, []string) error {
	log, _ := logger("anna")
	ctx, cancel := signals()
	defer cancel()
	process.Reap()
	log.Warn("degraded: this version has no backup of Anna")
	<-ctx.Done()
	return nil
}

func annaRestore(*cobra.Command, []string) error {
	log, _ := logger("anna")
	err := errors.New("this version cannot restore Anna; take the annotation stategraft.io/restore off to start without the restore")
	log.Error(err.Error(), "backup", os.Getenv("STATEGRAFT_BACKUP"))
	event.Terminate(terminationLog(), err.Error())
	return err
}
