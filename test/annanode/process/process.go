// Package process runs test nodes as the programs of Anna and Cloudburst: found by
// name, configured by the file in the working directory, read as the real ones
// read it.
//
//	anna-kvs, anna-route, anna-monitor, anna-cache     conf/anna-config.yml
//	python3 cloudburst/server/executor/server.py       conf/cloudburst-config.yml
//	python3 cloudburst/server/scheduler/server.py
//
// The monitor has no policies, the cache keeps nothing, the executor executes
// nothing: their ports, files and messages are there.
//
// For tests, the environment: ANNANODE_REPORT and ANNANODE_GOSSIP (durations),
// ANNANODE_FREEZE=true, ANNANODE_JOIN_DEFECT=false, see annanode.Config; and
// ANNANODE_STATS=host:port, where GET /stats is answered with the node's Stats,
// of the scheduler with the executors it knows. ANNANODE_REQUESTS is in place of
// /requests.
package process

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/stategraft/stategraft/agent/anna/wire"
	"github.com/stategraft/stategraft/test/annanode"
)

// Exit codes of the real ones.
const (
	exitUsage   = 1
	exitAborted = 134 // SIGABRT: an uncaught exception
	exitCrashed = 136 // SIGFPE: a division by the number of memory nodes
)

const annaConfig = "conf/anna-config.yml"

// Run is main: args[0] is the program's name. It answers with the exit code.
func Run(ctx context.Context, args []string, log *slog.Logger) (code int) {
	defer func() {
		switch why := recover().(type) {
		case nil:
		case aborted:
			log.Error("terminate called after throwing an instance of 'YAML::Exception'", "what", why.Error())
			code = exitAborted
		default:
			panic(why)
		}
	}()
	var err error
	switch name := filepath.Base(args[0]); {
	case strings.HasPrefix(name, "python3"):
		err = python(ctx, args[1:], log)
	case len(args) != 1:
		log.Error("Usage: " + args[0])
		return exitUsage
	case name == "anna-kvs":
		err = kvs(ctx, log)
	case name == "anna-route":
		err = route(ctx, log)
	case name == "anna-monitor":
		err = monitor(ctx, log)
	case name == "anna-cache":
		err = cache(ctx, log)
	default:
		err = fmt.Errorf("%q is none of anna-kvs, anna-route, anna-monitor, anna-cache, python3", name)
	}
	return exitCode(err, log)
}

func exitCode(err error, log *slog.Logger) int {
	switch {
	case err == nil, errors.Is(err, annanode.ErrDeparted), errors.Is(err, context.Canceled):
		return 0
	case errors.As(err, new(aborted)):
		log.Error("terminate called after throwing an exception", "what", err)
		return exitAborted
	case errors.Is(err, annanode.ErrCrashed):
		return exitCrashed
	}
	log.Error(err.Error())
	return 1
}

// common reads what all of Anna's processes read.
func common(c conf) annanode.Config {
	threads, replication, capacities := c.at("threads"), c.at("replication"), c.at("capacities")
	capacities.at("memory-cap").number()
	capacities.at("ebs-cap").number()
	return annanode.Config{
		Threads: annanode.Threads{
			Memory: threads.at("memory").number(), Disk: threads.at("ebs").number(), Routing: 1,
		},
		Replication: annanode.Replication{
			Memory: replication.at("memory").number(), Disk: replication.at("ebs").number(),
			Local: replication.at("local").number(),
		},
		Report:       duration("ANNANODE_REPORT"),
		Gossip:       duration("ANNANODE_GOSSIP"),
		Freeze:       os.Getenv("ANNANODE_FREEZE") == "true",
		NoJoinDefect: os.Getenv("ANNANODE_JOIN_DEFECT") == "false",
	}
}

func duration(name string) time.Duration {
	d, err := time.ParseDuration(os.Getenv(name))
	if err != nil {
		return 0
	}
	return d
}

func kvs(ctx context.Context, log *slog.Logger) error {
	tier := wire.Memory
	switch kind, set := os.LookupEnv("SERVER_TYPE"); {
	case !set, strings.HasPrefix(kind, "memory"):
	case strings.HasPrefix(kind, "ebs"):
		tier = wire.Disk
	default:
		return fmt.Errorf("unrecognized server type %s; valid types are memory or ebs", kind)
	}
	c, err := load(annaConfig, false)
	if err != nil {
		return err
	}
	cfg := common(c)
	server := c.at("server")
	cfg.Tier, cfg.Log = tier, log
	cfg.Public, cfg.Private = server.at("public_ip").text(), server.at("private_ip").text()
	cfg.Seed, cfg.Management = server.at("seed_ip").text(), server.at("mgmt_ip").text()
	cfg.Routing, cfg.Monitoring = server.at("routing").texts(), server.at("monitoring").texts()
	if tier == wire.Disk {
		cfg.Root = c.at("ebs").text()
	}
	return serve(ctx, cfg)
}

func route(ctx context.Context, log *slog.Logger) error {
	c, err := load(annaConfig, false)
	if err != nil {
		return err
	}
	cfg := common(c)
	cfg.Tier, cfg.Log = wire.Routing, log
	cfg.Threads.Routing = c.at("threads").at("routing").number()
	cfg.Private, cfg.Monitoring = c.at("routing").at("ip").text(), c.at("routing").at("monitoring").texts()
	return serve(ctx, cfg)
}

// serve runs a node until it ends or ctx does.
func serve(ctx context.Context, cfg annanode.Config) error {
	n, err := annanode.Start(ctx, cfg)
	if err != nil {
		return err
	}
	defer n.Close()
	stop, err := stats(func() any { return n.Stats() })
	if err != nil {
		return err
	}
	defer stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-n.Done():
		return n.Err()
	}
}

// stats serves what answer gives on ANNANODE_STATS, if that is set.
func stats(answer func() any) (stop func(), err error) {
	at := os.Getenv("ANNANODE_STATS")
	if at == "" {
		return func() {}, nil
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /stats", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(answer())
	})
	l, err := net.Listen("tcp", at)
	if err != nil {
		return nil, fmt.Errorf("listening on ANNANODE_STATS: %w", err)
	}
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = server.Serve(l) }() // ends with Close
	return func() { _ = server.Close() }, nil
}

// period is how often something is done: as often as reports, where that is set.
func period(d time.Duration) time.Duration {
	if r := duration("ANNANODE_REPORT"); r > 0 {
		return r
	}
	return d
}

// requests is the directory that executors and cache share, as an endpoint.
func requests() string { return "ipc://" + cmp.Or(os.Getenv("ANNANODE_REQUESTS"), "/requests") }

func endpoint(host string, port int) string { return "tcp://" + host + ":" + strconv.Itoa(port) }
