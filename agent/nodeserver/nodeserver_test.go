package nodeserver

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stategraft/stategraft/api/node"
)

func TestAnswers(t *testing.T) {
	t.Parallel()
	r := start(t, func(c *Config) {
		c.Secrets.Add("s3cret-key")
		c.Backups = func(_ context.Context, prefix string) (node.Backups, error) {
			if prefix == "bad" {
				return node.Backups{}, errors.New("list the backups: refused with key s3cret-key")
			}
			return node.Backups{Prefix: "p" + prefix, Backups: []node.Summary{{Name: "b1"}}}, nil
		}
		c.Backup = func(_ context.Context, prefix, name string) (node.Backup, error) {
			if name == "panic" {
				panic("of a backend")
			}
			return node.Backup{Summary: node.Summary{Name: name}, Prefix: prefix}, nil
		}
	})
	r.listening()
	for _, c := range []struct {
		path   string
		status int
		want   string
	}{
		{"/v1/contents?name=b1", 404, "not served"},
		{"/v1/node", 200, `"node":"cassandra-0"`},
		{"/v1/backups", 200, `{"prefix":"p","backups":[{"name":"b1"`},
		{"/v1/backups?prefix=ns_c", 200, `"prefix":"pns_c"`},
		{"/v1/backups?prefix=.", 200, `"prefix":"p."`},
		{"/v1/backups?prefix=bad", 500, "refused with key ***"},
		{"/v1/backups?prefix=a%2Fb", 400, "parameter prefix cannot be"},
		{"/v1/backup?name=b1&prefix=x", 200, `{"name":"b1"`},
		{"/v1/backup", 400, "parameter name is missing"},
		{"/v1/backup?name=..%2Fx", 400, "parameter name cannot be"},
		{"/v1/backup?name=a%0Ab", 400, "parameter name cannot be"},
		{"/v1/backup?name=" + strings.Repeat("x", 513), 400, "parameter name cannot be"},
		{"/v2", 404, "not served"},
		{"/", 404, "not served"},
	} {
		status, body, err := r.get(nil, c.path)
		if err != nil || status != c.status || !strings.Contains(string(body), c.want) {
			t.Errorf("%s: got %d %s, %v", c.path, status, body, err)
		}
		if status != 200 {
			message(t, body)
		}
	}
	if strings.Contains(r.log.String(), "s3cret-key") {
		t.Error("the secret is in the log")
	}
	response, err := http.Post("http://"+r.address()+"/v1/node", "", nil)
	if err != nil || response.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("POST: %v, %v", response, err)
	}
	if _, _, err := r.get(nil, "/v1/backup?name=panic"); err == nil {
		t.Error("a panic is answered")
	}
	if status, _, err := r.get(nil, "/v1/node"); status != 200 {
		t.Errorf("after a panic: %d, %v", status, err)
	}
	if status, _, err := r.get(nil, "/v1/node?x="+strings.Repeat("x", 20<<10)); status != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("a long URL: %d, %v", status, err)
	}
}

// TestWithoutLookups: what is not there is said so.
func TestWithoutLookups(t *testing.T) {
	t.Parallel()
	r := start(t, func(c *Config) {
		c.Report = func(context.Context) (node.Report, error) {
			return node.Report{}, fmt.Errorf("ask for the room: %w", errors.New("stale file handle"))
		}
	})
	r.listening()
	for path, want := range map[string]int{"/v1/backups": 404, "/v1/backup?name=x": 404, "/v1/node": 500} {
		status, body, err := r.get(nil, path)
		if err != nil || status != want || message(t, body) == "" {
			t.Errorf("%s: got %d %s, %v", path, status, body, err)
		}
	}
}

// TestOneLookupAtATime: others wait, too many are sent away, reports go on, and a
// client that has gone frees its place.
func TestOneLookupAtATime(t *testing.T) {
	t.Parallel()
	var running, most atomic.Int32
	release := make(chan struct{})
	r := start(t, func(c *Config) {
		c.Backups = func(ctx context.Context, _ string) (node.Backups, error) {
			most.Store(max(most.Load(), running.Add(1)))
			defer running.Add(-1)
			select {
			case <-release:
				return node.Backups{}, nil
			case <-ctx.Done():
				return node.Backups{}, ctx.Err()
			}
		}
	})
	r.listening()
	// Seven, as more connections of one address are not let in.
	results := make(chan int, 16)
	for range mostOfOne - 1 {
		go func() { status, _, _ := r.get(nil, "/v1/backups"); results <- status }()
	}
	eventually(t, func() bool { return running.Load() == 1 })
	if status, _, err := r.get(nil, "/v1/node"); status != 200 {
		t.Errorf("a report meanwhile: %d, %v", status, err)
	}
	close(release)
	for range mostOfOne - 1 {
		if status := <-results; status != 200 {
			t.Errorf("got %d", status)
		}
	}
	if most.Load() != 1 {
		t.Errorf("%d at a time", most.Load())
	}
}

