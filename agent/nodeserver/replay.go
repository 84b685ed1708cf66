package nodeserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"unicode"

	"github.com/stategraft/stategraft/api/node"
)

// mostOfRequest is of a request's body, in bytes: the names of a thousand nodes fit.
const mostOfRequest = 1 << 20

// replay begins a replay. It waits for no turn: what it begins goes on by itself.
func (c Config) replay(ctx context.Context, r *http.Request) (any, error) {
	request, err := asked(r.Body)
	if err != nil {
		return nil, failure{http.StatusBadRequest, err}
	}
	begun, err := c.Replay(ctx, request)
	if err != nil {
		return nil, err
	}
	return accepted{begun}, nil
}

// asked reads and checks what is asked for. Names are parts of objects' names.
func asked(body io.Reader) (r node.ReplayRequest, err error) {
	content, err := io.ReadAll(io.LimitReader(body, mostOfRequest+1))
	switch {
	case err != nil:
		return r, fmt.Errorf("read the request: %w", err)
	case len(content) > mostOfRequest:
		return r, fmt.Errorf("the request has more than %d bytes", mostOfRequest)
	}
	if err := json.Unmarshal(content, &r); err != nil {
		return r, fmt.Errorf("read the request: %w", err)
	}
	if r.ID == "" || r.Backup == "" {
		return r, errors.New("a replay needs an id and a backup")
	}
	if strings.ContainsFunc(r.ID, unicode.IsControl) || len(r.ID) > longestParameter {
		return r, fmt.Errorf("id cannot be %.100q", r.ID)
	}
	for _, name := range slices.Concat([]string{r.Backup, r.Prefix}, r.Sources) {
		if len(name) > longestParameter || strings.Contains(name, "/") || strings.ContainsFunc(name, unicode.IsControl) {
			return r, fmt.Errorf("%.100q is no part of an object's name", name)
		}
	}
	return r, nil
}
