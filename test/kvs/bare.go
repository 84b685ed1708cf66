package kvs

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/stategraft/stategraft/agent/anna/client/zmtp"
	"github.com/stategraft/stategraft/agent/anna/wire"
)

// Bare is the plainest client of Anna's protocol that stays within what a node stands:
// what the sidecar's rates are held against. It asks and drops, checks nothing and
// repeats nothing. Its connections are the sidecar's, which are faster than those of a
// library: it is no slower than it has to be.
type Bare struct {
	values, places  *zmtp.Listener
	valueAt, placAt string
	answers         chan answer
	owners          chan owner
	pushes          map[string]*zmtp.Conn
	asked           int // for the numbers of requests
	buffer          []byte
}

// answer is what is looked at in one.
type answer struct {
	tuples int
	bytes  int64
	err    error
}

type owner struct {
	wire.AddressResponse
	err error
}

// How a plain client asks: as many tuples outstanding as a node stands, and no more.
const (
	bareBatch    = 100
	bareGets     = 8  // batches outstanding
	barePutBatch = 50 // of new keys
	barePuts     = 16
	bareLookups  = 800
)

// NewBare binds its two sockets, on two ports of the host.
func NewBare(host string, port int) (*Bare, error) {
	b := &Bare{pushes: map[string]*zmtp.Conn{}, answers: make(chan answer, bareLookups), owners: make(chan owner, bareLookups)}
	at := net.JoinHostPort(host, strconv.Itoa(port))
	var err error
	if b.values, err = zmtp.Listen(at, zmtp.Pull, func(c *zmtp.Conn) { receive(c, b.answers, tuplesOf) }); err != nil {
		return nil, fmt.Errorf("listening for values: %w", err)
	}
	b.valueAt = "tcp://" + at
	at = net.JoinHostPort(host, strconv.Itoa(port+1))
	if b.places, err = zmtp.Listen(at, zmtp.Pull, func(c *zmtp.Conn) { receive(c, b.owners, ownerOf) }); err != nil {
		_ = b.values.Close()
		return nil, fmt.Errorf("listening for addresses: %w", err)
	}
	b.placAt = "tcp://" + at
	return b, nil
}

// receive gives what is read of each message, until the connection ends. There is room
// for all that can be outstanding.
func receive[T any](c *zmtp.Conn, to chan<- T, read func([]byte) T) {
	for {
		frames, err := c.Recv()
		if err != nil {
			return
		}
		for _, frame := range frames {
			to <- read(frame)
		}
	}
}

func tuplesOf(message []byte) (a answer) {
	a.err = wire.ScanKeyResponse(message, func(t wire.RawTuple) {
		a.tuples++
		a.bytes += int64(len(t.Payload))
	})
	return a
}

func ownerOf(message []byte) (o owner) {
	o.AddressResponse, o.err = wire.ParseAddressResponse(message)
	if o.err == nil && (len(o.Addresses) != 1 || len(o.Addresses[0].IPs) == 0) {
		o.err = fmt.Errorf("no address in an answer of error %s", o.Error)
	}
	return o
}

// next waits for one.
func next[T any](ctx context.Context, from <-chan T) (T, error) {
	select {
	case got := <-from:
		return got, nil
	case <-ctx.Done():
		var none T
		return none, fmt.Errorf("waiting for an answer: %w", ctx.Err())
	}
}

// Close closes its sockets.
func (b *Bare) Close() {
	for _, c := range b.pushes {
		_ = c.Close()
	}
	_ = b.values.Close()
	_ = b.places.Close()
}

// send writes a message, which waits for flush.
func (b *Bare) send(ctx context.Context, at string, body []byte) error {
	c := b.pushes[at]
	if c == nil {
		var err error
		if c, err = zmtp.Dial(ctx, strings.TrimPrefix(at, "tcp://"), zmtp.Push); err != nil {
			return err
		}
		b.pushes[at] = c
	}
	if err := c.Write(body); err != nil {
		return fmt.Errorf("to %s: %w", at, err)
	}
	return nil
}

func (b *Bare) flush() error {
	var all error
	for _, c := range b.pushes {
		if c.Buffered() > 0 {
			all = errors.Join(all, c.Flush())
		}
	}
	return all
}

// Get reads the keys from the thread that has them, and drops what it gets.
func (b *Bare) Get(ctx context.Context, at string, keys []string) (bytes int64, err error) {
	return b.flow(ctx, wire.Get, bareGets*bareBatch, len(keys), bareBatch, at, func(i int) wire.Tuple { return wire.Tuple{Key: keys[i]} })
}

// Put looks up the owner of each tuple, then writes them.
func (b *Bare) Put(ctx context.Context, routing string, threads int, tuples []wire.Tuple) error {
	owner := make(map[string]string, len(tuples))
	for sent := 0; len(owner) < len(tuples); {
		for ; sent < len(tuples) && sent-len(owner) < bareLookups; sent++ {
			at := "tcp://" + routing + ":" + strconv.Itoa(wire.PortAddress+sent%threads)
			r := wire.AddressRequest{ResponseAddress: b.placAt, Keys: []string{tuples[sent].Key}, ID: "bare" + strconv.Itoa(sent)}
			b.buffer = r.Append(b.buffer[:0])
			if err := b.send(ctx, at, b.buffer); err != nil {
				return err
			}
		}
		if err := b.flush(); err != nil {
			return err
		}
		answer, err := next(ctx, b.owners)
		if err = errors.Join(err, answer.err); err != nil {
			return err
		}
		owner[answer.Addresses[0].Key] = answer.Addresses[0].IPs[0]
	}
	by := map[string][]int{}
	for i := range tuples {
		at := owner[tuples[i].Key]
		by[at] = append(by[at], i)
	}
	for at, list := range by {
		if _, err := b.flow(ctx, wire.Put, barePuts*barePutBatch, len(list), barePutBatch, at, func(i int) wire.Tuple { return tuples[list[i]] }); err != nil {
			return err
		}
	}
	return nil
}

// flow sends n tuples to a thread, so many a batch and at most so many outstanding.
func (b *Bare) flow(ctx context.Context, kind wire.Kind, outstanding, n, size int, at string, tuple func(int) wire.Tuple) (bytes int64, err error) {
	for sent, open := 0, 0; sent < n || open > 0; {
		for sent < n && open+min(size, n-sent) <= outstanding {
			b.asked++
			b.buffer = wire.AppendHead(b.buffer[:0], kind, b.valueAt, strconv.AppendInt([]byte("bare"), int64(b.asked), 10))
			for end := min(sent+size, n); sent < end; sent, open = sent+1, open+1 {
				t := tuple(sent)
				b.buffer = wire.AppendTuple(b.buffer, &t)
			}
			if err := b.send(ctx, at, b.buffer); err != nil {
				return bytes, err
			}
		}
		if err := b.flush(); err != nil {
			return bytes, err
		}
		got, err := next(ctx, b.answers)
		if err = errors.Join(err, got.err); err != nil {
			return bytes, err
		}
		open -= got.tuples
		bytes += got.bytes
	}
	return bytes, nil
}
