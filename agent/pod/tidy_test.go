package pod

import (
	"context"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stategraft/stategraft/agent/event"
	"github.com/stategraft/stategraft/agent/restore"
	"github.com/stategraft/stategraft/api/node"
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

// cql is a database that can be listening or not, at an address where nobody else is: what
// is given up here for a moment is given to no connection meanwhile.
type cql struct {
	t       *testing.T
	address net.TCPAddr
	net.Listener
}

func newCQL(t *testing.T, c *Config) *cql {
	t.Helper()
	d := &cql{t: t, address: net.TCPAddr{IP: net.IPv4(127, byte(1+rand.IntN(254)), byte(rand.IntN(255)), byte(1+rand.IntN(250))), Port: 10_000 + rand.IntN(20_000)}}
	t.Setenv("POD_IP", d.address.IP.String())
	c.Pod.CQLPort = d.address.Port
	t.Cleanup(d.down)
	return d
}

// up listens as a database does.
func (d *cql) up() {
	d.t.Helper()
	listener, err := net.ListenTCP("tcp4", &d.address)
	if err != nil {
		d.t.Fatal(err)
	}
	d.Listener = listener
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			connection.Close()
		}
	}()
}

func (d *cql) down() {
	if d.Listener != nil {
		d.Close()
	}
	d.Listener = nil
}

// TestTidy: what was kept goes when the database has answered, to an agent that runs, and
// both of them tell.
func TestTidy(t *testing.T) {
	c, log := config(t)
	keptVolume(t, &c)
	project(t, c.Places.User, good)
	database := newCQL(t, &c)
	c.TidyAfter, c.TidyPoll = 50*time.Millisecond, 10*time.Millisecond
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { Run(ctx, c); close(ended) }()
	eventually(t, "it tells what is kept", func() bool { return len(state(c).Previous) == 1 && state(c).Previous[0].ID == "r1/1" })
	time.Sleep(2 * c.TidyAfter)
	if kept(t, c) != 1 {
		t.Fatal("gone while the database does not answer")
	}
	database.up()
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

// TestTidyAfter: the database has to answer for long enough, without a break.
func TestTidyAfter(t *testing.T) {
	c, _ := config(t)
	keptVolume(t, &c)
	database := newCQL(t, &c)
	c.TidyAfter = time.Hour
	clock := time.Now()
	looking := tidier{Config: c, now: func() time.Time { return clock }}
	for i, step := range []struct {
		after time.Duration
		up    bool
		kept  int
	}{
		{0, false, 1},
		{2 * time.Hour, false, 1}, // while it does not answer
		{time.Minute, true, 1},
		{59 * time.Minute, true, 1},
		{time.Second, false, 1}, // a break
		{2 * time.Hour, true, 1},
		{time.Hour - time.Second, true, 1},
		{time.Second, true, 0},
	} {
		clock = clock.Add(step.after)
		if database.down(); step.up {
			database.up()
		}
		var told []node.Previous
		looking.look(t.Context(), func(now []node.Previous) { told = now })
		if got := kept(t, c); got != step.kept || len(told) != 1 {
			t.Errorf("step %d, %+v: %d are kept, told %v", i, step, got, told)
		}
	}
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
	write(t, filepath.Join(c.Pod.DataMount, ".stategraft/restore.json"), `{"doing": {"id": "r1/1", "request": true}}`)
	database := newCQL(t, &c)
	c.TidyAfter, c.TidyPoll = 50*time.Millisecond, 5*time.Millisecond
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { c.tidy(ctx, func([]node.Previous) {}); close(ended) }()
	t.Cleanup(func() { cancel(); <-ended })
	time.Sleep(2 * c.TidyAfter)
	if !restore.Half(c.Pod.DataMount) {
		t.Fatal("forgotten while the database does not answer")
	}
	database.up()
	eventually(t, "it is whole again", func() bool { return !restore.Half(c.Pod.DataMount) })
}

// TestTidyForRoom: a volume that fills up loses what was kept because there was
// room, not what was asked to be kept.
func TestTidyForRoom(t *testing.T) {
	c, _ := config(t)
	c.TidyAfter = time.Hour
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
	if err := c.tidyOnce(0); err != nil || kept(t, c) != 1 {
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
