package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/stategraft/stategraft/agent/anna/management"
	"github.com/stategraft/stategraft/agent/anna/serve"
	"github.com/stategraft/stategraft/agent/anna/stage"
	"github.com/stategraft/stategraft/agent/event"
	"github.com/stategraft/stategraft/agent/process"
)

// serveNode stays up whatever is wrong: the pod must not become unready for it.
func serveNode(*cobra.Command, []string) error {
	log, secrets := logger("anna")
	ctx, cancel := signals()
	defer cancel()
	process.Reap()
	c, wrong := serveConfig(log, secrets)
	for _, err := range wrong {
		log.Error("degraded: the container's environment is wrong", "error", err.Error())
	}
	serve.Run(ctx, c)
	return nil
}

// restore ends with an error where the backup cannot be staged: the node must not start
// without it.
func restore(*cobra.Command, []string) error {
	log, secrets := logger("restore")
	ctx, cancel := signals()
	defer cancel()
	if code := stage.Command(ctx, secrets, log); code != 0 {
		os.Exit(code)
	}
	return nil
}

// manage ends with an error: its Deployment starts it again.
func manage(*cobra.Command, []string) error {
	log, secrets := logger("management")
	ctx, cancel := signals()
	defer cancel()
	e, err := management.FromEnvironment(os.Getenv)
	if err == nil {
		err = management.Run(ctx, e, log)
	}
	if err != nil {
		text := secrets.Hide(err.Error())
		log.Error(text)
		event.Terminate(rooted("/dev/termination-log"), text)
		os.Exit(1)
	}
	return nil
}

// status prints what the sidecar tells on its life port, for kubectl exec.
func status(command *cobra.Command, _ []string) error {
	port, err := number("STATEGRAFT_LIFE_PORT")
	if err != nil {
		return err
	}
	if port == 0 {
		return fmt.Errorf("this container serves nothing (STATEGRAFT_LIFE_PORT is empty): ask in container stategraft-agent")
	}
	client := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{Proxy: nil}}
	answer, err := client.Get("http://" + net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) + serve.PathMetrics)
	if err != nil {
		return fmt.Errorf("ask the sidecar: %w", err)
	}
	defer answer.Body.Close()
	if _, err := io.Copy(command.OutOrStdout(), answer.Body); err != nil {
		return fmt.Errorf("read the sidecar's answer: %w", err)
	}
	return nil
}
