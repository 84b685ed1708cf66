// Package snapshot takes and clears the database's snapshots for Medusa. It
// answers the two calls of the management API that Medusa makes
// (medusa/service/snapshot/management_api_snapshot_service.py) by running
// nodetool, so it lives in the database's own image.
package snapshot

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"regexp"
	"strings"
	"sync/atomic"
	"time"
)

// Prefix is what the names of Medusa's snapshots begin with
// (medusa/cassandra_utils.py, SNAPSHOT_PREFIX). Nobody else's can be touched.
const Prefix = "medusa-"

// named is what a snapshot may be called: nothing that a shell, a path or
// nodetool reads differently.
var named = regexp.MustCompile(`^` + Prefix + `[A-Za-z0-9._:+@=-]{1,200}$`)

// tool runs nodetool; tests put their own in.
type tool interface {
	Run(ctx context.Context, arguments ...string) (string, error)
}

// Server answers Medusa.
type Server struct {
	Segment func() (string, error) // the secret part of the path, as it is now
	Tool    tool
	Log     *slog.Logger
	// Busy tells whether a backup is running; nil where that is not known.
	Busy func() bool

	turn     chan struct{}   // holds one token: who has it runs nodetool
	backup   map[string]bool // taken while a backup ran, and not cleared; for who has the token
	stopping atomic.Bool
}

// NewServer makes a server.
func NewServer(segment func() (string, error), tool tool, log *slog.Logger) *Server {
	s := &Server{Segment: segment, Tool: tool, Log: log, turn: make(chan struct{}, 1), backup: map[string]bool{}}
	s.turn <- struct{}{}
	return s
}

// ServeHTTP answers one call. Calls wait for each other: Medusa takes any answer
// but 200 for a failed backup, so "busy" is no answer that it understands, and
// its client waits without limit.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	segment, err := s.Segment()
	if err != nil {
		http.Error(w, "not ready", http.StatusServiceUnavailable)
		return
	}
	want := "/" + segment + "/snapshots"
	if subtle.ConstantTimeCompare([]byte(r.URL.Path), []byte(want)) != 1 {
		http.NotFound(w, r)
		return
	}
	var names []string
	var operation func(context.Context, string) error
	switch r.Method {
	case http.MethodPost:
		operation = s.take
		names, err = wanted(r.Body)
	case http.MethodDelete:
		operation = s.clear
		names, err = cleared(r.URL.Query())
	default:
		w.Header().Set("Allow", "POST, DELETE")
		http.Error(w, "only POST and DELETE", http.StatusMethodNotAllowed)
		return
	}
	if err != nil {
		s.Log.Warn("refused a request", "method", r.Method, "error", err.Error())
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	release, err := s.acquire(r.Context())
	if err != nil {
		return // the client is gone
	}
	defer release()
	for _, name := range names {
		// Not the request's context: a client that leaves is no reason to stop
		// in the middle of a snapshot.
		if err := operation(context.WithoutCancel(r.Context()), name); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
	}
	_, _ = io.WriteString(w, "OK")
}

// acquire waits until nobody else runs nodetool.
func (s *Server) acquire(ctx context.Context) (release func(), err error) {
	select {
	case <-s.turn:
		return func() { s.turn <- struct{}{} }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// wanted reads the body of a POST. A field that Medusa does not send would ask
// for something else than all tables, so it is refused.
func wanted(body io.Reader) ([]string, error) {
	decoder := json.NewDecoder(io.LimitReader(body, 1<<16))
	decoder.DisallowUnknownFields()
	var request struct {
		Name string `json:"snapshot_name"`
	}
	if err := decoder.Decode(&request); err != nil {
		return nil, fmt.Errorf("read the request: %w", err)
	}
	return []string{request.Name}, valid(request.Name)
}

// cleared reads the query of a DELETE.
func cleared(query map[string][]string) ([]string, error) {
	var names []string
	for key, values := range query {
		if key != "snapshotNames" {
			return nil, fmt.Errorf("parameter %q is not supported", key)
		}
		for _, value := range values {
			names = append(names, strings.Split(value, ",")...)
		}
	}
	if len(names) == 0 {
		// Without a name nodetool would clear every snapshot there is.
		return nil, errors.New("parameter snapshotNames is missing")
	}
	for _, name := range names {
		if err := valid(name); err != nil {
			return nil, err
		}
	}
	return names, nil
}

func valid(name string) error {
	if !named.MatchString(name) || strings.Contains(name, "..") {
		return fmt.Errorf("%q is not the name of one of Medusa's snapshots (%s…)", name, Prefix)
	}
	return nil
}

func (s *Server) take(ctx context.Context, name string) error {
	start := time.Now()
	_, err := s.Tool.Run(ctx, "snapshot", "-t", name)
	if err == nil {
		if s.Busy != nil && s.Busy() {
			s.backup[name] = true
		}
		s.Log.Info("took a snapshot", "snapshot", name, "seconds", time.Since(start).Seconds())
		return nil
	}
	s.Log.Error("the snapshot failed", "snapshot", name, "error", err.Error())
	if strings.Contains(err.Error(), "already exists") {
		return err
	}
	// Medusa takes a snapshot of that name which it finds for a complete one.
	if _, clearing := s.Tool.Run(ctx, "clearsnapshot", "-t", name); clearing != nil {
		s.Log.Warn("what the failed snapshot left cannot be cleared", "snapshot", name, "error", clearing.Error())
	}
	return err
}

func (s *Server) clear(ctx context.Context, name string) error {
	_, err := s.Tool.Run(ctx, "clearsnapshot", "-t", name)
	switch {
	case err == nil:
		delete(s.backup, name)
		s.Log.Info("cleared a snapshot", "snapshot", name)
		return nil
	case s.stopping.Load():
		// The database may be gone already, and Medusa, which has stored all by
		// now, would call the backup failed. The next sweep clears it.
		s.Log.Warn("a snapshot stays until the pod is back", "snapshot", name, "error", err.Error())
		return nil
	}
	s.Log.Error("a snapshot cannot be cleared", "snapshot", name, "error", err.Error())
	return err
}
