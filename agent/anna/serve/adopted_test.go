package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/stategraft/stategraft/agent/anna/backup"
	"github.com/stategraft/stategraft/agent/anna/client"
	"github.com/stategraft/stategraft/agent/anna/config"
	"github.com/stategraft/stategraft/agent/anna/membership"
	"github.com/stategraft/stategraft/agent/anna/stage"
	"github.com/stategraft/stategraft/agent/anna/wire"
	"github.com/stategraft/stategraft/api/medusa"
	"github.com/stategraft/stategraft/api/node"
)

// adoptedWhole is a cluster that runs already, beside whose memory nodes containers are
// added that know nothing of the nodes but their own addresses. By shows them more.
func adoptedWhole(t *testing.T, bucket string, nodes int, load []wire.Tuple, by func(w *whole, r *rig)) *whole {
	t.Helper()
	w := startBare(t, nodes, bucket)
	if n := w.Load(slices.Values(load)); n != len(load) {
		t.Fatalf("%d keys were taken", n)
	}
	for i := range w.Nodes {
		w.run(w.adopted(i, by))
	}
	return w
}

// adopted is a container beside a node.
func (w *whole) adopted(i int, by func(w *whole, r *rig)) *rig {
	r := w.at(i, w.Nodes[i].Server().Private)
	must(w.t, os.RemoveAll(r.Conf))
	r.Conf, r.Adopted, r.TidyAfter = "", true, time.Second
	r.Node = Started("", filepath.Join(w.t.TempDir(), "no-proc"), slog.New(slog.DiscardHandler))
	if by != nil {
		by(w, r)
	}
	return r
}

// replace has another container take over from the one beside a node.
func (w *whole) replace(i int) *rig {
	w.t.Helper()
	old := w.pods[i]
	eventually(w.t, Sidecar{old.server}.Hold)
	old.stop()
	next := w.adopted(i, nil)
	w.run(next)
	w.pods[i], w.pods = next, w.pods[:len(w.pods)-1]
	return next
}

// TestAdopted backs up a cluster that was never injected, has the containers beside its nodes
// be replaced by others and backs it up again; nobody is told of the nodes, and nothing is
// written to them. What was backed up is then restored elsewhere, and is the same.
func TestAdopted(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it takes some seconds")
	}
	bucket := t.TempDir()
	must(t, os.MkdirAll(filepath.Join(bucket, "b"), 0o755))
	all := keys(600)
	w := adoptedWhole(t, bucket, 2, all, nil)
	w.backUp("b1")
	for i := range w.pods {
		first := w.pods[i]
		next := w.replace(i)
		eventually(t, func() bool { return next.server.engine.ready() == nil })
		if first.Private == next.Private || next.ResponsePort != first.ResponsePort {
			t.Errorf("the other container is %+v", next.Config)
		}
	}
	w.backUp("b2")
	for _, name := range []string{"b1", "b2"} {
		b, err := w.pods[0].backup(t.Context(), "", name)
		must(t, err)
		if !b.Complete || len(b.Members) != 2 || b.Members[0].Keys+b.Members[1].Keys != 600 || b.Members[0].Missing != nil || b.Members[1].Missing != nil {
			t.Errorf("%s: %+v", name, b)
		}
	}
	for _, r := range w.pods {
		s := r.server
		if s.announcer != nil || s.departer != nil || s.LifePort != 0 || membership.Listens(t.Context(), r.Pod.IP, 6982) {
			t.Errorf("%s does more than to back up", r.Pod.Name)
		}
		if report := r.reported(); report.Waiting != "" || report.Config != nil || report.Replay != nil || report.Node != r.Pod.Name {
			t.Errorf("%+v", report)
		}
		for range 2 {
			asked, err := s.nodeConfig().Replay(t.Context(), node.ReplayRequest{ID: "x/y", Backup: "b1", Sources: []string{"m-0"}})
			last := r.reported().Replay
			if err != nil || asked.ID != "x/y" || asked.Phase != node.ReplayFailed || !strings.Contains(asked.Message, "adopted") || last == nil || *last != asked {
				t.Errorf("a replay: %+v, %v; reported %+v", asked, err, last)
			}
		}
	}
	w.has(all)
	w.Close()
	for _, r := range w.pods {
		r.stop()
	}

	again := startWhole(t, 2, bucket, func(r *rig) {
		storage, done, err := newShelf(r.Config).borrow(t.Context(), "")
		must(t, err)
		defer done()
		_, err = stage.Fetch(t.Context(), storage, "hydro/all", "b2", []string{r.Pod.Name}, nil, stage.Dir(Staged(r.Places), "hydro/all"), nil)
		must(t, err)
	})
	for _, r := range again.pods {
		r.is("hydro/all", node.ReplayDone)
	}
	again.has(all)
}

