package snapshot

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"log/slog"

	"github.com/stategraft/stategraft/agent/event"
	"github.com/stategraft/stategraft/agent/files"
)

func listing(t *testing.T, release string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("testdata", "list-"+release+".txt"))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

func TestList(t *testing.T) {
	date := func(text string) time.Time {
		parsed, err := time.Parse(time.RFC3339Nano, text)
		if err != nil {
			t.Fatal(err)
		}
		return parsed
	}
	for release, want := range map[string]map[string]time.Time{
		"3.11": {"medusa-old": {}},
		"4.0":  {"medusa-nightly-20260101": {}},
		"5.0":  {"medusa-old": date("2026-01-01T02:00:00.123Z"), "medusa-ttl": date("2026-01-02T00:00:00Z"), "medusa-unknown": {}},
	} {
		got := List(listing(t, release))
		if len(got) != len(want) {
			t.Errorf("%s: %v", release, got)
		}
		for name, taken := range want {
			if have, ok := got[name]; !ok || !have.Equal(taken) {
				t.Errorf("%s: %s %v, want %v", release, name, have, taken)
			}
		}
	}
	if got := List("Snapshot Details: \nThere are no snapshots"); len(got) > 0 {
		t.Errorf("%v", got)
	}
}

func TestSweep(t *testing.T) {
	f := newFake(t)
	now, busy, up := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC), false, errors.New("refused")
	s := &Sweeper{Server: f.server, Age: 24 * time.Hour, Seen: filepath.Join(f.dir, "run", "seen.json"),
		Busy: func() bool { return busy }, Up: func() error { return up }, Now: func() time.Time { return now }}
	for _, name := range []string{"medusa-old", "medusa-ttl", "medusa-unknown", "mine"} {
		f.set("snapshot."+name, "")
	}
	f.set("listing", listing(t, "5.0"))
	sweep := func(want string) {
		t.Helper()
		if err := s.sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := f.snapshots(); got != want {
			t.Fatalf("left %q, want %q", got, want)
		}
	}
	if err := s.sweep(t.Context()); err == nil || f.get("calls") != "" {
		t.Errorf("a JVM was started for a database that is not there: %v", err)
	}
	up, busy = nil, true
	sweep("medusa-old medusa-ttl medusa-unknown mine")
	busy = false
	sweep("medusa-ttl medusa-unknown mine")
	// One without a time is a leftover a day after it was seen first, also for
	// a server that was started anew in between.
	now = now.Add(23 * time.Hour)
	sweep("medusa-unknown mine")
	now = now.Add(2 * time.Hour)
	sweep("mine")
	if strings.Contains(f.get("calls"), "mine") {
		t.Errorf("calls\n%s", f.get("calls"))
	}
	f.set("listing", "There are no snapshots\n")
	sweep("mine")
	if got := strings.TrimSpace(f.get("run/seen.json")); got != "{}" {
		t.Errorf("what is gone is still kept: %s", got)
	}
}

// TestRunStaysUp starts the server with nothing that it needs there yet.
func TestRunStaysUp(t *testing.T) {
	f := newFake(t)
	taken := listen(t)
	places := files.Places{Shared: filepath.Join(f.dir, "shared"), JMX: f.JMX}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		Run(ctx, Config{Places: places, Port: taken.Addr().(*net.TCPAddr).Port, JMXPort: 1, Timeout: time.Minute,
			StopLimit: time.Second, Temp: f.dir, Secrets: &event.Secrets{}, Log: slog.New(slog.DiscardHandler)})
		close(ended)
	}()
	if _, err := files.MakeSegment(places.Segment(), files.Owner{}); err != nil {
		t.Fatal(err)
	}
	own, err := files.ReadSegment(places.Segment())
	if err != nil {
		t.Fatal(err)
	}
	address := "http://" + taken.Addr().String() + "/" + own + "/snapshots"
	taken.Close() // the port is free only now
	var code int
	for deadline := time.Now().Add(time.Minute); code != 200; time.Sleep(20 * time.Millisecond) {
		if answer, err := http.Post(address, "application/json", strings.NewReader(take("medusa-b1"))); err == nil {
			code = answer.StatusCode
			answer.Body.Close()
		}
		if time.Now().After(deadline) {
			t.Fatalf("never answered, last %d", code)
		}
	}
	cancel()
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Fatal("it does not stop")
	}
}

func TestStopWaitsForABackup(t *testing.T) {
	f := newFake(t)
	backup := make(chan struct{})
	busy := func() bool {
		select {
		case <-backup:
			return false
		default:
			return true
		}
	}
	stopped := make(chan struct{})
	go func() { f.server.Stop(busy, time.Hour); close(stopped) }()
	if code, _ := f.call("DELETE", at+"?snapshotNames=medusa-b1", ""); code != 200 {
		t.Errorf("answer %d while a backup is running", code)
	}
	select {
	case <-stopped:
		t.Fatal("stopped in the middle of a backup")
	default:
	}
	close(backup)
	<-stopped
	start := time.Now()
	NewServer(nil, nil, slog.New(slog.DiscardHandler)).Stop(func() bool { return true }, 50*time.Millisecond)
	if took := time.Since(start); took < 50*time.Millisecond || took > time.Minute {
		t.Errorf("the limit was %v", took)
	}
}

// TestSweepAfterAKill: a snapshot that was taken in a backup which is over, as Medusa was
// killed in it, does not stay for a day. What nobody told of is left alone.
func TestSweepAfterAKill(t *testing.T) {
	f := newFake(t)
	busy := true
	f.server.Busy = func() bool { return busy }
	s := &Sweeper{Server: f.server, Age: 24 * time.Hour, Seen: filepath.Join(f.dir, "run", "seen.json"),
		Busy: func() bool { return busy }, Up: func() error { return nil }, Now: time.Now}
	taken := func(names ...string) {
		t.Helper()
		for _, name := range names {
			if code, text := f.call("POST", at, take(name)); code != 200 {
				t.Fatalf("%d %s", code, text)
			}
		}
		listing := "Snapshot Details:\n"
		for _, name := range strings.Fields(f.snapshots()) {
			listing += name + " ks t 1 KiB 1 KiB\n"
		}
		f.set("listing", listing)
	}
	sweep := func(want string) {
		t.Helper()
		if err := s.sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := f.snapshots(); got != want {
			t.Fatalf("left %q, want %q", got, want)
		}
	}
	taken("medusa-b1")
	sweep("medusa-b1") // it runs
	busy = false
	taken("medusa-hand") // by somebody's own Medusa
	sweep("medusa-b1 medusa-hand")
	busy = true
	sweep("medusa-b1 medusa-hand") // it had only not answered
	busy = false
	sweep("medusa-b1 medusa-hand")
	sweep("medusa-hand")
	busy = true
	taken("medusa-b2")
	if code, _ := f.call("DELETE", at+"?snapshotNames=medusa-b2", ""); code != 200 {
		t.Errorf("answer %d", code)
	}
	busy = false
	f.set("calls", "")
	sweep("medusa-hand")
	sweep("medusa-hand")
	if calls := f.get("calls"); strings.Contains(calls, "clearsnapshot") {
		t.Errorf("what has been cleared is cleared again: %s", calls)
	}
}
