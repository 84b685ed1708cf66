package kvs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/stategraft/stategraft/agent/anna/client"
	"github.com/stategraft/stategraft/agent/anna/lattice"
	"github.com/stategraft/stategraft/agent/anna/wire"
)

const (
	askers  = 256 // lookups at a time
	writers = 8   // batches at a time
	inBatch = 50
)

// placed is a number with the thread that has its key.
type placed struct {
	at   string
	list []int
}

// Load writes the numbers of the data that pick chooses, in a version.
func (d Data) Load(ctx context.Context, c *client.Client, version int, pick func(int) bool) (written int64, err error) {
	var count atomic.Int64
	err = d.each(ctx, c, pick, func(ctx context.Context, p placed) error {
		tuples := make([]wire.Tuple, len(p.list))
		for n, i := range p.list {
			tuples[n] = d.Tuple(i, version)
		}
		at := p.at
		return again(ctx, func() error {
			results, err := c.Put(ctx, at, tuples)
			if err != nil {
				return err
			}
			var left []wire.Tuple
			for n, r := range results {
				if !r.Done {
					left = append(left, tuples[n])
				}
			}
			count.Add(int64(len(tuples) - len(left)))
			if tuples = left; len(left) == 0 {
				return nil
			}
			// Their owner may have left; the next one is asked for all of them, and
			// answers for those that are another's with WRONG_THREAD.
			if owners, err := c.Owners(ctx, left[len(left)-1].Key); err == nil {
				at = owners[0]
			}
			return fmt.Errorf("%d keys of %s were not written, such as %s", len(left), p.at, left[0].Key)
		})
	})
	return count.Load(), err
}

// Verified is what was found when the data were read.
type Verified struct {
	Equal   int64    `json:"equal"`
	Wrong   int64    `json:"wrong"`   // another value or type
	Missing int64    `json:"missing"` // no answer, or none of a value
	Names   []string `json:"names,omitempty"`
}

// Verify reads the numbers that pick chooses and compares type and value with what they
// are in their version, each in canonical form.
func (d Data) Verify(ctx context.Context, c *client.Client, version func(int) int, pick func(int) bool) (v Verified, err error) {
	var mutex sync.Mutex
	note := func(count *int64, key, what string) {
		mutex.Lock()
		defer mutex.Unlock()
		if *count++; what != "" && len(v.Names) < 10 {
			v.Names = append(v.Names, key+": "+what)
		}
	}
	err = d.each(ctx, c, pick, func(ctx context.Context, p placed) error {
		keys := make([]string, len(p.list))
		for n, i := range p.list {
			keys[n] = d.Key(i)
		}
		tuples, err := c.Get(ctx, p.at, keys)
		if err != nil {
			return err
		}
		for n, i := range p.list {
			got, want := tuples[n], d.Tuple(i, version(i))
			switch same, err := equal(got, want); {
			case got.Error != wire.NoError:
				note(&v.Missing, want.Key, got.Error.String()+" of "+p.at)
			case err != nil:
				note(&v.Wrong, want.Key, err.Error())
			case !same:
				note(&v.Wrong, want.Key, fmt.Sprintf("is %s of %d bytes, not %s of %d", got.Lattice, len(got.Payload), want.Lattice, len(want.Payload)))
			default:
				note(&v.Equal, "", "")
			}
		}
		return nil
	})
	slices.Sort(v.Names)
	return v, err
}

func equal(got, want wire.Tuple) (bool, error) {
	if got.Lattice != want.Lattice {
		return false, nil
	}
	a, err := lattice.Digest(want.Key, got.Lattice, got.Payload)
	if err != nil {
		return false, err
	}
	b, err := lattice.Digest(want.Key, want.Lattice, want.Payload)
	return a == b, err
}

// each finds the owner of every number that pick chooses, and calls do with batches of
// one owner.
func (d Data) each(ctx context.Context, c *client.Client, pick func(int) bool, do func(context.Context, placed) error) error {
	g, ctx := errgroup.WithContext(ctx)
	numbers, found, batches := make(chan int), make(chan placed, askers), make(chan placed)
	g.Go(func() error {
		defer close(numbers)
		for i := range d.Keys {
			if pick != nil && !pick(i) {
				continue
			}
			select {
			case numbers <- i:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return nil
	})
	var asking sync.WaitGroup
	asking.Add(askers)
	for range askers {
		g.Go(func() error {
			defer asking.Done()
			for i := range numbers {
				if err := again(ctx, func() error {
					owners, err := c.Owners(ctx, d.Key(i))
					if err == nil {
						found <- placed{owners[0], []int{i}}
					}
					return err
				}); err != nil {
					return err
				}
			}
			return nil
		})
	}
	go func() { asking.Wait(); close(found) }()
	g.Go(func() error { defer close(batches); return gather(ctx, found, batches) })
	for range writers {
		g.Go(func() error {
			for b := range batches {
				if err := do(ctx, b); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return g.Wait()
}

// gather makes batches of what has one owner.
func gather(ctx context.Context, found <-chan placed, batches chan<- placed) error {
	open := map[string][]int{}
	send := func(at string) error {
		select {
		case batches <- placed{at, open[at]}:
			delete(open, at)
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	var err error
	for p := range found {
		if err != nil {
			continue // the askers must not wait for ever
		}
		if open[p.at] = append(open[p.at], p.list...); len(open[p.at]) == inBatch {
			err = send(p.at)
		}
	}
	for at := range open {
		if err == nil {
			err = send(at)
		}
	}
	return err
}

// patience is how long something may fail before the data count as not written.
const patience = 2 * time.Minute

func again(ctx context.Context, do func() error) error {
	began := time.Now()
	for {
		err := do()
		if err == nil || ctx.Err() != nil {
			return errors.Join(err, ctx.Err())
		}
		if time.Since(began) > patience {
			return fmt.Errorf("for %s: %w", patience, err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(500 * time.Millisecond):
		}
	}
}