func TestTurns(t *testing.T) {
	turns := newTurns()
	done, err := turns.take(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	gone := make(chan error, mostWaiting)
	for range mostWaiting {
		go func() { _, err := turns.take(ctx); gone <- err }()
	}
	eventually(t, func() bool { return len(turns.waiting) == 1+mostWaiting })
	if _, err := turns.take(t.Context()); !errors.Is(err, errBusy) {
		t.Errorf("one too many: %v", err)
	}
	cancel()
	for range mostWaiting {
		if err := <-gone; !errors.Is(err, context.Canceled) {
			t.Errorf("who has gone: %v", err)
		}
	}
	done()
	again, err := turns.take(t.Context())
	if err != nil {
		t.Fatalf("once all have gone: %v", err)
	}
	again()
}

// TestClientGone: a lookup ends with its client.
func TestClientGone(t *testing.T) {
	t.Parallel()
	began, ended := make(chan struct{}), make(chan error, 1)
	r := start(t, func(c *Config) {
		c.Backups = func(ctx context.Context, _ string) (node.Backups, error) {
			close(began)
			<-ctx.Done()
			ended <- ctx.Err()
			return node.Backups{}, ctx.Err()
		}
	})
	r.listening()
	conn, err := net.Dial("tcp", r.address())
	check(t, err)
	_, err = fmt.Fprintf(conn, "GET /v1/backups HTTP/1.1\r\nHost: x\r\n\r\n")
	check(t, err)
	<-began
	conn.Close()
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Error("the lookup goes on")
	}
}

// TestTooManyConnections: whoever holds all he can get is hung up on, and a free
// place is taken again.
func TestTooManyConnections(t *testing.T) {
	t.Parallel()
	r := start(t, func(*Config) {})
	r.listening()
	var held []net.Conn
	for range mostOfOne {
		conn, err := net.Dial("tcp", r.address())
		check(t, err)
		held = append(held, conn)
	}
	if _, _, err := r.get(nil, "/v1/node"); err == nil {
		t.Error("one too many is served")
	}
	other := &http.Client{Transport: &http.Transport{DialContext: (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}).DialContext}}
	if status, _, err := ask(other, "http://"+r.address()+"/v1/node"); status != 200 {
		t.Errorf("another address: %d, %v", status, err)
	}
	for _, conn := range held {
		conn.Close()
	}
	eventually(t, func() bool { status, _, _ := r.get(nil, "/v1/node"); return status == 200 })
}

// TestPortTaken: the service comes when the port is free.
func TestPortTaken(t *testing.T) {
	t.Parallel()
	var holder net.Listener
	r := start(t, func(c *Config) {
		var err error
		holder, err = net.Listen("tcp", net.JoinHostPort(c.Address, strconv.Itoa(c.Port)))
		check(t, err)
	})
	eventually(t, func() bool { return strings.Contains(r.log.String(), "address already in use") })
	holder.Close()
	eventually(t, func() bool { status, _, _ := r.get(nil, "/v1/node"); return status == 200 })
}

// TestEndsAtOnce: neither a lookup nor an open connection nor a missing pair holds
// the container's end up.
func TestEndsAtOnce(t *testing.T) {
	t.Parallel()
	began := make(chan struct{})
	r := start(t, func(c *Config) {
		c.Backups = func(ctx context.Context, _ string) (node.Backups, error) {
			close(began)
			<-ctx.Done()
			return node.Backups{}, ctx.Err()
		}
	})
	r.listening()
	conn, err := net.Dial("tcp", r.address())
	check(t, err)
	defer conn.Close()
	_, err = fmt.Fprintf(conn, "GET /v1/node HTTP/1.1\r\nHost: x\r\n\r\n")
	check(t, err)
	if line, err := bufio.NewReader(conn).ReadString('\n'); !strings.Contains(line, "200") {
		t.Fatal(line, err)
	}
	go func() { _, _, _ = r.get(nil, "/v1/backups") }()
	<-began
	r.stop() // which waits less than for an open connection or an answer
	// The pair is looked for every two seconds. On a busy machine the end may take as long,
	// but not each time.
	least := pairWait
	for range 5 {
		waiting := start(t, func(c *Config) { c.TLSDir = t.TempDir() })
		eventually(t, func() bool { return strings.Contains(waiting.log.String(), "waiting for Secret") })
		at := time.Now()
		waiting.stop()
		if least = min(least, time.Since(at)); least < pairWait/2 {
			return
		}
	}
	t.Errorf("it took %v", least)
}
