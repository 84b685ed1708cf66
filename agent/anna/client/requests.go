package client

import (
	"context"
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"

	"github.com/stategraft/stategraft/agent/anna/wire"
)

const (
	// getPart, putPart are the most tuples that one request has.
	getPart = 100
	putPart = 50
)

// Gets is a Get in flight.
type Gets struct{ call *call }

// Puts is a Put in flight.
type Puts struct{ call *call }

// Lookup is a question for owners in flight.
type Lookup struct{ call *call }

// PutResult is what came of one tuple of a Put.
type PutResult struct {
	Key  string
	Done bool // written: answered without an error and with the type that was sent
	// Code is the error of the answer; Timeout where there was none after all tries.
	Code wire.Code
	// Refused: answered without an error, but not with the type that was sent. The key has
	// another type, and keeps its value.
	Refused bool
}

// Get is GetAsync and Wait.
func (c *Client) Get(ctx context.Context, at string, keys []string) ([]wire.Tuple, error) {
	g, err := c.GetAsync(ctx, at, keys)
	if err != nil {
		return nil, err
	}
	return g.Wait(ctx)
}

// GetAsync asks one thread, tcp://host:port, for any number of keys that it has
// reported as its own, 100 a request. It returns when all are on their way, which is
// when no more than 800 tuples are before the last of them. The context is for the
// whole of it. Keys a thread may not know of: see Find.
func (c *Client) GetAsync(ctx context.Context, at string, keys []string) (*Gets, error) {
	return c.getAsync(ctx, at, keys, false)
}

func (c *Client) getAsync(ctx context.Context, at string, keys []string, shared bool) (*Gets, error) {
	k := &call{
		ctx: ctx, kind: gets, part: getPart, shared: shared, route: to(at),
		keys: slices.Clone(keys), got: make([]wire.Tuple, len(keys)),
	}
	if err := c.start(k); err != nil {
		return nil, fmt.Errorf("get %d keys from %s: %w", len(keys), at, err)
	}
	return &Gets{k}, nil
}

func to(address string) func(int) (string, error) {
	return func(int) (string, error) { return address, nil }
}

// Wait waits for all answers, or for the end of either context: a tuple a key, in the
// order of the keys. Error is Timeout where nobody answered after all tries, KeyDNE
// also for keys with an empty value, which have a type then. Payloads alias what was
// received: one keeps all those of its response in memory.
func (g *Gets) Wait(ctx context.Context) ([]wire.Tuple, error) {
	if err := g.call.wait(ctx); err != nil {
		return nil, fmt.Errorf("get %d keys: %w", len(g.call.keys), err)
	}
	return g.call.got, nil
}

// Done is closed when Wait would not wait.
func (g *Gets) Done() <-chan struct{} { return g.call.done }

// Put is PutAsync and Wait.
func (c *Client) Put(ctx context.Context, at string, tuples []wire.Tuple) ([]PutResult, error) {
	p, err := c.PutAsync(ctx, at, tuples)
	if err != nil {
		return nil, err
	}
	return p.Wait(ctx)
}

// PutAsync writes tuples (key, type and payload) to one thread, 50 a request. The
// tuples and their payloads must stay as they are until Wait has returned. All the
// rest is as with GetAsync, but that all PUTs and lookups share one bound.
func (c *Client) PutAsync(ctx context.Context, at string, tuples []wire.Tuple) (*Puts, error) {
	k := &call{
		ctx: ctx, kind: puts, part: putPart, shared: true, route: to(at),
		keys: make([]string, len(tuples)), tuples: tuples, results: make([]PutResult, len(tuples)),
	}
	for i := range tuples {
		k.keys[i] = tuples[i].Key
	}
	if err := c.start(k); err != nil {
		return nil, fmt.Errorf("put %d keys to %s: %w", len(tuples), at, err)
	}
	return &Puts{k}, nil
}

// Wait waits for all answers: a result a tuple, in their order.
func (p *Puts) Wait(ctx context.Context) ([]PutResult, error) {
	if err := p.call.wait(ctx); err != nil {
		return nil, fmt.Errorf("put %d keys: %w", len(p.call.keys), err)
	}
	return p.call.results, nil
}

// Done is closed when Wait would not wait.
func (p *Puts) Done() <-chan struct{} { return p.call.done }

// Owners is OwnersAsync and Wait.
func (c *Client) Owners(ctx context.Context, key string) ([]string, error) {
	l, err := c.OwnersAsync(ctx, key)
	if err != nil {
		return nil, err
	}
	return l.Wait(ctx)
}

// OwnersAsync asks a routing thread who owns a key, another at every try.
func (c *Client) OwnersAsync(ctx context.Context, key string) (*Lookup, error) {
	if key == "" {
		return nil, fmt.Errorf("look up the owners of a key: the empty key has none")
	}
	k := &call{ctx: ctx, kind: lookup, part: 1, shared: true, keys: []string{key}}
	k.route = func(try int) (string, error) { return c.routingThread(key, try) }
	if err := c.start(k); err != nil {
		return nil, fmt.Errorf("look up the owners of key %q: %w", key, err)
	}
	return &Lookup{k}, nil
}

// routingThread picks a thread by the key, since one that knows the key answers at
// once, and another host at the next try.
func (c *Client) routingThread(key string, try int) (string, error) {
	hosts := c.routingHosts()
	if len(hosts) == 0 {
		return "", ErrNoRouting
	}
	hash := fnv.New32a()
	hash.Write([]byte(key))
	n := int(hash.Sum32() >> 1)
	host := hosts[(n/c.o.RoutingThreads+try-1)%len(hosts)]
	return "tcp://" + host + ":" + strconv.Itoa(c.o.ports.address+n%c.o.RoutingThreads), nil
}

// Wait waits for the answer: the threads tcp://host:port that own the key, of the
// first tier that has any; ErrNoServers, ErrTimeout.
func (l *Lookup) Wait(ctx context.Context) ([]string, error) {
	k := l.call
	err := k.wait(ctx)
	if err == nil {
		var owners []string
		if owners, err = ownersOf(k.owners, k.keys[0]); err == nil {
			return owners, nil
		}
	}
	return nil, fmt.Errorf("look up the owners of key %q: %w", k.keys[0], err)
}

// Done is closed when Wait would not wait.
func (l *Lookup) Done() <-chan struct{} { return l.call.done }

func ownersOf(answer wire.AddressResponse, key string) ([]string, error) {
	switch answer.Error {
	case wire.Timeout:
		return nil, ErrTimeout
	case wire.NoError:
	case wire.NoServers:
		return nil, ErrNoServers
	default:
		return nil, fmt.Errorf("routing answered %s", answer.Error)
	}
	for _, a := range answer.Addresses {
		if a.Key == key && len(a.IPs) > 0 {
			return a.IPs, nil
		}
	}
	return nil, ErrNoServers
}
