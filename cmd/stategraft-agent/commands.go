package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/stategraft/stategraft/agent/adopted"
	"github.com/stategraft/stategraft/agent/event"
	"github.com/stategraft/stategraft/agent/files"
	"github.com/stategraft/stategraft/agent/medusa"
	"github.com/stategraft/stategraft/agent/pod"
	"github.com/stategraft/stategraft/agent/process"
	"github.com/stategraft/stategraft/agent/render"
	"github.com/stategraft/stategraft/agent/snapshot"
	"github.com/stategraft/stategraft/agent/supervise"
)

// private is a directory of the container's own, on its emptyDir /tmp.
func private() string { return os.Getenv("STATEGRAFT_ROOT") + "/tmp/stategraft" }

// stopLimit is how long a running backup may delay the container's end: less
// than a pod's default grace period of 30 seconds, with time left to stop in.
const stopLimit = 20 * time.Second

// mayStop is that, or what somebody who knows better says. A pod that was adopted ends as
// soon as without us: its grace period was chosen for the database alone, and whoever waits
// for its end did so before.
func mayStop(log *slog.Logger) time.Duration {
	if adopted.Is() {
		return length("STATEGRAFT_STOP_LIMIT", 0, log)
	}
	return length("STATEGRAFT_STOP_LIMIT", stopLimit, log)
}

// signals gives a context that ends when the container is asked to.
func signals() (context.Context, context.CancelFunc) {
	return signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
}

func runPod(*cobra.Command, []string) error {
	log, _ := logger("agent")
	ctx, cancel := signals()
	defer cancel()
	c, err := podConfig(log)
	if err != nil {
		// A wrong variable is no reason to make the database's pod unready.
		log.Error("degraded: the container's environment is wrong", "error", err.Error())
		<-ctx.Done()
		return nil
	}
	pod.Run(ctx, c)
	return nil
}

func snapshots(*cobra.Command, []string) error {
	log, secrets := logger("snapshot")
	ctx, cancel := signals()
	defer cancel()
	process.Reap()
	serveSnapshots(ctx, log, secrets, nil)
	return nil
}

// serveSnapshots ends with the context; busy tells whether a backup is running, nil for
// what Medusa's state file says.
func serveSnapshots(ctx context.Context, log *slog.Logger, secrets *event.Secrets, busy func() bool) {
	port, err := number("STATEGRAFT_SNAPSHOT_PORT")
	jmx, err2 := number("STATEGRAFT_JMX_PORT")
	if err = errors.Join(err, err2); err != nil || port == 0 {
		log.Error("degraded: STATEGRAFT_SNAPSHOT_PORT or STATEGRAFT_JMX_PORT is wrong", "error", fmt.Sprint(err))
		<-ctx.Done()
		return
	}
	if jmx == 0 {
		jmx = 7199 // nodetool's own default
	}
	snapshot.Run(ctx, snapshot.Config{
		Places: places(), Port: port, JMXPort: jmx,
		Timeout:   length("STATEGRAFT_NODETOOL_TIMEOUT", 15*time.Minute, log),
		StopLimit: mayStop(log),
		Temp:      os.TempDir(), Busy: busy, Secrets: secrets, Log: log,
	})
}

func serve(*cobra.Command, []string) error {
	log, secrets := logger("medusa")
	ctx, cancel := signals()
	defer cancel()
	process.Reap()
	serveMedusa(ctx, log, secrets, func(*supervise.Config) {})
	return nil
}

