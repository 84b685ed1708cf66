package serve

import (
	"context"
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

	"github.com/stategraft/stategraft/agent/anna/membership"
	"github.com/stategraft/stategraft/agent/anna/stage"
	"github.com/stategraft/stategraft/agent/anna/store"
	"github.com/stategraft/stategraft/agent/anna/wire"
	"github.com/stategraft/stategraft/agent/files"
	"github.com/stategraft/stategraft/api/medusa"
	"github.com/stategraft/stategraft/api/node"
	"github.com/stategraft/stategraft/test/annanode"
)

// names is the DNS of a cluster on this machine: the Services' addresses.
type names struct {
	nobody
	mutex sync.Mutex
	hosts map[string][]string
}

func (n *names) set(service string, hosts ...string) {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	n.hosts[service+".hydro.svc.cluster.local"] = hosts
}

func (n *names) LookupHost(_ context.Context, name string) ([]string, error) {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	if found := n.hosts[strings.TrimSuffix(name, ".")]; len(found) > 0 {
		return found, nil
	}
	return nil, n.none(name)
}

// whole is a cluster of test nodes with a sidecar each, over one bucket.
type whole struct {
	*annanode.Cluster
	t    *testing.T
	dns  *names
	disk string // of the bucket
	pods []*rig
}

func startWhole(t *testing.T, memory int, bucket string, prepare func(r *rig)) *whole {
	t.Helper()
	w := startBare(t, memory, bucket)
	for i, n := range w.Nodes {
		w.pod(i, n, prepare)
	}
	return w
}

// startBare starts the cluster without sidecars.
func startBare(t *testing.T, memory int, bucket string) *whole {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	w := &whole{t: t, disk: bucket, dns: &names{hosts: map[string][]string{}}}
	var err error
	w.Cluster, err = annanode.StartCluster(ctx, annanode.ClusterConfig{
		Routing: 1, Memory: memory, Threads: annanode.Threads{Memory: 2}, Report: 100 * time.Millisecond, Gossip: 100 * time.Millisecond,
	})
	must(t, err)
	t.Cleanup(w.Close)
	w.dns.set("anna-routing", w.RoutingHosts()...)
	return w
}

// pod starts the sidecar of a memory node.
func (w *whole) pod(i int, n *annanode.Node, prepare func(r *rig)) *rig {
	w.t.Helper()
	r := w.at(i, n.Server().Private)
	if prepare != nil {
		prepare(r)
	}
	w.run(r)
	return r
}

// at is the pod of a memory node at an address, with its files.
func (w *whole) at(i int, host string) *rig {
	w.t.Helper()
	root := w.t.TempDir()
	r := &rig{t: w.t, log: &lines{}}
	r.Config = Config{
		Pod:    Pod{Name: fmt.Sprintf("m-%d", i), Namespace: "hydro", IP: host, Cluster: "anna", Role: "memory", Grace: time.Minute},
		Places: files.Standard(root), Private: filepath.Join(root, "private"), Config: filepath.Join(root, "config"), Conf: filepath.Join(root, "conf"),
		Address: host, GRPCPort: 50051, NodePort: 50061, LifePort: 6982, Local: host,
		Log: slog.New(slog.NewTextHandler(r.log, nil)), Resolver: w.dns, every: 50 * time.Millisecond, period: 500 * time.Millisecond,
	}
	for _, dir := range []string{r.Places.User, r.Places.Shared, r.Conf} {
		must(w.t, os.MkdirAll(dir, 0o755))
	}
	r.configure(fmt.Sprintf("[storage]\nstorage_provider = local\nbucket_name = b\nbase_path = %s\n", w.disk))
	must(w.t, os.WriteFile(filepath.Join(r.Conf, "anna-config.yml"), fmt.Appendf(nil,
		"threads: {memory: 2, ebs: 1, routing: 1}\nreplication: {memory: 1, ebs: 0, minimum: 1, local: 1}\nserver: {public_ip: %s, private_ip: %s, routing: [%s]}\n", host, host, w.RoutingHosts()[0]), 0o600))
	return r
}

// run starts a pod's sidecar.
func (w *whole) run(r *rig) {
	w.t.Helper()
	w.pods = append(w.pods, r)
	hosts := []string{}
	for _, p := range w.pods {
		hosts = append(hosts, p.Pod.IP)
	}
	w.dns.set("anna-memory", hosts...)
	r.server = newServer(r.Config)
	ctx, cancel := context.WithCancel(context.Background())
	r.end, r.ended = cancel, make(chan struct{})
	var all sync.WaitGroup
	r.server.start(ctx, &all)
	go func() {
		defer close(r.ended)
		<-ctx.Done()
		r.leaving.Wait()
		all.Wait()
	}()
	w.t.Cleanup(func() {
		r.stop()
		if w.t.Failed() {
			w.t.Logf("%s:\n%s", r.Pod.Name, r.log)
		}
	})
}

// keys are some of each kind.
func keys(n int) (all []wire.Tuple) {
	for i := range n {
		t := wire.Tuple{Key: fmt.Sprintf("key-%04d", i)}
		if i%3 == 0 {
			s := wire.Set{Values: [][]byte{fmt.Appendf(nil, "%d", i), []byte("x")}}
			t.Lattice, t.Payload = wire.TypeSet, wire.AppendSet(nil, s)
		} else {
			l := wire.LWW{Timestamp: uint64(100 + i), Value: fmt.Appendf(nil, "value %d", i)}
			t.Lattice, t.Payload = wire.TypeLWW, wire.AppendLWW(nil, l)
		}
		all = append(all, t)
	}
	return all
}

