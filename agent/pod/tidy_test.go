package pod

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stategraft/stategraft/agent/event"
	"github.com/stategraft/stategraft/agent/restore"
)

// keptVolume is a data volume with data that a Restore has set aside.
func keptVolume(t *testing.T, c *Config) {
	t.Helper()
	c.Pod.DataMount = t.TempDir()
	write(t, filepath.Join(c.Pod.DataMount, "data/shop/orders-11/nb-1-big-Data.db"), "orders")
	_, done, err := restore.Run(t.Context(), restore.Config{ID: "r1/1", Action: "empty", Keep: "Always", DataMount: c.Pod.DataMount, Log: c.Log, Secrets: &event.Secrets{}})
	if err != nil || !done.Previous {
		t.Fatalf("%+v, %v", done, err)
	}
}

func kept(t *testing.T, c Config) int {
	t.Helper()
	all, err := restore.Previous(c.Pod.DataMount)
	if err != nil {
		t.Fatal(err)
	}
	return len(all)
}

// serveCQL listens as a database does.
func serveCQL(t *testing.T, port int) (net.Listener, int) {
	t.Helper()
	address := net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port}
	listener, err := net.ListenTCP("tcp4", &address)
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			connection.Close()
		}
	}()
	return listener, listener.Addr().(*net.TCPAddr).Port
}

// TestTidy: what was kept goes when the database has answered for long enough
// without a break, not before.
func TestTidy(t *testing.T) {
	c, log := config(t)
	keptVolume(t, &c)
	t.Setenv("POD_IP", "")
	project(t, c.Places.User, good)
	listener, port := serveCQL(t, 0)
	listener.Close()
	c.Pod.CQLPort, c.TidyAfter, c.TidyPoll = port, 400*time.Millisecond, 10*time.Millisecond
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { Run(ctx, c); close(ended) }()
	eventually(t, "it tells what is kept", func() bool { return len(state(c).Previous) == 1 && state(c).Previous[0].ID == "r1/1" })
	time.Sleep(c.TidyAfter + 100*time.Millisecond)
	if kept(t, c) != 1 {
		t.Fatal("gone while the database does not answer")
	}
	listener, _ = serveCQL(t, port)
	time.Sleep(c.TidyAfter / 2)
	listener.Close()
	time.Sleep(c.TidyAfter / 4) // a break
	listener, _ = serveCQL(t, port)
	defer listener.Close()
	time.Sleep(c.TidyAfter / 2)
	if kept(t, c) != 1 {
		t.Fatal("gone in spite of the break")
	}
	eventually(t, "it is removed", func() bool { return kept(t, c) == 0 })
	eventually(t, "it is said", func() bool {
		return strings.Contains(log.String(), `"the data from before a restore are removed","restore":"r1/1"`) && len(state(c).Previous) == 0
	})
	if left, _ := os.ReadDir(filepath.Join(c.Pod.DataMount, ".stategraft/previous")); len(left) > 0 {
		t.Errorf("%v stay", left)
	}
	if done, err := restore.Done(c.Pod.DataMount); err != nil || len(done) != 1 {
		t.Errorf("the volume forgets what was done: %v, %v", done, err)
	}
	cancel()
	<-ended
}

// TestTidyOnlyWhenTold: without the variable nothing is looked at.
func TestTidyOnlyWhenTold(t *testing.T) {
	c, _ := config(t)
	keptVolume(t, &c)
	if got := c.startTidy(t.Context())(); got != nil {
		t.Errorf("%v", got)
	}
}

// TestTidyAfterHalf: data that an interrupted restore left, and that the database has
// run on for long, are no longer taken for half replaced, also where nothing is kept.
func TestTidyAfterHalf(t *testing.T) {
	c, _ := config(t)
	c.Pod.DataMount = t.TempDir()
	t.Setenv("POD_IP", "")
	write(t, filepath.Join(c.Pod.DataMount, ".stategraft/restore.json"), `{"doing": {"id": "r1/1", "request": true}}`)
	listener, port := serveCQL(t, 0)
	listener.Close()
	c.Pod.CQLPort, c.TidyAfter, c.TidyPoll = port, 50*time.Millisecond, 5*time.Millisecond
	c.startTidy(t.Context())
	time.Sleep(2 * c.TidyAfter)
	if !restore.Half(c.Pod.DataMount) {
		t.Fatal("forgotten while the database does not answer")
	}
	listener, _ = serveCQL(t, port)
	defer listener.Close()
	eventually(t, "it is whole again", func() bool { return !restore.Half(c.Pod.DataMount) })
}

// TestTidyForRoom: a volume that fills up loses what was kept because there was
// room, not what was asked to be kept.
func TestTidyForRoom(t *testing.T) {
	c, _ := config(t)
	keptVolume(t, &c)
	if err := restore.TidyForRoom(c.Pod.DataMount, c.Log); err != nil || kept(t, c) != 1 {
		t.Errorf("%v, %d kept", err, kept(t, c))
	}
	marker := filepath.Join(c.Pod.DataMount, ".stategraft/restore.json")
	text, err := os.ReadFile(marker)
	if err != nil {
		t.Fatal(err)
	}
	write(t, marker, strings.Replace(string(text), `"Always"`, `"IfRoom"`, 1))
	if err := c.tidyOnce(time.Time{}); err != nil || kept(t, c) != 1 {
		t.Errorf("there is room: %v, %d kept", err, kept(t, c))
	}
	if err := restore.TidyForRoom(c.Pod.DataMount, c.Log); err != nil || kept(t, c) != 0 {
		t.Errorf("%v, %d kept", err, kept(t, c))
	}
}

// TestSetupBare: what needs no backup needs no medusa.ini.
func TestSetupBare(t *testing.T) {
	c, log := config(t)
	c.Bare = true
	if err := Setup(c); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(c.Places.Binary()); err != nil || !strings.Contains(log.String(), "waiting for the ConfigMap") {
		t.Errorf("%v, %s", err, log.String())
	}
	project(t, c.Places.User, good)
	if err := Setup(c); err != nil || key(c, "storage", "bucket_name") != "one" {
		t.Errorf("with a ConfigMap: %v, %s", err, key(c, "storage", "bucket_name"))
	}
}