// serveMedusa ends with the context, when both services have; change changes how Medusa
// is supervised.
func serveMedusa(ctx context.Context, log *slog.Logger, secrets *event.Secrets, change func(*supervise.Config)) {
	places := places()
	watch := []string{places.Ini(), places.Yaml(), places.Credentials()}
	ca, certificate, key := render.TLSFiles(places.GRPCTLS)
	watch = append(watch, ca, certificate, key)
	cql := os.Getenv("MEDUSA_CQL_K8S_SECRETS_PATH")
	if cql != "" {
		// Medusa reads them once, when it starts.
		watch = append(watch, filepath.Join(cql, "username"), filepath.Join(cql, "password"))
	}
	port, err := number("STATEGRAFT_CQL_PORT")
	if err != nil || port == 0 {
		port = 9042
	}
	told := make(chan struct{})
	go func() { defer close(told); serveNode(ctx, log, secrets) }()
	c := supervise.Config{
		Hold: func(ctx context.Context) {
			holdBack(ctx, port, length("STATEGRAFT_DATABASE_FIRST", databaseFirst, log), log)
		},
		Prepare: func() (process.Spec, error) { return prepare(places, cql) },
		Watch:   watch, Hidden: hidden(places), Secrets: secrets,
		Marker: medusa.BackupMarker, StatePath: places.State("medusa"),
		StopLimit: mayStop(log),
		Poll:      length("STATEGRAFT_POLL", time.Second, log),
		First:     time.Second, Longest: time.Minute, Steady: 5 * time.Minute,
		Log: log,
	}
	change(&c)
	supervise.Run(ctx, c)
	<-told
}

// databaseFirst is how long Medusa lets a starting database go first.
const databaseFirst = 3 * time.Minute

// holdBack waits until the database serves CQL, up to the limit: Medusa can do
// nothing before, and what it loads at its start would cost a database that
// starts at the same time several seconds of the node's CPU.
func holdBack(ctx context.Context, port int, limit time.Duration, log *slog.Logger) {
	began := time.Now()
	for time.Since(began) < limit {
		// It listens on all addresses or on the pod's only; POD_IP is that, or the
		// pod's name, which is that by /etc/hosts.
		for _, host := range []string{"127.0.0.1", os.Getenv("POD_IP")} {
			if host == "" {
				continue
			}
			dialer := net.Dialer{Timeout: time.Second}
			connection, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort(host, strconv.Itoa(port)))
			if err == nil {
				connection.Close()
				log.Info("the database is there", "waited_seconds", time.Since(began).Seconds())
				return
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(500 * time.Millisecond):
		}
	}
	if limit == 0 {
		return
	}
	log.Warn("the database does not serve CQL yet: Medusa is started all the same", "port", port, "waited_seconds", limit.Seconds())
}

// prepare tells the command of Medusa's service, or what it waits for.
func prepare(places files.Places, cql string) (process.Spec, error) {
	image, err := medusa.Find(medusa.Home, os.Getenv("STATEGRAFT_MEDUSA_PYTHON"))
	command := strings.Fields(os.Getenv("STATEGRAFT_MEDUSA_COMMAND"))
	if err != nil && len(command) == 0 {
		return process.Spec{}, err
	}
	if cql != "" {
		for _, name := range []string{"username", "password"} {
			if _, err := os.Stat(filepath.Join(cql, name)); err != nil {
				return process.Spec{}, fmt.Errorf("the CQL Secret with keys username and password (annotation stategraft.io/cql-secret) is not there: %w", err)
			}
		}
	}
	config, err := medusa.Configure(places, private(), "")
	if err == nil {
		err = medusa.CheckTLS(places, config, image.Wrapped() && len(command) == 0)
	}
	if err != nil {
		return process.Spec{}, err
	}
	if len(command) > 0 {
		return process.Spec{Path: command[0], Args: command[1:], Env: image.Env(nil)}, nil
	}
	return image.Serve(config), nil
}

// status prints the state files, for kubectl exec.
func status(command *cobra.Command, _ []string) error {
	places := places()
	found := 0
	for _, part := range []string{"agent", "medusa"} {
		content, err := os.ReadFile(places.State(part))
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return fmt.Errorf("read the state: %w", err)
		}
		found++
		fmt.Fprintf(command.OutOrStdout(), "%s: %s", part, content)
	}
	if found == 0 {
		return errors.New("nothing has told its state yet")
	}
	return nil
}
