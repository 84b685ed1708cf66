package kvs

import (
	"context"
	"encoding/binary"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stategraft/stategraft/agent/anna/backup"
	"github.com/stategraft/stategraft/agent/anna/client"
	"github.com/stategraft/stategraft/agent/anna/stage"
	"github.com/stategraft/stategraft/agent/anna/store"
	"github.com/stategraft/stategraft/agent/anna/wire"
)

// span is when a version of a key was sent and when it was acknowledged; zero where it
// was not.
type span struct{ sent, acked time.Time }

// history has every version of every key.
type history struct {
	mutex sync.Mutex
	of    map[string][]span
}

// value is a version's: long, and every part of it tells the version, so that a value of
// two halves would be seen.
func value(version int) []byte {
	b := make([]byte, 0, 4000)
	for len(b) < cap(b) {
		b = binary.BigEndian.AppendUint32(b, uint32(version))
	}
	return b
}

// version reads it, or says that the value is torn.
func version(b []byte) (int, error) {
	if len(b) != 4000 {
		return 0, fmt.Errorf("it has %d bytes, not 4000", len(b))
	}
	first := binary.BigEndian.Uint32(b)
	for at := 4; at < len(b); at += 4 {
		if other := binary.BigEndian.Uint32(b[at:]); other != first {
			return 0, fmt.Errorf("it is of version %d, and from byte %d on of %d", first, at, other)
		}
	}
	return int(first), nil
}

// write writes versions of the keys until the context ends: only one of a key is under
// way at a time.
func (h *history) write(ctx context.Context, t *testing.T, c *client.Client, keys []string) {
	for next := 0; ctx.Err() == nil; next++ {
		for _, key := range keys {
			owners, err := c.Owners(ctx, key)
			if err != nil {
				if ctx.Err() == nil {
					t.Errorf("looking %s up: %v", key, err)
				}
				return
			}
			h.mutex.Lock()
			v := len(h.of[key])
			h.of[key] = append(h.of[key], span{sent: time.Now()})
			h.mutex.Unlock()
			tuple := wire.Tuple{Key: key, Lattice: wire.TypeLWW, Payload: wire.AppendLWW(nil, wire.LWW{Timestamp: uint64(v + 1), Value: value(v)})}
			result, err := c.Put(context.WithoutCancel(ctx), owners[0], []wire.Tuple{tuple})
			if err != nil || !result[0].Done {
				t.Errorf("writing %s: %+v, %v", key, result, err)
				return
			}
			h.mutex.Lock()
			h.of[key][v].acked = time.Now()
			h.mutex.Unlock()
		}
	}
}

// await waits until so many keys have been written.
func (h *history) await(t *testing.T, keys int) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(20 * time.Millisecond) {
		written := 0
		h.mutex.Lock()
		for _, versions := range h.of {
			if !versions[0].acked.IsZero() {
				written++
			}
		}
		h.mutex.Unlock()
		if written == keys {
			return
		}
		if t.Failed() || time.Now().After(deadline) {
			t.Fatalf("%d of %d keys are written", written, keys)
		}
	}
}

// held tells whether a version was the key's at some moment between two times.
func (h *history) held(key string, v int, from, to time.Time) error {
	all := h.of[key]
	switch {
	case v >= len(all):
		return fmt.Errorf("version %d was never written, only %d were", v, len(all))
	case all[v].sent.After(to):
		return fmt.Errorf("version %d was sent %s after the backup", v, all[v].sent.Sub(to))
	case v+1 < len(all) && !all[v+1].acked.IsZero() && all[v+1].acked.Before(from):
		return fmt.Errorf("version %d was over %s before the backup began", v, from.Sub(all[v+1].acked))
	}
	return nil
}

// Keys are written all the time while two nodes are backed up: each value in the backup
// was the key's at some moment of it, and is whole.
func TestWhileWriting(t *testing.T) {
	const report = time.Second
	two := start(t, wish{Memory: 2, Threads: 2, Report: report})
	h := &history{of: map[string][]span{}}
	const writers, each = 8, 25
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var writing sync.WaitGroup
	ours := connect(t, two.Routing, 1)
	for w := range writers {
		var keys []string
		for i := range each {
			keys = append(keys, fmt.Sprintf("w%d-%d", w, i))
		}
		writing.Go(func() { h.write(ctx, t, ours, keys) })
	}
	storage, _ := shelf(t)
	// Those that are not in reports when it begins would not have to be in the backup.
	h.await(t, writers*each)
	time.Sleep(2 * report)
	backups := scale(2, 8)
	checked, versions := 0, map[int]bool{}
	type made struct {
		name     string
		from, to time.Time
	}
	var all []made
	for n := range backups {
		m := made{name: fmt.Sprintf("b%d", n), from: time.Now()}
		var nodes sync.WaitGroup
		for i, host := range two.Memory {
			nodes.Go(func() {
				self := wire.Server{Public: host, Private: host}
				job := backup.Job{Name: m.name, Node: fmt.Sprintf("memory-%d", i), Role: "memory", Self: self, Tier: wire.Memory, Threads: 2,
					Local: host, Scratch: t.TempDir(), Period: report}
				if _, err := backup.Run(t.Context(), job, ours, storage, func(backup.Progress) {}); err != nil {
					t.Errorf("backup %s of %s: %v", m.name, job.Node, err)
				}
			})
		}
		nodes.Wait()
		m.to = time.Now()
		all = append(all, m)
	}
	stop()
	writing.Wait()
	for _, m := range all {
		for key, tuple := range records(t, storage, m.name) {
			lww, err := wire.ParseLWW(tuple.Payload)
			if err != nil {
				t.Fatalf("%s: %v", key, err)
			}
			v, err := version(lww.Value)
			if err == nil {
				err = h.held(key, v, m.from, m.to)
			}
			if err == nil && lww.Timestamp != uint64(v+1) {
				err = fmt.Errorf("version %d has the time of %d", v, lww.Timestamp-1)
			}
			if err != nil {
				t.Errorf("%s of %s: %v", key, m.name, err)
			}
			checked++
			versions[v] = true
		}
	}
	written := 0
	for _, list := range h.of {
		written += len(list)
	}
	if checked < backups*writers*each || written < 2*writers*each {
		t.Errorf("only %d values were looked at, of %d keys in %d backups, and %d were written", checked, writers*each, backups, written)
	}
	figure(t, "%d backups of 2 nodes while %d values of 200 keys were written: all %d values in them were the key's at the time, of %d versions; none torn",
		backups, written, checked, len(versions))
}

// records are what is in a backup of all nodes.
func records(t *testing.T, storage *store.Store, name string) map[string]wire.Tuple {
	t.Helper()
	parts, err := storage.Parts(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	var nodes []string
	for _, p := range parts {
		nodes = append(nodes, p.Node)
	}
	staged, err := stage.Fetch(t.Context(), storage, name, name, nodes, nil, filepath.Join(t.TempDir(), "staged"), nil)
	if err != nil {
		t.Fatalf("backup %s: %v", name, err)
	}
	all := map[string]wire.Tuple{}
	for _, p := range staged.Packs {
		if err := staged.Records(p, func(r stage.Record) error {
			if _, twice := all[r.Key]; twice {
				t.Errorf("%s is in backup %s twice", r.Key, name)
			}
			all[r.Key] = wire.Tuple{Key: r.Key, Lattice: r.Lattice, Payload: append([]byte(nil), r.Payload...)}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	return all
}
