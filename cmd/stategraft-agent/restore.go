package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/stategraft/stategraft/agent/event"
	"github.com/stategraft/stategraft/agent/files"
	"github.com/stategraft/stategraft/agent/medusa"
	"github.com/stategraft/stategraft/agent/nodeserver"
	"github.com/stategraft/stategraft/agent/pod"
	"github.com/stategraft/stategraft/agent/restore"
	"github.com/stategraft/stategraft/api/node"
)

// envRestoreID is api/v1alpha1.EnvRestoreID; that package would make the agent a
// fifth larger.
const envRestoreID = "STATEGRAFT_RESTORE_ID"

// setup prepares what the restore container needs. What goes back to kept data, or
// leaves none, does without Medusa's configuration.
func setup(*cobra.Command, []string) error {
	log, _ := logger("setup")
	c, err := podConfig(log)
	if err == nil {
		c.Bare = os.Getenv("STATEGRAFT_RESTORE_ACTION") != ""
		err = pod.Setup(c)
	}
	if err != nil {
		err = fmt.Errorf("the restore cannot be prepared: %w", err)
		log.Error(err.Error())
		event.Terminate(terminationLog(), err.Error())
		os.Exit(1)
	}
	return nil
}

func restoreOnce(*cobra.Command, []string) error {
	log, secrets := logger("restore")
	ctx, cancel := signals()
	defer cancel()
	c := restore.Config{
		Places:        places(),
		ID:            os.Getenv(envRestoreID),
		Action:        os.Getenv("STATEGRAFT_RESTORE_ACTION"),
		Backup:        os.Getenv("STATEGRAFT_BACKUP"),
		Source:        os.Getenv("STATEGRAFT_RESTORE_SOURCE"),
		Undo:          os.Getenv("STATEGRAFT_RESTORE_UNDO"),
		Mode:          os.Getenv("STATEGRAFT_RESTORE_MODE"),
		Prefix:        os.Getenv("STATEGRAFT_RESTORE_PREFIX"),
		Keep:          os.Getenv("STATEGRAFT_KEEP_PREVIOUS"),
		PodName:       os.Getenv("POD_NAME"),
		DataMount:     os.Getenv("STATEGRAFT_DATA_MOUNT"),
		DataDirectory: os.Getenv("STATEGRAFT_DATA_DIRECTORY"),
		Commitlog:     os.Getenv("STATEGRAFT_COMMITLOG_DIRECTORY"),
		SavedCaches:   os.Getenv("STATEGRAFT_SAVED_CACHES_DIRECTORY"),
		Temp:          os.Getenv("MEDUSA_TMP_DIR"),
		Private:       private(),
		ContentsFile:  os.Getenv("STATEGRAFT_CONTENTS_FILE"),
		PrecheckLimit: length("STATEGRAFT_PRECHECK_LIMIT", 10*time.Minute, log),
		Progress:      length("STATEGRAFT_PROGRESS", 30*time.Second, log),
		Secrets:       secrets, Log: log,
	}
	reporting, served := context.WithCancel(ctx)
	defer served()
	c.Tell = report(reporting, c.DataMount, c.First(), log)
	text, done, err := runRestore(ctx, c)
	if err != nil {
		text := secrets.Hide(err.Error())
		log.Error(text)
		event.Terminate(terminationLog(), node.Failure(text, restore.CauseOf(err)))
		os.Exit(1)
	}
	log.Info(text)
	event.Terminate(terminationLog(), outcome(secrets.Hide(text), done))
	return nil
}

// longestText is of a termination message's first line, in bytes: kubelet keeps 4096
// of the whole, and what was done is in its second.
const longestText = 1500

func outcome(text string, done node.Done) string {
	if len(text) > longestText {
		text = strings.ToValidUTF8(text[:longestText], "") + " …"
	}
	return node.Outcome(strings.ReplaceAll(text, "\n", " "), done)
}

func runRestore(ctx context.Context, c restore.Config) (string, node.Done, error) {
	if c.Temp == "" {
		c.Temp = c.DataMount
	}
	// A restore that is done needs no Medusa, so a missing one is told later.
	image, err := medusa.Find(medusa.Home, os.Getenv("STATEGRAFT_MEDUSA_PYTHON"))
	if err != nil {
		c.Log.Warn("no Medusa", "error", err.Error())
	}
	c.Image = image
	return restore.Run(ctx, c)
}

// report serves how far the restore is until the context ends, where the pod has a
// port for that. It gives the function that is to be told; until it is, the answer is
// the first: who cancels goes by it, and a container without a phase may be anywhere.
func report(ctx context.Context, mount string, first node.Progress, log *slog.Logger) func(node.Progress) {
	var mutex sync.Mutex
	last := &first
	port, err := number("STATEGRAFT_NODE_PORT")
	if err != nil || port == 0 {
		if err != nil {
			log.Warn("the progress is not served", "error", err.Error())
		}
		return func(node.Progress) {}
	}
	config := nodeserver.Config{Port: port, Log: log}
	if os.Getenv("STATEGRAFT_GRPC_TLS") != "off" {
		config.TLSDir = places().GRPCTLS
	}
	config.Report = func(context.Context) (node.Report, error) {
		r := node.Report{Node: nodeName()}
		var err error
		r.Size, r.Free, err = files.Room(mount)
		if err != nil {
			return r, err
		}
		// What the marker does not tell is left out: the restore says what is wrong.
		r.Done, _ = restore.Done(mount)
		r.Previous, _ = restore.Previous(mount)
		mutex.Lock()
		defer mutex.Unlock()
		r.Restore = last
		return r, nil
	}
	go nodeserver.Run(ctx, config)
	return func(p node.Progress) {
		mutex.Lock()
		defer mutex.Unlock()
		last = &p
	}
}

// nodeName is what Medusa takes for the node's name.
func nodeName() string {
	if name := os.Getenv("POD_IP"); name != "" {
		return name
	}
	return os.Getenv("POD_NAME")
}
