package nodeserver

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stategraft/stategraft/api/node"
)

// TestReplay: what begins is answered as begun, and nothing begins by a request that is
// not whole.
func TestReplay(t *testing.T) {
	t.Parallel()
	r := start(t, func(c *Config) {
		c.Replay = func(_ context.Context, r node.ReplayRequest) (node.Replay, error) {
			if r.ID == "other" {
				return node.Replay{}, fmt.Errorf("%w: replay first goes on", ErrKept)
			}
			return node.Replay{ID: r.ID, Backup: r.Backup, Phase: node.ReplayStaging, Total: int64(len(r.Sources))}, nil
		}
	})
	bare := start(t, func(*Config) {})
	r.listening()
	bare.listening()
	for _, c := range []struct {
		method, body string
		status       int
		want         string
	}{
		{"POST", `{"id":"ns/r","backup":"b1","sources":["a-0","a-1"]}`, 202, `"phase":"staging","keys":0,"total":2`},
		{"POST", `{"id":"ns/r","backup":"b1"}`, 202, `"total":0`},
		{"POST", `{"id":"other","backup":"b1"}`, 409, "replay first goes on"},
		{"POST", `{"id":"ns/r"}`, 400, "needs an id and a backup"},
		{"POST", `{"id":"ns/r","backup":"a/b"}`, 400, "no part of an object"},
		{"POST", `{"id":"ns/r","backup":"b","sources":["../x"]}`, 400, "no part of an object"},
		{"POST", `{"id":"ns\u0000r","backup":"b"}`, 400, "id cannot be"},
		{"POST", `{`, 400, "read the request"},
		{"POST", strings.Repeat(" ", mostOfRequest+1), 400, "more than"},
		{"GET", ``, 405, "only POST is answered"},
	} {
		status, body := send(t, c.method, "http://"+r.address()+node.PathReplay, c.body)
		if status != c.status || !strings.Contains(body, c.want) {
			t.Errorf("%s %.60s: got %d %s", c.method, c.body, status, body)
		}
	}
	if status, body := send(t, "POST", "http://"+bare.address()+node.PathReplay, `{}`); status != http.StatusNotFound {
		t.Errorf("a node that replays nothing: got %d %s", status, body)
	}
}

func send(t *testing.T, method, url, body string) (int, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(content)
}
