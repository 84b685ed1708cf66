package serve

import (
	"context"
	"errors"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stategraft/stategraft/agent/anna/replay"
	"github.com/stategraft/stategraft/agent/anna/wire"
	"github.com/stategraft/stategraft/agent/files"
	"github.com/stategraft/stategraft/test/annanode"
)

// departing starts the departer of the routing node's pod.
func (w *whole) departing(after time.Duration) *rig {
	w.t.Helper()
	root := w.t.TempDir()
	r := &rig{t: w.t, log: &lines{}}
	r.Config = w.pods[0].Config
	r.Pod.Name, r.Pod.Role, r.Pod.IP = "r-0", "routing", w.RoutingHosts()[0]
	r.Places, r.Private, r.Config.Config = files.Standard(root), filepath.Join(root, "private"), filepath.Join(root, "config")
	r.Local, r.Address, r.every = r.Pod.IP, r.Pod.IP, 50*time.Millisecond
	s := newServer(r.Config)
	s.departer = s.anna.departer()
	s.departer.After = after
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); s.departer.Run(ctx) }()
	w.t.Cleanup(func() { cancel(); <-done })
	r.server = s
	return r
}

// known are the memory nodes that routing knows.
func (w *whole) known() (hosts []string) {
	w.t.Helper()
	var m wire.Membership
	eventually(w.t, func() bool { // on a busy machine not at the first try
		var err error
		m, err = w.pods[0].anna.messenger.Members(w.t.Context(), w.RoutingHosts()[0])
		return err == nil
	})
	for _, s := range m.Of(wire.Memory) {
		hosts = append(hosts, s.Private)
	}
	slices.Sort(hosts)
	return hosts
}

// TestMembers restarts routing, kills a node for good, and has another hand its keys over:
// the lists of members become right each time, and the keys are where they are looked for.
func TestMembers(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it takes some seconds")
	}
	w := startWhole(t, 3, t.TempDir(), nil)
	for _, r := range w.pods {
		eventually(t, func() bool { return r.server.engine.ready() == nil })
	}
	// Looking for keys that have moved they share what Anna survives.
	c, err := w.pods[0].anna.asked()
	must(t, err)
	shared := w.pods[0].anna.share(t.Context(), c)
	if limit := c.Stats().Limit; limit != 800/3 {
		t.Errorf("%d tuples may be outstanding in one of three", limit)
	}
	if shared(); c.Stats().Limit != 800 {
		t.Errorf("%+v", c.Stats())
	}
	// Where DNS knows no data node, a replay waits for those that routing knows.
	var expected []replay.Member
	eventually(t, func() bool { expected, err = w.pods[0].anna.expect(t.Context()); return err == nil })
	if len(expected) != 3 {
		t.Errorf("%+v", expected)
	}
	host := w.RoutingHosts()[0]
	w.Routing[0].Close()
	w.Routing = nil
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, err = w.AddAt(ctx, wire.Routing, host)
	must(t, err)
	eventually(t, func() bool { return len(w.known()) == 3 })
	must(t, w.Wait(ctx))

	// Each has told its threads of the others again, as the list has changed: what came to
	// them behind a departure would have that node in their rings for good.
	for _, r := range w.pods {
		looks := r.announcer.Counts().Looks
		eventually(t, func() bool { return r.announcer.Counts().Looks > looks+4 })
	}

	// One is lost for good: its name has gone from DNS, and nothing answers there.
	departer := w.departing(time.Second)
	w.pods[2].stop()
	w.Nodes[2].Close()
	w.dns.set("anna-memory", w.pods[0].Pod.IP, w.pods[1].Pod.IP)
	eventually(t, func() bool { return len(w.known()) == 2 })
	eventually(t, func() bool { return departer.departer.Counts().Departs > 0 })

	// One is stopped, and hands its keys over to the last.
	all := keys(40)
	eventually(t, func() bool { return w.Load(slices.Values(all)) >= len(all) }) // as soon as the others have heard
	leaving := w.pods[1]
	if status, text := leaving.getAt(PathDepart); status != http.StatusOK || !strings.Contains(text, "handed over") {
		t.Errorf("%d %s", status, text)
	}
	// Routing is told over another connection than it is asked over.
	eventually(t, func() bool { return slices.Equal(w.known(), []string{w.pods[0].Pod.IP}) })
	eventually(t, func() bool {
		for _, tuple := range all {
			if _, ok := w.Nodes[0].Get(tuple.Key); !ok {
				return false
			}
		}
		return true
	})
	time.Sleep(300 * time.Millisecond)
	if known := w.known(); len(known) != 1 {
		t.Errorf("it announced itself again: %q", known)
	}
	// The last stays.
	if _, text := w.pods[0].getAt(PathDepart); !strings.Contains(text, "no other node") {
		t.Errorf("%s", text)
	}
}

// TestJoinHeals: a node that joins shows all keys that are its own, though Anna hands it
// fifty of each thread and hides the others.
func TestJoinHeals(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it takes some seconds")
	}
	w := startWhole(t, 1, t.TempDir(), nil)
	all := keys(1000)
	if n := w.Load(slices.Values(all)); n != len(all) {
		t.Fatalf("%d keys were taken", n)
	}
	hosts, err := annanode.FreeHosts(1)
	must(t, err)
	joining := w.at(1, hosts[0])
	// Of nodes that report late, as on a busy machine, a part is saved.
	joining.period = 2 * time.Second
	eventually(t, func() bool {
		n, err := SaveKeys(t.Context(), joining.Config)
		return err == nil && n == int64(len(all))
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, err = w.AddAt(ctx, wire.Memory, hosts[0])
	must(t, err)
	w.run(joining)
	eventually(t, func() bool { _, err := os.Stat(Saved(joining.Places)); return errors.Is(err, fs.ErrNotExist) })
	c, err := joining.anna.asked()
	must(t, err)
	var names []string
	for _, tuple := range all {
		names = append(names, tuple.Key)
	}
	found, err := c.Find(ctx, names)
	must(t, err)
	hidden := 0
	for _, tuple := range found {
		if tuple.Error != wire.NoError {
			hidden++
		}
	}
	if hidden > 0 {
		t.Errorf("%d keys are hidden", hidden)
	}
	if status, text := joining.getAt(PathHealth); status != http.StatusOK {
		t.Errorf("%d %s", status, text)
	}
}
