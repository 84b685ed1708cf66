package main

import (
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"time"

	"github.com/stategraft/stategraft/agent/event"
	"github.com/stategraft/stategraft/agent/files"
	"github.com/stategraft/stategraft/agent/pod"
	"github.com/stategraft/stategraft/agent/render"
)

// terminationLog is where kubelet reads a container's last message.
func terminationLog() string { return os.Getenv("STATEGRAFT_ROOT") + "/dev/termination-log" }

// places are where the webhook mounts what containers share. STATEGRAFT_ROOT puts
// them somewhere else, to try the agent outside a pod.
func places() files.Places { return files.Standard(os.Getenv("STATEGRAFT_ROOT")) }

// logger makes the log of a part, with the secrets that must not be in it.
func logger(part string) (*slog.Logger, *event.Secrets) {
	secrets := &event.Secrets{}
	return event.New(os.Stdout, secrets, part), secrets
}

// number reads a variable that the webhook sets, or gives 0 where it is not set.
func number(name string) (int, error) {
	text := os.Getenv(name)
	if text == "" {
		return 0, nil
	}
	value, err := strconv.Atoi(text)
	if err != nil {
		return 0, fmt.Errorf("read %s: %w", name, err)
	}
	return value, nil
}

// length reads a duration, for those who know better than the default.
func length(name string, standard time.Duration, log *slog.Logger) time.Duration {
	text := os.Getenv(name)
	if text == "" {
		return standard
	}
	value, err := time.ParseDuration(text)
	if err != nil || value < 0 {
		log.Warn("a variable is no duration like 20s: the default is used", "name", name, "value", text, "default", standard.String())
		return standard
	}
	return value
}

// podConfig reads what the webhook tells the agent's containers
// (patches/sidecar.go).
func podConfig(log *slog.Logger) (pod.Config, error) {
	c := pod.Config{
		Places: places(),
		Pod: render.Pod{
			Namespace:          os.Getenv("POD_NAMESPACE"),
			Cluster:            os.Getenv("STATEGRAFT_CLUSTER"),
			DataMount:          os.Getenv("STATEGRAFT_DATA_MOUNT"),
			DataDirectory:      os.Getenv("STATEGRAFT_DATA_DIRECTORY"),
			Commitlog:          os.Getenv("STATEGRAFT_COMMITLOG_DIRECTORY"),
			SavedCaches:        os.Getenv("STATEGRAFT_SAVED_CACHES_DIRECTORY"),
			ManagementAPI:      os.Getenv("STATEGRAFT_MANAGEMENT_API"),
			ManagementAPICerts: os.Getenv("STATEGRAFT_MANAGEMENT_API_CERTS"),
		},
		CassandraConfig: os.Getenv("STATEGRAFT_CASSANDRA_CONFIG"),
		Poll:            length("STATEGRAFT_POLL", 2*time.Second, log),
		TidyAfter:       length("STATEGRAFT_TIDY_AFTER", 0, log),
		Log:             log,
	}
	// Without a word it is on: what is left out must not open a port to everybody.
	if os.Getenv("STATEGRAFT_GRPC_TLS") != "off" {
		c.Pod.GRPCTLS = c.Places.GRPCTLS
	}
	for name, target := range map[string]*int{
		"STATEGRAFT_CQL_PORT": &c.Pod.CQLPort, "STATEGRAFT_GRPC_PORT": &c.Pod.GRPCPort, "STATEGRAFT_SNAPSHOT_PORT": &c.Pod.SnapshotPort,
	} {
		value, err := number(name)
		if err != nil {
			return c, err
		}
		*target = value
	}
	if c.Pod.GRPCPort == 0 {
		c.Pod.GRPCPort = 50051 // Medusa's own default
	}
	owner, err := files.ParseOwner(os.Getenv("STATEGRAFT_OWNER"))
	if err != nil {
		return c, fmt.Errorf("read STATEGRAFT_OWNER: %w", err)
	}
	c.Owner = owner
	return c, nil
}
