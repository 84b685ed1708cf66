package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/stategraft/stategraft/test/cluster"
)

// detach runs `rig up` in the background and returns once its control plane
// works. That process stays: it is the parent of the servers, and `rig down`
// asks it to stop.
func detach(ctx context.Context, dir string, node bool) error {
	// Here, so that its progress is seen.
	programs, args := cluster.ControlPlanePrograms(), []string{"up", "--dir", dir}
	if node {
		programs, args = append(programs, cluster.NodePrograms()...), append(args, "--node")
	}
	if _, err := cluster.Build(ctx, os.Stderr, programs...); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("finding this program's own path: %w", err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("making the state folder: %w", err)
	}
	logPath := filepath.Join(dir, "rig.log")
	log, err := os.Create(logPath)
	if err != nil {
		return fmt.Errorf("opening the log: %w", err)
	}
	defer log.Close()

	child := exec.Command(self, args...)
	child.Stderr = log
	child.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // closing the terminal does not end it
	stdout, err := child.StdoutPipe()
	if err != nil {
		return fmt.Errorf("making a pipe: %w", err)
	}
	if err := child.Start(); err != nil {
		return fmt.Errorf("starting the background process: %w", err)
	}
	// Ends with the line, or with the child.
	line := make(chan string, 1)
	go func() {
		text, _ := bufio.NewReader(stdout).ReadString('\n')
		line <- text
	}()
	select {
	case text := <-line:
		if text != "" {
			fmt.Print(text)
			return nil
		}
	case <-ctx.Done():
		_ = child.Process.Signal(syscall.SIGTERM)
	}
	waited := child.Wait()
	said, _ := os.ReadFile(logPath)
	return fmt.Errorf("the background process did not start a control plane (%v): %s", waited, strings.TrimSpace(string(said)))
}
