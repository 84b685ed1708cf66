package backup

import (
	"context"
	"fmt"
	"math"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	"github.com/stategraft/stategraft/agent/anna/lattice"
	"github.com/stategraft/stategraft/agent/anna/pack"
	"github.com/stategraft/stategraft/agent/anna/wire"
)

// What is in memory at a time, in bytes. Lists are whole messages, so one is always held,
// however large. Values are only guessed before they are there.
const (
	listBytes  = 32 << 20
	batchBytes = 1 << 20
	valueBytes = 24 << 20
	firstGuess = 64 << 10 // of a value's size, until one was seen
	hintLimit  = 64 << 20 // a report's size is -1 after a failed write, and the number of elements of a set
)

// item is a record with its digest. Its bytes are those of the answer it came in.
type item struct {
	pack.Record
	digest [32]byte
}

// dump reads all keys of the node's threads and gives them, in batches, to sink.
type dump struct {
	job     *Job
	from    Source
	stamps  *stamps
	missing *missing
	lists   *semaphore.Weighted
	values  *semaphore.Weighted
	sink    chan<- batch
	total   atomic.Int64 // keys of the lists so far
	silent  atomic.Int64 // batches in a row of which nothing was answered
}

// batch is what came of a request; done has to be called when it is used up.
type batch struct {
	items []item
	done  func()
}

func (d *dump) run(ctx context.Context) error {
	group, together := errgroup.WithContext(ctx)
	for _, t := range d.stamps.threads {
		// As many lists as there is room for; one that is larger goes alone.
		weight := min(int64(t.size)+1<<20, listBytes)
		if err := d.lists.Acquire(together, weight); err != nil {
			break // the group has the reason
		}
		group.Go(func() error {
			defer d.lists.Release(weight)
			return d.thread(together, t)
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return ctx.Err()
}

// request is a batch of keys to read.
type request struct {
	keys   []string
	weight int64
}

// thread reads the keys of one.
func (d *dump) thread(ctx context.Context, t *thread) error {
	list, err := d.stamps.list(ctx, t)
	if err != nil {
		return err
	}
	var n int64
	for _, err := range wire.KeySizes(list) {
		if err != nil {
			return fmt.Errorf("the list of keys of thread %d: %w", t.tid, err)
		}
		n++
	}
	d.total.Add(n)
	at, err := wire.Address(d.job.Local, wire.PortRequest+t.tid)
	if err != nil {
		return fmt.Errorf("the address of thread %d: %w", t.tid, err)
	}
	group, ctx := errgroup.WithContext(ctx)
	requests := make(chan request)
	var guess atomic.Int64
	guess.Store(firstGuess)
	group.Go(func() error {
		defer close(requests)
		return d.requests(ctx, list, &guess, requests)
	})
	// Twice as many as are in flight, which the client sees to: while some are looked
	// at and given on, the thread is at work on others.
	for range 2 * d.job.Window {
		group.Go(func() error {
			for r := range requests {
				if err := d.read(ctx, at, r, &guess); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return group.Wait()
}

// requests divides a list into batches by what is known of the values' sizes.
func (d *dump) requests(ctx context.Context, list []byte, guess *atomic.Int64, to chan<- request) error {
	var r request
	send := func() error {
		if err := d.values.Acquire(ctx, r.weight); err != nil {
			return err
		}
		select {
		case to <- r:
			r = request{}
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	for k, err := range wire.KeySizes(list) {
		if err != nil {
			return err
		}
		if wire.IsMetadata(k.Key) {
			continue
		}
		size := guess.Load()
		if hint := int64(k.Size); hint > size && hint < hintLimit {
			size = hint
		}
		size += int64(len(k.Key)) + 64
		if len(r.keys) > 0 && (len(r.keys) >= d.job.Batch || r.weight+size > batchBytes) {
			if err := send(); err != nil {
				return err
			}
		}
		if r.keys == nil {
			r.keys = make([]string, 0, d.job.Batch)
		}
		r.keys, r.weight = append(r.keys, k.Key), min(r.weight+size, valueBytes)
	}
	if len(r.keys) == 0 {
		return nil
	}
	return send()
}

// read reads a batch, finds what has moved, and gives it on.
func (d *dump) read(ctx context.Context, at string, r request, guess *atomic.Int64) error {
	release := func() { d.values.Release(r.weight) }
	tuples, err := d.from.Get(ctx, at, r.keys)
	if err != nil {
		release()
		return fmt.Errorf("read %d keys of %s: %w", len(r.keys), at, err)
	}
	var moved []string
	items := make([]item, 0, len(r.keys))
	answered, bytes := false, 0
	for i := range tuples {
		t := &tuples[i]
		t.Key = r.keys[i] // of the list's memory, which is held anyway
		answered = answered || t.Error != wire.Timeout
		bytes += len(t.Payload)
		// A key that is listed and not there may have gone to another node.
		if t.Error == wire.WrongThread || t.Error == wire.KeyDNE && t.Lattice == wire.None {
			moved = append(moved, t.Key)
			continue
		}
		items = d.take(items, t)
	}
	if !answered {
		if d.silent.Add(1) >= int64(2*d.job.Window) {
			release()
			return fmt.Errorf("%w: %s has answered none of the last %d requests", ErrSilent, at, 2*d.job.Window)
		}
	} else {
		d.silent.Store(0)
		mean := int64(bytes / len(tuples))
		guess.Store(max(mean, guess.Load()*7/8)) // up at once, down slowly
	}
	if len(moved) > 0 {
		found, err := d.from.Find(ctx, moved)
		if err != nil {
			release()
			return fmt.Errorf("find %d keys that %s has no more: %w", len(moved), at, err)
		}
		for i := range found {
			items = d.take(items, &found[i])
		}
	}
	select {
	case d.sink <- batch{items, release}:
		return nil
	case <-ctx.Done():
		release()
		return ctx.Err()
	}
}

// take adds an answer to the items, or notes why it is none.
func (d *dump) take(items []item, t *wire.Tuple) []item {
	// KEY_DNE with a type is a key with an empty value, Anna's only tombstone.
	if t.Error != wire.NoError && (t.Error != wire.KeyDNE || t.Lattice == wire.None) {
		d.missing.add(t.Key, reason(t.Error))
		return items
	}
	if t.Error == wire.KeyDNE && len(t.Payload) == 0 && d.job.Tier == wire.Disk {
		if t.Lattice == wire.TypePriority {
			// As a record it would be a value of priority 0, which keeps others out.
			d.missing.add(t.Key, "KEY_DNE: the disk tier has no value of it; Anna writes no new key there with a priority of 0 or more")
			return items
		}
		d.missing.empty(t.Key)
	}
	if uint64(len(t.Payload)) > math.MaxInt32 {
		d.missing.add(t.Key, "its value is larger than a message can be")
		return items
	}
	digest, err := lattice.Digest(t.Key, t.Lattice, t.Payload)
	if err != nil {
		d.missing.add(t.Key, "its value cannot be read, and so could not be written again: "+err.Error())
		return items
	}
	return append(items, item{pack.Record{Key: t.Key, Lattice: t.Lattice, Payload: t.Payload}, digest})
}

func reason(code wire.Code) string {
	switch code {
	case wire.KeyDNE:
		return "KEY_DNE: it was listed, and no node has it"
	case wire.WrongThread:
		return "WRONG_THREAD: its owner changed again while it was looked for"
	case wire.Timeout:
		return "TIMEOUT: its owner did not answer"
	case wire.NoServers:
		return "NO_SERVERS: routing knows no owner"
	}
	return code.String()
}
