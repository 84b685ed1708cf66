package kvs

import (
	"context"
	"fmt"
	"strconv"

	"github.com/go-zeromq/zmq4"

	"github.com/stategraft/stategraft/agent/anna/wire"
)

// Library is a plain client as a user of Anna would write one in Go, with the library that
// there is for ZeroMQ (github.com/go-zeromq/zmq4). It reads and drops, checks nothing and
// repeats nothing, and has as much outstanding as Bare, whose connections are the sidecar's.
type Library struct {
	values  zmq4.Socket
	valueAt string
	pushes  map[string]zmq4.Socket
	asked   int // for the numbers of requests
}

// NewLibrary binds its socket.
func NewLibrary(ctx context.Context, host string, port int) (*Library, error) {
	l := &Library{values: zmq4.NewPull(ctx), pushes: map[string]zmq4.Socket{}, valueAt: "tcp://" + host + ":" + strconv.Itoa(port)}
	if err := l.values.Listen(l.valueAt); err != nil {
		return nil, fmt.Errorf("listening for values: %w", err)
	}
	return l, nil
}

// Close closes its sockets.
func (l *Library) Close() {
	for _, s := range l.pushes {
		_ = s.Close()
	}
	_ = l.values.Close()
}

// Get reads the keys from the thread that has them, and drops what it gets.
func (l *Library) Get(ctx context.Context, at string, keys []string) error {
	for open := 0; len(keys) > 0 || open > 0; {
		for len(keys) > 0 && open+min(bareBatch, len(keys)) <= bareGets*bareBatch {
			n := min(bareBatch, len(keys))
			if err := l.ask(ctx, at, keys[:n]); err != nil {
				return err
			}
			keys, open = keys[n:], open+n
		}
		m, err := l.values.Recv()
		if err != nil {
			return fmt.Errorf("waiting for an answer: %w", err)
		}
		if err := wire.ScanKeyResponse(m.Bytes(), func(wire.RawTuple) { open-- }); err != nil {
			return err
		}
	}
	return nil
}

func (l *Library) ask(ctx context.Context, at string, keys []string) error {
	s := l.pushes[at]
	if s == nil {
		s = zmq4.NewPush(ctx)
		if err := s.Dial(at); err != nil {
			return fmt.Errorf("dialling %s: %w", at, err)
		}
		l.pushes[at] = s
	}
	l.asked++
	r := wire.KeyRequest{Kind: wire.Get, ResponseAddress: l.valueAt, ID: "library" + strconv.Itoa(l.asked), Tuples: make([]wire.Tuple, len(keys))}
	for i, key := range keys {
		r.Tuples[i].Key = key
	}
	return s.Send(zmq4.NewMsg(r.Append(nil)))
}
