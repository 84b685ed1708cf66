package annanode

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/stategraft/stategraft/agent/anna/wire"
	"github.com/stategraft/stategraft/test/annanode/zmtp"
)

// item is something for a thread to do: a message that came to a port, or a call.
type item struct {
	port    int
	message []byte
	request *wire.KeyRequest // of PortRequest, read already
	call    func()
	answer  chan<- []byte // of PortSeed
}

// actor is what threads of KVS and of routing have in common: one goroutine that
// handles messages one at a time, sockets bound to ports, sockets to others.
type actor struct {
	ctx     context.Context
	tid     int
	log     *slog.Logger
	inbox   chan item
	sockets []*zmtp.Listener
	pushers map[string]*zmtp.Push
	own     map[string]int // own addresses and the port of each: not sent over TCP
	later   []item         // to itself
	counts  counts
}

// counts are written by the thread, and read by others.
type counts struct {
	outstanding, maxOutstanding atomic.Int64
	pending, maxPending         atomic.Int64
	addresses                   atomic.Int64 // distinct ones to answer to
	maxUnread                   atomic.Int64
	blocked                     atomic.Bool
	hung                        atomic.Bool
	gets, puts, refused         atomic.Int64
	responses, lookups          atomic.Int64
	keys, hidden                atomic.Int64
}

func raise(max *atomic.Int64, to int64) {
	for {
		at := max.Load()
		if to <= at || max.CompareAndSwap(at, to) {
			return
		}
	}
}

func newActor(ctx context.Context, tid int, log *slog.Logger) *actor {
	return &actor{
		ctx: ctx, tid: tid, log: log.With("thread", tid),
		// As much as a PULL socket of Anna's takes before TCP holds the sender.
		inbox:   make(chan item, zmtp.HighWater),
		pushers: map[string]*zmtp.Push{},
		own:     map[string]int{},
	}
}

// bind opens a PULL socket for a port.
func (a *actor) bind(host string, port int, read func(*item)) error {
	l, err := zmtp.Pull(address(host, port, a.tid), func(ctx context.Context, message []byte) {
		it := item{port: port, message: message}
		if read != nil {
			read(&it)
		}
		a.post(ctx, it)
	})
	if err != nil {
		return fmt.Errorf("binding a port of Anna: %w", err)
	}
	a.sockets = append(a.sockets, l)
	return nil
}

// post hands an item to the thread.
func (a *actor) post(ctx context.Context, it item) {
	select {
	case a.inbox <- it:
	case <-ctx.Done():
	case <-a.ctx.Done():
	}
}

// run handles items until the context ends. idle is called when nothing waits, and
// now and then when always something does.
func (a *actor) run(handle func(item), idle func(), ticks ...tick) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for n := 0; a.ctx.Err() == nil; n++ {
		for len(a.later) > 0 && a.ctx.Err() == nil {
			it := a.later[0]
			a.later = a.later[1:]
			handle(it)
		}
		if len(a.inbox) == 0 || n%64 == 0 {
			idle()
			if len(a.later) > 0 {
				continue
			}
		}
		now := time.Now()
		wait := time.Hour
		for i := range ticks {
			wait = min(wait, ticks[i].due(now))
		}
		if wait <= 0 {
			continue
		}
		timer.Reset(wait)
		select {
		case it := <-a.inbox:
			handle(it)
		case <-timer.C:
		case <-a.ctx.Done():
		}
	}
}

// tick is something that is done again and again.
type tick struct {
	every time.Duration
	next  time.Time
	do    func()
}

// due does it if it is time, and tells how long until the next time.
func (t *tick) due(now time.Time) time.Duration {
	if t.next.IsZero() {
		t.next = now.Add(t.every)
	}
	if !now.Before(t.next) {
		t.do()
		t.next = time.Now().Add(t.every)
		return 0
	}
	return t.next.Sub(now)
}

// send sends a message to an address, and blocks where Anna does: while 1000
// messages wait there.
func (a *actor) send(to string, message []byte) {
	if port, ok := a.own[to]; ok {
		a.later = append(a.later, item{port: port, message: message})
		return
	}
	if to == "" {
		return
	}
	p, ok := a.pushers[to]
	if !ok {
		p = zmtp.NewPush(to)
		a.pushers[to] = p
	}
	if p.Queued() >= zmtp.HighWater {
		a.counts.blocked.Store(true)
		defer a.counts.blocked.Store(false)
	}
	if err := p.Send(a.ctx, message); err != nil {
		a.log.Warn("a message is lost", "to", to, "err", err)
	}
	raise(&a.counts.maxUnread, int64(p.Queued()))
}

// answer is send to a client.
func (a *actor) answer(to string, message []byte) {
	if to == "" {
		return
	}
	if _, ok := a.pushers[to]; !ok && !ofAnna(to) {
		a.counts.addresses.Add(1)
	}
	a.counts.responses.Add(1)
	a.send(to, message)
}

// ofAnna tells whether an address is where Anna's own threads wait for factors.
func ofAnna(to string) bool {
	port, _ := strconv.Atoi(to[strings.LastIndexByte(to, ':')+1:])
	return port >= wire.PortReplication && port < wire.PortRequest ||
		port >= wire.PortRoutingResponse && port < wire.PortRoutingChange
}

// hang stops the thread for good, as Anna's threads do without a word.
func (a *actor) hang(why string, args ...any) {
	a.log.Error("this thread hangs for good: "+why, args...)
	a.counts.hung.Store(true)
	<-a.ctx.Done()
}

// flush waits until what was sent is written, ctx at most.
func (a *actor) flush(ctx context.Context) {
	for _, p := range a.pushers {
		_ = p.Flush(ctx)
	}
}

func (a *actor) close() {
	for _, s := range a.sockets {
		s.Close()
	}
	for _, p := range a.pushers {
		p.Close()
	}
}
