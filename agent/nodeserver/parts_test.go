package nodeserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stategraft/stategraft/api/node"
)

// TestParts: what is asked of a node's part in a backup, and what is not done with it.
func TestParts(t *testing.T) {
	t.Parallel()
	r := start(t, func(c *Config) {
		c.Secrets.Add("s3cret-key")
		c.Contents = func(_ context.Context, prefix, name, of string) (node.Contents, error) {
			if name == "none" {
				return node.Contents{}, fmt.Errorf("%w: nothing was counted", ErrNone)
			}
			return node.Contents{Version: 1, Tables: []node.Table{{Table: prefix + "/" + name + "/" + of}}}, nil
		}
		c.Discard = func(_ context.Context, prefix, name string) (node.Discarded, error) {
			switch name {
			case "whole":
				return node.Discarded{}, fmt.Errorf("backup whole: %w: it is complete", ErrKept)
			case "bad":
				return node.Discarded{}, errors.New("refused with key s3cret-key")
			}
			return node.Discarded{Node: "c-0", Name: name, Objects: len(prefix)}, nil
		}
	})
	r.listening()
	for _, c := range []struct {
		method, path string
		status       int
		want         string
	}{
		{"GET", "/v1/contents?name=b1&node=c-1&prefix=p", 200, `"table":"p/b1/c-1"`},
		{"GET", "/v1/contents?name=b1", 200, `"table":"/b1/"`},
		{"GET", "/v1/contents?name=none", 404, "nothing was counted"},
		{"GET", "/v1/contents?node=c-1", 400, "parameter name is missing"},
		{"GET", "/v1/contents?name=b1&node=a%2Fb", 400, "parameter node cannot be"},
		{"DELETE", "/v1/contents?name=b1", 405, "only GET is answered"},
		{"DELETE", "/v1/backup?name=b1&prefix=abc", 200, `{"node":"c-0","name":"b1","objects":3}`},
		{"DELETE", "/v1/backup?name=whole", 409, "it is complete"},
		{"DELETE", "/v1/backup?name=bad", 500, "refused with key ***"},
		{"DELETE", "/v1/backup", 400, "parameter name is missing"},
		{"DELETE", "/v1/backup?name=..%2Fx", 400, "parameter name cannot be"},
		{"GET", "/v1/backup?name=b1", 405, "only DELETE is answered"}, // as nothing is looked up here
		{"DELETE", "/v1/node", 405, "only GET is answered"},
	} {
		request, err := http.NewRequestWithContext(t.Context(), c.method, "http://"+r.address()+c.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(response.Body)
		response.Body.Close()
		if err != nil || response.StatusCode != c.status || !strings.Contains(string(body), c.want) {
			t.Errorf("%s %s: got %d %s, %v", c.method, c.path, response.StatusCode, body, err)
		}
	}
}
