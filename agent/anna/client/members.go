package client

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/stategraft/stategraft/agent/anna/client/zmtp"
	"github.com/stategraft/stategraft/agent/anna/wire"
)

// Members asks the routing nodes, one after the other, who is in the cluster: the first
// answer that has any node. A routing node that was restarted knows nobody.
func (c *Client) Members(ctx context.Context) (wire.Membership, error) {
	hosts := c.routingHosts()
	if len(hosts) == 0 {
		return wire.Membership{}, fmt.Errorf("ask for the members: %w", ErrNoRouting)
	}
	var empty *wire.Membership
	var failed []error
	for _, host := range hosts {
		m, err := c.MembersOf(ctx, host)
		switch {
		case ctx.Err() != nil:
			return wire.Membership{}, fmt.Errorf("ask for the members: %w", ctx.Err())
		case err != nil:
			failed = append(failed, err)
		case len(m.Of(wire.Memory))+len(m.Of(wire.Disk)) > 0:
			return m, nil
		default:
			empty = &m
		}
	}
	if empty != nil {
		return *empty, nil
	}
	return wire.Membership{}, errors.Join(failed...)
}

// MembersOf asks one routing node. Every call has a connection of its own: on one whose
// answer did not come nothing can be asked any more.
func (c *Client) MembersOf(ctx context.Context, host string) (wire.Membership, error) {
	var m wire.Membership
	err := wire.CheckHost(host)
	if err == nil {
		var answer []byte
		address := net.JoinHostPort(host, strconv.Itoa(c.o.ports.seed))
		if answer, err = ask(ctx, address, c.o.Deadline, []byte("join")); err == nil {
			m, err = wire.ParseMembership(answer)
		}
	}
	if err != nil {
		return m, fmt.Errorf("ask routing node %s for the members: %w", host, err)
	}
	return m, nil
}

// ask is one question to a REP socket.
func ask(ctx context.Context, address string, deadline time.Duration, question []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	dialing, stop := context.WithTimeout(ctx, dialTime)
	defer stop()
	conn, err := zmtp.Dial(dialing, address, zmtp.Req)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	// A REQ socket puts an empty frame before its question, and gets it back.
	err = conn.Send(nil, question)
	var frames [][]byte
	if err == nil {
		frames, err = conn.Recv()
	}
	switch {
	case ctx.Err() != nil:
		return nil, fmt.Errorf("no answer within %s: %w", deadline, ctx.Err())
	case err != nil:
		return nil, err
	case len(frames) < 2 || len(frames[0]) != 0:
		return nil, fmt.Errorf("%w: an answer of %d frames", zmtp.ErrProtocol, len(frames))
	}
	return frames[1], nil
}

// Report is a thread's list of the keys it is the first owner of.
type Report struct {
	// Stamp grows with every report, each 15 s. A key written before some moment is in the
	// list for sure when the stamp has grown twice since.
	Stamp uint64
	// Never: the thread has never reported. There is no such thread, or it is younger than
	// 15 s, or its metadata is lost with a memory node.
	Never bool
	// Sizes is for wire.KeySizes; none is an empty list.
	Sizes []byte
}

// Report asks for the newest report of a thread; dead nodes have theirs too.
func (c *Client) Report(ctx context.Context, s wire.Server, tier wire.Tier, tid int) (Report, error) {
	var r Report
	tuples, err := c.Find(ctx, []string{wire.SizeKey(s, tid, tier)})
	if err == nil {
		r, err = report(tuples[0])
	}
	if err != nil {
		return r, fmt.Errorf("key list of thread %d of %s node %s: %w", tid, tier, s.Private, err)
	}
	return r, nil
}

func report(t wire.Tuple) (Report, error) {
	switch {
	case t.Error == wire.KeyDNE && t.Lattice == wire.None:
		return Report{Never: true}, nil
	case t.Error == wire.Timeout:
		return Report{}, ErrTimeout
	case t.Error != wire.NoError && t.Error != wire.KeyDNE:
		return Report{}, fmt.Errorf("answered %s", t.Error)
	case t.Lattice != wire.TypeLWW:
		return Report{}, fmt.Errorf("%w: a list of type %s", wire.ErrMalformed, t.Lattice)
	}
	// Anna says KEY_DNE of a list without keys, and sends its stamp all the same.
	value, err := wire.ParseLWW(t.Payload)
	return Report{Stamp: value.Timestamp, Sizes: value.Value}, err
}

// Notify sends one plain string (join:…, depart:…) to a PULL socket tcp://host:port. It
// returns when the peer has read it, or has not within a few seconds.
func (c *Client) Notify(ctx context.Context, address, message string) error {
	host, port, err := wire.ParseAddress(address)
	if err != nil {
		return fmt.Errorf("notify: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	conn, err := zmtp.Dial(ctx, net.JoinHostPort(host, strconv.Itoa(port)), zmtp.Push)
	if err != nil {
		return fmt.Errorf("notify %s: %w", address, err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(dialTime))
	if err := conn.Send([]byte(message)); err != nil {
		return fmt.Errorf("notify %s: %w", address, err)
	}
	if err := conn.Finish(time.Now().Add(dialTime)); err != nil {
		return fmt.Errorf("notify %s: it may not have been read: %w", address, err)
	}
	return nil
}
