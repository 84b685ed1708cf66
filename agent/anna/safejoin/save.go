package safejoin

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/stategraft/stategraft/agent/anna/stage"
	"github.com/stategraft/stategraft/agent/anna/wire"
)

const (
	together  = 2       // peers at a time; each may have a long list of keys in memory
	batchKeys = 100     // of a GET
	batchSize = 4 << 20 // of a GET, as far as the list tells sizes; they are not always bytes
	ahead     = 4       // GETs of a thread at a time
)

// errFull says that there is no room for more.
var errFull = errors.New("the keys take more room than there is for them")

// saving is the file that all is written to.
type saving struct {
	Options
	mutex  sync.Mutex
	out    *stage.Writer
	failed int64 // keys that could not be read
}

// save copies what it can get, and gives it with the first error.
func (o Options) save(ctx context.Context, peers []wire.Server) (stage.Staged, error) {
	s := stage.Staged{ID: ID, Dir: o.Dir, Since: time.Now().UTC().Truncate(time.Second), Sources: []string{}, Packs: []stage.Pack{}}
	out, err := stage.NewWriter(o.Dir, stage.Pack{File: "000000.records"})
	if err != nil {
		return s, err
	}
	defer out.Abort()
	w := &saving{Options: o, out: out}
	group, within := errgroup.WithContext(ctx)
	group.SetLimit(together)
	for _, peer := range peers {
		s.Sources = append(s.Sources, peer.Private)
		group.Go(func() error {
			err := w.peer(within, peer)
			if errors.Is(err, errFull) || within.Err() != nil {
				return err
			}
			if err != nil { // one that is dead, and a member still
				o.Log.Warn("the keys of a node are not saved before the join", "node", peer.Private, "error", err.Error())
			}
			return nil
		})
	}
	err = group.Wait()
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	pack, failed := out.Close()
	if failed != nil {
		return s, failed
	}
	s.Packs, s.Keys, s.Bytes = append(s.Packs, pack), pack.Keys, pack.Bytes
	if err == nil && w.failed > 0 {
		err = fmt.Errorf("%d keys could not be read", w.failed)
	}
	if err != nil {
		err = fmt.Errorf("not all keys are saved, %d are: %w", s.Keys, err)
	}
	return s, err
}

// peer copies the keys of a node, thread by thread.
func (w *saving) peer(ctx context.Context, s wire.Server) error {
	for tid := 0; ; tid++ {
		report, err := w.Client.Report(ctx, s, w.Tier, tid)
		if err != nil {
			return err
		}
		if report.Never {
			return nil
		}
		at, err := wire.Address(s.Public, wire.PortRequest+tid)
		if err == nil {
			err = w.thread(ctx, at, report.Sizes)
		}
		if err != nil {
			return err
		}
	}
}

// thread copies the keys that a thread has reported.
func (w *saving) thread(ctx context.Context, at string, sizes []byte) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(ahead)
	var batch []string
	size := uint64(0)
	send := func() {
		keys := batch
		batch, size = nil, 0
		group.Go(func() error { return w.get(ctx, at, keys) })
	}
	for entry, err := range wire.KeySizes(sizes) {
		if err != nil {
			return errors.Join(fmt.Errorf("the list of keys of %s: %w", at, err), group.Wait())
		}
		if ctx.Err() != nil {
			break
		}
		batch = append(batch, strings.Clone(entry.Key))
		if size += uint64(entry.Size); len(batch) == batchKeys || size > batchSize {
			send()
		}
	}
	if len(batch) > 0 {
		send()
	}
	return group.Wait()
}

func (w *saving) get(ctx context.Context, at string, keys []string) error {
	found, err := w.Client.Get(ctx, at, keys)
	if err != nil {
		return err
	}
	w.mutex.Lock()
	defer w.mutex.Unlock()
	silent := 0
	for _, t := range found {
		switch {
		case t.Lattice.Known():
			if err := w.out.Add(stage.Record{Key: t.Key, Lattice: t.Lattice, Payload: t.Payload}); err != nil {
				return err
			}
		case t.Error == wire.KeyDNE: // gone
		default:
			w.failed++
			if t.Error == wire.Timeout {
				silent++
			}
		}
	}
	if w.out.Written() > w.Bytes {
		return errFull
	}
	if silent == len(keys) {
		return fmt.Errorf("%s does not answer", at)
	}
	return nil
}
