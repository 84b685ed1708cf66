package nodeserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/stategraft/stategraft/api/node"
)

// reportLimit is for a report, which asks the volume and nothing else.
const reportLimit = 10 * time.Second

// longestParameter is in bytes: names of backups are parts of the names of objects,
// of which stores take 1024.
const longestParameter = 512

// failure is an answer that is not 200.
type failure struct {
	status int
	error
}

func (f failure) Unwrap() error { return f.error }

// accepted is an answer of what goes on: 202.
type accepted struct{ value any }

// answer makes the answer to a request.
type answer func(ctx context.Context, r *http.Request) (any, error)

// route is what is answered at a path, by method.
type route map[string]answer

// routes are what is served. What asks the storage waits for its turn.
func (c Config) routes() map[string]route {
	turns := newTurns()
	routes := map[string]route{node.PathReport: {http.MethodGet: func(ctx context.Context, _ *http.Request) (any, error) {
		ctx, cancel := context.WithTimeout(ctx, reportLimit)
		defer cancel()
		return c.Report(ctx)
	}}}
	add := func(method, path string, then func(ctx context.Context, p parameters) (any, error), needed ...string) {
		if routes[path] == nil {
			routes[path] = route{}
		}
		routes[path][method] = turns.lookup(func(ctx context.Context, r *http.Request) (any, error) {
			p, err := read(r, needed...)
			if err != nil {
				return nil, err
			}
			return then(ctx, p)
		})
	}
	if c.Backups != nil {
		add(http.MethodGet, node.PathBackups, func(ctx context.Context, p parameters) (any, error) { return c.Backups(ctx, p["prefix"]) })
	}
	if c.Backup != nil {
		add(http.MethodGet, node.PathBackup, func(ctx context.Context, p parameters) (any, error) { return c.Backup(ctx, p["prefix"], p["name"]) }, "name")
	}
	if c.Discard != nil {
		add(http.MethodDelete, node.PathBackup, func(ctx context.Context, p parameters) (any, error) { return c.Discard(ctx, p["prefix"], p["name"]) }, "name")
	}
	if c.Contents != nil {
		add(http.MethodGet, node.PathContents, func(ctx context.Context, p parameters) (any, error) {
			return c.Contents(ctx, p["prefix"], p["name"], p["node"])
		}, "name")
	}
	if c.Replay != nil {
		routes[node.PathReplay] = route{http.MethodPost: c.replay}
	}
	return routes
}

func (c Config) handler(p *pair) http.Handler {
	routes := c.routes()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if p != nil && !p.admits(r) {
			w.Header().Set("Connection", "close")
			c.refuse(w, r, failure{http.StatusUnauthorized, errors.New("the authorities have changed, or the certificate has expired, since this connection was made: make another")})
			return
		}
		c.answer(w, r, routes[r.URL.Path])
	})
}

// answer answers a request, in JSON whatever comes.
func (c Config) answer(w http.ResponseWriter, r *http.Request, served route) {
	make := served[r.Method]
	switch {
	case len(served) == 0:
		c.refuse(w, r, failure{http.StatusNotFound, fmt.Errorf("%.100q is not served here", r.URL.Path)})
		return
	case make == nil:
		allowed := strings.Join(slices.Sorted(maps.Keys(served)), ", ")
		w.Header().Set("Allow", allowed)
		c.refuse(w, r, failure{http.StatusMethodNotAllowed, fmt.Errorf("only %s is answered", allowed)})
		return
	}
	value, err := make(r.Context(), r)
	if err != nil {
		c.refuse(w, r, err)
		return
	}
	status := http.StatusOK
	if begun, ok := value.(accepted); ok {
		status, value = http.StatusAccepted, begun.value
	}
	body, err := json.Marshal(value)
	if err != nil {
		c.refuse(w, r, fmt.Errorf("write the answer: %w", err))
		return
	}
	write(w, status, body)
}

// refuse answers with what went wrong.
func (c Config) refuse(w http.ResponseWriter, r *http.Request, err error) {
	status := http.StatusInternalServerError
	var f failure
	switch {
	case errors.As(err, &f):
		status = f.status
	case errors.Is(err, errBusy):
		status = http.StatusServiceUnavailable
	case errors.Is(err, ErrNone):
		status = http.StatusNotFound
	case errors.Is(err, ErrKept):
		status = http.StatusConflict
	}
	message := err.Error()
	if c.Secrets != nil {
		message = c.Secrets.Hide(message)
	}
	if status == http.StatusInternalServerError && r.Context().Err() == nil {
		c.Log.Warn("a question cannot be answered", "path", r.URL.Path, "error", message)
	}
	body, err := json.Marshal(node.Error{Message: message})
	if err != nil {
		body = []byte(`{"error":"the message cannot be written"}`)
	}
	write(w, status, body)
}

func write(w http.ResponseWriter, status int, body []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(body) // to a client that may have gone
}

// lookup has a question wait for its turn.
func (t turns) lookup(then answer) answer {
	return func(ctx context.Context, r *http.Request) (any, error) {
		done, err := t.take(ctx)
		if err != nil {
			return nil, err
		}
		defer done()
		return then(ctx, r)
	}
}

// parameters are those of a question, each a part of an object's name.
type parameters map[string]string

func read(r *http.Request, needed ...string) (parameters, error) {
	p, query := parameters{}, r.URL.Query()
	for _, name := range [...]string{"prefix", "name", "node"} {
		value := query.Get(name)
		switch {
		case value == "" && slices.Contains(needed, name):
			return nil, failure{http.StatusBadRequest, fmt.Errorf("parameter %s is missing", name)}
		case len(value) > longestParameter, strings.Contains(value, "/"), strings.ContainsFunc(value, unicode.IsControl):
			return nil, failure{http.StatusBadRequest, fmt.Errorf("parameter %s cannot be %.100q", name, value)}
		}
		p[name] = value
	}
	return p, nil
}