// has compares what the cluster serves with what it should.
func (w *whole) has(want []wire.Tuple) {
	w.t.Helper()
	lacking := 0
	for _, tuple := range want {
		found := false
		for _, n := range w.Nodes {
			if n.Err() != nil {
				continue
			}
			got, ok := n.Get(tuple.Key)
			found = found || ok && got.Lattice == tuple.Lattice && string(got.Payload) == string(tuple.Payload)
		}
		if !found {
			lacking++
		}
	}
	if lacking > 0 {
		w.t.Errorf("%d of %d keys are not there", lacking, len(want))
	}
}

func clientOf(r *rig) medusa.MedusaClient {
	r.t.Helper()
	eventually(r.t, func() bool {
		return membership.Listens(r.t.Context(), r.Pod.IP, r.GRPCPort) && r.server.engine.ready() == nil
	})
	return dialMedusa(r.t, net.JoinHostPort(r.Pod.IP, fmt.Sprint(r.GRPCPort)))
}

// backUp backs all nodes up.
func (w *whole) backUp(name string) {
	w.t.Helper()
	for _, r := range w.pods {
		c := clientOf(r)
		if _, err := c.AsyncBackup(w.t.Context(), &medusa.BackupRequest{Name: name}); err != nil {
			w.t.Fatalf("%s: %v", r.Pod.Name, err)
		}
		for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(20 * time.Millisecond) {
			got := statusOf(w.t, c, name)
			if got == "SUCCESS" {
				break
			}
			if got != "IN_PROGRESS" || time.Now().After(deadline) {
				w.t.Fatalf("%s: %s", r.Pod.Name, got)
			}
		}
	}
}

// TestWhole backs a cluster up by gRPC, loses all of it, restores it into one of another
// size, and merges it once more; and deletes the backup.
func TestWhole(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it takes some seconds")
	}
	bucket := t.TempDir()
	must(t, os.MkdirAll(filepath.Join(bucket, "b"), 0o755))
	w := startWhole(t, 2, bucket, nil)
	all := keys(600)
	if n := w.Load(slices.Values(all)); n != len(all) {
		t.Fatalf("%d keys were taken", n)
	}
	w.backUp("b1")
	b, err := w.pods[0].backup(t.Context(), "", "b1")
	must(t, err)
	if !b.Complete || len(b.Members) != 2 || len(b.Ring) != 2 || b.Members[0].Keys+b.Members[1].Keys != 600 || b.Members[0].Missing != nil {
		t.Errorf("%+v", b)
	}
	list, err := w.pods[1].backups(t.Context(), "")
	if err != nil || len(list.Backups) != 1 || !list.Backups[0].Complete {
		t.Errorf("%+v, %v", list, err)
	}
	w.Close()
	for _, r := range w.pods {
		r.stop()
	}

	// Three nodes: the first two take the parts, as a Restore deals them out.
	again := startWhole(t, 3, bucket, func(r *rig) {
		storage, done, err := newShelf(r.Config).borrow(t.Context(), "")
		must(t, err)
		defer done()
		var sources []string
		if r.Pod.Name != "m-2" {
			sources = []string{r.Pod.Name}
		}
		_, err = stage.Fetch(t.Context(), storage, "hydro/all", "b1", sources, nil, stage.Dir(Staged(r.Places), "hydro/all"), nil)
		must(t, err)
	})
	var sum int64
	for _, r := range again.pods {
		sum += r.is("hydro/all", node.ReplayDone).Keys
	}
	if sum != 600 {
		t.Errorf("%d keys were replayed", sum)
	}
	again.has(all)

	// A key that is lost comes back by a merge.
	again.Nodes[0].Close()
	again.Nodes[0] = mended(t, again)
	c := clientOf(again.pods[1])
	if _, err := again.pods[1].replays.ask(t.Context(), node.ReplayRequest{ID: "hydro/merge", Backup: "b1", Sources: []string{"m-0", "m-1"}}); err != nil {
		t.Fatal(err)
	}
	if last := again.pods[1].is("hydro/merge", node.ReplayDone); last.Keys != 600 {
		t.Errorf("%+v", last)
	}
	again.has(all)
	eventually(t, func() bool { return again.pods[1].reported().Busy == "" })
	if answer, err := c.DeleteBackup(t.Context(), &medusa.DeleteBackupRequest{Name: "b1"}); err != nil || answer.GetStatus() != medusa.StatusType_SUCCESS {
		t.Errorf("%v, %v", answer, err)
	}
	if b, err := again.pods[2].backup(t.Context(), "", "b1"); err != nil || len(b.Members) != 0 {
		t.Errorf("%+v, %v", b, err)
	}
	left, err := store.Open(t.Context(), must1(newShelf(again.pods[0].Config).current()))
	must(t, err)
	defer left.Close()
	if entries, err := left.Backups(t.Context()); err != nil || len(entries) != 0 {
		t.Errorf("%v, %v", entries, err)
	}
}

func must1[T any](value T, _ error) T { return value }

// mended starts the first node anew at its address.
func mended(t *testing.T, w *whole) *annanode.Node {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	n, err := w.AddAt(ctx, wire.Memory, w.Nodes[0].Server().Private)
	must(t, err)
	w.Nodes = w.Nodes[:len(w.Nodes)-1]
	return n
}
