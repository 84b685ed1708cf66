package nodeserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
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

// answer makes the answer to a request.
type answer func(ctx context.Context, r *http.Request) (any, error)

func (c Config) handler(p *pair) http.Handler {
	turns := newTurns()
	routes := map[string]answer{
		node.PathReport: func(ctx context.Context, _ *http.Request) (any, error) {
			ctx, cancel := context.WithTimeout(ctx, reportLimit)
			defer cancel()
			return c.Report(ctx)
		},
	}
	if c.Backups != nil {
		routes[node.PathBackups] = turns.lookup(func(ctx context.Context, r *http.Request) (any, error) {
			prefix, err := parameter(r, "prefix", false)
			if err != nil {
				return nil, err
			}
			return c.Backups(ctx, prefix)
		})
	}
	if c.Backup != nil {
		routes[node.PathBackup] = turns.lookup(func(ctx context.Context, r *http.Request) (any, error) {
			prefix, err := parameter(r, "prefix", false)
			name, err2 := parameter(r, "name", true)
			if err = errors.Join(err, err2); err != nil {
				return nil, failure{http.StatusBadRequest, err}
			}
			return c.Backup(ctx, prefix, name)
		})
	}
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
func (c Config) answer(w http.ResponseWriter, r *http.Request, make answer) {
	switch {
	case make == nil:
		c.refuse(w, r, failure{http.StatusNotFound, fmt.Errorf("%.100q is not served here", r.URL.Path)})
		return
	case r.Method != http.MethodGet:
		w.Header().Set("Allow", http.MethodGet)
		c.refuse(w, r, failure{http.StatusMethodNotAllowed, errors.New("only GET is answered")})
		return
	}
	value, err := make(r.Context(), r)
	if err != nil {
		c.refuse(w, r, err)
		return
	}
	body, err := json.Marshal(value)
	if err != nil {
		c.refuse(w, r, fmt.Errorf("write the answer: %w", err))
		return
	}
	write(w, http.StatusOK, body)
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

// parameter reads a parameter that becomes part of an object's name.
func parameter(r *http.Request, name string, needed bool) (string, error) {
	value := r.URL.Query().Get(name)
	switch {
	case needed && value == "":
		return "", failure{http.StatusBadRequest, fmt.Errorf("parameter %s is missing", name)}
	case len(value) > longestParameter, strings.Contains(value, "/"), strings.ContainsFunc(value, unicode.IsControl):
		return "", failure{http.StatusBadRequest, fmt.Errorf("parameter %s cannot be %.100q", name, value)}
	}
	return value, nil
}
