package main

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/stategraft/stategraft/agent/event"
	"github.com/stategraft/stategraft/agent/process"
	"github.com/stategraft/stategraft/agent/verify"
)

func verifyCommand() *cobra.Command {
	return &cobra.Command{Use: "verify", Short: "Check what was restored on trial, in the database's image", Args: cobra.NoArgs, RunE: verifyOnce}
}

// verifyOnce leaves the result as termination message, whether good or bad. It fails
// only where it could not look, and is then started again.
func verifyOnce(*cobra.Command, []string) error {
	log, _ := logger("verify")
	ctx, cancel := signals()
	defer cancel()
	process.Reap()
	yield()
	c := verify.Config{
		Node:          os.Getenv("STATEGRAFT_VERIFY_NODE"),
		DataMount:     os.Getenv("STATEGRAFT_DATA_MOUNT"),
		DataDirectory: os.Getenv("STATEGRAFT_DATA_DIRECTORY"),
		Contents:      os.Getenv("STATEGRAFT_CONTENTS_FILE"),
		Temp:          filepath.Join(os.Getenv("STATEGRAFT_ROOT")+"/tmp", "stategraft-verify"),
		Env:           os.Getenv, Root: os.Getenv("STATEGRAFT_ROOT"), Log: log,
	}
	began := time.Now()
	heap, err := number("STATEGRAFT_VERIFY_HEAP")
	c.Heap = heap
	if err == nil {
		err = os.MkdirAll(c.Temp, 0o700)
	}
	if err == nil {
		v, failed := verify.Run(ctx, c)
		if failed == nil {
			log.Info("done", "seconds", time.Since(began).Seconds(), "result", v)
			event.Terminate(terminationLog(), v.Encode())
			return nil
		}
		err = failed
	}
	log.Error(err.Error())
	event.Terminate(terminationLog(), "the restored data cannot be looked at: "+err.Error())
	return err
}

// yield lets everything else on the machine go first. Priorities are of threads, and
// those that come later, and programs, take them from the one that starts them: once
// all are low, they stay so.
func yield() {
	const tries = 100
	for range tries {
		if low, err := lower(); low || err != nil {
			return
		}
	}
}

// lower lowers the priority of all threads there are, and tells whether it was low
// before.
func lower() (bool, error) {
	const (
		lowest = 19
		kernel = 20 // what the kernel's answer is less than: 1 is the lowest
	)
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return false, err
	}
	low := true
	for _, task := range tasks {
		id, err := strconv.Atoi(task.Name())
		if err != nil {
			continue
		}
		if was, err := syscall.Getpriority(syscall.PRIO_PROCESS, id); err == nil && kernel-was != lowest {
			low = false
			if err := syscall.Setpriority(syscall.PRIO_PROCESS, id, lowest); err != nil && !errors.Is(err, syscall.ESRCH) {
				return false, err
			}
		}
	}
	return low, nil
}
