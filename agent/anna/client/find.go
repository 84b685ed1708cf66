package client

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stategraft/stategraft/agent/anna/wire"
)

const (
	// findWindow is how many keys Find looks up and reads at a time.
	findWindow = 200
	// findRounds is how often a key is looked up again that its owner sends on: routing and
	// the nodes learn of a change one after the other.
	findRounds = 4
	findPause  = time.Second
)

// Find looks each key up and reads it from its owner, for keys that were answered
// WRONG_THREAD and for those whose owner is not known: a tuple a key, in the order of
// the keys. Error is NoServers where routing knows no owner, Timeout where nobody
// answers. They count among all threads' outstanding tuples, since they may be new to
// their thread.
func (c *Client) Find(ctx context.Context, keys []string) ([]wire.Tuple, error) {
	found := make([]wire.Tuple, len(keys))
	for at := 0; at < len(keys); at += findWindow {
		end := min(at+findWindow, len(keys))
		rest := make([]int, 0, end-at)
		for i := at; i < end; i++ {
			rest = append(rest, i)
		}
		for round := 0; len(rest) > 0 && round < findRounds; round++ {
			if round > 0 {
				if err := pause(ctx, findPause); err != nil {
					return nil, fmt.Errorf("find %d keys: %w", len(keys), err)
				}
			}
			var err error
			if rest, err = c.findRound(ctx, keys, rest, round, found); err != nil {
				return nil, fmt.Errorf("find %d keys: %w", len(keys), err)
			}
		}
	}
	return found, nil
}

// findRound finds some of the keys and says which are to be looked up again.
func (c *Client) findRound(ctx context.Context, keys []string, which []int, round int, found []wire.Tuple) ([]int, error) {
	byOwner, order, others, err := c.ownersOfAll(ctx, keys, which, round, found)
	if err != nil {
		return nil, err
	}
	flights := make([]*Gets, len(order))
	for n, owner := range order {
		some := make([]string, 0, len(byOwner[owner]))
		for _, i := range byOwner[owner] {
			some = append(some, keys[i])
		}
		if flights[n], err = c.getAsync(ctx, owner, some, true); err != nil {
			return nil, err
		}
	}
	var again []int
	for n, owner := range order {
		tuples, err := flights[n].Wait(ctx)
		if err != nil {
			return nil, err
		}
		for j, i := range byOwner[owner] {
			found[i] = tuples[j]
			code := tuples[j].Error
			if code == wire.WrongThread || code == wire.Timeout && others[i] > round {
				again = append(again, i)
			}
		}
	}
	return again, nil
}

// ownersOfAll looks keys up, each by itself, and groups them by one of their owners: by
// another in another round; others is how many more each has.
func (c *Client) ownersOfAll(ctx context.Context, keys []string, which []int, round int, found []wire.Tuple) (byOwner map[string][]int, order []string, others map[int]int, err error) {
	lookups := make([]*Lookup, len(which))
	for n, i := range which {
		if keys[i] == "" {
			found[i] = wire.Tuple{Error: wire.KeyDNE}
			continue
		}
		if lookups[n], err = c.OwnersAsync(ctx, keys[i]); err != nil {
			return nil, nil, nil, err
		}
	}
	byOwner, others = map[string][]int{}, map[int]int{}
	for n, i := range which {
		if lookups[n] == nil {
			continue
		}
		owners, err := lookups[n].Wait(ctx)
		switch {
		case errors.Is(err, ErrNoServers):
			found[i] = wire.Tuple{Key: keys[i], Error: wire.NoServers}
			continue
		case errors.Is(err, ErrTimeout):
			found[i] = wire.Tuple{Key: keys[i], Error: wire.Timeout}
			continue
		case err != nil:
			return nil, nil, nil, err
		}
		owner := owners[round%len(owners)]
		if byOwner[owner] == nil {
			order = append(order, owner)
		}
		byOwner[owner] = append(byOwner[owner], i)
		others[i] = len(owners) - 1
	}
	return byOwner, order, others, nil
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