// TestAdoptedKnows: what tells an adopted sidecar of its node is enough where it is there, and
// where it is not the sidecar says what is missing, and makes no backup.
func TestAdoptedKnows(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it takes some seconds")
	}
	unknown := func(w *whole, _ *rig) { w.dns.set("anna-routing") }
	file := func(w *whole, r *rig) string {
		return fmt.Sprintf("threads: {memory: 2, routing: 1}\nserver: {public_ip: %[1]s, private_ip: %[1]s, routing: [%[2]s]}\n", r.Pod.IP, w.RoutingHosts()[0])
	}
	for name, c := range map[string]struct {
		by   func(w *whole, r *rig)
		want string // that it says; empty: it makes a backup
	}{
		"the usual names": {},
		"nothing":         {unknown, "stategraft.services.routing"},
		"variables": {by: func(w *whole, r *rig) {
			unknown(w, r)
			r.Routing = w.RoutingHosts()
		}},
		"its file on a volume": {by: func(w *whole, r *rig) {
			unknown(w, r)
			dir := t.TempDir()
			must(t, os.WriteFile(filepath.Join(dir, config.File), []byte(file(w, r)), 0o600))
			r.Node = Started(dir, "/nowhere", slog.New(slog.DiscardHandler))
		}},
		"its process": {by: func(w *whole, r *rig) {
			unknown(w, r)
			r.Node = Started("", fakeProc(t, file(w, r)), slog.New(slog.DiscardHandler))
		}},
		"a Service of another name": {by: func(w *whole, r *rig) {
			unknown(w, r)
			w.dns.set("kvs-routers", w.RoutingHosts()...)
			must(t, os.MkdirAll(r.Config.Config, 0o755))
			must(t, os.WriteFile(filepath.Join(r.Config.Config, config.File), []byte("threads: {memory: 1, ebs: 1, routing: 1, benchmark: 1}\ncapacities: {memory-cap: 1, ebs-cap: 1}\nreplication: {memory: 1, ebs: 0, minimum: 1, local: 1}\nstategraft: {services: {routing: kvs-routers}}\n"), 0o600))
		}},
		"another's cluster": {func(_ *whole, r *rig) { r.Pod.IP = "127.0.0.2" }, "this pod's address 127.0.0.2"},
	} {
		t.Run(name, func(t *testing.T) {
			bucket := t.TempDir()
			must(t, os.MkdirAll(filepath.Join(bucket, "b"), 0o755))
			w := adoptedWhole(t, bucket, 1, keys(60), c.by)
			r := w.pods[0]
			if c.want == "" {
				w.backUp("b1")
				if b, err := r.backup(t.Context(), "", "b1"); err != nil || !b.Complete || b.Members[0].Keys != 60 {
					t.Errorf("%+v, %v", b, err)
				}
				return
			}
			eventually(t, func() bool { return strings.Contains(r.reported().Waiting, c.want) })
			if text := r.log.String(); !strings.Contains(text, "degraded: no backups") {
				t.Errorf("the log: %s", text)
			}
			medusaOf := dialMedusa(t, net.JoinHostPort(r.Address, fmt.Sprint(r.GRPCPort)))
			if code := begin(t, medusaOf, "b1"); code != codes.Internal {
				t.Errorf("a backup: %s", code)
			}
		})
	}
}

// TestHold: nothing is begun any more once it holds, and it does not hold while something
// goes on.
func TestHold(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	goes := make(chan struct{})
	r.machine.backups = func(context.Context, string) error { <-goes; return nil }
	r.start()
	c, sidecar := r.medusa(), Sidecar{r.server}
	if sidecar.Busy() {
		t.Error("busy with nothing")
	}
	if code := begin(t, c, "b1"); code != codes.OK {
		t.Fatal(code)
	}
	if !sidecar.Busy() || sidecar.Hold() {
		t.Error("a backup is made, and it would go")
	}
	close(goes)
	eventually(t, sidecar.Hold)
	if !sidecar.Hold() || statusOf(t, c, "b1") != "SUCCESS" {
		t.Error("it holds no longer, or the backup was lost")
	}
	if code := begin(t, c, "b2"); code != codes.FailedPrecondition {
		t.Errorf("another backup: %s", code)
	}
	if _, err := c.DeleteBackup(t.Context(), &medusa.DeleteBackupRequest{Name: "b1"}); err == nil {
		t.Error("a deletion has begun")
	}
	routing := newRig(t)
	routing.Pod.Role = "routing"
	if s := New(routing.Config); s.Busy() || !s.Hold() {
		t.Error("a pod without data has something to end")
	}
}

// reports are those of a node's threads.
type reports struct {
	backup.Source
	mutex sync.Mutex
	asked []int
	have  map[int]bool
}

func (r *reports) Report(_ context.Context, _ wire.Server, _ wire.Tier, tid int) (client.Report, error) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.asked = append(r.asked, tid)
	return client.Report{Never: !r.have[tid], Stamp: 1}, nil
}

// TestCounting: a thread is there when its port is bound, and no report of before makes one,
// nor does a missing report have one be left out.
func TestCounting(t *testing.T) {
	t.Parallel()
	from := &reports{have: map[int]bool{0: true, 1: true, 3: true}}
	bound := map[int]bool{0: true, 1: true, 2: true}
	c := counting{from, func(_ context.Context, tid int) bool { return bound[tid] }}
	for tid, want := range map[int]string{0: "reported", 1: "reported", 2: "silent", 3: "none"} {
		r, err := c.Report(t.Context(), wire.Server{}, wire.Memory, tid)
		got := "reported"
		switch {
		case errors.Is(err, errUnreported):
			got = "silent"
		case err != nil:
			got = err.Error()
		case r.Never:
			got = "none"
		}
		if got != want {
			t.Errorf("thread %d: %s, want %s", tid, got, want)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Report(ended, wire.Server{}, wire.Memory, 3); !errors.Is(err, context.Canceled) {
		t.Errorf("who gives up learns that there is no thread: %v", err)
	}
	// A node that has not reported yet has a thread all the same.
	if r, err := (counting{&reports{}, c.listens}).Report(t.Context(), wire.Server{}, wire.Memory, 0); err != nil || !r.Never {
		t.Errorf("thread 0: %+v, %v", r, err)
	}
}
