package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/stategraft/stategraft/agent/event"
	"github.com/stategraft/stategraft/agent/files"
	"github.com/stategraft/stategraft/agent/ini"
	"github.com/stategraft/stategraft/agent/lookup"
	"github.com/stategraft/stategraft/agent/medusa"
	"github.com/stategraft/stategraft/agent/nodeserver"
	"github.com/stategraft/stategraft/agent/restore"
	"github.com/stategraft/stategraft/agent/supervise"
	"github.com/stategraft/stategraft/api/node"
)

// lookupLimit is for one answer of the storage: less than the controllers wait for
// it, so that they hear why there is none.
const lookupLimit = 110 * time.Second

// serveNode tells the controllers of the node, beside Medusa's own service, until
// the context ends. It does not wait for the database as that does: what a volume
// and the storage hold is of most interest while there is none.
func serveNode(ctx context.Context, log *slog.Logger, secrets *event.Secrets) {
	port, err := number("STATEGRAFT_NODE_PORT")
	if err != nil {
		log.Error("nothing is told of this node: restores by a Restore object do not work", "error", err.Error())
		return
	}
	if port == 0 {
		return
	}
	asking := lookup.Config{
		Places: places(), Private: filepath.Join(private(), "lookup"),
		Image:   func() (medusa.Image, error) { return medusa.Find(medusa.Home, os.Getenv("STATEGRAFT_MEDUSA_PYTHON")) },
		Limit:   length("STATEGRAFT_LOOKUP_LIMIT", lookupLimit, log),
		Secrets: secrets, Log: log,
	}
	nodeserver.Run(ctx, nodeserver.Config{
		Port: port, TLSDir: tlsDir(),
		Report: func(context.Context) (node.Report, error) {
			return nodeReport(places(), os.Getenv("STATEGRAFT_DATA_MOUNT"), secrets)
		},
		Backups: asking.Backups, Backup: asking.Backup,
		Contents: func(ctx context.Context, prefix, name, of string) (node.Contents, error) {
			return contents(ctx, asking, prefix, name, of)
		},
		Discard: func(ctx context.Context, prefix, name string) (node.Discarded, error) {
			return discard(ctx, asking, prefix, name)
		},
		Secrets: secrets, Log: log,
	})
}

// tlsDir is where the service's pair is mounted; empty where the pod does without.
// Without a word it is on: what is left out must not open a port to everybody.
func tlsDir() string {
	if os.Getenv("STATEGRAFT_GRPC_TLS") == "off" {
		return ""
	}
	return places().GRPCTLS
}

// nodeReport is what the sidecar knows of the node. What cannot be read of the
// volume is an error, as nobody should decide without it.
func nodeReport(places files.Places, mount string, secrets *event.Secrets) (node.Report, error) {
	r := node.Report{Node: nodeName(), Prefix: prefix(places)}
	if mount == "" {
		return r, errors.New("the data volume is not known (STATEGRAFT_DATA_MOUNT)")
	}
	var err, err2, err3 error
	r.Size, r.Free, err = files.Room(mount)
	r.Done, err2 = restore.Done(mount)
	r.Previous, err3 = restore.Previous(mount)
	if err := errors.Join(err, err2, err3); err != nil {
		return r, fmt.Errorf("look at the data volume: %w", err)
	}
	r.Backup, r.BackupRunning = medusa.Running(private(), medusa.BackupMarker)
	r.Failed = medusa.Failed(private())
	secrets.Learn(hidden(places)...) // that of a start before may be told before Medusa is started
	for i := range r.Failed {
		r.Failed[i].Why = secrets.Hide(r.Failed[i].Why)
	}
	r.Waiting = waiting(places)
	return r, nil
}

// hidden are the files whose secrets no text may hold.
func hidden(places files.Places) []string {
	all := []string{places.Credentials()}
	if cql := os.Getenv("MEDUSA_CQL_K8S_SECRETS_PATH"); cql != "" {
		all = append(all, filepath.Join(cql, "password"))
	}
	return all
}

// prefix is that of the effective medusa.ini; empty while there is none.
func prefix(places files.Places) string {
	content, err := os.ReadFile(places.Ini())
	if err != nil {
		return ""
	}
	file, err := ini.Parse(string(content))
	if err != nil {
		return ""
	}
	value, _ := file.Get("storage", "prefix")
	return value
}

// waiting is why Medusa does not run, by the supervisor's state.
func waiting(places files.Places) string {
	content, err := os.ReadFile(places.State("medusa"))
	var s supervise.State
	if err != nil || json.Unmarshal(content, &s) != nil || s.State == supervise.Running {
		return ""
	}
	if s.Reason == "" {
		return s.State
	}
	return s.Reason
}
